//! From host memory to host memory: what one core copies, and what it costs to map a file that is in memory.
//!
//! Leaves out several cores, and copies within caches: a range should be beyond them. No device
//! takes part, so that there is nothing to hand over and one block is under way at a time.

use std::ops::Range;

use peerlane_memory::{Region, host};
use peerlane_results::{Path as Way, Verification, VerifyMode};
use peerlane_units::Bytes;

use super::carry::{CarriedRun, CheckResult};
use super::in_turn::{Half, SerialSteps};
use super::look::FlowLook;
use super::planned::{FlowEnd, PlannedFlow, PlannedParts};
use super::{FlowTools, MeasureError, Result};
use crate::io::random::Random;
use crate::plan::host_memory;

/// Bytes of the pattern that the source repeats, each time with its place in front.
const PATTERN: usize = 1 << 20;
/// Most bytes of the range: the source and the target are both in memory.
const RANGE_MAX: Bytes = Bytes::mib(16 << 10);
/// Ranges of a map begin on pages.
const PAGE: Bytes = Bytes::kib(4);

impl FlowLook<'_> {
    /// Copies and maps by the processor.
    pub(super) fn processor(&self) -> Result<PlannedFlow> {
        let flow = self.flow;
        let wrong = |reason| Err(self.no_pair(reason));
        match flow.path {
            Way::HostPipelined => {}
            Way::HostMapped if flow.block.is_multiple_of(PAGE) => {}
            Way::HostMapped => return wrong("a block of a map is a multiple of 4096 bytes"),
            _ => {
                return wrong("one core copies (`host`), or maps a file in memory (`host-mapped`)");
            }
        }
        if flow.depth > 1 {
            return wrong("one core has one block under way: its depth is 1");
        }
        if flow.limit.is_some() {
            return wrong("one core has no limit but its own");
        }
        if flow.bytes > RANGE_MAX {
            return wrong("a range in memory is 16 GiB at most");
        }
        Ok(PlannedFlow::new(
            flow,
            PlannedParts {
                source: FlowEnd::Memory,
                target: FlowEnd::Memory,
                memory: host_memory(),
                most: u64::MAX,
                unit: 1,
                is_source_scratch: false,
                limits: Vec::new(),
                facts: Vec::new(),
                warnings: Vec::new(),
            },
        ))
    }
}

/// Copies by the processor, out of one region into another.
pub(super) struct CoreCopy {
    source: Region,
    target: Region,
}

impl CoreCopy {
    pub(super) fn new(planned: &PlannedFlow, tools: &FlowTools<'_>) -> Result<Self> {
        let bytes = planned.flow.bytes;
        let (mut source, target) = (host::allocate(bytes)?, host::allocate(bytes)?);
        fill(tools.seed, source.host_bytes_mut().unwrap_or(&mut []));
        Ok(Self { source, target })
    }

    fn both(&mut self, range: Range<u64>) -> Option<(&mut [u8], &mut [u8])> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        let source = self.source.host_bytes_mut()?.get_mut(range.clone())?;
        Some((source, self.target.host_bytes_mut()?.get_mut(range)?))
    }

    /// Compares the copy with its origin. Random blocks are not checked, since nobody knows which
    /// they were.
    fn verify(&mut self, planned: &PlannedFlow, moved: u64) -> Result<Option<Verification>> {
        if planned.flow.order == peerlane_results::Order::Random {
            return Ok(None);
        }
        let (length, block) = (planned.flow.bytes.0.min(moved), planned.flow.block.0);
        let (mut mismatches, mut first) = (0, None);
        for start in (0..length).step_by(usize::try_from(block).unwrap_or(usize::MAX)) {
            let range = start..(start + block).min(length);
            if self.both(range).is_none_or(|(source, target)| source != target) {
                mismatches += 1;
                first.get_or_insert(start);
            }
        }
        match first {
            Some(first) => Err(MeasureError::MemoryDiffers {
                memory: planned.memory.name.clone(),
                mismatches,
                offset: Bytes(first),
            }),
            None => {
                Ok(Some(Verification { mode: VerifyMode::Full, bytes: Bytes(length), mismatches }))
            }
        }
    }
}

impl SerialSteps for CoreCopy {
    fn block(&mut self, range: Range<u64>, _: &PlannedFlow, _: &FlowTools<'_>) -> Result<Half> {
        let Some((source, target)) = self.both(range) else { return Err(MeasureError::WithOthers) };
        target.copy_from_slice(source);
        Ok(Half::Read)
    }

    fn compare(
        &mut self,
        planned: &PlannedFlow,
        run: &CarriedRun,
        _: &mut FlowTools<'_>,
    ) -> Result<CheckResult> {
        let verification = self.verify(planned, run.bytes)?;
        Ok(CheckResult { verification, ..CheckResult::default() })
    }
}

