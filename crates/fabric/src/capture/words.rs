//! Texts that may hold a person's own words: only their known forms are kept.

use crate::sysfs::nvidia;

/// Words of a kernel's release that say which flavour it is; others may name a host or a project.
const FLAVOURS: [&str; 30] = [
    "aarch64",
    "amd64",
    "arch",
    "arm64",
    "aws",
    "azure",
    "bpo",
    "cloud",
    "default",
    "deb",
    "el",
    "fc",
    "gcp",
    "generic",
    "hardened",
    "hwe",
    "lowlatency",
    "lts",
    "microsoft",
    "nvidia",
    "oracle",
    "pve",
    "raspi",
    "rc",
    "rt",
    "standard",
    "uek",
    "wsl",
    "x86_64",
    "zen",
];

/// Values of `CoherentGPUMemoryMode` (`nv-reg.h` of the open kernel modules 595.45.04).
const NVIDIA_WORDS: [&str; 2] = ["driver", "numa"];

/// Kernel parameters that bear on devices and whose values are words of the kernel, numbers or PCI
/// addresses. `nvme_core.hostnqn` and others of their modules name the machine.
const PARAMETERS: [&str; 22] = [
    "amd_iommu",
    "arm-smmu.disable_bypass",
    "arm-smmu-v3.disable_bypass",
    "intel_iommu",
    "iommu",
    "iommu.forcedac",
    "iommu.passthrough",
    "iommu.strict",
    "nvme.io_queue_depth",
    "nvme.poll_queues",
    "nvme.sgl_threshold",
    "nvme.use_cmb_sqes",
    "nvme.write_queues",
    "nvme_core.admin_timeout",
    "nvme_core.default_ps_max_latency_us",
    "nvme_core.io_timeout",
    "nvme_core.max_retries",
    "nvme_core.multipath",
    "pci",
    "pcie_acs_override",
    "pcie_aspm",
    "swiotlb",
];

