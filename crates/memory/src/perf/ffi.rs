//! The call that opens a counter.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// An event to count, in the words of `struct perf_event_attr` (`include/uapi/linux/perf_event.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterEvent {
    /// Number of the unit that counts: its `type` in sysfs.
    pub unit: u32,
    /// `config`, `config1` and `config2`.
    pub config: [u64; 3],
    /// The CPU that it is read on, by number.
    pub cpu: u32,
}

/// An open counter; it counts from when it was opened.
#[derive(Debug)]
pub struct Counter(File);

/// Value of a counter, and the time that it covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// Events counted.
    pub count: u64,
    /// Nanoseconds since it was opened.
    pub enabled: u64,
    /// Nanoseconds that it really counted: less if counters take turns.
    pub running: u64,
}

/// The first 72 bytes of `struct perf_event_attr`, as the kernel has them since version 1 of it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    unit: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
}

/// `PERF_ATTR_SIZE_VER1`.
const SIZE: u32 = 72;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);
/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const READ_FORMAT: u64 = 1 | 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

impl Counter {
    /// Opens a counter of everything on a CPU, or on the unit that this CPU reads.
    ///
    /// # Errors
    /// The system's answer: `EACCES` without `CAP_PERFMON` where `kernel.perf_event_paranoid` is above
    /// zero, `ENOENT` and `EINVAL` for an event that the unit does not know.
    pub fn open(event: &CounterEvent) -> io::Result<Self> {
        let [config, config1, config2] = event.config;
        let mut attributes = Attributes {
            unit: event.unit,
            size: SIZE,
            config,
            config1,
            config2,
            read_format: READ_FORMAT,
            ..Attributes::default()
        };
        let cpu = libc::c_int::try_from(event.cpu).map_err(io::Error::other)?;
        let (every_process, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
        // SAFETY: the call reads `size` bytes at its first argument, which is a live structure of that
        // size whose layout is the kernel's, and writes nothing there unless the size is refused, then
        // its `size` field, which is not used again. It keeps no pointer.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw mut attributes,
                every_process,
                cpu,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        let descriptor = i32::try_from(answer).map_err(io::Error::other)?;
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// Reads it.
    ///
    /// # Errors
    /// The system's answer.
    pub fn read(&mut self) -> io::Result<CounterReading> {
        let mut bytes = [0; 24];
        self.0.read_exact(&mut bytes)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        Ok(CounterReading { count: word(0), enabled: word(8), running: word(16) })
    }
}
