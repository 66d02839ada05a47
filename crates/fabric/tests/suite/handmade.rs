//! The fixtures that are not captured but made by hand, by their `topology.toml`.

use std::path::{Path, PathBuf};

use peerlane_fabric::Fabric;

const NAMES: [&str; 8] =
    ["r7515", "sr635", "donard", "eight-gpus", "two-sockets", "arm-server", "laptop", "cloud-vm"];

/// The folder of all fixtures.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs")
}

pub(crate) fn machine(name: &str) -> Fabric {
    Fabric::read_machine_file(&folder().join(name).join("topology.toml")).unwrap()
}

pub(crate) fn all() -> Vec<Fabric> {
    NAMES.map(machine).into()
}
