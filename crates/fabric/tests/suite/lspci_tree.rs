//! Text that the real `lspci` prints of a machine: a folder in the shape of sysfs for it, with
//! configuration spaces that have every register that it decodes.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use peerlane_fabric::{
    Acs, Bdf, BridgeId, DriverBinding, Fabric, Function, FunctionId, FunctionKind, LinkSpeed,
    Parent,
};

use peerlane_testing::skip;

/// The text that `lspci` prints of a machine; `None`, with a skip, if there is no `lspci`.
pub(crate) fn printed(fabric: &Fabric, options: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    write(fabric, folder.path());
    run(folder.path(), options)
}

/// Runs `lspci` on a folder that [`write`] filled.
pub(crate) fn run(folder: &Path, options: &[&str]) -> Option<String> {
    let path = format!("sysfs.path={}", folder.join("bus/pci").display());
    let output =
        Command::new("lspci").args(["-A", "linux-sysfs", "-O", &path]).args(options).output();
    match output {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            skip("lspci", &String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            skip("lspci", &format!("lspci: {error}"));
            None
        }
    }
}

/// Gives every function an address as firmware numbers buses, depth first, and every host bridge its name.
pub(crate) fn number(fabric: &mut Fabric) {
    let mut below: HashMap<Parent, Vec<FunctionId>> = HashMap::new();
    for (id, function) in fabric.iter() {
        below.entry(function.parent).or_default().push(id);
    }
    let mut next = 0;
    for bridge in 0..fabric.bridges.len() {
        fabric.bridges[bridge].name = format!("pci0000:{next:02x}");
        let mut stack = vec![Parent::Bridge(BridgeId(bridge))];
        while let Some(parent) = stack.pop() {
            let Some(children) = below.get(&parent) else { continue };
            let bus = next;
            next += 1;
            for (device, &id) in (0..).zip(children) {
                fabric.functions[id.0].address = Bdf::new(0, bus, device, 0);
            }
            stack.extend(children.iter().rev().map(|&id| Parent::Function(id)));
        }
    }
}

/// Writes the folder that `lspci` reads: `bus/pci/devices`.
pub(crate) fn write(fabric: &Fabric, folder: &Path) {
    let devices = folder.join("bus/pci/devices");
    fs::create_dir_all(&devices).unwrap();
    let buses = buses(fabric);
    for (id, function) in fabric.iter() {
        let at = devices.join(function.address.unwrap().to_string());
        fs::create_dir(&at).unwrap();
        let file = |name: &str, text: String| fs::write(at.join(name), text + "\n").unwrap();
        file("vendor", format!("{:#06x}", function.vendor.unwrap_or(0)));
        file("device", format!("{:#06x}", function.device.unwrap_or(0)));
        file("class", format!("{:#08x}", function.class.unwrap_or(0)));
        file("irq", "0".to_owned());
        file("numa_node", function.numa_node.map_or(-1, i64::from).to_string());
        file("resource", resource(function));
        fs::write(at.join("config"), config(function, buses.get(&id).copied())).unwrap();
        if let DriverBinding::Bound(name) = &function.driver {
            // lspci resolves the link.
            fs::create_dir_all(folder.join("bus/pci/drivers").join(name)).unwrap();
            symlink(format!("../../../../bus/pci/drivers/{name}"), at.join("driver")).unwrap();
        }
        if let Some(group) = function.iommu_group {
            fs::create_dir_all(folder.join("kernel/iommu_groups").join(group.to_string())).unwrap();
            symlink(format!("../../../../kernel/iommu_groups/{group}"), at.join("iommu_group"))
                .unwrap();
        }
    }
}

/// Secondary and subordinate bus of each function that others hang from.
fn buses(fabric: &Fabric) -> HashMap<FunctionId, (u8, u8)> {
    let mut buses: HashMap<FunctionId, (u8, u8)> = HashMap::new();
    for (id, function) in fabric.iter() {
        let bus = function.address.unwrap().bus();
        for above in fabric.upward(id).skip(1) {
            let range = buses.entry(above).or_insert((bus, bus));
            *range = (range.0.min(bus), range.1.max(bus));
        }
    }
    buses
}

/// Addresses of windows: anywhere, apart from each other.
fn place(index: u8) -> u64 {
    (u64::from(index) + 1) << 44
}

