//! What the model needs to know of a machine: of a drive sizes by depths, read and, where it may be written, written,
//! few of them in random order, too; of the host what one core copies and maps, and reads by way of the page cache; of
//! memories of devices, the way from the drive to each and, where the drive may be written, back.

use peerlane_results::{CaseSpec, Flow, Order, Path};
use peerlane_sim::calibrate::{
    BLOCKS, CACHED_BLOCKS, DEPTHS, HOST_BLOCKS, HOST_RANGE, MEMORY_BLOCKS, MEMORY_DEPTHS,
    RANDOM_BLOCKS, RANDOM_DEPTHS,
};
use peerlane_units::Bytes;

use super::sweep::short;
use super::{Brief, BriefError, is_memory};

/// Host memory that a case may hold in flight.
const IN_FLIGHT_MAX: Bytes = Bytes::mib(1024);

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let [drive] = brief.drives.as_slice() else { return Err(brief.missing("one drive")) };
    let is_of_a_device =
        |name: &String| is_memory(name) && !matches!(name.as_str(), "host" | "null");
    if !brief.memories.iter().all(is_of_a_device) {
        return Err(brief
            .missing("memories of devices: `cmb:NAME`, `p2pmem:NAME`, `fpga:ADDRESS` or `gpu:N`"));
    }
    let rows = Rows { brief, drive };
    let mut cases = rows.of_the_drive();
    if !cases.is_empty() {
        cases.extend(rows.of_the_host());
        cases.extend(brief.memories.iter().flat_map(|memory| rows.of_a_memory(memory)));
    }
    Ok((drive.clone(), cases))
}

struct Rows<'a> {
    brief: &'a Brief,
    drive: &'a str,
}

impl Rows<'_> {
    fn of_the_drive(&self) -> Vec<CaseSpec> {
        let mut cases = Vec::new();
        for (blocks, depths, order) in [
            (&BLOCKS[..], &DEPTHS[..], Order::Sequential),
            (&RANDOM_BLOCKS, &RANDOM_DEPTHS, Order::Random),
        ] {
            let word = match order {
                Order::Sequential => "",
                Order::Random => "random ",
            };
            for (block, depth) in each(blocks, depths) {
                let brief = Brief { depth: Some(depth), order, ..self.brief.clone() };
                for (op, source, target) in self.both_ways("host") {
                    let flow = brief.flow(source, target, Path::HostPipelined, block);
                    let name = format!("{word}{op} {} depth {depth}", short(block));
                    cases.extend(flow.map(|flow| brief.case(name, vec![flow])));
                }
            }
        }
        cases
    }

    /// One core by itself, and what it does to what is read by way of the page cache.
    fn of_the_host(&self) -> Vec<CaseSpec> {
        let mut cases = Vec::new();
        for block in HOST_BLOCKS {
            let of = |path| {
                let flow = Flow::new("host", "host", path);
                Flow { block, depth: 1, bytes: HOST_RANGE, ..flow }
            };
            let copy = vec![of(Path::HostPipelined)];
            cases.push(self.brief.case(format!("copy {}", short(block)), copy));
            // Once, since a range that is mapped again has to be unmapped first, which takes as long.
            let (name, flows) = (format!("map {}", short(block)), vec![of(Path::HostMapped)]);
            cases.push(CaseSpec { name, flows, time_ns: None });
        }
        for block in CACHED_BLOCKS {
            for path in [Path::HostPageCache, Path::HostMapped] {
                let flow = self.brief.flow(self.drive, "host", path, block);
                let name = format!("read {} {path}", short(block));
                cases.extend(flow.map(|flow| self.brief.case(name, vec![flow])));
            }
        }
        cases
    }

    fn of_a_memory(&self, memory: &str) -> Vec<CaseSpec> {
        let mut cases = Vec::new();
        for (block, depth) in each(&MEMORY_BLOCKS, &MEMORY_DEPTHS) {
            let brief = Brief { depth: Some(depth), via: None, ..self.brief.clone() };
            for (op, source, target) in self.both_ways(memory) {
                let flow = brief.flow(source, target, Path::P2p, block);
                let way = if op == "read" { "to" } else { "from" };
                let name = format!("{op} {} depth {depth} {way} {memory}", short(block));
                cases.extend(flow.map(|flow| brief.case(name, vec![flow])));
            }
        }
        cases
    }

    /// The drive against a memory, each direction that is allowed.
    fn both_ways<'b>(
        &'b self,
        memory: &'b str,
    ) -> impl Iterator<Item = (&'static str, &'b str, &'b str)> {
        let may_be_written = self.brief.target.iter().any(|target| target == self.drive);
        let write = may_be_written.then_some(("write", memory, self.drive));
        [("read", self.drive, memory)].into_iter().chain(write)
    }
}

