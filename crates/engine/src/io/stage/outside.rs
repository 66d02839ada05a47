//! A process outside of this machine that works on memory of one of its cards.
//!
//! It is asked by lines through a character device, `start NUMBER ADDRESS LENGTH OFFSET`, and answers
//! `done NUMBER` or `failed NUMBER WORDS`, in any order. The address is that of the chunk in the memory of
//! the card, in bytes.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peerlane_memory::Region;
use peerlane_memory::physical::{self, AddressError};
use peerlane_results::MemoryFacts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Chunk, Stage, StageFault};

/// Chunks that the process has at a time.
const ROOM: usize = 64;
/// Longest answer in bytes; a longer one is none.
const LINE_MAX: usize = 4096;
/// Longest wait for a process that is to give up its chunks.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// Reason why no process outside can work on a memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutsideError {
    #[error("{memory} is not memory with addresses")]
    NoAddress { memory: String },
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("cannot open {}: {errno}", port.display())]
    Port { port: PathBuf, errno: Errno },
}

/// The process, by its port.
#[derive(Debug)]
pub(crate) struct OutsideProcess {
    port: OwnedFd,
    /// Start of the slots in the memory of the card.
    start: u64,
    next: u64,
    /// Tags of the chunks that it has, by the number that it knows.
    open: HashMap<u64, u64>,
    /// Bytes that the port had no room for, and those of an answer that is not whole.
    unsent: Vec<u8>,
    unread: Vec<u8>,
    /// Set once it is gone.
    gone: Option<StageFault>,
}

impl OutsideProcess {
    /// Opens the port for slots in a memory.
    pub(crate) fn open(
        port: &Path,
        memory: &MemoryFacts,
        region: Option<&Region>,
    ) -> Result<Self, OutsideError> {
        let start = start_of(memory, region)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(port, flags, Mode::empty());
        let opened = opened.map_err(|errno| OutsideError::Port { port: port.to_owned(), errno })?;
        Ok(Self::new(opened, start))
    }

    fn new(port: OwnedFd, start: u64) -> Self {
        let (open, unsent, unread) = (HashMap::new(), Vec::new(), Vec::new());
        Self { port, start, next: 0, open, unsent, unread, gone: None }
    }

    fn send(&mut self) {
        while !self.unsent.is_empty() && self.gone.is_none() {
            match rustix::io::write(&self.port, &self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => self.gone = Some(gone(&errno.to_string())),
            }
        }
    }

    fn receive(&mut self) {
        let mut bytes = [0; 1024];
        while self.gone.is_none() {
            match rustix::io::read(&self.port, &mut bytes) {
                Ok(0) => self.gone = Some(gone("it has closed its port")),
                Ok(read) => self.unread.extend_from_slice(&bytes[..read]),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => self.gone = Some(gone(&errno.to_string())),
            }
            if self.unread.len() > LINE_MAX {
                return;
            }
        }
    }

    /// The next whole line.
    fn line(&mut self) -> Option<String> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line = self.unread.drain(..=end).collect::<Vec<u8>>();
        Some(String::from_utf8_lossy(&line).trim().to_owned())
    }

    /// The chunk that an answer is about, and how it ended; `None` for an answer to nothing.
    fn answered(&mut self, line: &str) -> Option<(u64, Result<(), StageFault>)> {
        let mut words = line.splitn(3, ' ');
        let (what, number) = (words.next()?, words.next()?.parse().ok()?);
        let result = match what {
            "done" => Ok(()),
            "failed" => Err(StageFault(words.next().unwrap_or("it does not say why").to_owned())),
            _ => return None,
        };
        Some((self.open.remove(&number)?, result))
    }
}

impl Stage for OutsideProcess {
    fn room(&self) -> usize {
        ROOM.saturating_sub(self.open.len())
    }

