use std::path::Path;

use peerlane_fabric::{Fabric, LinkSpeed};
use peerlane_units::{ByteRate, Bytes};

use super::*;

pub(crate) const GEN4_X4: LinkSpeed = LinkSpeed { megatransfers: 16_000, width: 4 };

fn wire() -> Wire {
    Wire::pcie(GEN4_X4, Bytes(256))
}

fn machine(name: &str) -> Fabric {
    let file = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Fabric::read_machine_file(Path::new(&file)).unwrap()
}

/// Equal devices `d0`, `d1` and so on, and `host`, below a root complex that limits nothing.
pub(crate) fn star(
    count: usize,
    device: &ModelEndpoint,
    host: HostMemory,
    wire: Wire,
) -> (Topology, Vec<NodeIndex>, NodeIndex) {
    let mut t = Topology::new();
    let root = t.add("root", NodeKind::RootComplex(RootComplex::default()));
    let on_chip = Wire::bare(ByteRate(1_000_000_000_000), Picos::ZERO);
    let host = t.add_below(root, "host", NodeKind::HostMemory(host), on_chip);
    let kind = NodeKind::Endpoint(device.clone());
    let add = |number| t.add_below(root, format!("d{number}"), kind.clone(), wire);
    let devices = (0..count).map(add).collect();
    (t, devices, host)
}

/// Two sockets; below the first a switch with two devices and a device next to it.
fn two_sockets() -> Topology {
    let mut t = Topology::new();
    let root0 = t.add("root0", NodeKind::RootComplex(RootComplex::default()));
    let root1 = t.add("root1", NodeKind::RootComplex(RootComplex::default()));
    let switch = t.add_below(root0, "switch", NodeKind::Switch(Switch::default()), wire());
    for (above, name) in [(switch, "a"), (switch, "b"), (root0, "c"), (root1, "d")] {
        t.add_below(above, name, NodeKind::Endpoint(ModelEndpoint::default()), wire());
    }
    let bare = Wire::bare(ByteRate(1_000_000_000), Picos::ZERO);
    t.add_below(root0, "host0", NodeKind::HostMemory(HostMemory::default()), bare);
    t.join(root0, root1, bare);
    t
}

fn names(t: &Topology, from: &str, to: &str) -> Vec<String> {
    let path = t.path(t.find(from).unwrap(), t.find(to).unwrap()).unwrap();
    path.iter().map(|&(link, way)| t.node(t.receiver(link, way)).name.clone()).collect()
}

#[test]
fn paths_turn_at_common_node() {
    let t = two_sockets();
    assert_eq!(names(&t, "a", "b"), ["switch", "b"]);
    assert_eq!(names(&t, "a", "c"), ["switch", "root0", "c"]);
    assert_eq!(names(&t, "d", "b"), ["root1", "root0", "switch", "b"]);
    assert_eq!(names(&t, "host0", "a"), ["root0", "switch", "a"]);
}

#[test]
fn paths_are_symmetric() {
    let t = two_sockets();
    let nodes = || (0..u32::try_from(t.nodes().len()).unwrap()).map(NodeIndex);
    for (from, to) in nodes().flat_map(|from| nodes().map(move |to| (from, to))) {
        if from != to {
            let mut back = t.path(to, from).unwrap();
            back.reverse();
            back.iter_mut().for_each(|hop| hop.1 = hop.1.reverse());
            assert_eq!(t.path(from, to).unwrap(), back);
        }
    }
}

#[test]
fn root_complexes_count_between_peers_only() {
    let t = two_sockets();
    let roots = |from: &str, to: &str| {
        let path = t.path(t.find(from).unwrap(), t.find(to).unwrap()).unwrap();
        t.peer_roots(&path).len()
    };
    assert_eq!([roots("a", "b"), roots("a", "c"), roots("a", "d")], [0, 1, 2]);
    assert_eq!([roots("a", "host0"), roots("host0", "d")], [0, 0]);
}

#[test]
fn unjoined_trees_have_no_path() {
    let mut t = two_sockets();
    let lone = t.add("root2", NodeKind::RootComplex(RootComplex::default()));
    let error = t.path(t.find("a").unwrap(), lone).unwrap_err();
    assert_eq!(error, PathError::Apart { from: "a".into(), to: "root2".into() });
    assert!(matches!(t.path(lone, lone), Err(PathError::SameNode(_))));
}

#[test]
fn ports_become_ends_of_links() {
    let topology =
        |name| Topology::from_fabric(&machine(name), &ModelParameters::default()).unwrap();
    let t = topology("ten");
    assert_eq!(names(&t, "d0", "d9"), ["switch-0", "switch", "switch-1", "d9"]);
    assert_eq!(names(&t, "d0", "host0"), ["switch-0", "switch", "pci0000:00", "host0"]);
    // Its ports redirect.
    assert_eq!(names(&topology("acs"), "a", "b"), ["switch", "pci0000:00", "switch", "b"]);
}

#[test]
fn wires_have_rate_of_link() {
    for (megatransfers, width) in [(2_500, 1), (8_000, 4), (64_000, 16)] {
        let speed = LinkSpeed { megatransfers, width };
        let (found, expected) = (Wire::pcie(speed, Bytes(256)).rate(), speed.usable_rate());
        assert!(found.0.abs_diff(expected.0) * 10_000 < expected.0, "{speed}: {found}");
    }
}
