//! The payload's memory on the machine that serves a remote drive.

use peerlane_results::{CompletedCopy, EndpointFacts, ExportStatus, FarSide, MemoryKind};
use peerlane_units::Bytes;

/// A status of an export that is not an end of the copy.
#[derive(Debug, thiserror::Error)]
#[error("it is of the export {subsystem}, which is not source or target of this copy")]
pub struct OtherExport {
    subsystem: String,
}

/// The other machine's account of its export, before and after a copy.
#[derive(Debug, Clone, Copy)]
pub struct FarStatus<'a> {
    /// Read before the first byte moved.
    pub before: &'a ExportStatus,
    /// Read after the last.
    pub after: &'a ExportStatus,
}

/// One count of a status.
type Count = fn(&ExportStatus) -> Bytes;

impl FarStatus<'_> {
    /// Adds the account to the record of the copy.
    ///
    /// # Errors
    /// [`OtherExport`]; the record is unchanged then.
    pub fn add_to(&self, record: &mut CompletedCopy) -> Result<(), OtherExport> {
        let ends = [&record.source, &record.target];
        if !ends.iter().any(|end| is_of(self.after, end)) {
            return Err(OtherExport { subsystem: self.after.subsystem.clone() });
        }
        record.far_sides = far_sides(ends, record.content.data, Some(*self));
        Ok(())
    }

    /// Returns true if the account has all payload of a copy. It is written each second only.
    pub fn counts(&self, record: &CompletedCopy) -> bool {
        let moved = record.content.data;
        (!is_of(self.after, &record.source) || self.has_counted(moved, |status| status.read))
            && (!is_of(self.after, &record.target)
                || self.has_counted(moved, |status| status.written))
    }

    fn has_counted(&self, moved: Bytes, count: Count) -> bool {
        self.before.uuid == self.after.uuid
            && count(self.after).0.saturating_sub(count(self.before).0) >= moved.0
    }

    /// Reads the memory out of an account. P2P memory that was not seen in use proves nothing.
    fn memory(&self) -> (Option<MemoryKind>, String) {
        if self.after.memory == MemoryKind::Host {
            return (Some(MemoryKind::Host), "its export uses host memory".to_owned());
        }
        let samples_before = |address: &str| {
            let pool = self.before.pools.iter().find(|pool| pool.address == address);
            pool.map_or(0, |pool| pool.samples_in_use)
        };
        let used = self.after.pools.iter();
        let used = used.filter(|pool| pool.samples_in_use > samples_before(&pool.address));
        let used: Vec<&str> = used.map(|pool| pool.address.as_str()).collect();
        if used.is_empty() {
            return (None, "unknown: no P2P memory was seen in use there".to_owned());
        }
        let reason = format!("P2P memory of {} was in use there meanwhile", used.join(", "));
        (Some(MemoryKind::P2pmem), reason)
    }
}

/// The other machines of remote ends that `moved` bytes went between.
pub(crate) fn far_sides(
    ends: [&EndpointFacts; 2],
    moved: Bytes,
    status: Option<FarStatus<'_>>,
) -> Vec<FarSide> {
    let [source, target] = ends;
    let read: Count = |status| status.read;
    let written: Count = |status| status.written;
    [(source, read), (target, written)]
        .into_iter()
        .filter_map(|(end, count)| {
            let transport = &end.network.as_ref()?.transport;
            let status = status.filter(|status| is_of(status.after, end));
            let (memory, reason) = match status {
                None => (None, without_status(transport)),
                Some(status) if status.has_counted(moved, count) => status.memory(),
                Some(_) => (None, "unknown: the status there does not count this copy".to_owned()),
            };
            let status = status.map(|status| status.after.clone());
            Some(FarSide { end: end.path.clone(), memory, reason, status })
        })
        .collect()
}

fn without_status(transport: &str) -> String {
    let known = "`--far-status` takes what `export --status` wrote there";
    match transport {
        "tcp" => format!("unknown: Linux copies through host memory over tcp; {known}"),
        _ => format!("unknown: {known}"),
    }
}

fn is_of(status: &ExportStatus, end: &EndpointFacts) -> bool {
    let network = end.network.as_ref();
    network.and_then(|network| network.subsystem.as_ref()) == Some(&status.subsystem)
}

#[cfg(test)]
mod tests {
    use peerlane_results::{EXPORT_STATUS_SCHEMA, NetworkFacts, PoolUse};

    use super::*;
    use crate::endpoints::guard::tests::facts;

    fn remote() -> EndpointFacts {
        let network = NetworkFacts {
            transport: "rdma".to_owned(),
            address: None,
            subsystem: Some("lab".to_owned()),
        };
        EndpointFacts { network: Some(network), ..facts() }
    }

    fn status(memory: MemoryKind, written: u64, samples_in_use: u64) -> ExportStatus {
        let pool = PoolUse {
            address: "0000:05:00.0".to_owned(),
            size: Bytes::mib(1),
            most_used: Bytes(4096),
            samples_in_use,
        };
        ExportStatus {
            schema: EXPORT_STATUS_SCHEMA.to_owned(),
            subsystem: "lab".to_owned(),
            uuid: "1".to_owned(),
            memory,
            pools: vec![pool],
            read: Bytes::ZERO,
            written: Bytes(written),
            has_ended: false,
        }
    }

    fn memory_after(memory: MemoryKind, written: u64, samples_in_use: u64) -> Option<MemoryKind> {
        let (before, after) = (status(memory, 100, 5), status(memory, written, samples_in_use));
        let known = FarStatus { before: &before, after: &after };
        let sides = far_sides([&facts(), &remote()], Bytes(50), Some(known));
        let [side] = &sides[..] else { panic!("{sides:?}") };
        side.memory
    }

    #[test]
    fn far_side_without_status_is_not_known() {
        let sides = far_sides([&remote(), &facts()], Bytes(50), None);
        assert_eq!((sides.len(), sides[0].memory), (1, None));
    }

    #[test]
    fn status_must_count_the_copy() {
        assert_eq!(memory_after(MemoryKind::Host, 150, 5), Some(MemoryKind::Host));
        assert_eq!(memory_after(MemoryKind::Host, 149, 5), None);
    }

    #[test]
    fn earlier_use_of_p2p_memory_proves_nothing() {
        assert_eq!(memory_after(MemoryKind::P2pmem, 150, 5), None);
        assert_eq!(memory_after(MemoryKind::P2pmem, 150, 6), Some(MemoryKind::P2pmem));
    }
}
