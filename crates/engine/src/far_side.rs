//! The way of payload on the other machine of a remote drive.

use peerlane_results::{CopyRecord, EndpointFacts, ExportStatus, FarSide, MemoryKind};

/// A status of another export than those of a copy.
#[derive(Debug, thiserror::Error)]
#[error("it is of the export {subsystem}, which is no end of this copy")]
pub struct OtherExport {
    subsystem: String,
}

/// Adds what the other machine wrote about its export.
///
/// # Errors
/// [`OtherExport`]; the record is unchanged then.
pub fn add_far_status(record: &mut CopyRecord, status: &ExportStatus) -> Result<(), OtherExport> {
    let ends = [&record.source, &record.target];
    if !ends.iter().any(|end| is_of(status, end)) {
        return Err(OtherExport { subsystem: status.subsystem.clone() });
    }
    record.far_sides = far_sides(ends, Some(status));
    Ok(())
}

/// The other machines of remote ends.
pub(crate) fn far_sides(ends: [&EndpointFacts; 2], status: Option<&ExportStatus>) -> Vec<FarSide> {
    let side = |end: &EndpointFacts| far_side(end, status.filter(|status| is_of(status, end)));
    ends.into_iter().filter_map(side).collect()
}

fn is_of(status: &ExportStatus, end: &EndpointFacts) -> bool {
    let network = end.network.as_ref();
    network.and_then(|network| network.subsystem.as_ref()) == Some(&status.subsystem)
}

fn far_side(end: &EndpointFacts, status: Option<&ExportStatus>) -> Option<FarSide> {
    let network = end.network.as_ref()?;
    let (memory, reason) = match status {
        _ if network.transport == "tcp" => {
            (Some(MemoryKind::Host), "over tcp payload goes through host memory".to_owned())
        }
        None => {
            (None, "not known: `--far-status` takes what `export --status` wrote there".to_owned())
        }
        Some(status) => by_status(status),
    };
    Some(FarSide { end: end.path.clone(), memory, reason, status: status.cloned() })
}

/// Reads the memory out of a status. A pool that was never seen in use proves nothing.
fn by_status(status: &ExportStatus) -> (Option<MemoryKind>, String) {
    if status.memory == MemoryKind::Host {
        return (Some(MemoryKind::Host), "its export uses host memory".to_owned());
    }
    let used = status.pools.iter().filter(|pool| pool.most_used.0 > 0);
    let used: Vec<String> = used
        .map(|pool| format!("{} of {} of {}", pool.most_used, pool.size, pool.address))
        .collect();
    if used.is_empty() {
        return (None, "not known: no P2P memory was seen in use there".to_owned());
    }
    (Some(MemoryKind::P2pmem), format!("P2P memory was in use there: at most {}", used.join(", ")))
}

#[cfg(test)]
mod tests {
    use peerlane_results::{EXPORT_STATUS_SCHEMA, NetworkFacts, PoolUse};
    use peerlane_units::Bytes;

    use super::*;

    fn end(transport: &str) -> EndpointFacts {
        EndpointFacts {
            path: "/dev/nvme3n1".to_owned(),
            network: Some(NetworkFacts {
                transport: transport.to_owned(),
                address: None,
                subsystem: Some("lab".to_owned()),
            }),
            ..crate::guard::tests::facts()
        }
    }

    fn status(memory: MemoryKind, most_used: u64) -> ExportStatus {
        let pool = PoolUse {
            address: "0000:05:00.0".to_owned(),
            size: Bytes::mib(1),
            most_used: Bytes(most_used),
        };
        ExportStatus {
            schema: EXPORT_STATUS_SCHEMA.to_owned(),
            subsystem: "lab".to_owned(),
            uuid: String::new(),
            memory,
            pools: vec![pool],
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            has_ended: true,
        }
    }

    #[test]
    fn far_side_is_known_by_status_only() {
        let memory = |transport: &str, status: Option<ExportStatus>| {
            far_side(&end(transport), status.as_ref()).unwrap().memory
        };
        assert_eq!(memory("tcp", None), Some(MemoryKind::Host));
        assert_eq!(memory("rdma", None), None);
        assert_eq!(memory("rdma", Some(status(MemoryKind::Host, 0))), Some(MemoryKind::Host));
        assert_eq!(memory("rdma", Some(status(MemoryKind::P2pmem, 0))), None);
        let used = Some(status(MemoryKind::P2pmem, 4096));
        assert_eq!(memory("rdma", used), Some(MemoryKind::P2pmem));
        assert_eq!(far_side(&crate::guard::tests::facts(), None), None);
    }
}
