//! A stand-in for the compute unit of a card: `inverter FILE` inverts ranges of the card's memory.
//!
//! Reads `start NUMBER ADDRESS LENGTH OFFSET` from standard input, inverts `LENGTH` bytes of `FILE` at
//! `ADDRESS`, and answers `done NUMBER` or `failed NUMBER WORDS`. Chunks are worked on at the same time
//! and answered as they end. The environment injects faults; chunks are counted from 1 as they arrive:
//!
//! - `INVERTER_DELAY_MS`: wait before each answer, twice as long for chunks with an odd count:
//!   answers overtake each other.
//! - `INVERTER_FAIL`, `INVERTER_SILENT`, `INVERTER_EXIT`: the chunk that fails, that gets no answer, or
//!   that ends the program with status 3.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The longest piece held at a time.
const PIECE: usize = 1 << 20;

fn main() -> ExitCode {
    match serve() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "inverter: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<ExitCode> {
    let path = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("name a file"))?;
    let memory = Arc::new(File::options().read(true).write(true).open(path)?);
    let [delay, fail, silent, exit] =
        ["DELAY_MS", "FAIL", "SILENT", "EXIT"].map(|name| number(&format!("INVERTER_{name}")));
    for (count, line) in (1..).zip(io::stdin().lock().lines()) {
        let line = line?;
        let chunk = MemoryRange::parse(&line)
            .ok_or_else(|| io::Error::other(format!("not a line of the protocol: {line}")))?;
        if Some(count) == exit {
            return Ok(ExitCode::from(3));
        }
        let (is_failing, is_silent) = (Some(count) == fail, Some(count) == silent);
        let wait = Duration::from_millis(delay.unwrap_or_default() * (1 + count % 2));
        let memory = Arc::clone(&memory);
        thread::spawn(move || {
            let result = if is_failing {
                Err(io::Error::other("told to fail"))
            } else {
                chunk.invert(&memory)
            };
            thread::sleep(wait);
            if !is_silent {
                // Without a reader the run is over.
                let _ = io::stdout().write_all(chunk.answer(&result).as_bytes());
            }
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A range of the memory.
struct MemoryRange {
    number: u64,
    address: u64,
    length: u64,
}

impl MemoryRange {
    fn parse(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix("start ")?.split(' ').map(str::parse);
        match numbers.collect::<Result<Vec<u64>, _>>().ok()?[..] {
            [number, address, length, _offset] => Some(Self { number, address, length }),
            _ => None,
        }
    }

    fn invert(&self, memory: &File) -> io::Result<()> {
        let end = self.address.checked_add(self.length);
        let end = end.ok_or_else(|| io::Error::other("the range has no end"))?;
        if end > memory.metadata()?.len() {
            return Err(io::Error::other("the range ends behind the memory"));
        }
        let mut at = self.address;
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let mut bytes = vec![0; length];
            memory.read_exact_at(&mut bytes, at)?;
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            memory.write_all_at(&bytes, at)?;
            at += length as u64;
        }
        Ok(())
    }

    /// One line, written at once.
    fn answer(&self, result: &io::Result<()>) -> String {
        match result {
            Ok(()) => format!("done {}\n", self.number),
            Err(error) => format!("failed {} {error}\n", self.number),
        }
    }
}
