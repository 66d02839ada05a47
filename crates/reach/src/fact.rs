//! Facts behind a peer-to-peer decision, one variant a kind of fact, printable on its own.

use std::fmt;

use peerlane_fabric::lspci::Key;
use peerlane_fabric::{Fabric, Function};

use crate::allow_list::NEWEST_LIST;

/// Reasons why the ACS control register of a function is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadRegister {
    /// The input has no such register of the function.
    Missing,
    /// The function does not answer.
    Silent,
    /// The register of a pasted text is cut, or contradicts another one.
    Cut {
        /// Its line.
        line: u32,
    },
    /// The text has registers that no function could be given.
    Unattached {
        /// Their number.
        count: usize,
    },
}

impl UnreadRegister {
    /// The reason for a function whose register is unknown.
    pub(crate) fn from_function(fabric: &Fabric, function: &Function) -> Self {
        let lost = fabric.account.as_ref().map_or(0, |account| account.lost(Key::AcsControl));
        if function.is_silent {
            return Self::Silent;
        }
        match (function.lines.and_then(|lines| lines.acs), lost) {
            (Some(line), _) => Self::Cut { line },
            (None, 0) => Self::Missing,
            (None, count) => Self::Unattached { count },
        }
    }
}

impl fmt::Display for UnreadRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("run lspci or peerlane as root"),
            Self::Silent => {
                f.write_str("the device does not answer, and its registers read as ones")
            }
            Self::Cut { line } => {
                write!(f, "the register in line {line} is cut, or contradicts another line")
            }
            Self::Unattached { count } => {
                write!(f, "{count} ACS registers of the text belong to no known function")
            }
        }
    }
}

/// One fact behind a [`Reach`](crate::Reach); names are those of functions and host bridges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Provider and initiator are one function.
    SameFunction {
        /// Its name.
        function: String,
    },
    /// Both hang below one port, and transactions can turn round there.
    CommonAncestor {
        /// Owner of the memory.
        provider: String,
        /// The function that reads or writes it.
        initiator: String,
        /// The nearest function above both.
        ancestor: String,
    },
    /// They meet only at the root complex.
    SeparateRootPorts {
        /// Owner of the memory.
        provider: String,
        /// The function that reads or writes it.
        initiator: String,
        /// The function on the root bus above the provider.
        provider_top: String,
        /// The function on the root bus above the initiator.
        initiator_top: String,
    },
    /// The description has several machines, and they are in different ones.
    OtherMachine {
        /// Owner of the memory.
        provider: String,
        /// The function that reads or writes it.
        initiator: String,
    },
    /// A function on the way sends peer requests up to the root complex.
    AcsRedirect {
        /// Its name.
        function: String,
        /// Its ACS control register.
        control: u16,
    },
    /// The ACS bits of a function on the way could not be read.
    AcsUnknown {
        /// Its name.
        function: String,
        /// The reason.
        register: UnreadRegister,
    },
    /// The kernel lets peers talk through this CPU.
    CpuForwards {
        /// AMD family.
        family: u32,
    },
    /// The kernel does not let peers talk through this CPU without a listed host bridge.
    CpuDoesNotForward {
        /// CPU vendor.
        vendor: String,
        /// CPU family.
        family: Option<u32>,
    },
    /// CPU vendor or family could not be read.
    CpuUnknown,
    /// The kernel lists the host bridge.
    HostBridgeListed {
        /// Its name.
        bridge: String,
        /// PCI vendor of its test device.
        vendor: u16,
        /// PCI device of its test device.
        device: u16,
        /// The list that was looked at.
        list: KernelList,
    },
    /// The kernel does not list the host bridge.
    HostBridgeNotListed {
        /// Its name.
        bridge: String,
        /// PCI vendor of its test device.
        vendor: u16,
        /// PCI device of its test device.
        device: u16,
        /// The list that was looked at.
        list: KernelList,
    },
    /// The kernel lists the host bridge, but only for traffic that stays below it.
    SameBridgeOnly {
        /// Its name.
        bridge: String,
        /// PCI vendor of its test device.
        vendor: u16,
        /// PCI device of its test device.
        device: u16,
        /// The list that was looked at.
        list: KernelList,
    },
    /// The root bus starts with no function that could identify the host bridge to the kernel.
    HostBridgeWithoutTestDevice {
        /// Its name.
        bridge: String,
    },
    /// The bridges above a bus are not in the text that the machine was read from.
    BridgesUnknown {
        /// The bus.
        bus: String,
    },
    /// Vendor, device or place of the host bridge is unknown.
    HostBridgeUnknown {
        /// Its name.
        bridge: String,
    },
}

