//! Drives of other machines in words.

use std::fmt::Write as _;

use peerlane_fabric::{Fabric, RemoteDrive};

use super::lines::storage;
use crate::plain::plain;

/// A line for each drive and its namespaces; nothing without drives.
pub(super) fn text(fabric: &Fabric) -> String {
    let mut text = String::new();
    for (index, drive) in fabric.remote_drives.iter().enumerate() {
        if index == 0 {
            text.push_str("drives of other machines (NVMe over Fabrics):\n");
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {}", plain(&line(fabric, drive)));
        let mut namespaces = Vec::new();
        drive.namespaces.iter().for_each(|one| storage(fabric, one, &mut namespaces));
        for namespace in namespaces {
            let _ = writeln!(text, "        {}", plain(&namespace));
        }
    }
    text
}

/// Name, transport, address, NQN, state, and the NIC where it is known.
fn line(fabric: &Fabric, drive: &RemoteDrive) -> String {
    let mut text = format!("{} over {}", drive.name, drive.location.transport);
    if let Some(address) = drive.location.address() {
        let _ = write!(text, " at {address}");
    }
    let through = drive.location.interface.as_ref().map(|interface| match fabric.nic_of(drive) {
        Some(nic) => format!("through {interface} ({})", fabric.function(nic).address_or_name()),
        None => format!("through {interface}"),
    });
    // As for drives of this machine, any other state than `live` stands out.
    let state = drive.state.as_ref().map(|state| match state.as_str() {
        "live" => state.clone(),
        other => other.to_uppercase(),
    });
    for part in [drive.location.subsystem.clone(), state, through].into_iter().flatten() {
        let _ = write!(text, ", {part}");
    }
    text
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{Namespace, NetworkLocation, QueueLimits};
    use peerlane_units::Bytes;

    use super::*;

    fn drive(state: &str) -> RemoteDrive {
        RemoteDrive {
            name: "nvme5".to_owned(),
            location: NetworkLocation {
                transport: "tcp".to_owned(),
                host: Some("fd00::1".to_owned()),
                port: Some("4420".to_owned()),
                subsystem: Some("nqn.lab\nforged".to_owned()),
                interface: Some("eth0".to_owned()),
            },
            state: Some(state.to_owned()),
            namespaces: vec![Namespace {
                name: Some("nvme5n1".to_owned()),
                nsid: Some(1),
                size: Bytes::mib(16),
                limits: QueueLimits::default(),
                is_multipath_head: false,
                stable_writes: None,
                integrity: None,
                partitions: Vec::new(),
            }],
        }
    }

    fn machine(drives: Vec<RemoteDrive>) -> Fabric {
        let fabric = peerlane_testing::machine("nic nic @0000:41:00.0 kernel_names = ['eth0']");
        Fabric { remote_drives: drives, ..fabric }
    }

    #[test]
    fn remote_drive_has_location_state_and_size() {
        let text = super::super::topo(&machine(vec![drive("live")]));
        let expected = "drives of other machines (NVMe over Fabrics):\n    \
            nvme5 over tcp at [fd00::1]:4420, nqn.lab\\u{a}forged, live, through eth0 (0000:41:00.0)\n        \
            nvme5n1 16 MiB, blocks of 512 B\n";
        assert!(text.contains(expected), "{text}");
        assert!(!super::super::topo(&machine(Vec::new())).contains("other machines"));
    }

    #[test]
    fn lost_connection_stands_out() {
        assert!(text(&machine(vec![drive("connecting")])).contains(", CONNECTING, through"));
    }

    #[test]
    fn loop_drive_names_no_address() {
        let location =
            NetworkLocation { transport: "loop".to_owned(), ..NetworkLocation::default() };
        let near = RemoteDrive { location, ..drive("live") };
        assert!(text(&machine(vec![near])).contains("    nvme5 over loop, live\n"));
    }
}
