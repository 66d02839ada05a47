//! Lines about kernel and processor in the same text: `uname -a`, `/proc/cmdline`, `/proc/cpuinfo`, `lscpu`, and
//! options of the kernel's configuration.

use super::blocks::SortedText;
use super::function::Listed;
use crate::gpu::VENDOR_INTEL;
use crate::sysfs::configuration;
use crate::sysfs::system::bears_on_devices;
use crate::{Cpu, IommuMode, Kernel};

/// Keys of `/proc/cpuinfo` and of `lscpu`.
const VENDOR: [&str; 2] = ["vendor_id", "Vendor ID"];
const IMPLEMENTER: [&str; 1] = ["CPU implementer"];
const FAMILY: [&str; 2] = ["cpu family", "CPU family"];
const MODEL: [&str; 2] = ["model name", "Model name"];
const MODEL_NUMBER: [&str; 2] = ["model", "Model"];

/// Returns whether a trimmed line is one of them, or a command.
pub(super) fn is_line(line: &str) -> bool {
    is_command(line)
        || release(line).is_some()
        || is_command_line(line)
        || model_number(line).is_some()
        || configuration::is_known(line)
        || [&VENDOR[..], &IMPLEMENTER, &FAMILY, &MODEL]
            .iter()
            .any(|keys| value(line, keys).is_some())
}

/// Returns whether a line is a prompt with a command of `lspci` that shows a part of the machine.
pub(super) fn selects(line: &str) -> bool {
    let Some((_, command)) = line.split_once("lspci") else { return false };
    let is_part = |word: &str| {
        let is_option = word.starts_with('-') && !word.starts_with("--");
        is_option && word.contains(['s', 'd'])
    };
    let pipes = ["grep", "head", "tail", "awk", "sed"];
    is_command(line)
        && (command.split_whitespace().any(is_part)
            || pipes.iter().any(|name| command.contains(name)))
}

/// A line of a terminal: `$ lspci`, `# lspci`, `user@host:~$ sudo lspci`.
fn is_command(line: &str) -> bool {
    let words = || line.split_whitespace().take(3);
    line.starts_with("$ ")
        || line.starts_with("# ")
        || words().any(|word| word.contains('@') && word.ends_with(['$', '#']))
        || words().any(|word| word.ends_with("]#") || word.ends_with("]$"))
        || line.starts_with("lspci ")
        || line.starts_with("sudo lspci")
}

/// The release in `Linux host 6.8.0-60-generic #63-Ubuntu SMP ...`, or alone in a line.
fn release(line: &str) -> Option<&str> {
    let is_release = |word: &&str| {
        let digits = |text: Option<&str>| {
            text.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut parts = word.split('.');
        let is_plain =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+' | b'~');
        digits(parts.next())
            && digits(parts.next())
            && word.bytes().all(is_plain)
            && word.starts_with(|c: char| c.is_ascii_digit())
    };
    if let Some(rest) = line.strip_prefix("Linux ") {
        let is_uname = rest.contains(" #") || rest.contains("GNU/Linux");
        return rest.split_whitespace().nth(1).filter(is_release).filter(|_| is_uname);
    }
    let is_alone = !line.contains(char::is_whitespace) && line.matches('.').count() >= 2;
    Some(line).filter(is_release).filter(|_| is_alone)
}

/// Returns whether a line is `/proc/cmdline`.
fn is_command_line(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or("");
    line.starts_with("BOOT_IMAGE=")
        || first.starts_with("initrd=")
        || (line.split_whitespace().any(|word| word.starts_with("root="))
            && first.contains(['=', '/']))
}

/// The value of a line with one of some keys.
fn value<'a>(line: &'a str, keys: &[&str]) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    let value = value.trim();
    (keys.contains(&key.trim()) && !value.is_empty()).then_some(value)
}

/// The number of a processor's model; `Model:` with other text is of a drive or a board.
fn model_number(line: &str) -> Option<u32> {
    value(line, &MODEL_NUMBER)?.parse().ok()
}