/// A list of host bridges that the kernel trusts to forward peer traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelList {
    /// The list of the machine's kernel, or of the nearest version known.
    OfMachine,
    /// The newest known, since the machine's kernel version is not.
    Newest,
}

impl fmt::Display for KernelList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = NEWEST_LIST;
        match self {
            Self::OfMachine => f.write_str("the kernel's list"),
            Self::Newest => write!(f, "Linux {major}.{minor}'s list"),
        }
    }
}

impl Fact {
    /// Kernel file and function that looks at this, in Linux 7.2.
    pub fn source(&self) -> &'static str {
        match self {
            Self::SameFunction { .. }
            | Self::CommonAncestor { .. }
            | Self::SeparateRootPorts { .. }
            | Self::OtherMachine { .. }
            | Self::BridgesUnknown { .. } => "drivers/pci/p2pdma.c calc_map_type_and_dist()",
            Self::AcsRedirect { .. } | Self::AcsUnknown { .. } => {
                "drivers/pci/p2pdma.c pci_bridge_has_acs_redir()"
            }
            Self::CpuForwards { .. } | Self::CpuDoesNotForward { .. } | Self::CpuUnknown => {
                "drivers/pci/p2pdma.c cpu_supports_p2pdma()"
            }
            Self::HostBridgeListed { .. }
            | Self::HostBridgeNotListed { .. }
            | Self::SameBridgeOnly { .. } => "drivers/pci/p2pdma.c __host_bridge_whitelist()",
            Self::HostBridgeWithoutTestDevice { .. } | Self::HostBridgeUnknown { .. } => {
                "drivers/pci/p2pdma.c pci_host_bridge_dev()"
            }
        }
    }

    /// The fact without the port that it is about, and the port; other facts as they are.
    fn split_port(&self) -> (Self, Option<&str>) {
        let function = String::new();
        match self {
            Self::AcsRedirect { function: port, control } => {
                (Self::AcsRedirect { function, control: *control }, Some(port))
            }
            Self::AcsUnknown { function: port, register } => {
                (Self::AcsUnknown { function, register: *register }, Some(port))
            }
            other => (other.clone(), None),
        }
    }

    /// The fact about these ports.
    fn with_ports(&self, ports: &[&str]) -> Self {
        match self {
            Self::AcsRedirect { control, .. } => {
                Self::AcsRedirect { function: named(ports), control: *control }
            }
            Self::AcsUnknown { register, .. } => {
                Self::AcsUnknown { function: named(ports), register: *register }
            }
            other => other.clone(),
        }
    }
}