    fn start(&mut self, chunk: Chunk<'_>) -> Result<(), StageFault> {
        let (number, address) = (self.next, self.start + chunk.memory_offset);
        let line = format!("start {number} {address} {} {}\n", chunk.length, chunk.offset);
        self.next += 1;
        self.unsent.extend_from_slice(line.as_bytes());
        self.send();
        if let Some(gone) = &self.gone {
            return Err(gone.clone());
        }
        self.open.insert(number, chunk.tag);
        Ok(())
    }

    fn finished(&mut self) -> Option<(u64, Result<(), StageFault>)> {
        if self.open.is_empty() {
            return None;
        }
        self.send();
        self.receive();
        while let Some(line) = self.line() {
            if let Some(answer) = self.answered(&line) {
                return Some(answer);
            }
        }
        if self.unread.len() > LINE_MAX {
            self.gone.get_or_insert_with(|| gone("its answer has no end"));
        }
        let gone = self.gone.clone()?;
        let number = *self.open.keys().next()?;
        Some((self.open.remove(&number)?, Err(gone)))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.port.as_fd())
    }

    /// Waits for the chunks that the process has: nothing tells it to leave them.
    fn cancel(&mut self) -> bool {
        let until = Instant::now() + CANCEL_WAIT;
        while !self.open.is_empty() && self.gone.is_none() {
            while self.finished().is_some() {}
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut port = [PollFd::new(&self.port, PollFlags::IN)];
            let timeout = Timespec::try_from(left).ok();
            if !matches!(poll(&mut port, timeout.as_ref()), Ok(_) | Err(Errno::INTR)) {
                break;
            }
        }
        self.open.is_empty()
    }
}

fn gone(why: &str) -> StageFault {
    StageFault(format!("the process outside is gone: {why}"))
}

/// Start of the slots in the memory of the card.
fn start_of(memory: &MemoryFacts, region: Option<&Region>) -> Result<u64, OutsideError> {
    let (Some(region), Some(address)) = (region, &memory.address) else {
        return Err(OutsideError::NoAddress { memory: memory.name.clone() });
    };
    let function = Path::new("/sys/bus/pci/devices").join(address);
    Ok(physical::bar_offset(region, &function)?.offset.0)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (OutsideProcess, BufReader<UnixStream>) {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        (OutsideProcess::new(here.into(), 1 << 20), BufReader::new(there))
    }

    fn chunk(tag: u64) -> Chunk<'static> {
        Chunk { tag, offset: tag * 10, length: 512, memory_offset: tag * 4096, content: None }
    }

    #[test]
    fn chunks_end_in_the_order_of_answers() {
        let (mut outside, mut there) = pair();
        outside.start(chunk(7)).unwrap();
        outside.start(chunk(8)).unwrap();
        let mut asked = String::new();
        there.read_line(&mut asked).unwrap();
        there.read_line(&mut asked).unwrap();
        assert_eq!(asked, "start 0 1077248 512 70\nstart 1 1081344 512 80\n");
        assert_eq!(outside.finished(), None);
        there.get_mut().write_all(b"noise\ndone 1\nfailed 0 it is broken\ndone 1\n").unwrap();
        assert_eq!(outside.finished(), Some((8, Ok(()))));
        assert_eq!(outside.finished(), Some((7, Err(StageFault("it is broken".to_owned())))));
        assert_eq!(outside.finished(), None);
        assert!(outside.cancel());
    }

    #[test]
    fn process_that_is_gone_fails_its_chunks() {
        let (mut outside, there) = pair();
        outside.start(chunk(7)).unwrap();
        drop(there);
        let Some((7, Err(fault))) = outside.finished() else { panic!("it failed") };
        assert!(fault.0.starts_with("the process outside is gone"), "{fault}");
        assert!(outside.start(chunk(8)).is_err());
    }

    #[test]
    fn unanswered_chunk_is_not_over() {
        let (mut outside, _there) = pair();
        outside.start(chunk(7)).unwrap();
        assert!(!outside.cancel());
    }
}