/// Gives each part of a source a pattern, and its place, so that no part is taken for another.
fn fill(seed: u64, source: &mut [u8]) {
    let mut one = vec![0; PATTERN.min(source.len())];
    Random::new(seed).fill(&mut one);
    for (place, part) in source.chunks_mut(PATTERN).enumerate() {
        part.copy_from_slice(&one[..part.len()]);
        for (page, bytes) in part.chunks_mut(4096).enumerate() {
            let number = ((place * PATTERN / 4096 + page) as u64).to_le_bytes();
            let length = number.len().min(bytes.len());
            bytes[..length].copy_from_slice(&number[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::Fabric;
    use peerlane_results::{Flow, Order};
    use peerlane_units::Nanos;

    use super::super::{Consent, FlowOutcome, Hold};
    use super::*;
    use crate::io::clock::Clock;

    /// A clock that is a nanosecond later each time.
    #[derive(Default)]
    struct SteppedClock(std::cell::Cell<u64>);

    impl Clock for SteppedClock {
        fn now(&self) -> Nanos {
            self.0.set(self.0.get() + 1);
            Nanos(self.0.get())
        }
    }

    fn flow(path: Way, block: u64, bytes: u64) -> Flow {
        let (block, bytes) = (Bytes(block), Bytes(bytes));
        Flow { block, bytes, depth: 1, ..Flow::new("host", "host", path) }
    }

    fn looked(flow: &Flow) -> Result<PlannedFlow> {
        let fabric = Fabric::discover_quietly(std::path::Path::new("/")).expect("this machine");
        PlannedFlow::look(
            &fabric,
            flow,
            &Consent::default(),
            &crate::endpoints::guard::Surveyor::for_tests(),
        )
    }

    fn carried(flow: &Flow, time: Option<Nanos>) -> FlowOutcome {
        let clock = SteppedClock::default();
        let mut tools = FlowTools {
            clock: &clock,
            watch: &mut (),
            gate: &(),
            hold: &Hold::default(),
            trace: None,
            seed: 7,
            time,
            deadline: Nanos::seconds(10),
        };
        looked(flow).expect("a plan").carry(&mut tools).expect("an outcome")
    }

    #[test]
    fn one_core_copies_and_compares_range() {
        let done = carried(&flow(Way::HostPipelined, 64 << 10, (3 << 20) + 100), None);
        let checked = done.verification.expect("a check");
        assert_eq!((done.bytes.0, checked.bytes.0), ((3 << 20) + 100, (3 << 20) + 100));
        assert_eq!((done.bytes_by_route.host, checked.mismatches), (done.bytes, 0));
        assert_eq!(done.block.len(), 49);
        let again = carried(&flow(Way::HostPipelined, 4096, 8192), Some(Nanos(20)));
        assert!(again.bytes.0 > 8192, "the range begins again: {again:?}");
        assert_eq!(again.verification.expect("a check").bytes.0, 8192);
        let random = Flow { order: Order::Random, ..flow(Way::HostPipelined, 4096, 1 << 20) };
        assert_eq!(carried(&random, None).verification, None);
    }

    #[test]
    fn what_was_not_copied_is_an_error() {
        let planned = looked(&flow(Way::HostPipelined, 4096, 16384)).expect("a plan");
        let region = || host::allocate(Bytes(16384)).expect("memory");
        let mut copied = CoreCopy { source: region(), target: region() };
        fill(3, copied.source.host_bytes_mut().expect("bytes"));
        for start in [0, 4096, 12288] {
            let (source, target) = copied.both(start..start + 4096).expect("a block");
            target.copy_from_slice(source);
        }
        let error = copied.verify(&planned, 16384).expect_err("a block is missing");
        assert!(
            matches!(error, MeasureError::MemoryDiffers { mismatches: 1, offset: Bytes(8192), .. }),
            "{error:?}"
        );
        assert!(copied.verify(&planned, 8192).is_ok(), "what was not reached is not compared");
    }

    #[test]
    fn a_file_in_memory_is_mapped_whole() {
        let done = carried(&flow(Way::HostMapped, 64 << 10, 1 << 20), None);
        assert_eq!((done.bytes.0, done.verification), (1 << 20, None));
        assert_eq!(done.block.len(), 16);
    }

    #[test]
    fn what_one_core_cannot_do_is_refused() {
        let deep = Flow { depth: 2, ..flow(Way::HostPipelined, 4096, 4096) };
        for (flow, reason) in [
            (deep, "its depth is 1"),
            (flow(Way::HostSerial, 4096, 4096), "one core copies"),
            (flow(Way::P2p, 4096, 4096), "one core copies"),
            (flow(Way::HostMapped, 1000, 4000), "multiple of 4096"),
            (flow(Way::HostPipelined, 4096, 1 << 40), "16 GiB at most"),
        ] {
            let error = looked(&flow).expect_err(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
