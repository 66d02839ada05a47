//! Names for the content of device images, from libblkid and from the table of magic numbers.
//!
//! `cargo run -p peerlane-memory --example blkid -- [--block BYTES] FILE...` reads the two ends of each regular file and
//! prints one line a file, with tabs between its path, the kinds by libblkid, those by the table, and all in words.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use peerlane_memory::blkid::{Blkid, DeviceContent, DeviceEnds, END_BYTES, identify, magic};
use peerlane_units::Bytes;

const LIMIT: Duration = Duration::from_secs(5);

/// Head, tail and size of a file.
fn read_ends(path: &Path) -> io::Result<(Vec<u8>, Vec<u8>, u64)> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("only regular files are read"));
    }
    let size = file.metadata()?.len();
    let length = usize::try_from(size).unwrap_or(usize::MAX).min(END_BYTES);
    let mut parts = [vec![0; length], vec![0; length]];
    let [head, tail] = &mut parts;
    file.read_exact_at(head, 0)?;
    file.read_exact_at(tail, size - length as u64)?;
    let [head, tail] = parts;
    Ok((head, tail, size))
}

fn kinds(contents: &[DeviceContent]) -> String {
    let kinds: Vec<&str> = contents.iter().map(DeviceContent::kind).collect();
    if kinds.is_empty() { "-".to_owned() } else { kinds.join(" ") }
}

fn describe(blkid: Option<&Blkid>, path: &Path, block: Bytes) -> io::Result<String> {
    let (head, tail, size) = read_ends(path)?;
    let ends = DeviceEnds::new(&head, &tail, Bytes(size));
    let all = identify(blkid, &ends, block, LIMIT);
    let mut words: Vec<String> = all.contents.iter().map(ToString::to_string).collect();
    words.extend(all.fault.iter().map(|fault| format!("({fault})")));
    let found = blkid.map(|blkid| blkid.identify(&ends, block, LIMIT).contents);
    let (found, table) = (kinds(&found.unwrap_or_default()), kinds(&magic::identify(&ends)));
    Ok(format!("{}\t{found}\t{table}\t{}", path.display(), words.join("; ")))
}

fn main() -> ExitCode {
    let mut block = Bytes(512);
    let mut paths = Vec::new();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--block" {
            let value = arguments.next().and_then(|value| value.to_str()?.parse().ok());
            let Some(value) = value else {
                eprintln!("error: --block wants a size");
                return ExitCode::from(2);
            };
            block = value;
        } else {
            paths.push(PathBuf::from(argument));
        }
    }
    let blkid = Blkid::open();
    match &blkid {
        Ok(blkid) => eprintln!("libblkid {}", blkid.version()),
        Err(error) => eprintln!("warning: {error}; only the table is asked"),
    }
    let mut code = ExitCode::SUCCESS;
    for path in &paths {
        match describe(blkid.as_ref().ok(), path, block) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("error: cannot read {}: {error}", path.display());
                code = ExitCode::from(2);
            }
        }
    }
    code
}
