//! A machine as files: the tree that discovery reads, with the part of it that `lspci` reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::capabilities::{CapabilityFacts, put};
use super::devices::{Window, WindowKind, WindowState};
use super::machine::{Iommu, Machine, PlacedFunction};
use super::registers::Resizable;

/// Flags of `include/linux/ioport.h`.
const IORESOURCE_IO: u64 = 0x100;
const IORESOURCE_MEM: u64 = 0x200;
const IORESOURCE_PREFETCH: u64 = 0x2000;
const IORESOURCE_SIZEALIGN: u64 = 0x4_0000;
const IORESOURCE_MEM_64: u64 = 0x10_0000;
const IORESOURCE_UNSET: u64 = 0x2000_0000;
/// Lines of `resource`: registers, ROM, those of SR-IOV, windows of a bridge.
const LINES: usize = 17;

/// The user that reads the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Root,
    /// Gets the first 64 bytes of a configuration space (`pci_read_config` in drivers/pci/pci-sysfs.c).
    User,
}

impl Machine {
    /// Writes the tree.
    pub(crate) fn write(&self, folder: &Path, reader: Reader) {
        let pci = folder.join("sys/bus/pci");
        fs::create_dir_all(pci.join("devices")).unwrap();
        fs::create_dir_all(folder.join("sys/kernel/iommu_groups")).unwrap();
        let proc = folder.join("proc");
        fs::create_dir_all(proc.join("sys/kernel")).unwrap();
        fs::write(proc.join("sys/kernel/osrelease"), format!("{}\n", self.release)).unwrap();
        fs::write(proc.join("cpuinfo"), format!("processor\t: 0\n{}\n", self.cpu)).unwrap();
        fs::write(proc.join("cmdline"), self.command_line()).unwrap();
        let mut groups = vec![0; self.functions.len()];
        let mut paths: Vec<String> = Vec::new();
        for (number, one) in self.functions.iter().enumerate() {
            let above = match one.parent {
                Some(parent) => paths[parent].clone(),
                None => format!("sys/devices/pci{:04x}:{:02x}", one.root.0, one.root.1),
            };
            paths.push(format!("{above}/{}", one.address));
            let shared = one.parent.filter(|_| one.part.shares_group);
            groups[number] = shared.map_or(number, |parent| groups[parent]);
            self.function(folder, one, &paths[number], groups[number], reader);
            let link = pci.join("devices").join(one.address.to_string());
            symlink(format!("../../../../{}", paths[number]), link).unwrap();
        }
    }

    /// Kernel parameters that say how the IOMMU is used.
    fn command_line(&self) -> String {
        let iommu = match self.iommu {
            Iommu::Off => "iommu=off",
            Iommu::Passthrough => "iommu=pt",
            Iommu::Translating => "iommu=nopt",
        };
        format!("BOOT_IMAGE=/vmlinuz root=/dev/sda1 {iommu}\n")
    }

    /// Lines about kernel and processor, as people paste them below a listing.
    pub(crate) fn surroundings(&self) -> String {
        let release = self.release;
        let command_line = self.command_line();
        format!("Linux host {release} #1 SMP x86_64 GNU/Linux\n{command_line}{}", self.cpu)
    }

