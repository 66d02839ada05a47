//! Names for the content of a storage device, by util-linux's libblkid and a table of magic
//! numbers.
//!
//! libblkid is opened when the program runs and never gets the device. The caller reads the two ends of the device;
//! [`Blkid::identify`] puts them into a sparse memory file and probes that. A missing library is a value, and the table
//! of [`magic`] needs none. Names inform a person and decide nothing.
//!
//! The middle of the device reads as zeroes, so labels and identifiers in it are not found. Those
//! of NTFS and BitLocker lie there, and of large FAT, exFAT and HFS+ volumes.
//!
//! The content is hostile. Three facts bound its effect:
//!
//! 1. Probing runs on a thread of its own, up to the caller's limit of time and [`MEMORY_LIMIT`]. At a limit the memory
//!    file is emptied. Every further read of libblkid then fails, also one that has begun.
//! 2. A thread that goes on without reading is left behind. Its earlier findings are kept.
//! 3. Labels and identifiers are cut and escaped before anybody sees them ([`DeviceContent`]).
//!
//! libblkid runs in this process: an error in its memory is one of the program. Only its interface for probing is used,
//! which reads neither `blkid.conf` nor a cache. With `LIBBLKID_DEBUG` in the environment it writes to the standard
//! error stream.

mod content;
mod ends;
mod error;
#[allow(unsafe_code)]
mod ffi;
pub mod magic;
mod phrases;

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use content::{Checksum, ContentUsage, DeviceContent};
pub use ends::{DeviceEnds, END_BYTES, MemoryImage};
pub use error::BlkidError;
use ffi::{BlkidLibrary, BlkidProbe, ProbeResult};
use peerlane_units::Bytes;

use crate::LibraryError;

/// Name of the library; it has been the same since util-linux 2.15.
const LIBRARY: &str = "libblkid.so.1";

/// Growth of the process while libblkid runs, by any thread. Reads between two checks come on top.
pub const MEMORY_LIMIT: Bytes = Bytes::mib(256);

/// Steps of one probe: more than the probers of any version. Each prober ends one step at most.
const MAX_STEPS: usize = 512;

/// Time between two looks at the memory of the process. A usual probe is over before the first.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Time for libblkid to end after its file was emptied.
const GRACE: Duration = Duration::from_secs(1);

/// libblkid, open. Each [`Blkid::identify`] has a probe of its own, so any number can run at once.
#[derive(Clone)]
pub struct Blkid(Arc<BlkidLibrary>);

/// Everything that was recognised, and the reason why it may be incomplete.
#[derive(Debug, Default)]
pub struct Identified {
    /// Each thing once, in the order of libblkid's probers: members of arrays and encrypted volumes, file systems,
    /// partition tables.
    pub contents: Vec<DeviceContent>,
    /// The reason where something may be missing.
    pub fault: Option<BlkidError>,
}

/// Names the content of a device by libblkid, if the machine has it, and by the table of [`magic`].
///
/// `block` is the size of a logical block of the device, and `limit` the time for libblkid.
pub fn identify(
    blkid: Option<&Blkid>,
    ends: &DeviceEnds<'_>,
    block: Bytes,
    limit: Duration,
) -> Identified {
    let mut found =
        blkid.map_or_else(Identified::default, |blkid| blkid.identify(ends, block, limit));
    for content in magic::identify(ends) {
        if found.contents.iter().all(|known| known.kind() != content.kind()) {
            found.contents.push(content);
        }
    }
    found
}

impl Blkid {
    /// Opens the library.
    ///
    /// # Errors
    /// [`LibraryError`] where the machine has none.
    pub fn open() -> Result<Self, LibraryError> {
        Self::open_from(Path::new(LIBRARY))
    }

    /// Opens a library by its path.
    ///
    /// # Errors
    /// As [`Blkid::open`].
    pub fn open_from(library: &Path) -> Result<Self, LibraryError> {
        BlkidLibrary::open(OsStr::new(library)).map(|library| Self(Arc::new(library)))
    }

    /// Version of the library, such as `2.38.1`.
    pub fn version(&self) -> String {
        self.0.version()
    }

    /// Lists everything that libblkid recognises at the two ends of a device, ambivalent content included.
    ///
    /// `block` is the size of a logical block, the unit of a GPT; libblkid before 2.30 takes 512 bytes. Returns a
    /// second after `limit` at the latest.
    pub fn identify(&self, ends: &DeviceEnds<'_>, block: Bytes, limit: Duration) -> Identified {
        let size = ends.size();
        if size == Bytes::ZERO {
            return Identified::default();
        }
        let image = match MemoryImage::new(ends) {
            Ok(image) => Arc::new(image),
            Err(source) => return BlkidError::Image { size, source }.into(),
        };
        let found = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = mpsc::sync_channel(1);
        let work = {
            let (library, image, found) =
                (Arc::clone(&self.0), Arc::clone(&image), Arc::clone(&found));
            move || {
                // Nobody may wait any more.
                let _ = sender.send(probe(&library, &image, size, block, &found));
            }
        };
        if let Err(error) = thread::Builder::new().name("blkid".to_owned()).spawn(work) {
            return BlkidError::Thread(error).into();
        }
        let fault = wait(&receiver, &image, limit).err();
        let contents = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Identified { contents, fault }
    }
}

