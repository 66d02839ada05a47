//! Moves data between PCIe devices without passing it through host memory, and proves that it did so.
//!
//! Peerlane's crates for programs, under one name, and the parts that a program has to bring
//! itself: a machine by its name ([`machines`]), a seed, an environment. Decisions are made in the
//! crates below; `ARCHITECTURE.md` has the invariants. Linux only.
//!
//! # A machine, and the plan of a copy on it
//!
//! Nothing is opened outside the place that is named, and nothing is changed. A refused route is a reason
//! in the plan, not an error.
//!
//! ```
//! use std::path::Path;
//!
//! use peerlane::machines::{LookDepth, MachineSource};
//! use peerlane::{Asked, Bytes, DEADLINE, MonotonicClock, Route, Surveyor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `MachineSource::Here` is the running machine.
//! let fabric = peerlane::machines::read(MachineSource::Described(Path::new("pair")), LookDepth::Quiet)?;
//! let asked = Asked { length: Some(Bytes::mib(64)), ..Asked::between("a", "b") };
//! let clock = MonotonicClock::start();
//! let plan = peerlane::plan(&fabric, &asked, &Surveyor::new(&clock, DEADLINE))?;
//! assert_eq!(plan.route, Some(Route::P2p));
//! assert_eq!(plan.candidates[0].memory.name, "cmb:c");
//! # Ok(())
//! # }
//! ```
//!
//! # A copy
//!
//! It refuses the same targets as the program: one that is mounted, in use, or not blank, unless
//! [`Asked::force`] is set for the last.
//!
//! ```
//! use peerlane::machines::{LookDepth, MachineSource};
//! use peerlane::{Asked, Bytes, CopyOptions, DEADLINE, MonotonicClock, Surveyor, Surveys, Tools, VerifyMode};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().unwrap())?;
//! # let source = folder.path().join("source");
//! # let target = folder.path().join("target");
//! std::fs::write(&source, [7; 10_000])?;
//! let here = peerlane::machines::read(MachineSource::Here, LookDepth::Quiet)?;
//! let (from, to) = (source.display().to_string(), target.display().to_string());
//! let asked = Asked { verify: VerifyMode::Full, ..Asked::between(&from, &to) };
//! let clock = MonotonicClock::start();
//! let plan = peerlane::plan(&here, &asked, &Surveyor::new(&clock, DEADLINE))?;
//! let mut tools = Tools {
//!     clock: &clock,
//!     watch: &mut (), // hears nothing and never stops; see `Watch`
//!     seed: peerlane::seed(),
//!     deadline: DEADLINE,
//!     options: CopyOptions { environment: peerlane::environment(), ..CopyOptions::default() },
//! };
//! let record = peerlane::copy(&here, &plan, &mut tools)?;
//! assert_eq!(record.bytes, Bytes(10_000));
//! assert_eq!(std::fs::read(&target)?, [7; 10_000]);
//! # Ok(())
//! # }
//! ```
//!
//! # A read into memory of your own
//!
//! ```
//! use peerlane::machines::{LookDepth, MachineSource};
//! use peerlane::read::{ReadTools, Reader};
//! use peerlane::{Bytes, MonotonicClock, Nanos, host, lent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().unwrap())?;
//! # let path = folder.path().join("set.bin");
//! # std::fs::write(&path, [7; 10_000])?;
//! # let path = path.to_str().unwrap();
//! let here = peerlane::machines::read(MachineSource::Here, LookDepth::Quiet)?;
//! let reader = Reader::open(&here, path, Nanos::seconds(60))?;
//! let (memory, lender) = lent::lend(host::allocate(Bytes(4096))?).ok_or("host memory is lent")?;
//! let clock = MonotonicClock::start();
//! let mut tools = ReadTools { clock: &clock, watch: &mut (), deadline: Nanos::seconds(60) };
//! let reading = reader.read_into(Bytes(100), &memory, &mut tools)?;
//! assert_eq!(reading.bytes, Bytes(4096));
//! drop(memory);
//! let mut region = lender.take().map_err(|_| "a request is still under way")?;
//! assert_eq!(region.host_bytes_mut(), Some(&mut [7; 4096][..]));
//! # Ok(())
//! # }
//! ```
//!
//! Memory that another library of the process has on a GPU is named by [`cuda::Cuda::foreign`] and filled by
//! [`read::Reader::read_into_gpu`].
#![forbid(unsafe_code)]

pub mod machines;
pub mod size;
pub mod small_file;
pub mod topology;

use std::hash::{BuildHasher, Hasher, RandomState};

pub use peerlane_doctor::difference;
pub use peerlane_engine::{
    Clock, CopyError, CopyOptions, DEADLINE, FanOut, Metadatum, MonotonicClock, Phase, PlanError,
    RouteAnswer, RouteWord, Sparse, Start, Surveyor, Surveys, Tools, Watch, copy, copy_fan_out,
    endpoints::EndError, examine, examine_copy, explain, journal, load, plan, plan_fan_out,
    plan_record, probe, read, route_answer, verify,
};
pub use peerlane_fabric::{DiscoverError, Fabric};
pub use peerlane_memory::{Lent, MemoryError, Region, cuda, host, lent};
pub use peerlane_results::{
    Asked, CompletedCopy, CopyRecord, DoctorRecord, JobOutcome, Plan, PlanRecord, Refusal, Route,
    RouteChoice, TargetOutcome, VerifyMode, VerifyRecord, Warning, Workload,
};
pub use peerlane_sim::{parameters, predict, reproduce};
pub use peerlane_units::{ByteRate, Bytes, Named, Nanos};

/// A random seed, for all that the engine draws by chance.
pub fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the environment variables that decide where this process keeps journals of devices.
pub fn environment() -> journal::StateEnvironment {
    journal::StateEnvironment {
        xdg_state_home: std::env::var_os("XDG_STATE_HOME"),
        home: std::env::var_os("HOME"),
    }
}