    fn function(
        &self,
        folder: &Path,
        one: &PlacedFunction,
        path: &str,
        group: usize,
        reader: Reader,
    ) {
        let at = folder.join(path);
        fs::create_dir_all(&at).unwrap();
        let file = |name: &str, text: String| fs::write(at.join(name), text + "\n").unwrap();
        let up = "../".repeat(path.matches('/').count() + 1);
        let part = &one.part;
        file("vendor", format!("{:#06x}", part.ids.0));
        file("device", format!("{:#06x}", part.ids.1));
        file("class", format!("{:#08x}", part.class));
        file("revision", format!("{:#04x}", part.revision));
        file("subsystem_vendor", format!("{:#06x}", part.subsystem.0));
        file("subsystem_device", format!("{:#06x}", part.subsystem.1));
        file("irq", "0".to_owned());
        file("numa_node", one.node.map_or(-1, i64::from).to_string());
        let (lines, config) = one.registers_and_lines();
        file("resource", lines);
        let length = if reader == Reader::User { 64 } else { config.len() };
        fs::write(at.join("config"), &config[..length]).unwrap();
        if let Some(express) = &part.express {
            let [maximum, current] = express.in_sysfs();
            for (which, value) in [("max", maximum), ("current", current)] {
                let is_dark = one.physical.is_some() && which == "current" || part.is_asleep;
                let (speed, width) = if is_dark { Default::default() } else { value }.in_sysfs();
                file(&format!("{which}_link_speed"), speed);
                file(&format!("{which}_link_width"), width);
            }
        }
        if let Some(resizable) = one.resizable() {
            file(
                &format!("resource{}_resize", resizable.index),
                format!("{:016x}", resizable.sizes()),
            );
        }
        if reader == Reader::Root && part.capabilities.has_vital_data() {
            fs::write(at.join("vpd"), vital_data()).unwrap();
        }
        if part.revision % 8 == 0 {
            file("label", format!("Onboard {} #{group}", part.ids.1));
            let slot = folder.join("sys/bus/pci/slots").join(one.address.bus().to_string());
            fs::create_dir_all(&slot).unwrap();
            let address = one.address.to_string();
            fs::write(slot.join("address"), &address[..address.len() - 2]).unwrap();
        }
        match part.driver {
            Some(name) => {
                let driver = format!("sys/bus/pci/drivers/{name}");
                fs::create_dir_all(folder.join(&driver)).unwrap();
                symlink(up.clone() + &driver, at.join("driver")).unwrap();
            }
            None => file("uevent", format!("PCI_CLASS={:X}", part.class)),
        }
        if let Some(physical) = one.physical {
            let physical = self.functions[physical].address;
            symlink(format!("../{physical}"), at.join("physfn")).unwrap();
        }
        let mode = match self.iommu {
            Iommu::Off => return,
            Iommu::Passthrough => "identity",
            Iommu::Translating => "DMA-FQ",
        };
        let group = format!("sys/kernel/iommu_groups/{group}");
        fs::create_dir_all(folder.join(&group)).unwrap();
        fs::write(folder.join(&group).join("type"), format!("{mode}\n")).unwrap();
        symlink(up + &group, at.join("iommu_group")).unwrap();
    }
}

/// Vital product data: a name, then fields that cannot be written (PCI 3.0 appendix I).
fn vital_data() -> Vec<u8> {
    let name = "Adapter, Status: ok";
    let mut fields = Vec::new();
    for (key, value) in
        [("PN", "900-9X7AH"), ("V1", "Flags: none"), ("V2", "Control: I/O+"), ("RV", "\0")]
    {
        fields.extend(key.bytes());
        fields.push(value.len() as u8);
        fields.extend(value.bytes());
    }
    let mut bytes = vec![0x82, name.len() as u8, 0];
    bytes.extend(name.bytes());
    bytes.extend([0x90, fields.len() as u8, 0]);
    bytes.extend(fields);
    bytes.push(0x78);
    bytes
}

impl PlacedFunction {
    /// The window that can be resized, unless it has no address space.
    fn resizable(&self) -> Option<Resizable> {
        let (index, largest) = self.part.resizable?;
        let window = self.part.windows.iter().find(|one| one.index == index)?;
        let is_there = window.state == WindowState::Assigned && !self.part.is_asleep;
        is_there.then_some(Resizable { index, own: window.shift, largest })
    }

