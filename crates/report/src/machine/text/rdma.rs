//! RDMA devices in words.

use std::fmt::Write as _;

use peerlane_fabric::Fabric;
use peerlane_reach::rdma_lines;

use crate::plain::plain;

/// A line for each port and its addresses; nothing without devices.
pub(super) fn text(fabric: &Fabric) -> String {
    let mut text = String::new();
    for line in rdma_lines(fabric) {
        if text.is_empty() {
            text.push_str("RDMA devices:\n");
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {}", plain(&line.text));
        for gid in line.gids {
            let _ = writeln!(text, "        {}", plain(&gid.to_string()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{RdmaDevice, RdmaGid, RdmaPort};

    use super::*;

    #[test]
    fn ports_have_their_addresses_below() {
        let gid = RdmaGid { index: 1, address: "::ffff:10.0.0.1".to_owned(), kind: None };
        let port = RdmaPort { number: 1, gids: vec![gid], ..RdmaPort::default() };
        let device = RdmaDevice { name: "rxe\n0".to_owned(), function: None, ports: vec![port] };
        let fabric = peerlane_testing::machine("nic nic");
        let topo = super::super::topo(&Fabric { rdma_devices: vec![device], ..fabric.clone() });
        let expected = "RDMA devices:\n    rxe\\u{a}0 (software, no DMA) port 1\n        \
                        GID[1] ::ffff:10.0.0.1\n";
        assert!(topo.contains(expected), "{topo}");
        assert!(!super::super::topo(&fabric).contains("RDMA devices"));
    }
}
