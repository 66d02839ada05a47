//! The io_uring of the running kernel.
//!
//! Reads and writes carry plain addresses. Registered buffers would save pinning, but the kernel
//! refuses them for P2P pages (`io_uring/rsrc.c`, long-term pins; Linux 7.2). Files are registered
//! where the kernel can.
//!
//! Soundness rests on three facts: the ring owns every file and region, an operation is checked
//! against its region before it is queued, and a ring that is dropped while the kernel still works on
//! its memory leaks that memory instead of freeing it.

use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use peerlane_memory::Region;
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::queue::{Entry, InFlight, Waiting};
use super::{Action, Completion, FileId, Operation, PushError, RegionId, Ring};

/// Files that a ring can hold: source, target and spares.
const FILES: u32 = 16;

/// The mode of `fallocate` as io_uring takes it; its bits are few and positive.
#[allow(clippy::cast_possible_wrap)]
const ZERO_MODE: i32 = crate::extents::ZERO_MODE.bits() as i32;

/// How long a dropped ring waits for the kernel before it leaks what the kernel still holds.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// Why there is no io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UringError {
    /// Not allowed here (`EPERM`, `EACCES`): switched off by sysctl, or by a container's filter.
    #[error("cannot set up io_uring: not permitted")]
    NotPermitted {
        /// The system's answer.
        #[source]
        errno: Errno,
    },
    /// Not in this kernel (`ENOSYS`).
    #[error("cannot set up io_uring: not in this kernel")]
    Absent,
    /// In this kernel, but too old: waiting with a deadline came with Linux 5.11.
    #[error("cannot set up io_uring: this kernel cannot wait with a deadline")]
    TooOld,
    /// Any other answer.
    #[error("cannot set up io_uring with {entries} entries")]
    Other {
        /// Entries asked for.
        entries: u32,
        /// The system's answer.
        #[source]
        errno: Errno,
    },
}

impl UringError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotPermitted { .. } => Some(
                "`sysctl kernel.io_uring_disabled` must be 0 (or 1 with your group in \
                 kernel.io_uring_group); a container's seccomp profile must allow io_uring_setup",
            ),
            Self::Absent | Self::TooOld => {
                Some("Linux 5.11 or later with CONFIG_IO_URING is needed")
            }
            Self::Other { errno: Errno::NOMEM, .. } => {
                Some("raise `ulimit -l`, or take a smaller --depth")
            }
            Self::Other { .. } => None,
        }
    }
}

/// The io_uring of the running kernel. Not `Send`: the kernel ties it to the thread that made it.
pub struct Uring {
    ring: IoUring,
    files: Vec<File>,
    files_registered: bool,
    regions: Vec<Region>,
    in_flight: InFlight,
    waiting: Waiting,
    broken: bool,
    thread_bound: PhantomData<*const ()>,
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("files", &self.files)
            .field("regions", &self.regions)
            .field("in_flight", &self.in_flight.count())
            .field("waiting", &self.waiting.count())
            .finish_non_exhaustive()
    }
}