/// A function and the port that it is below; alone where it is on a root bus itself.
fn with_top(function: &str, top: &str) -> String {
    if function == top { function.to_owned() } else { format!("{function} (below {top})") }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameFunction { function } => {
                write!(f, "{function} reaches its own memory without leaving the device")
            }
            Self::CommonAncestor { provider, initiator, ancestor } => {
                let is_other = |one: &&String| *one != ancestor;
                match [initiator, provider].into_iter().filter(is_other).collect::<Vec<_>>()[..] {
                    [below] => write!(f, "{below} lies below {ancestor}, and both below the CPU"),
                    _ => write!(f, "{initiator} and {provider} meet at {ancestor}, below the CPU"),
                }
            }
            Self::SeparateRootPorts { provider, initiator, provider_top, initiator_top } => write!(
                f,
                "{} and {} share no switch or port, so traffic between them must pass through the CPU's \
                 root complex",
                with_top(initiator, initiator_top),
                with_top(provider, provider_top)
            ),
            Self::OtherMachine { provider, initiator } => {
                write!(f, "{initiator} and {provider} are in different machines")
            }
            Self::AcsRedirect { function, control } => write!(
                f,
                "ACS redirects peer traffic up to the CPU at {function} (ACS control {control:#06x}: {})",
                acs_bits(*control)
            ),
            Self::AcsUnknown { function, register } => {
                write!(f, "ACS unknown on {function}: {register}")
            }
            Self::CpuForwards { family } => write!(
                f,
                "the kernel lets peers talk through AMD CPUs of family {family} (Zen and later)"
            ),
            Self::CpuDoesNotForward { vendor, family: Some(family) } => {
                write!(f, "the CPU ({vendor} family {family}) is not an AMD Zen or later")
            }
            Self::CpuDoesNotForward { vendor, family: None } => {
                write!(f, "the CPU ({vendor}) is not an AMD Zen or later")
            }
            Self::CpuUnknown => write!(f, "CPU vendor and family are unknown"),
            Self::HostBridgeListed { bridge, vendor, device, list } => write!(
                f,
                "host bridge {bridge} ({vendor:04x}:{device:04x}) is on {list} of those that \
                 forward peer traffic"
            ),
            Self::HostBridgeNotListed { bridge, vendor, device, list } => write!(
                f,
                "host bridge {bridge} ({vendor:04x}:{device:04x}) is not on {list} of those \
                 that forward peer traffic"
            ),
            Self::SameBridgeOnly { bridge, vendor, device, list } => write!(
                f,
                "host bridge {bridge} ({vendor:04x}:{device:04x}) is on {list} only for traffic \
                 that stays below it"
            ),
            Self::HostBridgeWithoutTestDevice { bridge } => write!(
                f,
                "host bridge {bridge} shows the kernel no device to know it by, so it counts as not \
                 listed"
            ),
            Self::BridgesUnknown { bus } => write!(
                f,
                "the bridges above {bus} are not listed, so the switches on the path are unknown"
            ),
            Self::HostBridgeUnknown { bridge } => {
                write!(f, "the identity of host bridge {bridge} is unknown")
            }
        }
    }
}

/// Names in a list before it only counts.
const MAX_NAMED: usize = 2;

/// Facts in words, each sentence once: ports with equal ACS share one.
pub(crate) fn in_words<'a>(facts: impl Iterator<Item = &'a Fact>) -> Vec<String> {
    let mut merged: Vec<(Fact, Vec<&str>)> = Vec::new();
    for fact in facts {
        let (without_port, port) = fact.split_port();
        match merged.iter_mut().find(|(one, ports)| *one == without_port && !ports.is_empty()) {
            Some((_, ports)) => ports.extend(port),
            None => merged.push((without_port, port.into_iter().collect())),
        }
    }
    merged.iter().map(|(fact, ports)| fact.with_ports(ports).to_string()).collect()
}

/// The first names; how many more there are.
fn named(ports: &[&str]) -> String {
    match ports.len().saturating_sub(MAX_NAMED) {
        0 => ports.join(" and "),
        1 => format!("{} and 1 more port", ports[..MAX_NAMED].join(", ")),
        more => format!("{} and {more} more ports", ports[..MAX_NAMED].join(", ")),
    }
}

/// The redirecting bits that are set, by their names in PCIe 6.0 section 7.7.11.3.
pub(crate) fn acs_bits(control: u16) -> String {
    let bits =
        [(0x04, "request redirect"), (0x08, "completion redirect"), (0x20, "egress control")];
    let set: Vec<&str> =
        bits.into_iter().filter(|(bit, _)| control & bit != 0).map(|(_, name)| name).collect();
    set.join(", ")
}