impl From<BlkidError> for Identified {
    fn from(fault: BlkidError) -> Self {
        Self { contents: Vec::new(), fault: Some(fault) }
    }
}

impl fmt::Debug for Blkid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blkid").field("version", &self.version()).finish()
    }
}

/// Waits for the end of a probe; at a limit the image is emptied, and the probe has [`GRACE`] to end.
fn wait(
    receiver: &Receiver<Result<(), BlkidError>>,
    image: &MemoryImage,
    limit: Duration,
) -> Result<(), BlkidError> {
    let (start, at_start) = (Instant::now(), resident_bytes());
    let fault = loop {
        let left = limit.saturating_sub(start.elapsed());
        match receiver.recv_timeout(left.min(LOOK_INTERVAL)) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(BlkidError::Lost),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if start.elapsed() >= limit {
            break BlkidError::Deadline { limit };
        }
        let grown = resident_bytes().zip(at_start).map(|(now, before)| now.saturating_sub(before));
        if grown.is_some_and(|grown| grown > MEMORY_LIMIT.0) {
            break BlkidError::Memory { limit: MEMORY_LIMIT };
        }
    };
    image.cut();
    // It has not seen everything, whether it ends or is left behind.
    let _ = receiver.recv_timeout(GRACE);
    Err(fault)
}

/// Memory of this process, by `/proc/self/statm`; `None` where that cannot be read.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Collects everything that is recognised in an image.
fn probe(
    library: &BlkidLibrary,
    image: &MemoryImage,
    size: Bytes,
    block: Bytes,
    found: &Mutex<Vec<DeviceContent>>,
) -> Result<(), BlkidError> {
    // The image exists, so that its size is possible for a file.
    let size = i64::try_from(size.0).unwrap_or(i64::MAX);
    let block =
        u32::try_from(block.0).ok().filter(|block| block.is_power_of_two() && *block >= 512);
    let mut probe = BlkidProbe::new(library, image.as_fd(), size, block)?;
    let mut count = 0;
    for _ in 0..MAX_STEPS {
        match probe.step() {
            ProbeResult::Found => {
                let content = read(&probe);
                add(&mut found.lock().unwrap_or_else(PoisonError::into_inner), content);
            }
            // The probers behind it have not run yet.
            ProbeResult::Failed => count += 1,
            ProbeResult::Done => break,
        }
    }
    if count == 0 { Ok(()) } else { Err(BlkidError::Probers { count }) }
}

/// Adds content once. A protective MBR is part of a GPT that was found.
fn add(found: &mut Vec<DeviceContent>, content: Option<DeviceContent>) {
    let Some(content) = content else { return };
    let is_part = content.kind() == "PMBR" && found.iter().any(|known| known.kind() == "gpt");
    if !is_part && !found.contains(&content) {
        found.push(content);
    }
}

/// The superblock or partition table that a probe has just recognised.
fn read(probe: &BlkidProbe<'_>) -> Option<DeviceContent> {
    if let Some(kind) = probe.value(c"TYPE") {
        let usage = probe
            .value(c"USAGE")
            .map_or(ContentUsage::Other, |name| ContentUsage::from_name(&name));
        let is_wrong = probe.value(c"SBBADCSUM").is_some();
        let content = DeviceContent::new(&kind, usage)?
            .with_label(probe.value(c"LABEL").as_deref())
            .with_uuid(probe.value(c"UUID").as_deref());
        return Some(if is_wrong { content.with_wrong_checksum() } else { content });
    }
    let content = DeviceContent::new(&probe.value(c"PTTYPE")?, ContentUsage::PartitionTable)?;
    Some(content.with_uuid(probe.value(c"PTUUID").as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an image again and again, as a prober in a loop does, and keeps the bytes. Returns the end of the wait.
    fn waste(image: &Arc<MemoryImage>, part: usize, limit: Duration) -> Result<(), BlkidError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let reader = Arc::clone(image);
        let thread = thread::spawn(move || {
            let mut kept = Vec::new();
            loop {
                let mut bytes = vec![1; part];
                if rustix::io::pread(reader.as_fd(), &mut bytes, 0) != Ok(part) {
                    break;
                }
                kept.extend((part > 512).then_some(bytes));
            }
            let _ = sender.send(Ok(()));
        });
        let answer = wait(&receiver, image, limit);
        thread.join().expect("the thread ends where the file does");
        answer
    }

    #[test]
    fn wait_ends_at_limits() {
        let image = || {
            let ends = DeviceEnds::new(b"x", b"", Bytes::mib(64));
            Arc::new(MemoryImage::new(&ends).expect("a memory file"))
        };
        let answer = waste(&image(), 512, Duration::from_millis(20));
        assert!(matches!(answer, Err(BlkidError::Deadline { .. })), "{answer:?}");
        let answer = waste(&image(), 1 << 20, Duration::from_secs(60));
        assert!(matches!(answer, Err(BlkidError::Memory { .. })), "{answer:?}");
    }

    #[test]
    fn wait_notices_lost_thread() {
        let ends = DeviceEnds::new(b"x", b"", Bytes(512));
        let image = MemoryImage::new(&ends).expect("a memory file");
        let (sender, receiver) = mpsc::sync_channel(1);
        drop(sender);
        let answer = wait(&receiver, &image, Duration::from_secs(60));
        assert!(matches!(answer, Err(BlkidError::Lost)), "{answer:?}");
    }
}
