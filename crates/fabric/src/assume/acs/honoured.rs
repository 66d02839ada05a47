//! Kernels that read the parameters, by their release.
//!
//! Mainline: `disable_acs_redir` came with 4.19 (commit aaca43fda742), `config_acs` with 6.11 (commit
//! 47c8846a49ba). That commit broke both: bits that were to be cleared got the firmware's value, all other
//! bits were set by `disable_acs_redir`, and `config_acs` read its first entry only. Commit 9cf8a952d57b
//! repairs both, in 6.15, 6.14.2, 6.13.11 and 6.12.23 (stable reviews of 8 April 2025); 6.11 ended without
//! it.
//!
//! Distributions: Ubuntu's 6.8 has `config_acs` and the repair in 6.8.0-151-generic (its strings, and
//! booted), and its changelog adds neither after 6.8.0-116. Ubuntu's kernels for NVIDIA's machines had it
//! in 6.8 and 6.11, at first with the fault (NVIDIA/NV-Kernels pull requests 20, 49, 50, 63). Kernels of
//! Red Hat and SUSE take features of later ones, which their releases do not show.

use super::AcsParameter;
use crate::Kernel;

/// Answer to whether a kernel honours a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Honoured {
    /// It does.
    Yes,
    /// It does not, for this reason.
    No(String),
    /// The release does not tell, for this reason.
    NotKnown(String),
}

/// First release with each parameter, and the first of each line without the fault.
const DISABLE_ACS_REDIR: (u32, u32) = (4, 19);
const CONFIG_ACS: (u32, u32) = (6, 11);
const REPAIRED: (u32, u32) = (6, 15);
const REPAIRED_IN: [((u32, u32), u32); 3] = [((6, 12), 23), ((6, 13), 11), ((6, 14), 2)];

/// Ubuntu's line with both parameters repaired, and the first known of its builds.
const UBUNTU_REPAIRED: ((u32, u32), u32) = ((6, 8), 116);
/// Ends of Ubuntu's releases whose builds are counted so.
const UBUNTU_FLAVOURS: [&str; 2] = ["-generic", "-lowlatency"];

/// Parts of the releases of kernels that take features of later ones.
const BACKPORTING: [(&str, &str); 4] = [
    (".el", "kernels of Red Hat and its kin"),
    ("-default", "SUSE's kernels"),
    ("-nvidia", "Ubuntu's kernels for NVIDIA's machines"),
    ("-tegra", "kernels for NVIDIA's Jetson"),
];

impl AcsParameter {
    /// Returns the newest parameter that a kernel is known to honour.
    pub fn newest_honoured(kernel: &Kernel) -> Option<Self> {
        Self::ALL.into_iter().find(|parameter| parameter.honoured_by(kernel) == Honoured::Yes)
    }

    /// Returns whether a kernel honours the parameter.
    pub fn honoured_by(self, kernel: &Kernel) -> Honoured {
        let Some(release) = kernel.release.as_deref() else {
            return Honoured::NotKnown("the kernel's release is unknown".to_owned());
        };
        let Some((line, patch)) = numbers(release) else {
            return Honoured::NotKnown(format!("{release} is not a release of Linux"));
        };
        if line >= REPAIRED || is_repaired_by_ubuntu(release, line) {
            return Honoured::Yes;
        }
        if let Some(who) = backporting(release, patch) {
            return Honoured::NotKnown(format!("{who} such as {release} take parts of later ones"));
        }
        if line == UBUNTU_REPAIRED.0 && is_numbered_by_distribution(release, patch) {
            let name = self.name();
            return Honoured::NotKnown(format!("{release} may lack the fix for pci={name}="));
        }
        let (since, is_broken) = match self {
            Self::DisableAcsRedir => (DISABLE_ACS_REDIR, line >= CONFIG_ACS),
            Self::ConfigAcs => (CONFIG_ACS, true),
        };
        if line < since {
            let (major, minor) = since;
            let name = self.name();
            return Honoured::No(format!("pci={name}= came with Linux {major}.{minor}"));
        }
        if is_broken { self.repaired(release, line, patch) } else { Honoured::Yes }
    }

    /// The reason why neither is known to be honoured by a kernel.
    pub(super) fn refusal(kernel: &Kernel) -> String {
        let line = kernel.release.as_deref().and_then(numbers).map(|(line, _)| line);
        let is_early = line.is_some_and(|line| line < CONFIG_ACS);
        let parameter = if is_early { Self::DisableAcsRedir } else { Self::ConfigAcs };
        match parameter.honoured_by(kernel) {
            Honoured::Yes => String::new(),
            Honoured::No(reason) | Honoured::NotKnown(reason) => reason,
        }
    }

    /// Tests whether a release of 6.11 to 6.14 has the repair of the fault of 6.11.
    fn repaired(self, release: &str, line: (u32, u32), patch: u32) -> Honoured {
        let first = REPAIRED_IN.iter().find(|(known, _)| *known == line).map(|(_, patch)| *patch);
        if first.is_some_and(|first| patch >= first) {
            return Honoured::Yes;
        }
        if is_numbered_by_distribution(release, patch) {
            let reason = format!(
                "{release} does not show whether it has the repair of pci={}= from Linux 6.15",
                self.name()
            );
            return Honoured::NotKnown(reason);
        }
        Honoured::No(format!(
            "Linux {release} leaves bits at the firmware's value that pci={}= clears; repaired in \
             6.12.23, 6.13.11, 6.14.2 and 6.15",
            self.name()
        ))
    }