impl Uring {
    /// Sets up a ring with room for `entries` operations at a time, fewer where the kernel clamps.
    ///
    /// # Errors
    /// [`UringError`], by what the system answered.
    pub fn new(entries: u32) -> Result<Self, UringError> {
        let ring = set_up(entries)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(UringError::TooOld);
        }
        let files_registered = ring.submitter().register_files_sparse(FILES).is_ok();
        let capacity = usize::try_from(ring.params().cq_entries()).unwrap_or(usize::MAX);
        Ok(Self {
            ring,
            files: Vec::new(),
            files_registered,
            regions: Vec::new(),
            in_flight: InFlight::new(capacity),
            waiting: Waiting::default(),
            broken: false,
            thread_bound: PhantomData,
        })
    }

    fn check(&self, operation: &Operation) -> Result<(), PushError> {
        if usize::try_from(operation.file.0).map_or(true, |index| index >= self.files.len()) {
            return Err(PushError::UnknownFile { file: operation.file });
        }
        if !operation.action.has_memory() {
            return Ok(());
        }
        let region = operation.region;
        let region_length =
            self.region_length(region).ok_or(PushError::UnknownRegion { region })?;
        let (offset, length) = (operation.region_offset, operation.length);
        match offset.checked_add(u64::from(length)) {
            Some(end) if end <= region_length => Ok(()),
            _ => Err(PushError::OutOfRegion { offset, length, region_length }),
        }
    }

    /// The entry of an operation that [`Uring::check`] accepted.
    fn entry(&self, operation: &Operation) -> squeue::Entry {
        let region = usize::try_from(operation.region.0).ok().and_then(|i| self.regions.get(i));
        let offset = usize::try_from(operation.region_offset).unwrap_or(usize::MAX);
        let address = region.map_or(std::ptr::null_mut(), |region| {
            region.address().as_ptr().cast::<u8>().wrapping_add(offset)
        });
        macro_rules! for_file {
            ($file:expr) => {
                match operation.action {
                    Action::Read => opcode::Read::new($file, address, operation.length)
                        .offset(operation.file_offset)
                        .build(),
                    Action::Write => opcode::Write::new($file, address, operation.length)
                        .offset(operation.file_offset)
                        .build(),
                    Action::Flush => opcode::Fsync::new($file).flags(FsyncFlags::DATASYNC).build(),
                    Action::Zero => opcode::Fallocate::new($file, operation.length.into())
                        .offset(operation.file_offset)
                        .mode(ZERO_MODE)
                        .build(),
                }
            };
        }
        let entry = if self.files_registered {
            for_file!(Fixed(operation.file.0))
        } else {
            let file = usize::try_from(operation.file.0).ok().and_then(|i| self.files.get(i));
            for_file!(Fd(file.map_or(-1, AsRawFd::as_raw_fd)))
        };
        if operation.linked { entry.flags(squeue::Flags::IO_LINK) } else { entry }
    }

    /// Operations that the kernel has and has not finished, or whose end was not popped.
    fn with_kernel(&self) -> usize {
        self.in_flight.count() - self.waiting.count()
    }

    /// Waits for one completion without handing over what is queued.
    fn wait_only(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timeout);
        let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
        // SAFETY: the flags say that the argument is an extended one, which `SubmitArgs` is, and it
        // outlives the call. Nothing is submitted.
        let entered = unsafe { self.ring.submitter().enter(0, 1, flags, Some(&arguments)) };
        entered.map(drop)
    }
}

