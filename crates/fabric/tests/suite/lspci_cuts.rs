//! Functions that are missing in the text of `lspci`, and the facts that this leaves open.

use peerlane_fabric::lspci::read;
use peerlane_fabric::{Fabric, Parent, RootBus};

/// A bridge with the buses behind it.
fn bridge(address: &str, port: &str, buses: (&str, &str)) -> String {
    let capability = if port.is_empty() {
        "\tCapabilities: <access denied>".to_owned()
    } else {
        format!("\tCapabilities: [40] Express (v2) {port}, MSI 00")
    };
    format!(
        "0000:{address} PCI bridge [0604]: Some [1000:c030] (prog-if 00 [Normal decode])\n\
         \tControl: I/O-\n\tStatus: Cap+\n\
         \tBus: primary={}, secondary={}, subordinate={}, sec-latency=0\n{capability}\n\
         \tKernel driver in use: pcieport\n\n",
        &address[..2],
        buses.0,
        buses.1
    )
}

/// A GPU with more lines of capabilities.
fn gpu(address: &str, capabilities: &str) -> String {
    format!(
        "0000:{address} 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n\
         \tControl: I/O-\n\tStatus: Cap+\n{capabilities}\tKernel driver in use: nvidia\n\n"
    )
}

const HOST: &str =
    "0000:00:00.0 Host bridge [0600]: Some [8086:4c43]\n\tControl: I/O-\n\tStatus: Cap-\n\n";
const ENDPOINT: &str = "\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n";
const DENIED: &str = "\tCapabilities: <access denied>\n";
/// One virtual function, on the next bus.
const VIRTUAL: &str = "\tCapabilities: [100 v1] Single Root I/O Virtualization (SR-IOV)\n\
    \t\tInitial VFs: 8, Total VFs: 8, Number of VFs: 1, Function Dependency Link: 00\n\
    \t\tVF offset: 256, stride: 1, Device ID: 2330\n";

/// The function above one, by name; a host bridge otherwise.
fn above(fabric: &Fabric, address: &str) -> String {
    let one = fabric.functions.iter().find(|one| one.name.ends_with(address)).unwrap();
    match one.parent {
        Parent::Function(id) => fabric.function(id).name.clone(),
        Parent::Bridge(id) => {
            let bridge = &fabric.bridges[id.0];
            format!("{} {:?}", bridge.name, bridge.root_bus)
        }
    }
}

/// A switch with two ports, the second with virtual functions below it.
fn switch(second: &str) -> String {
    let physical = format!("{ENDPOINT}{VIRTUAL}");
    [
        HOST,
        &bridge("00:01.0", "Root Port (Slot+)", ("01", "1f")),
        &bridge("01:00.0", "Upstream Port", ("02", "1f")),
        &bridge("02:00.0", "Downstream Port (Slot+)", ("03", "04")),
        second,
        &gpu("03:00.0", ENDPOINT),
        &gpu("05:00.0", &physical),
        &gpu("06:00.0", ENDPOINT),
    ]
    .concat()
}

#[test]
fn virtual_functions_follow_their_physical_one() {
    let port = bridge("02:01.0", "Downstream Port (Slot+)", ("05", "06"));
    let whole = read(&switch(&port)).unwrap();
    assert_eq!(above(&whole, "06:00.0"), "0000:02:01.0");
    assert_eq!(above(&whole, "05:00.0"), "0000:02:01.0");
    let cut = read(&switch("...\n\n")).unwrap();
    assert_eq!(above(&cut, "05:00.0"), "pci0000:05 Assumed");
    assert_eq!(above(&cut, "06:00.0"), "pci0000:06 Assumed");
}

#[test]
fn lost_heading_is_a_cut() {
    let text = [
        HOST,
        &bridge("00:01.0", "Root Port (Slot+)", ("01", "01")),
        &gpu("01:00.0", ENDPOINT),
        &HOST.replace("0000:00:", "0000:80:"),
        &bridge("80:01.0", "Root Port (Slot+)", ("81", "81")),
        &gpu("81:00.0", ENDPOINT),
    ]
    .concat();
    let states = |text: &str| -> Vec<RootBus> {
        read(text).unwrap().bridges.iter().map(|one| one.root_bus).collect()
    };
    assert_eq!(states(&text), [RootBus::Whole; 2]);
    for heading in text.lines().filter(|line| line.starts_with("0000:")) {
        let lost = text.replace(&format!("{heading}\n"), "");
        assert!(!states(&lost).contains(&RootBus::Whole), "{heading}");
        let squeezed = lost.replace("\n\n", "\n");
        assert!(!states(&squeezed).contains(&RootBus::Whole), "{heading}");
    }
    let foreign = format!("{text}$ lscpu\nCPU(s): 8\n  Model name: Some\n    Stepping: 7\n");
    assert_eq!(states(&foreign), [RootBus::Whole; 2]);
}

#[test]
fn siblings_without_root_are_not_virtual() {
    let whole = [
        HOST,
        &bridge("00:01.0", "", ("01", "1f")),
        &bridge("01:00.0", "", ("02", "1f")),
        &bridge("02:00.0", "", ("03", "03")),
        &bridge("02:01.0", "", ("04", "04")),
        &gpu("03:00.0", DENIED),
        &gpu("04:00.0", DENIED),
    ]
    .concat();
    assert_eq!(above(&read(&whole).unwrap(), "04:00.0"), "0000:02:01.0");
    let cut = whole.replace(&bridge("02:01.0", "", ("04", "04")), "...\n\n");
    assert_eq!(above(&read(&cut).unwrap(), "04:00.0"), "pci0000:04 Assumed");
    let virtual_one = [
        HOST,
        &bridge("00:01.0", "", ("01", "02")),
        &gpu("01:00.0", DENIED),
        &gpu("02:00.0", DENIED),
    ]
    .concat();
    assert_eq!(above(&read(&virtual_one).unwrap(), "02:00.0"), "0000:00:01.0");
}

#[test]
fn pcie_bridge_without_port_is_assumed() {
    let bridge = bridge("01:00.0", "PCI-Express to PCI/PCI-X Bridge", ("02", "02"));
    let fabric = read(&[HOST, &bridge].concat()).unwrap();
    assert_eq!(above(&fabric, "01:00.0"), "pci0000:01 Assumed");
}

#[test]
fn cut_bus_range_is_missing() {
    let port = bridge("00:01.0", "Root Port (Slot+)", ("01", "01"));
    let rest = bridge("01:00.0", "", ("02", "02"));
    let text = [HOST, &port, &rest].concat();
    let fabric = read(&text.replace("subordinate=01, sec-latency=0", "subordinate=")).unwrap();
    assert_eq!(above(&fabric, "01:00.0"), "pci0000:01 Assumed");
    assert_eq!(fabric.bridges[0].root_bus, RootBus::Partial);
}

#[test]
fn function_without_registers_has_assumed_bus() {
    let peripheral = |capability: &str| {
        format!(
            "0000:02:00.0 System peripheral [0880]: Some [8086:1234]\n\tStatus: Cap+\n{capability}"
        )
    };
    let port = bridge("00:01.0", "Root Port (Slot+)", ("01", "01"));
    let state = |capability| {
        read(&[HOST, &port, &gpu("01:00.0", ENDPOINT), &peripheral(capability)].concat()).unwrap()
    };
    assert_eq!(above(&state(DENIED), "02:00.0"), "pci0000:02 Assumed");
    let integrated = "\tCapabilities: [40] Express (v2) Root Complex Integrated Endpoint, MSI 00\n";
    assert_eq!(above(&state(integrated), "02:00.0"), "pci0000:02 Whole");
}