/// The release of a kernel: its numbers and its known flavours.
pub(super) fn release(text: &str) -> String {
    let numbers: String =
        text.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-')).collect();
    let mut kept = numbers.clone();
    let mut parts = Vec::new();
    let mut rest = &text[numbers.len()..];
    while !rest.is_empty() {
        let end = rest.find(['-', '.', '+', '~']).map_or(rest.len(), |at| at + 1);
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    for part in parts {
        let word = part.trim_end_matches(['-', '.', '+', '~']);
        let bare = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let is_known = FLAVOURS.contains(&word) || FLAVOURS.contains(&bare);
        if is_known || word.chars().all(|c| c.is_ascii_digit()) {
            kept += part;
        }
    }
    let trimmed = kept.trim_end_matches(['-', '.', '~']);
    if text.len() == kept.len() { kept } else { trimmed.to_owned() }
}

/// A version: the numbers that it begins with.
pub(super) fn version(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// Kernel parameters of a command line that are known.
pub(super) fn parameters(text: &str) -> String {
    text.split_whitespace().filter(|word| is_known(word)).collect::<Vec<_>>().join(" ")
}

/// Returns whether captures keep a parameter.
pub(super) fn is_known(word: &str) -> bool {
    let Some((key, value)) = word.split_once('=') else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "\",./:;=@_+-".contains(c);
    PARAMETERS.contains(&key) && value.chars().all(is_plain)
}

/// Flags of the kernel's command line without a value, which name nothing.
const FLAGS: [&str; 18] = [
    "--",
    "debug",
    "irqpoll",
    "nmi_watchdog",
    "noapic",
    "noefi",
    "noexec",
    "nofb",
    "nokaslr",
    "nolapic",
    "nomodeset",
    "noresume",
    "nosmt",
    "quiet",
    "rhgb",
    "ro",
    "rw",
    "splash",
];

/// Returns whether captures keep a flag of the kernel's command line.
pub(super) fn is_flag(word: &str) -> bool {
    FLAGS.contains(&word)
}

/// Words in settings of cuFile that identify no machine and no person: kinds of peers and routes,
/// drivers, file systems.
const CUFILE_WORDS: [&str; 30] = [
    "GPU_MEM",
    "GPU_MEM_NVLINKS",
    "P2P",
    "SYS_MEM",
    "beegfs",
    "btrfs",
    "dmabuf",
    "ext4",
    "false",
    "gpfs",
    "lustre",
    "mmfs",
    "nfs",
    "nfs4",
    "nvme",
    "nvme-rdma",
    "nvme-tcp",
    "nvmeof",
    "panfs",
    "peer_mem",
    "scaleflux",
    "scatefs",
    "scsi",
    "sfxvdriver",
    "true",
    "virtiofs",
    "weka",
    "wekafs",
    "xfs",
    "zfs",
];

/// Returns whether a text in settings of cuFile is one of its own words, not a person's.
pub(super) fn is_of_cufile(text: &str) -> bool {
    CUFILE_WORDS.contains(&text)
}

/// Parameters of NVIDIA's driver that bear on peer traffic, as lines of `params`.
pub(super) fn nvidia_parameters(text: &str) -> String {
    let parameters = nvidia::described("", text).parameters;
    let lines = parameters.iter().map(|(name, value)| {
        let entries: Vec<&str> =
            value.split(';').filter(|entry| is_registry_entry(entry)).collect();
        let is_plain = value.parse::<u32>().is_ok() || NVIDIA_WORDS.contains(&value.as_str());
        let kept = if is_plain { value.clone() } else { entries.join(";") };
        nvidia::parameter_line(name, &kept)
    });
    lines.collect()
}

/// Returns whether an entry of the driver's registry is a key with a number, or names a GPU by its
/// PCI address.
fn is_registry_entry(entry: &str) -> bool {
    let Some((key, value)) = entry.split_once('=') else { return false };
    let (key, value) = (key.trim(), value.trim());
    let hex = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let is_number = hex.map_or_else(
        || value.parse::<u32>().is_ok(),
        |digits| u32::from_str_radix(digits, 16).is_ok(),
    );
    let is_address =
        key == "pci" && value.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && (is_number || is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_lose_private_words() {
        for whole in [
            "7.2.13",
            "6.8.0-60-generic",
            "6.12.43+deb13-amd64",
            "5.14.0-427.13.1.el9_4.x86_64",
            "6.9.1-arch1-1",
            "6.1.0-rc3",
            "6.14.5-300.fc42.x86_64",
            "6.8.12-4-pve",
        ] {
            assert_eq!(release(whole), whole);
        }
        assert_eq!(release("6.8.0-acme-db1-amd64"), "6.8.0-amd64");
        assert_eq!(release("6.8.0-60-bobs.laptop"), "6.8.0-60");
        assert_eq!(release("acme"), "");
        assert_eq!(version("570.133.20"), "570.133.20");
        assert_eq!(version("2.1-acme"), "2.1");
        assert_eq!(version("bob"), "");
    }

    #[test]
    fn parameters_are_kept_by_name() {
        let text = "root=/dev/x quiet iommu=pt nvme.host_id=1234 nvme_core.hostnqn=nqn.2014-08.acme \
                    nvme_core.multipath=N pci=disable_acs_redir=00:02.0/00.0;00:03.0";
        let kept = "iommu=pt nvme_core.multipath=N pci=disable_acs_redir=00:02.0/00.0;00:03.0";
        assert_eq!(parameters(text), kept);
    }

    #[test]
    fn registry_keys_keep_only_numbers() {
        let text = "NvLinkDisable: 0\nRmMsg: \"acme\"\nCoherentGPUMemoryMode: \"driver\"\n\
                    RegistryDwords: \"ForceP2P=0x11;Name=acme; RMForceStaticBar1=1;acme\"\n\
                    RegistryDwordsPerDevice: \"pci=0000:41:00.0;ForceP2P=1;pci=acme.org\"\n";
        let kept = "CoherentGPUMemoryMode: \"driver\"\nNvLinkDisable: 0\n\
                    RegistryDwords: \"ForceP2P=0x11; RMForceStaticBar1=1\"\n\
                    RegistryDwordsPerDevice: \"pci=0000:41:00.0;ForceP2P=1\"\n";
        assert_eq!(nvidia_parameters(text), kept);
        assert_eq!(
            nvidia_parameters("CoherentGPUMemoryMode: \"acme\"\n"),
            "CoherentGPUMemoryMode: \"\"\n"
        );
    }
}
