//! GPUs of a machine: their numbers, and their generation by PCI identifier.

use std::fmt;

use crate::{Fabric, Function, FunctionId, FunctionKind, pci_names};

/// PCI vendor of NVIDIA's GPUs.
pub const VENDOR_NVIDIA: u16 = 0x10de;
/// PCI vendor of AMD's GPUs.
pub const VENDOR_AMD: u16 = 0x1002;
/// PCI vendor of Intel's GPUs and ports.
pub const VENDOR_INTEL: u16 = 0x8086;

/// Vendors whose display controllers compute, integrated ones apart.
pub(crate) const MAKERS: [u16; 3] = [VENDOR_INTEL, VENDOR_AMD, VENDOR_NVIDIA];

/// Generations of NVIDIA's GPUs, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// G80 to GT2xx; the name of the generation, not of the product line.
    Tesla,
    /// GF1xx.
    Fermi,
    /// GK1xx: compute capability 3.
    Kepler,
    /// GM1xx: compute capability 5.
    Maxwell,
    /// GP1xx: compute capability 6.
    Pascal,
    /// GV1xx: compute capability 7.0.
    Volta,
    /// TU1xx: compute capability 7.5.
    Turing,
    /// GA1xx: compute capability 8.
    Ampere,
    /// AD1xx: compute capability 8.9.
    Ada,
    /// GH1xx: compute capability 9.
    Hopper,
    /// GB1xx, GB2xx: compute capability 10 and later.
    Blackwell,
}

impl Generation {
    /// The generation of an NVIDIA GPU whose chip the PCI ID repository names; `None` for all
    /// others.
    pub fn from_function(function: &Function) -> Option<Self> {
        let vendor = function.vendor.filter(|&vendor| vendor == VENDOR_NVIDIA)?;
        let name = pci_names::device(vendor, function.device?)?;
        let chip = name.split(' ').next()?;
        let letters = chip.find(|character: char| character.is_ascii_digit())?;
        Some(match &chip[..letters] {
            "G" | "GT" => Self::Tesla,
            "GF" => Self::Fermi,
            "GK" => Self::Kepler,
            "GM" => Self::Maxwell,
            "GP" => Self::Pascal,
            "GV" => Self::Volta,
            "TU" => Self::Turing,
            "GA" => Self::Ampere,
            "AD" => Self::Ada,
            "GH" => Self::Hopper,
            "GB" => Self::Blackwell,
            _ => return None,
        })
    }
}

/// Product lines of NVIDIA that are neither for data centres nor for workstations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerLine {
    /// GeForce.
    GeForce,
    /// TITAN.
    Titan,
}

impl ConsumerLine {
    /// The line of an NVIDIA GPU whose product the PCI ID repository names; `None` for all others.
    pub fn from_function(function: &Function) -> Option<Self> {
        let vendor = function.vendor.filter(|&vendor| vendor == VENDOR_NVIDIA)?;
        let name = pci_names::device(vendor, function.device?)?;
        // Some numbers stand for a product of each kind.
        let is_also_for_work = ["Quadro", "Tesla", "NVS"].iter().any(|line| name.contains(line));
        let lines = [("GeForce", Self::GeForce), ("TITAN", Self::Titan)];
        let found = lines.into_iter().find(|(word, _)| name.contains(word));
        found.filter(|_| !is_also_for_work).map(|(_, line)| line)
    }
}

impl fmt::Display for ConsumerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GeForce => "GeForce",
            Self::Titan => "TITAN",
        })
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Returns whether NVLink-C2C joins a GPU to its processor: a superchip of Grace and Hopper or
/// Blackwell, by its name in the PCI ID repository.
pub fn has_c2c(function: &Function) -> bool {
    let vendor = function.vendor.filter(|&vendor| vendor == VENDOR_NVIDIA);
    /// Numbers of GB300, which older copies of the PCI ID repository lack.
    const GB300: [u16; 2] = [0x31c2, 0x31c3];
    let name =
        vendor.zip(function.device).and_then(|(vendor, device)| pci_names::device(vendor, device));
    let is_gb300 = vendor.is_some() && function.device.is_some_and(|id| GB300.contains(&id));
    is_gb300
        || name
            .is_some_and(|name| ["GH200", "GB200", "GB300"].iter().any(|chip| name.contains(chip)))
}

/// Returns whether a GPU is that of GB10 (DGX Spark), which shares the processor's memory.
pub fn is_gb10(function: &Function) -> bool {
    /// Its number, which older copies of the PCI ID repository lack.
    const GB10: u16 = 0x2e12;
    function.vendor == Some(VENDOR_NVIDIA) && function.device == Some(GB10)
}

/// Returns whether the maker's driver may hold a GPU, so its programs count it.
fn is_its_makers(function: &Function) -> bool {
    let makers = match function.vendor {
        Some(VENDOR_NVIDIA) => "nvidia",
        Some(VENDOR_AMD) => "amdgpu",
        _ => return true,
    };
    function.physical_function.is_none()
        && function.driver.name().is_none_or(|driver| driver == makers)
}