fn resource(function: &Function) -> String {
    let mut lines = [[0u64; 3]; 7];
    for bar in &function.bars {
        let Some(line) = lines.get_mut(usize::from(bar.index)).filter(|_| bar.index < 6) else {
            continue;
        };
        let prefetch = if bar.is_prefetchable { 0x2000 } else { 0 };
        let start = place(bar.index);
        *line = [start, start + (bar.size.0 - 1), 0x10_0200 | prefetch];
    }
    for bar in function.unassigned_bars.iter().filter(|bar| bar.index < 6) {
        let size = bar.size.unwrap_or_default().0;
        lines[usize::from(bar.index)] = [0, size.saturating_sub(1), 0x2010_0200];
    }
    lines
        .map(|[start, end, flags]| format!("0x{start:016x} 0x{end:016x} 0x{flags:016x}"))
        .join("\n")
}

/// Speed code of the link registers (PCIe 6.0 section 7.5.3.6).
fn code(speed: LinkSpeed) -> u16 {
    let code = match speed.megatransfers {
        2_500 => 1,
        5_000 => 2,
        8_000 => 3,
        16_000 => 4,
        32_000 => 5,
        _ => 6,
    };
    code | u16::from(speed.width) << 4
}

/// A configuration space, or 64 bytes of it where ACS is unknown.
fn config(function: &Function, buses: Option<(u8, u8)>) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let on_root_bus = matches!(function.parent, Parent::Bridge(_));
    let port_type: u16 = match function.kind {
        FunctionKind::RootPort => 4,
        FunctionKind::UpstreamPort => 5,
        FunctionKind::DownstreamPort => 6,
        // A bridge from conventional PCI to PCIe: one from PCIe hangs from a port.
        FunctionKind::OtherBridge if on_root_bus => 8,
        FunctionKind::OtherBridge => 7,
        _ if on_root_bus => 9,
        _ => 0,
    };
    put(0x00, &function.vendor.unwrap_or(0).to_le_bytes());
    put(0x02, &function.device.unwrap_or(0).to_le_bytes());
    put(0x04, &[0x06, 0x00, 0x10, 0x00]);
    put(0x08, &(function.class.unwrap_or(0) << 8).to_le_bytes());
    put(0x34, &[0x40]);
    if function.kind.is_bridge() {
        put(0x0e, &[1]);
        let (secondary, subordinate) = buses.unwrap_or_default();
        put(0x18, &[function.address.unwrap().bus(), secondary, subordinate, 0]);
    } else {
        for bar in function.bars.iter().filter(|bar| bar.index < 6) {
            let prefetch = if bar.is_prefetchable { 8 } else { 0 };
            let at = 0x10 + 4 * usize::from(bar.index);
            // The lower half of the address is 0.
            put(at, &(4u32 | prefetch).to_le_bytes());
        }
    }
    put(0x40, &[0x10, 0]);
    put(0x42, &(port_type << 4 | 2).to_le_bytes());
    let link = function.link;
    let maximum = function.link_below.or(link.and_then(|link| link.maximum));
    let current = link.and_then(|link| link.current).or(function.link_below);
    put(0x4c, &u32::from(maximum.map_or(0, code)).to_le_bytes());
    put(0x52, &current.map_or(0, code).to_le_bytes());
    // Serial number, ACS, resizable windows (PCIe 6.0 sections 7.9.3, 7.7.11, 7.8.6).
    let resizable = function.bars.iter().find(|bar| bar.largest.is_some());
    let acs = matches!(function.acs, Acs::Present { .. });
    let after_acs = if resizable.is_some() { 0x180 } else { 0 };
    let after_serial = if acs { 0x140 } else { after_acs };
    put(0x100, &(0x0001_0003_u32 | after_serial << 20).to_le_bytes());
    if let Acs::Present { control } = function.acs {
        put(0x140, &(0x0001_000d_u32 | after_acs << 20).to_le_bytes());
        put(0x144, &0x7f_u16.to_le_bytes());
        put(0x146, &control.to_le_bytes());
    }
    if let Some(bar) = resizable {
        let bit = |size: u64| (size >> 20).ilog2();
        let (own, largest) = (bit(bar.size.0), bit(bar.largest.unwrap().0));
        put(0x180, &0x0001_0015_u32.to_le_bytes());
        put(0x184, &(1u32 << (own + 4) | 1 << (largest + 4)).to_le_bytes());
        put(0x188, &(u32::from(bar.index) | 1 << 5 | own << 8).to_le_bytes());
    }
    if function.acs == Acs::Unknown {
        bytes.truncate(64);
    }
    bytes
}