    /// The file `resource`, and the configuration space.
    fn registers_and_lines(&self) -> (String, Vec<u8>) {
        let part = &self.part;
        let length = if part.express.is_some() { 4096 } else { 256 };
        let mut config = vec![0; length];
        let [vendor, device] =
            if self.physical.is_some() { [0xffff; 2] } else { [part.ids.0, part.ids.1] };
        put(&mut config, 0x00, &vendor.to_le_bytes());
        put(&mut config, 0x02, &device.to_le_bytes());
        put(&mut config, 0x04, &part.command.to_le_bytes());
        put(&mut config, 0x08, &(part.class << 8 | u32::from(part.revision)).to_le_bytes());
        config[0x0e] = u8::from(self.is_one_of_several) << 7;
        let mut lines = [[0u64; 3]; LINES];
        if let Some(buses) = self.buses {
            self.bridge(buses, &mut config, &mut lines);
        } else {
            put(&mut config, 0x2c, &part.subsystem.0.to_le_bytes());
            put(&mut config, 0x2e, &part.subsystem.1.to_le_bytes());
        }
        let mut at = u64::from(self.address.bus()) << 44 | u64::from(self.address.devfn()) << 40;
        for window in &part.windows {
            at += 1 << window.shift;
            self.window(*window, at, &mut config, &mut lines);
            at += 1 << window.shift;
        }
        part.capabilities.write(
            &mut config,
            &CapabilityFacts {
                express: part.express.as_ref(),
                acs: part.acs,
                resizable: self.resizable(),
                virtual_functions: self.registers,
            },
        );
        if part.is_asleep {
            config.fill(0xff);
        }
        let lines =
            lines.map(|[start, end, flags]| format!("{start:#018x} {end:#018x} {flags:#018x}"));
        (lines.join("\n"), config)
    }

    /// Header type 1, and the windows behind it.
    fn bridge(
        &self,
        (secondary, subordinate): (u8, u8),
        config: &mut [u8],
        lines: &mut [[u64; 3]; LINES],
    ) {
        config[0x0e] |= 1;
        put(config, 0x18, &[self.address.bus(), secondary, subordinate, 0]);
        if secondary == 0 {
            return;
        }
        // 1 MiB of memory, and 64-bit prefetchable memory.
        put(config, 0x20, &[0x10, 0xb0, 0x10, 0xb0]);
        put(config, 0x24, &[0xf1, 0xff, 0xf1, 0xff, 0x03, 0, 0, 0, 0x03, 0, 0, 0]);
        lines[14] = [0xb010_0000, 0xb01f_ffff, IORESOURCE_MEM];
        let flags = IORESOURCE_MEM | IORESOURCE_PREFETCH | IORESOURCE_MEM_64;
        lines[15] = [0x3_fff0_0000, 0x3_ffff_ffff, flags | 1];
        put(config, 0x1c, &[0xf0, 0x00]);
    }

    fn window(&self, window: Window, free: u64, config: &mut [u8], lines: &mut [[u64; 3]; LINES]) {
        let size = 1u64 << window.shift;
        let (bits, flags, is_wide) = match window.kind {
            WindowKind::Memory32 => (0, IORESOURCE_MEM, false),
            WindowKind::Memory64 => (4, IORESOURCE_MEM | IORESOURCE_MEM_64, true),
            WindowKind::Prefetchable64 => {
                (0xc, IORESOURCE_MEM | IORESOURCE_MEM_64 | IORESOURCE_PREFETCH, true)
            }
            WindowKind::Ports => (1, IORESOURCE_IO, false),
        };
        let flags = flags | bits | IORESOURCE_SIZEALIGN;
        let start = match window.kind {
            WindowKind::Ports => 0x1000 + u64::from(self.address.bus()) * 0x100,
            WindowKind::Memory32 => {
                (0x8000_0000 + u64::from(window.index) * 0x0800_0000) & !(size - 1)
            }
            _ => ((free >> 1) + size) & !(size - 1),
        };
        let line = &mut lines[usize::from(window.index)];
        let register = match window.state {
            WindowState::Assigned => {
                *line = [start, start + (size - 1), flags];
                start | bits
            }
            WindowState::Marked => {
                *line = [0, size - 1, flags | IORESOURCE_UNSET];
                bits
            }
            WindowState::Cleared => bits,
        };
        // Registers of virtual functions are in their physical one.
        if self.physical.is_none() {
            let at = 0x10 + 4 * usize::from(window.index);
            let length = if is_wide { 8 } else { 4 };
            put(config, at, &register.to_le_bytes()[..length]);
        }
    }
}
