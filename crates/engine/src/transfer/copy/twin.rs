//! Comparison of a target that stages changed: a program does their work on the chunks of the source.
//!
//! The program gets a chunk on its standard input and the chunk's offset in the copy as its argument, and
//! gives the chunk as the stages leave it on its standard output. It is started once for each chunk that is
//! compared.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use peerlane_memory::Region;
use peerlane_results::{Plan, Verification, VerifyMode};
use peerlane_units::{Bytes, Nanos};

use super::compare::OpenPair;
use super::{CopyError, Tools, claims};
use crate::endpoints::lane::Session;
use crate::endpoints::machine::Machine;
use crate::io::failure::Role;
use crate::io::request::{FilePlace, MemoryPlace, Request, carry_out};
use crate::io::ring::{Action, FileId, Ring};
use crate::transfer::relay::Transfer;
use crate::transfer::verify::{ComparisonRequest, Coverage, VerifyError, sample_size};

/// Chunks of a sample at most: each costs a process.
const SAMPLE_MAX: u64 = 16;
/// Slots start at whole pages.
const PAGE: u64 = 4096;
/// Requests at once: a chunk of either end.
const ENTRIES: u32 = 16;

/// Source and target, and the program between them.
struct TwinPair<'a, R> {
    ring: &'a mut R,
    ends: ComparisonRequest,
    program: &'a Path,
    /// Path of the target.
    path: &'a str,
}

/// A copy whose stages changed its content.
pub(super) struct StagedCopy<'a> {
    pub(super) plan: &'a Plan,
    pub(super) transfer: &'a Transfer,
    /// Bytes of a chunk of the stages.
    pub(super) chunk: u64,
    /// Source and target as they are compared.
    pub(super) compared: [FileId; 2],
}

/// Verifies a target by the twin that the options name; without one the content is not comparable.
pub(super) fn verify<R: Ring<Region = Region>>(
    machine: &dyn Machine,
    ring: &mut R,
    copy: &StagedCopy<'_>,
    tools: &mut Tools<'_>,
) -> Result<Verification, CopyError> {
    let StagedCopy { plan, transfer, chunk, compared } = *copy;
    let mode = plan.asked.verify;
    let program = tools.options.stages.twin.clone().filter(|_| mode != VerifyMode::None);
    let Some(program) = program else {
        return Ok(Verification { mode: VerifyMode::None, bytes: Bytes::ZERO, mismatches: 0 });
    };
    let room = room(chunk, transfer.source_block.max(transfer.target_block));
    let mut host = || Ok::<_, CopyError>(ring.attach_region(machine.host_memory(room)?));
    let hosts = [host()?, host()?];
    let ends = ComparisonRequest::new(transfer, compared, Coverage::Full, hosts);
    let mut pair = TwinPair { ring, ends, program: &program, path: &plan.target.path };
    let chunks = chosen(mode, transfer.length, chunk, tools.seed);
    let bytes = pair.compare_all(&chunks, tools)?;
    Ok(Verification { mode, bytes, mismatches: 0 })
}

