//! The text of `nvidia-smi -q`: windows, memory, MIG, virtualisation and the driver's version.
//!
//! Keys are told by the section above them, as indentation shows it: `Total` stands in several.

use peerlane_units::Bytes;

use super::clean::{self, CleanLine};
use crate::gpu::VENDOR_NVIDIA;
use crate::{Bar, Bdf, Fabric, Function, NvidiaDriver};

/// The register of the window of an NVIDIA GPU's memory (`nvidia-smi` calls it BAR1).
const MEMORY_WINDOW: u8 = 1;

/// Returns whether a trimmed line begins the text, or the part of a GPU.
pub(super) fn is_header(line: &str) -> bool {
    line.contains("NVSMI LOG") || gpu_address(line).is_some()
}

/// Reads `GPU 00000000:17:00.0`.
fn gpu_address(line: &str) -> Option<Bdf> {
    let address = line.strip_prefix("GPU ")?.trim();
    address.parse().ok().filter(|_| address.matches(':').count() == 2)
}

/// Facts of one GPU in the text.
#[derive(Debug, Default)]
struct GpuReport {
    /// Vendor and device.
    numbers: Option<(u16, u16)>,
    window: Option<Bytes>,
    memory: Option<Bytes>,
    has_mig: Option<bool>,
    mig_devices: u32,
    is_virtual: bool,
}

