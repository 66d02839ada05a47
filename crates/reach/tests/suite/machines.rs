//! Every file in `machines/` is a machine, and does what its comment promises.

use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, FunctionKind};
use peerlane_reach::MapType;
use peerlane_reach::decide;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder machines/")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

/// The promise in a comment: `# Between c's memory and a or b: refused.`
fn promise(text: &str) -> Option<MapType> {
    let promise = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .find_map(|line| line.strip_prefix("# Between ")?.split_once(": "))?
        .1;
    [
        ("direct, below the host bridge", MapType::BusAddress),
        ("through the host bridge", MapType::ThroughHostBridge),
        ("refused", MapType::NotSupported),
    ]
    .into_iter()
    .find_map(|(words, map)| promise.starts_with(words).then_some(map))
}

#[test]
fn lab_machines_keep_their_promise() {
    let mut checked = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let fabric = Fabric::read_machine_file(&path).expect("a machine");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        assert_eq!(fabric.name, stem, "a machine is named as its file");
        let Some(expected) = promise(&text) else {
            assert!(fabric.lab.is_none(), "{stem} is for the lab and promises nothing");
            continue;
        };
        let drives = fabric.iter().filter(|(_, function)| function.kind == FunctionKind::Nvme);
        let drives: Vec<_> = drives.map(|(id, _)| id).collect();
        let lenders = fabric.iter().filter(|(_, function)| function.p2pmem.is_some());
        let lenders: Vec<_> = lenders.map(|(id, _)| id).collect();
        for &provider in &lenders {
            for &initiator in drives.iter().filter(|&&id| id != provider) {
                let reach = decide(&fabric, provider, initiator);
                assert_eq!(reach.map, expected, "{stem}: {}", reach.summary());
            }
        }
        let cards = lenders.iter().filter(|id| !drives.contains(id)).count();
        assert!(!lenders.is_empty() && drives.len() + cards > 2, "{stem} has drives, and memory");
        checked.push(stem.to_owned());
    }
    for name in [
        "acs",
        "blocks",
        "card",
        "epyc",
        "files",
        "heads",
        "pair",
        "split",
        "ten",
        "throttled",
        "translating",
    ] {
        assert!(checked.iter().any(|found| found == name), "{name} was checked");
    }
}

#[test]
fn hops_within_and_across_switches_differ() {
    let path = files().into_iter().find(|path| path.ends_with("ten.toml")).expect("ten.toml");
    let fabric = Fabric::read_machine_file(&path).expect("a machine");
    let distance = |one: &str, other: &str| {
        let id = |name| fabric.find(name).expect("a drive");
        decide(&fabric, id(one), id(other)).distance
    };
    assert_eq!(distance("d0", "d4"), Some(4));
    assert_eq!(distance("d0", "d5"), Some(8));
}

#[test]
fn other_machines_are_refused() {
    let path = files().into_iter().find(|path| path.ends_with("two-servers.toml"));
    let fabric = Fabric::read_machine_file(&path.expect("two-servers.toml")).expect("a machine");
    let id = |name| fabric.find(name).expect("a device");
    let reach = |one, other| decide(&fabric, id(one), id(other));
    let refused = reach("compute/gpu", "store/nic");
    assert_eq!((refused.map, refused.distance), (MapType::NotSupported, None));
    assert_eq!(refused.facts[0].to_string(), "store/nic and compute/gpu are in different machines");
    assert_eq!(reach("compute/gpu", "compute/nic").map, MapType::BusAddress);
}