/// True if chunks of a journal are at the target, read by a ring of their own. `pieces` lie in
/// chunks that are done as a whole.
pub(super) fn compare_before(
    pair: &OpenPair<'_>,
    pieces: &[Range<u64>],
    tools: &mut Tools<'_>,
) -> Result<bool, CopyError> {
    let layout = pair.layout;
    let (Some(program), Some(chunk)) = (tools.options.stages.twin.clone(), layout.chunk) else {
        return Ok(true);
    };
    let mut session = Session::on(pair.machine, ENTRIES, false, None)?;
    let ends = pair.comparison(&mut session, room(chunk, layout.block), tools.deadline)?;
    let (ring, path) = (&mut session.ring, &pair.plan.target.path);
    let mut twins = TwinPair { ring, ends, program: &program, path };
    let touched: BTreeSet<u64> = pieces.iter().map(|piece| piece.start / chunk).collect();
    let chunks = spread(&claims::pieces(&touched, layout.length, chunk));
    match twins.compare_all(&chunks, tools) {
        Ok(_) => Ok(true),
        Err(CopyError::Differs { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Host memory for a chunk in whole blocks.
fn room(chunk: u64, block: u64) -> Bytes {
    Bytes(chunk.next_multiple_of(PAGE) + block)
}

/// No more chunks than a sample has, from all of them.
fn spread(chunks: &[Range<u64>]) -> Vec<Range<u64>> {
    let most = usize::try_from(SAMPLE_MAX).unwrap_or(usize::MAX);
    chunks.iter().step_by(chunks.len().div_ceil(most).max(1)).cloned().collect()
}

/// Chunks to compare: all, or the first, the last and some between them.
fn chosen(mode: VerifyMode, length: u64, chunk: u64, seed: u64) -> Vec<Range<u64>> {
    let count = length.div_ceil(chunk);
    let numbers: BTreeSet<u64> = match mode {
        VerifyMode::Sample if count > SAMPLE_MAX => {
            let all = 0..count;
            let random = sample_size(length).min(SAMPLE_MAX - 2);
            let mut numbers = claims::random_units(&[all], random, seed);
            numbers.extend([0, count - 1]);
            numbers
        }
        _ => (0..count).collect(),
    };
    claims::pieces(&numbers, length, chunk)
}

impl<R: Ring> TwinPair<'_, R> {
    /// Compares chunks up to the first that differs; returns the bytes of all of them.
    fn compare_all(
        &mut self,
        chunks: &[Range<u64>],
        tools: &mut Tools<'_>,
    ) -> Result<Bytes, CopyError> {
        let total = Bytes(chunks.iter().map(|chunk| chunk.end - chunk.start).sum());
        let mut done = Bytes::ZERO;
        tools.watch.begin(done, total);
        for chunk in chunks {
            if tools.watch.stop_requested() {
                let total = Bytes(self.ends.length);
                return Err(CopyError::Interrupted { done: total, total, journal: None });
            }
            self.compare(chunk, tools)?;
            done = Bytes(done.0 + chunk.end - chunk.start);
            tools.watch.compared(done, total);
        }
        Ok(total)
    }

    fn compare(&mut self, chunk: &Range<u64>, tools: &Tools<'_>) -> Result<(), CopyError> {
        let length = chunk.end - chunk.start;
        let ends = self.ends;
        let read = |role, file, offset: u64, block, host| {
            let from = FilePlace { file, offset: offset + chunk.start, block };
            Request::new(role, Action::Read, from, MemoryPlace::host(host, 0), length)
        };
        let [source, target] = ends.hosts;
        let mut requests = [
            read(Role::Source, ends.source, ends.source_offset, ends.source_block, source),
            read(Role::Target, ends.target, ends.target_offset, ends.target_block, target),
        ];
        carry_out(self.ring, &mut requests, tools.clock, tools.deadline).map_err(|error| {
            CopyError::Check { path: self.path.into(), source: VerifyError::Request(error) }
        })?;
        let bytes = |ring: &mut R, host| {
            let bytes = ring.host_range(host, 0..length);
            bytes.map_or_else(Vec::new, |bytes| bytes.to_vec())
        };
        let expected = run(self.program, bytes(self.ring, source), chunk.start, tools.deadline)
            .map_err(|reason| CopyError::Twin { program: self.program.into(), reason })?;
        let found = bytes(self.ring, target);
        let differs = |(one, other): (&u8, &u8)| one != other;
        let Some(first) = expected.iter().zip(&found).position(differs) else { return Ok(()) };
        let last = expected.iter().zip(&found).rposition(differs).unwrap_or(first);
        let shown = |bytes: &[u8]| bytes[first..].iter().take(16).copied().collect();
        Err(CopyError::Differs {
            path: self.path.into(),
            offset: ends.target_offset + chunk.start + first as u64,
            length: (last - first + 1) as u64,
            pages: 1,
            expected: shown(&expected),
            found: shown(&found),
        })
    }
}

/// A chunk as the program leaves it.
fn run(program: &Path, chunk: Vec<u8>, offset: u64, deadline: Nanos) -> Result<Vec<u8>, String> {
    let length = chunk.len();
    let mut child = Command::new(program)
        .arg(offset.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let result = exchange(&mut child, chunk, Duration::from(deadline));
    if result.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let result = result?;
    if !status.success() {
        return Err(format!("on the chunk at {offset} it ended with {status}"));
    }
    if result.len() != length {
        return Err(format!(
            "it made {} bytes of the chunk of {length} bytes at {offset}: a stage keeps the length",
            result.len()
        ));
    }
    Ok(result)
}

/// Gives a program its chunk and takes its output, within the deadline.
fn exchange(child: &mut Child, chunk: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, String> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no standard input and output".to_owned());
    };
    let most = chunk.len() as u64 + 1;
    let (sender, receiver) = channel();
    // Both end with the program, which is killed where it is late.
    thread::spawn(move || {
        // A program that ends without reading all of its chunk is judged by what it made of it.
        let _ = input.write_all(&chunk);
    });
    thread::spawn(move || {
        let mut made = Vec::new();
        let read = output.take(most).read_to_end(&mut made);
        let _ = sender.send(read.map(|_| made));
    });
    match receiver.recv_timeout(deadline) {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it did not end within {} s", deadline.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    fn program(folder: &tempfile::TempDir, text: &str) -> PathBuf {
        let path = folder.path().join("twin");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn filter_gets_chunk_and_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(&folder, "test \"$1\" = 4096 && tr a b");
        let limit = Nanos::seconds(60);
        assert_eq!(run(&path, b"banana".to_vec(), 4096, limit), Ok(b"bbnbnb".to_vec()));
        assert!(
            run(&path, b"banana".to_vec(), 0, limit)
                .unwrap_err()
                .contains("ended with exit status")
        );
    }

    #[test]
    fn filters_that_change_the_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["head -c 3", "cat; echo more", "cat /dev/zero"] {
            let path = program(&folder, text);
            assert!(run(&path, b"banana".to_vec(), 0, Nanos::seconds(60)).is_err(), "{text}");
        }
    }

    #[test]
    fn late_filter_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(&folder, "exec sleep 1000");
        let error = run(&path, b"banana".to_vec(), 0, Nanos(20_000_000)).unwrap_err();
        assert!(error.starts_with("it did not end"), "{error}");
    }

    #[test]
    fn samples_have_both_ends() {
        let chunks = chosen(VerifyMode::Sample, (100 << 20) + 5, 1 << 20, 3);
        assert!(chunks.len() <= 16 && chunks.contains(&(0..1 << 20)));
        assert_eq!(chunks.last(), Some(&(100 << 20..(100 << 20) + 5)));
        assert_eq!(chosen(VerifyMode::Full, 10, 4, 3), [0..4, 4..8, 8..10]);
    }

    #[test]
    fn few_chunks_come_from_everywhere() {
        let all: Vec<Range<u64>> = (0..100).map(|number| number..number + 1).collect();
        let few = spread(&all);
        assert!(few.len() <= 16 && few.last().is_some_and(|last| last.start > 90), "{few:?}");
        assert_eq!(spread(&all[..3]), all[..3]);
    }
}