/// Adds the facts of a text to the GPUs with its addresses.
pub(super) fn apply(lines: &[CleanLine<'_>], fabric: &mut Fabric) {
    let mut reader = SmiReader::default();
    for line in lines {
        reader.line(line);
    }
    for (address, report) in &reader.gpus {
        let mut functions = fabric.functions.iter_mut();
        if let Some(function) = functions.find(|one| one.address == Some(*address)) {
            report.apply(function);
        }
    }
    if let Some(version) = reader.version {
        fabric.nvidia.get_or_insert_with(NvidiaDriver::default).version.get_or_insert(version);
    }
    if reader.gpus.iter().any(|(_, report)| report.is_virtual) {
        let unnamed = || UNNAMED_HYPERVISOR.to_owned();
        fabric.environment.hypervisor.get_or_insert_with(unnamed);
    }
}

/// Word for a hypervisor that is known only by a sign of it, as discovery has it.
const UNNAMED_HYPERVISOR: &str = "unknown";

impl GpuReport {
    fn apply(&self, function: &mut Function) {
        if let (Some((vendor, device)), None) = (self.numbers, function.device) {
            (function.vendor, function.device) = (Some(vendor), Some(device));
        }
        function.memory_size = self.memory.or(function.memory_size);
        if let Some(has_mig) = self.has_mig {
            // Without instances nothing is divided, and enabled MIG without a list of them is at least one.
            let count = if has_mig { self.mig_devices.max(1) } else { 0 };
            function.mig_instances = function.mig_instances.or(Some(count));
        }
        let shows_memory = |bar: &&mut Bar| bar.index == MEMORY_WINDOW;
        let known = function.bars.iter_mut().find(shows_memory);
        if let (None, Some(size)) = (known, self.window) {
            let index = MEMORY_WINDOW;
            function.bars.push(Bar {
                index,
                size,
                is_prefetchable: true,
                largest: None,
                address_bits: None,
            });
            function.bars.sort_by_key(|bar| bar.index);
        }
    }
}

#[derive(Debug, Default)]
struct SmiReader {
    version: Option<String>,
    gpus: Vec<(Bdf, GpuReport)>,
    /// Sections above the current line, with their indentation.
    sections: Vec<(usize, String)>,
}

impl SmiReader {
    fn line(&mut self, line: &CleanLine<'_>) {
        let (depth, text) = (clean::indentation(&line.text), line.text.trim());
        if let Some(address) = gpu_address(text) {
            self.gpus.push((address, GpuReport::default()));
            return self.sections.clear();
        }
        while self.sections.last().is_some_and(|(above, _)| *above >= depth) {
            self.sections.pop();
        }
        let Some((key, value)) = text.split_once(" :").or_else(|| text.split_once(':')) else {
            return self.sections.push((depth, text.to_owned()));
        };
        self.value(key.trim(), value.trim());
    }

    fn value(&mut self, key: &str, value: &str) {
        if key == "Driver Version" {
            let is_version = value.starts_with(|c: char| c.is_ascii_digit());
            self.version = self.version.take().or(is_version.then(|| value.to_owned()));
        }
        let section = self.sections.last().map_or("", |(_, name)| name.as_str());
        let Some((_, gpu)) = self.gpus.last_mut() else { return };
        match (section, key) {
            ("PCI", "Device Id") => gpu.numbers = numbers(value),
            ("BAR1 Memory Usage", "Total") => gpu.window = size(value),
            ("FB Memory Usage", "Total") if gpu.memory.is_none() => gpu.memory = size(value),
            ("MIG Mode", "Current") => {
                gpu.has_mig = match value {
                    "Enabled" => Some(true),
                    "Disabled" | "N/A" => Some(false),
                    _ => None,
                };
            }
            (_, "GPU Instance ID") => gpu.mig_devices += 1,
            ("GPU Virtualization Mode", "Virtualization Mode") => {
                gpu.is_virtual = matches!(value, "Pass-Through" | "VGPU" | "vGPU");
            }
            _ => {}
        }
    }
}

/// Reads `0x233010DE`: the device, then the vendor.
fn numbers(text: &str) -> Option<(u16, u16)> {
    let number = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    let vendor = u16::try_from(number & 0xffff).ok().filter(|&vendor| vendor == VENDOR_NVIDIA)?;
    Some((vendor, u16::try_from(number >> 16).ok()?))
}

/// Reads `81559 MiB`.
fn size(text: &str) -> Option<Bytes> {
    let number: u64 = text.strip_suffix("MiB")?.trim().parse().ok()?;
    number.checked_mul(1 << 20).map(Bytes).filter(|size| size.0 > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000:17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]

==============NVSMI LOG==============

Driver Version                            : 570.133.20
CUDA Version                              : 12.8

Attached GPUs                             : 1
GPU 00000000:17:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    GPU Virtualization Mode
        Virtualization Mode               : Pass-Through
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 1 MiB
    Conf Compute Protected Memory Usage
        Total                             : 0 MiB

Linux host 6.8.0-60-generic #63-Ubuntu SMP x86_64 GNU/Linux
";

    #[test]
    fn sections_of_gpu_become_facts() {
        let fabric = super::super::read(TEXT).expect("a machine");
        let gpu = &fabric.functions[0];
        assert_eq!(gpu.memory_size, Some(Bytes::mib(81559)));
        assert_eq!(gpu.mig_instances, Some(0));
        let bars: Vec<(u8, Bytes)> = gpu.bars.iter().map(|bar| (bar.index, bar.size)).collect();
        assert_eq!(bars, [(1, Bytes::mib(131_072))]);
        assert_eq!(fabric.nvidia.and_then(|driver| driver.version).as_deref(), Some("570.133.20"));
        assert!(fabric.environment.hypervisor.is_some());
        assert_eq!(fabric.kernel.release.as_deref(), Some("6.8.0-60-generic"));
    }

    #[test]
    fn device_numbers_fill_names() {
        let named = TEXT.replace(" [10de:2330]", "").replace(" [0302]", "");
        let named = named.replace("GH100", "Device");
        let with = "    PCI\n        Bus                               : 0x17\n        Device Id                         \
                    : 0x233010DE\n    FB Memory Usage";
        let fabric = super::super::read(&named.replace("    FB Memory Usage", with));
        let gpu = &fabric.expect("a machine").functions[0];
        assert_eq!((gpu.vendor, gpu.device), (Some(0x10de), Some(0x2330)));
    }

    #[test]
    fn divided_gpu_counts_its_instances() {
        let text = TEXT.replace(
            "        Current                           : Disabled",
            "        Current                           : Enabled\n    MIG Devices\n        MIG Device\n            \
             GPU Instance ID               : 1\n        MIG Device\n            GPU Instance ID : 2",
        );
        let fabric = super::super::read(&text).expect("a machine");
        assert_eq!(fabric.functions[0].mig_instances, Some(2));
    }
}
