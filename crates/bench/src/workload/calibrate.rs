//! Rows of a calibration: a drive against host memory, block sizes by depths.
//!
//! The drive is read, and written where it is also a target. A few rows are in random order.

use peerlane_results::{CaseSpec, Order, Path};
use peerlane_sim::calibrate::{BLOCKS, DEPTHS, RANDOM_BLOCKS, RANDOM_DEPTHS};
use peerlane_units::Bytes;

use super::sweep::short;
use super::{Brief, BriefError};

/// Most host memory that a case holds in flight.
const MAX_IN_FLIGHT: Bytes = Bytes::mib(1024);

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let [drive] = brief.drives.as_slice() else { return Err(brief.missing("one drive")) };
    let write = brief.target.contains(drive).then_some(("write", "host", drive.as_str()));
    let directions = [("read", drive.as_str(), "host")].into_iter().chain(write);
    let mut cases = Vec::new();
    for (blocks, depths, order, prefix) in [
        (&BLOCKS[..], &DEPTHS[..], Order::Sequential, ""),
        (&RANDOM_BLOCKS, &RANDOM_DEPTHS, Order::Random, "random "),
    ] {
        let rows = blocks.iter().flat_map(|&block| depths.iter().map(move |&depth| (block, depth)));
        for (block, depth) in rows.filter(|(block, depth)| fits(*block, *depth)) {
            let brief = Brief { depth: Some(depth), order, ..brief.clone() };
            for (op, source, target) in directions.clone() {
                let flow = brief.flow(source, target, Path::HostPipelined, block);
                let name = format!("{prefix}{op} {} depth {depth}", short(block));
                cases.extend(flow.map(|flow| brief.case(name, vec![flow])));
            }
        }
    }
    Ok((drive.clone(), cases))
}

fn fits(block: Bytes, depth: u32) -> bool {
    block.0 * u64::from(depth) <= MAX_IN_FLIGHT.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use peerlane_results::WorkloadKind;

    use super::*;

    fn brief(target: &[&str]) -> Brief {
        Brief {
            drives: vec!["d".to_owned()],
            target: target.iter().map(ToString::to_string).collect(),
            ..Brief::new(WorkloadKind::Calibrate)
        }
    }

    #[test]
    fn only_a_writable_drive_is_written() {
        let (_, reads) = cases(&brief(&[])).expect("cases");
        let (_, both) = cases(&brief(&["d"])).expect("cases");
        // 128M does not fit at depth 32.
        assert_eq!((reads.len(), both.len()), (18, 36));
        assert!(reads.iter().all(|case| case.flows[0].target == "host"));
        let random = both.iter().filter(|case| case.flows[0].order == Order::Random);
        assert_eq!(random.count(), 8);
        let names: BTreeSet<&str> = both.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), both.len());
        assert!(both.iter().all(|case| fits(case.flows[0].block, case.flows[0].depth)));
    }

    #[test]
    fn a_short_range_has_no_rows() {
        assert!(cases(&Brief::new(WorkloadKind::Calibrate)).is_err());
        let short = Brief { length: Some(Bytes(100)), ..brief(&[]) };
        assert_eq!(cases(&short).expect("none").1, Vec::new());
    }
}