/// Every size at every depth that does not hold too much.
fn each(blocks: &[Bytes], depths: &[u32]) -> Vec<(Bytes, u32)> {
    let all = blocks.iter().flat_map(|&block| depths.iter().map(move |&depth| (block, depth)));
    all.filter(|(block, depth)| block.0 * u64::from(*depth) <= IN_FLIGHT_MAX.0).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use peerlane_results::WorkloadKind;
    use peerlane_units::Nanos;

    use super::*;

    fn brief(target: &[&str], memories: &[&str]) -> Brief {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Brief {
            drives: vec!["d".to_owned()],
            target: owned(target),
            memories: owned(memories),
            time_ns: Some(Nanos::seconds(10)),
            ..Brief::of(WorkloadKind::Calibrate)
        }
    }

    fn flows(cases: &[CaseSpec]) -> impl Iterator<Item = &Flow> {
        cases.iter().map(|case| &case.flows[0])
    }

    #[test]
    fn a_drive_that_may_be_written_gets_both_directions_and_any_other_is_read() {
        let (_, reads) = cases(&brief(&[], &[])).expect("cases");
        let (_, both) = cases(&brief(&["d"], &[])).expect("cases");
        // The largest block does not fit the deepest queue; ten rows are of the host.
        assert_eq!((reads.len(), both.len()), (18 + 10, 36 + 10));
        let random = flows(&both).filter(|flow| flow.order == Order::Random);
        assert_eq!(random.count(), 8);
        assert!(flows(&reads).all(|flow| flow.target == "host"));
        let names: BTreeSet<&str> = both.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), both.len());
    }

    #[test]
    fn the_host_copies_maps_and_reads_by_the_page_cache() {
        let (_, all) = cases(&brief(&[], &[])).expect("cases");
        let of = |source: &str, path| {
            let is_it = move |flow: &&Flow| flow.source == source && flow.path == path;
            flows(&all).filter(is_it).count()
        };
        assert_eq!((of("host", Path::HostPipelined), of("host", Path::HostMapped)), (3, 3));
        assert_eq!((of("d", Path::HostPageCache), of("d", Path::HostMapped)), (2, 2));
        let timed = |case: &&CaseSpec| case.time_ns.is_none();
        let names: Vec<&str> = all.iter().filter(timed).map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["map 64K", "map 1M", "map 16M"], "a map is made once");
    }

    #[test]
    fn a_memory_is_reached_both_ways_where_the_drive_may_be_written() {
        let memories = ["cmb:a", "gpu:0"];
        let (_, reads) = cases(&brief(&[], &memories)).expect("cases");
        let (_, both) = cases(&brief(&["d"], &memories)).expect("cases");
        let p2p = |cases: &[CaseSpec]| flows(cases).filter(|flow| flow.path == Path::P2p).count();
        assert_eq!((p2p(&reads), p2p(&both)), (12, 24));
        assert!(both.iter().any(|case| case.name == "write 4K depth 32 from cmb:a"));
        for wrong in ["host", "null", "e"] {
            assert!(cases(&brief(&[], &[wrong])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn in_flight_is_bounded_and_a_drive_without_room_for_a_block_has_no_row_at_all() {
        let (_, both) = cases(&brief(&["d"], &[])).expect("cases");
        for flow in flows(&both) {
            assert!(flow.block.0 * u64::from(flow.depth) <= IN_FLIGHT_MAX.0);
        }
        assert!(cases(&Brief::of(WorkloadKind::Calibrate)).is_err());
        let short = Brief { length: Some(Bytes(100)), ..brief(&[], &[]) };
        assert_eq!(cases(&short).expect("none").1, Vec::new());
    }
}
