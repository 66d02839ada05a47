//! What the model needs to know of a drive: sizes by depths, read and, where it may be written, written; few of
//! them in random order, too.

use peerlane_results::{CaseSpec, Order, Path};
use peerlane_sim::calibrate::{BLOCKS, DEPTHS, RANDOM_BLOCKS, RANDOM_DEPTHS};
use peerlane_units::Bytes;

use super::{Brief, BriefError};

/// Host memory that a case may hold in flight.
const IN_FLIGHT_MAX: Bytes = Bytes::mib(1024);

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let [drive] = brief.drives.as_slice() else { return Err(brief.missing("one drive")) };
    let mut cases = Vec::new();
    for (blocks, depths, order) in [
        (&BLOCKS[..], &DEPTHS[..], Order::Sequential),
        (&RANDOM_BLOCKS, &RANDOM_DEPTHS, Order::Random),
    ] {
        for &block in blocks {
            for &depth in depths {
                let brief = Brief { depth: Some(depth), order, ..brief.clone() };
                rows(&brief, drive, block, depth, &mut cases);
            }
        }
    }
    Ok((drive.clone(), cases))
}

/// A size at a depth, in each direction that is allowed.
fn rows(brief: &Brief, drive: &str, block: Bytes, depth: u32, cases: &mut Vec<CaseSpec>) {
    if block.0 * u64::from(depth) > IN_FLIGHT_MAX.0 {
        return;
    }
    let size = super::sweep::short(block);
    let order = match brief.order {
        Order::Sequential => "",
        Order::Random => "random ",
    };
    for (word, source, target) in [("read", drive, "host"), ("write", "host", drive)] {
        if word == "write" && !brief.target.iter().any(|target| target == drive) {
            continue;
        }
        let flow = brief.flow(source, target, Path::HostPipelined, block);
        let name = format!("{order}{word} {size} depth {depth}");
        cases.extend(flow.map(|flow| brief.case(name, vec![flow])));
    }
}

#[cfg(test)]
mod tests {
    use peerlane_results::WorkloadKind;
    use peerlane_units::Nanos;

    use super::*;

    fn brief(target: &[&str]) -> Brief {
        Brief {
            drives: vec!["d".to_owned()],
            target: target.iter().map(ToString::to_string).collect(),
            time_ns: Some(Nanos::seconds(10)),
            ..Brief::of(WorkloadKind::Calibrate)
        }
    }

    #[test]
    fn a_drive_that_may_be_written_gets_both_directions_and_any_other_is_read() {
        let (_, reads) = cases(&brief(&[])).expect("cases");
        let (_, both) = cases(&brief(&["d"])).expect("cases");
        // The largest block does not fit the deepest queue.
        assert_eq!((reads.len(), both.len()), (18, 36));
        let random = both.iter().filter(|case| case.flows[0].order == Order::Random);
        assert_eq!(random.clone().count(), 8);
        assert!(random.clone().all(|case| case.name.starts_with("random ")));
        assert!(reads.iter().all(|case| case.flows[0].source == "d"));
        let names: std::collections::BTreeSet<&str> =
            both.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), both.len());
    }

    #[test]
    fn in_flight_is_bounded() {
        let (_, both) = cases(&brief(&["d"])).expect("cases");
        for flow in both.iter().flat_map(|case| &case.flows) {
            assert!(flow.block.0 * u64::from(flow.depth) <= IN_FLIGHT_MAX.0);
        }
        assert!(cases(&Brief::of(WorkloadKind::Calibrate)).is_err());
    }
}