    /// Returns whether bits other than those that `disable_acs_redir` clears become the firmware's,
    /// as from 6.11 on, or may do so; before, they stayed as the kernel sets them.
    pub(super) fn takes_firmware_bits(kernel: &Kernel) -> bool {
        let Some(release) = kernel.release.as_deref() else { return true };
        let Some((line, patch)) = numbers(release) else { return true };
        line >= CONFIG_ACS
            || is_numbered_by_distribution(release, patch)
            || backporting(release, patch).is_some()
    }
}

/// Returns whether a distribution counts its builds behind a third number that stays 0. Such a
/// release hides the features of later ones that it has. Debian's kernels take stable releases as
/// they are.
fn is_numbered_by_distribution(release: &str, patch: u32) -> bool {
    let is_plain = ["-rc", "-amd64", "-arm64"].iter().any(|part| release.contains(part));
    patch == 0 && release.contains('-') && !is_plain
}

/// Returns whether Ubuntu has repaired both parameters.
fn is_repaired_by_ubuntu(release: &str, line: (u32, u32)) -> bool {
    let (repaired, first) = UBUNTU_REPAIRED;
    let build = || {
        let flavour = UBUNTU_FLAVOURS.iter().find_map(|end| release.strip_suffix(end))?;
        flavour.rsplit('-').next()?.parse::<u32>().ok()
    };
    line == repaired && build().is_some_and(|build| build >= first)
}

/// The maker of a kernel that takes features of later ones without showing it.
fn backporting(release: &str, patch: u32) -> Option<&'static str> {
    let (_, who) = BACKPORTING.iter().find(|(part, _)| release.contains(part))?;
    // Rebuilds of mainline for Red Hat's systems count as mainline does (`7.1.9-1.el9.elrepo`).
    (patch == 0 || !release.contains(".el")).then_some(*who)
}

/// Version and third number: `6.12.48+deb13-amd64` is 6.12 and 48.
fn numbers(release: &str) -> Option<((u32, u32), u32)> {
    let end =
        release.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(release.len());
    let mut numbers = release[..end].split('.').map(str::parse::<u32>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(((major, minor), numbers.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str) -> Kernel {
        Kernel { release: Some(release.to_owned()), ..Kernel::default() }
    }

    #[test]
    fn releases_tell_the_newest_parameter() {
        let newest = |release| AcsParameter::newest_honoured(&kernel(release));
        let (config, disable) =
            (Some(AcsParameter::ConfigAcs), Some(AcsParameter::DisableAcsRedir));
        for (release, expected) in [
            ("4.15.0-213-generic", None),
            ("4.18.20", None),
            ("4.19.0-27-amd64", disable),
            ("5.15.0-130-generic", disable),
            ("6.1.0-31-amd64", disable),
            ("6.8.0-151-generic", config),
            ("6.8.0-116-lowlatency", config),
            ("6.8.12-4-pve", disable),
            ("6.10.14", disable),
            ("6.11.11", None),
            ("6.12.22-amd64", None),
            ("6.12.48+deb13-amd64", config),
            ("6.12.48", config),
            ("6.13.10", None),
            ("6.13.11-arch1-1", config),
            ("6.14.0", None),
            ("6.14.2", config),
            ("6.15.0-rc1", config),
            ("6.17.0-14-generic", config),
            ("7.3.4+deb13-cloud-amd64", config),
            ("6.14.8-2-pve", config),
            ("6.12.40-64.114.amzn2023.x86_64", config),
            ("7.1.9-1.el9.elrepo.x86_64", config),
        ] {
            assert_eq!(newest(release), expected, "{release}");
        }
    }

    #[test]
    fn releases_of_distributions_leave_doubt() {
        for release in [
            "4.18.0-553.el8_10.x86_64",
            "5.14.0-570.17.1.el9_6.x86_64",
            "6.12.0-124.8.1.el10_1.x86_64",
            "5.15.0-300.163.18.el9uek.x86_64",
            "6.4.0-150700.53-default",
            "6.8.0-1025-nvidia",
            "6.8.0-1025-aws",
            "6.8.0-60-generic",
            "5.15.148-tegra",
            "6.11.0-29-generic",
            "6.14.0-37-generic",
            "mainline",
        ] {
            for parameter in AcsParameter::ALL {
                let honoured = parameter.honoured_by(&kernel(release));
                assert!(matches!(honoured, Honoured::NotKnown(_)), "{release}: {honoured:?}");
            }
        }
        assert_eq!(AcsParameter::newest_honoured(&Kernel::default()), None);
    }

    #[test]
    fn broken_and_early_kernels_are_refused() {
        for (release, parameter, part) in [
            ("4.14.1", AcsParameter::DisableAcsRedir, "came with Linux 4.19"),
            ("5.15.0-130-generic", AcsParameter::ConfigAcs, "came with Linux 6.11"),
            ("6.12.10", AcsParameter::ConfigAcs, "repaired in 6.12.23"),
            ("6.11.3", AcsParameter::DisableAcsRedir, "pci=disable_acs_redir="),
        ] {
            match parameter.honoured_by(&kernel(release)) {
                Honoured::No(reason) => assert!(reason.contains(part), "{release}: {reason}"),
                other => panic!("{release}: {other:?}"),
            }
        }
    }

    #[test]
    fn old_kernels_keep_their_other_bits() {
        for (release, expected) in [
            ("6.1.0-31-amd64", false),
            ("6.8.12", false),
            ("5.15.0-130-generic", true),
            ("7.2.13", true),
            ("4.18.0-553.el8", true),
        ] {
            let kernel = kernel(release);
            assert_eq!(AcsParameter::takes_firmware_bits(&kernel), expected, "{release}");
        }
    }
}