/// Release and parameters of the kernel.
pub(super) fn kernel(text: &SortedText<'_>) -> Kernel {
    let lines = || text.surroundings.iter().map(|line| line.text.trim());
    let parameters = lines().find(|line| is_command_line(line)).map(|line| {
        let words = line.split_whitespace().filter(|word| bears_on_devices(word));
        words.map(str::to_owned).collect()
    });
    let release = lines().filter(|line| !is_command(line)).find_map(release).map(str::to_owned);
    let options: Vec<&str> = lines().filter(|line| configuration::is_known(line)).collect();
    let option = |name| configuration::option(&options.join("\n"), name);
    Kernel {
        release,
        parameters,
        has_p2pdma: option(configuration::P2PDMA),
        has_amd_p2p: option(configuration::AMD_P2P),
        has_move_notify: option(configuration::MOVE_NOTIFY),
        ..Kernel::default()
    }
}

/// The processor, if lines name its maker.
pub(super) fn cpu(text: &SortedText<'_>) -> Option<Cpu> {
    let find = |keys: &[&str]| {
        let mut lines = text.surroundings.iter();
        lines.find_map(|line| value(line.text.trim(), keys)).map(str::to_owned)
    };
    // As discovery names the maker of an Arm processor.
    let implementer = || Some(format!("CPU implementer {}", find(&IMPLEMENTER)?));
    let vendor = find(&VENDOR).or_else(implementer)?;
    let family = find(&FAMILY).and_then(|family| family.parse().ok());
    let model_number = text.surroundings.iter().find_map(|line| model_number(line.text.trim()));
    Some(Cpu { vendor: Some(vendor), family, model_number, model: find(&MODEL) })
}

/// The maker of the processor, by its host bridge: an Intel root complex is part of an Intel processor, or
/// pairs with no other one. Those that QEMU emulates (29c0, 1237) say nothing.
pub(super) fn cpu_of_host_bridge(functions: &[Listed]) -> Cpu {
    const HOST_BRIDGE: u32 = 0x06_00;
    const QEMU_DEVICES: [u16; 2] = [0x29c0, 0x1237];
    const QEMU_SUBSYSTEM: u16 = 0x1af4;
    let is_first = |one: &&Listed| {
        let address = one.address;
        (address.domain(), address.bus(), address.devfn()) == (0, 0, 0)
    };
    let is_intel = functions.iter().find(is_first).is_some_and(|one| {
        let is_emulated = one.function.device.is_none_or(|device| QEMU_DEVICES.contains(&device))
            || one.subsystem_vendor == Some(QEMU_SUBSYSTEM);
        one.class16() == Some(HOST_BRIDGE)
            && one.function.vendor == Some(VENDOR_INTEL)
            && !is_emulated
    });
    Cpu { vendor: is_intel.then(|| "GenuineIntel".to_owned()), ..Cpu::default() }
}

/// Returns the translation of addresses, if parameters of the kernel decide it.
///
/// `iommu=off` and its forms leave no IOMMU. A domain type that a parameter names counts only where the
/// functions have groups (`iommu_set_def_domain_type` in drivers/iommu/iommu.c).
pub(super) fn iommu(parameters: Option<&[String]>, has_groups: bool) -> IommuMode {
    let has = |wanted: &[&str]| {
        parameters.is_some_and(|list| {
            list.iter().any(|parameter| {
                let (key, values) = parameter.split_once('=').unwrap_or((parameter, ""));
                values.split(',').any(|value| {
                    wanted.iter().any(|word| word.split_once('=') == Some((key, value)))
                })
            })
        })
    };
    if !has_groups && has(&["iommu=off", "intel_iommu=off", "amd_iommu=off"]) {
        return IommuMode::Off;
    }
    if !has_groups {
        return IommuMode::Unknown;
    }
    let passes =
        has(&["iommu=pt", "iommu.passthrough=1", "iommu.passthrough=on", "iommu.passthrough=y"]);
    let translates =
        has(&["iommu=nopt", "iommu.passthrough=0", "iommu.passthrough=off", "iommu.passthrough=n"]);
    match (passes, translates) {
        (true, false) => IommuMode::Passthrough,
        (false, true) => IommuMode::Translating,
        _ => IommuMode::Unknown,
    }
}