/// Sets a ring up with the flags that serve one thread best, and with fewer on kernels that do not
/// know them: deferred task work came with Linux 6.1, cooperative with 5.19, submit-all with 5.18.
fn set_up(entries: u32) -> Result<IoUring, UringError> {
    let mut last = Errno::INVAL;
    for level in 0..4 {
        let mut builder = IoUring::builder();
        builder.setup_clamp();
        if level <= 2 {
            builder.setup_submit_all();
        }
        match level {
            0 => {
                builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            }
            1 => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
            _ => {}
        }
        last = match builder.build(entries) {
            Ok(ring) => return Ok(ring),
            Err(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        };
        if last != Errno::INVAL {
            break;
        }
    }
    Err(match last {
        errno @ (Errno::PERM | Errno::ACCESS) => UringError::NotPermitted { errno },
        Errno::NOSYS => UringError::Absent,
        errno => UringError::Other { entries, errno },
    })
}

impl Ring for Uring {
    type File = File;
    type Region = Region;

    fn attach_file(&mut self, file: File) -> io::Result<FileId> {
        let index = u32::try_from(self.files.len()).unwrap_or(FILES);
        if index >= FILES {
            return Err(Errno::NFILE.into());
        }
        if self.files_registered {
            self.ring.submitter().register_files_update(index, &[file.as_raw_fd()])?;
        }
        self.files.push(file);
        Ok(FileId(index))
    }

    fn attach_region(&mut self, region: Region) -> RegionId {
        self.regions.push(region);
        RegionId(u32::try_from(self.regions.len() - 1).unwrap_or(u32::MAX))
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        let index = usize::try_from(region.0).ok()?;
        self.regions.get(index).map(|region| region.length().0)
    }

    fn space(&self) -> u32 {
        let entries = usize::try_from(self.ring.params().sq_entries()).unwrap_or(usize::MAX);
        let free = entries.saturating_sub(self.waiting.count()).min(self.in_flight.space());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.check(&operation)?;
        let full = PushError::Full { space: self.space() };
        let region = operation.action.has_memory().then_some(operation.region);
        let entry = self.entry(&operation);
        let number = self.in_flight.insert(Entry { tag: operation.tag, region }).ok_or(full)?;
        // SAFETY: the entry's address range lies within a region that was checked just now and that the
        // ring owns until the operation's completion was popped, or for ever (see `Drop`); so does the
        // file. No reference to the bytes is given out meanwhile (`host_bytes`).
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(number)) };
        if pushed.is_err() {
            self.in_flight.remove(number);
            return Err(full);
        }
        self.waiting.push(operation.linked);
        Ok(())
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        if self.broken {
            return Err(Errno::IO.into());
        }
        let wait = usize::try_from(wait).unwrap_or(usize::MAX).min(self.in_flight.count());
        let timeout = Timespec::from(Duration::from(timeout));
        let arguments = SubmitArgs::new().timespec(&timeout);
        let entered = self.ring.submitter().submit_with_args(wait, &arguments);
        let left = self.ring.submission().len();
        if !self.waiting.keep_newest(left) {
            self.broken = true;
            return Err(io::Error::other("io_uring took a chain of requests in parts"));
        }
        match entered.map_err(|error| Errno::from_io_error(&error).ok_or(error)) {
            Ok(_) => Ok(()),
            // Nothing has come in time, a signal came, or the kernel wants completions popped or
            // memory freed first; what is queued is handed over by the next call.
            Err(Ok(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN)) => Ok(()),
            Err(Ok(errno)) => Err(errno.into()),
            Err(Err(error)) => Err(error),
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        let (number, result) = {
            let entry = self.ring.completion().next()?;
            (entry.user_data(), entry.result())
        };
        let entry = self.in_flight.remove(number)?;
        let result = u32::try_from(result)
            .map_err(|_| Errno::from_raw_os_error(result.checked_neg().unwrap_or(i32::MAX)));
        Some(Completion { tag: entry.tag, result })
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.in_flight.count()).unwrap_or(u32::MAX)
    }

    fn host_bytes(&mut self, region: RegionId) -> Option<&mut [u8]> {
        if self.in_flight.touches(region) {
            return None;
        }
        let index = usize::try_from(region.0).ok()?;
        self.regions.get_mut(index)?.host_bytes_mut()
    }
}

impl Drop for Uring {
    /// Waits a second at most for what the kernel has; what is queued only is not handed over. If the
    /// kernel still holds memory then, files and regions are leaked.
    fn drop(&mut self) {
        let end = Instant::now() + DROP_WAIT;
        loop {
            while self.pop().is_some() {}
            let left = end.saturating_duration_since(Instant::now());
            if self.with_kernel() == 0 || left.is_zero() {
                break;
            }
            let waited = self.wait_only(left).map_err(|e| Errno::from_io_error(&e));
            if !matches!(waited, Ok(()) | Err(Some(Errno::TIME | Errno::INTR))) {
                break;
            }
        }
        if self.with_kernel() > 0 {
            tracing::warn!(
                requests = self.with_kernel(),
                "leaking memory that the kernel still uses"
            );
            mem::forget(mem::take(&mut self.files));
            mem::forget(mem::take(&mut self.regions));
        } else if self.files_registered {
            // Without this the kernel lets go of them some time after the ring was closed, and a target
            // that the copy is done with cannot be unmounted or opened exclusively.
            let _ = self.ring.submitter().unregister_files();
        }
    }
}
