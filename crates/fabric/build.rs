//! Writes the names of the PCI ID repository as sorted lines. The crate's own tables hold 66 000 pointers, which the
//! loader would relocate at each start, and names of subsystems, which nothing here asks for.

use std::path::Path;
use std::{env, fs, io};

use pci_ids::{Classes, Vendors};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    let write =
        |name: &str, lines: Vec<String>| fs::write(Path::new(&folder).join(name), sorted(lines));
    write(
        "vendors",
        Vendors::iter().map(|vendor| format!("{:04x}{}", vendor.id(), vendor.name())).collect(),
    )?;
    let devices = Vendors::iter().flat_map(|vendor| {
        vendor
            .devices()
            .map(|device| format!("{:04x}{:04x}{}", vendor.id(), device.id(), device.name()))
    });
    write("devices", devices.collect())?;
    let subclasses = Classes::iter().flat_map(|class| {
        class
            .subclasses()
            .map(|subclass| format!("{:02x}{:02x}{}", class.id(), subclass.id(), subclass.name()))
    });
    write("subclasses", subclasses.collect())
}

/// Returns the lines in the order of their numbers.
fn sorted(mut lines: Vec<String>) -> String {
    lines.sort_unstable();
    lines.join("\n")
}