/// Returns whether a function is a GPU of a maker that counts.
fn is_of(function: &Function, maker: Option<u16>) -> bool {
    function.kind == FunctionKind::Gpu && function.vendor == maker && is_its_makers(function)
}

impl Fabric {
    /// GPUs as `gpu:N` counts them: NVIDIA's by PCI address, as `nvidia-smi` does; where there is none, AMD's;
    /// where there is neither, those of a description that says nothing of their maker. A GPU that another
    /// driver than its maker's holds, such as vfio-pci, is not counted, nor is a virtual function of one here.
    pub fn gpus(&self) -> Vec<FunctionId> {
        let Some(maker) = self.counted_maker() else { return Vec::new() };
        let counted = self.iter().filter(|(_, one)| is_of(one, maker));
        let mut found: Vec<FunctionId> = counted.map(|(id, _)| id).collect();
        found.sort_by_key(|&id| self.function(id).address);
        found
    }

    /// The maker of the GPUs that `gpu:N` counts; `None` where there are none.
    fn counted_maker(&self) -> Option<Option<u16>> {
        let makers = [Some(VENDOR_NVIDIA), Some(VENDOR_AMD), None];
        makers.into_iter().find(|&maker| self.functions.iter().any(|one| is_of(one, maker)))
    }

    /// The N of `gpu:N`; `None` for a function that is not counted.
    pub fn gpu_number(&self, gpu: FunctionId) -> Option<usize> {
        let own = self.function(gpu);
        let maker = self.counted_maker().filter(|&maker| is_of(own, maker))?;
        let is_before = |id: FunctionId, one: &Function| {
            (one.address, id) < (own.address, gpu) && is_of(one, maker)
        };
        Some(self.iter().filter(|(id, one)| is_before(*id, one)).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPUs `g0`, `g1` and so on, each with these known facts.
    fn gpus<T: AsRef<str>>(known: &[T]) -> Fabric {
        let lines = known.iter().enumerate();
        let lines = lines.map(|(at, known)| format!("g{at} gpu {}\n", known.as_ref()));
        let text = peerlane_testing::machine_text(&lines.collect::<String>());
        Fabric::from_toml(&text).expect("a machine")
    }

    #[test]
    fn generation_follows_known_chip() {
        let (k20c, p100, t4, a100) = ("1022", "15f8", "1eb8", "20b0");
        let (h100, unknown) = ("2330", "fffe");
        let devices = [k20c, p100, t4, a100, h100, unknown, ""].map(|id| format!("10de:{id}"));
        let expected = [
            Some(Generation::Kepler),
            Some(Generation::Pascal),
            Some(Generation::Turing),
            Some(Generation::Ampere),
            Some(Generation::Hopper),
            None,
            None,
        ];
        let fabric = gpus(&devices);
        let found: Vec<_> = fabric.functions.iter().map(Generation::from_function).collect();
        assert_eq!(found, expected);
        assert!(Generation::Kepler < Generation::Pascal && Generation::Volta < Generation::Ampere);
    }

    #[test]
    fn consumer_lines_are_told_by_name() {
        for (device, expected) in [
            ("2204", Some(ConsumerLine::GeForce)),
            ("1e02", Some(ConsumerLine::Titan)),
            ("20b0", None),
            ("2230", None),
            ("00fc", None),
            ("fffe", None),
        ] {
            let fabric = gpus(&[format!("10de:{device}")]);
            assert_eq!(ConsumerLine::from_function(&fabric.functions[0]), expected, "{device}");
        }
    }

    #[test]
    fn other_drivers_gpus_are_not_counted() {
        let fabric = gpus(&[
            "10de: @0000:01:00.0 driver = 'vfio-pci'",
            "10de: @0000:02:00.0 driver = 'nvidia'",
            "10de: @0000:03:00.0 driver = 'nvidia'; physical_function = '0000:02:00.0'",
            "10de: @0000:04:00.0 driver = 'unknown'",
        ]);
        assert_eq!(fabric.gpus(), [FunctionId(1), FunctionId(3)]);
    }

    #[test]
    fn gpus_count_by_address_and_maker() {
        let count = |makers: &[&str]| {
            let address = |(at, maker): (usize, &&str)| {
                let (bus, device) = if maker.contains("8086") { (0, 2) } else { (9 - at, 0) };
                format!("@0000:{bus:02x}:{device:02x}.0 {maker}")
            };
            let known: Vec<String> = makers.iter().enumerate().map(address).collect();
            let fabric = gpus(&known);
            fabric.gpus().iter().map(|&id| fabric.function(id).name.clone()).collect::<Vec<_>>()
        };
        let (nvidia, amd) = ("10de:", "1002:");
        assert_eq!(count(&[nvidia, amd, nvidia]), ["g2", "g0"]);
        assert_eq!(count(&[amd, "", amd]), ["g2", "g0"]);
        assert_eq!(count(&["", "8086:"]), ["g0"]);
        assert!(count(&["8086:"]).is_empty());
    }
}
