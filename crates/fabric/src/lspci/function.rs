//! One function of a listing, read from its blocks.

use std::collections::{BTreeMap, HashMap};

use super::account::Ledger;
use super::acs::{self, Capabilities};
use super::blocks::{FunctionBlock, SortedText, Statement};
use super::error::LspciError;
use super::heading::{self, Heading};
use super::links;
use super::picture::TreePicture;
use super::windows::FunctionWindows;
use super::{Key, SetAsideReason};
use crate::gpu::VENDOR_INTEL;
use crate::sysfs::config_space::PortType;
use crate::tunnel::THUNDERBOLT_VSEC;
use crate::{Acs, Bdf, BridgeId, DriverBinding, Function, LineNumbers, LinkSpeed, Parent};

/// Buses behind a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BusRange {
    pub(super) secondary: u8,
    pub(super) subordinate: u8,
}

/// Virtual functions of a physical one (PCIe 6.0 section 9.3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VirtualFunctions {
    pub(super) count: u16,
    pub(super) offset: u16,
    pub(super) stride: u16,
}

/// A function that was read, and the facts that place it.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) address: Bdf,
    pub(super) function: Function,
    pub(super) port: PortType,
    /// An endpoint or a bridge whose link leads up to a port (PCIe 6.0 section 1.3): no root
    /// bus of a physical machine has one.
    pub(super) is_below_port: bool,
    /// It is part of the root complex, and so on a root bus (PCIe 6.0 section 1.3.2.3).
    pub(super) is_integrated: bool,
    /// Configuration space shows that it is a conventional PCI device.
    pub(super) is_conventional: bool,
    pub(super) buses: Option<BusRange>,
    /// It is a bridge whose bus numbers should have been printed and are not.
    pub(super) lacks_buses: bool,
    pub(super) virtual_functions: Option<VirtualFunctions>,
    pub(super) subsystem_vendor: Option<u16>,
    /// The value of its link register, above or below it.
    pub(super) current: Option<LinkSpeed>,
    pub(super) maximum: Option<LinkSpeed>,
    /// Its registers say that it is a port of Thunderbolt.
    pub(super) is_thunderbolt: bool,
    /// The block shows drivers where there are any, and is whole.
    pub(super) shows_driver: bool,
}

/// Functions of all blocks by address, with facts of the picture; whether signs of a cut were seen.
pub(super) fn functions(
    text: &mut SortedText<'_>,
    picture: &TreePicture,
) -> Result<(Vec<Listed>, bool), LspciError> {
    let SortedText { blocks, ledger, .. } = &mut *text;
    let mut by_address: BTreeMap<Bdf, Listed> = BTreeMap::new();
    let has_port_drivers = blocks.iter().any(|block| block.is_held_by("pcieport"));
    for (number, block) in blocks.iter().enumerate() {
        let mut found = read(block, ledger);
        // The kernel has a driver for every port. Where another one is listed with it and this one without,
        // or this is the last of the text, the end of the block may be missing.
        let is_last = number + 1 == blocks.len();
        let is_port =
            found.is_bridge() && !matches!(found.port, PortType::OtherPcie | PortType::NotPcie);
        let is_doubtful = ((has_port_drivers && is_port) || is_last) && !block.has_driver;
        if found.function.acs == Acs::Absent && found.is_bridge() && is_doubtful {
            found.function.acs = Acs::Unknown;
        }
        match by_address.get_mut(&found.address) {
            Some(known) => known.merge(found)?,
            None => drop(by_address.insert(found.address, found)),
        }
    }
    for device in &picture.devices {
        let known = by_address.entry(device.address);
        let known = known.or_insert_with(|| Listed::bare(device.address, device.line));
        known.buses = known.buses.or(device.buses);
        if known.function.vendor.is_none() && known.function.device.is_none() {
            (known.function.vendor, known.function.device) = device.ids;
        }
    }
    let mut functions: Vec<Listed> = by_address.into_values().collect();
    settle_drivers(&mut functions);
    join_virtual_functions(&mut functions);
    Ok((functions, text.has_cuts || picture.has_cuts))
}

impl Listed {
    fn bare(address: Bdf, line: u32) -> Self {
        Self {
            address,
            function: bare_function(address, line),
            port: PortType::Unknown,
            is_below_port: false,
            is_integrated: false,
            is_conventional: false,
            buses: None,
            lacks_buses: false,
            virtual_functions: None,
            subsystem_vendor: None,
            current: None,
            maximum: None,
            is_thunderbolt: false,
            shows_driver: false,
        }
    }

    /// Returns whether it is a bridge, by its own facts alone.
    pub(super) fn is_bridge(&self) -> bool {
        let is_port = matches!(
            self.port,
            PortType::RootPort | PortType::UpstreamPort | PortType::DownstreamPort
        );
        is_port || self.buses.is_some() || self.class16() == Some(0x06_04)
    }

    /// Base class and subclass.
    pub(super) fn class16(&self) -> Option<u32> {
        self.function.class.map(|class| class >> 8)
    }

    /// Adds the facts of another block of the same function.
    fn merge(&mut self, other: Self) -> Result<(), LspciError> {
        let (own, new) = (&mut self.function, other.function);
        let differs = |one: Option<u16>, other: Option<u16>| {
            one.zip(other).is_some_and(|(one, other)| one != other)
        };
        if differs(own.vendor, new.vendor) || differs(own.device, new.device) {
            let line = |lines: Option<LineNumbers>| lines.map_or(0, |lines| lines.heading);
            return Err(LspciError::TwoMachines {
                address: self.address,
                lines: (line(own.lines), line(new.lines)),
            });
        }
        own.vendor = own.vendor.or(new.vendor);
        own.device = own.device.or(new.device);
        own.class = own.class.max(new.class);
        let (lines, new_lines) = (own.lines.get_or_insert_default(), new.lines.unwrap_or_default());
        (own.acs, lines.acs) = match (own.acs, new.acs) {
            (Acs::Unknown, new) => (new, new_lines.acs.or(lines.acs)),
            (own, Acs::Unknown) => (own, lines.acs),
            (own, new) if own == new => (own, lines.acs),
            _ => (Acs::Unknown, new_lines.acs.or(lines.acs)),
        };
        lines.link = new_lines.link.or(lines.link);
        own.numa_node = own.numa_node.or(new.numa_node);
        own.iommu_group = own.iommu_group.or(new.iommu_group);
        if new.driver != DriverBinding::Unknown {
            own.driver = new.driver;
        }
        if own.bars.is_empty() && own.unassigned_bars.is_empty() {
            (own.bars, own.unassigned_bars) = (new.bars, new.unassigned_bars);
        }
        if self.port == PortType::Unknown {
            self.port = other.port;
        }
        self.is_below_port |= other.is_below_port;
        self.is_integrated |= other.is_integrated;
        self.is_conventional |= other.is_conventional;
        self.buses = other.buses.or(self.buses);
        self.lacks_buses &= other.lacks_buses;
        self.virtual_functions = other.virtual_functions.or(self.virtual_functions);
        self.subsystem_vendor = self.subsystem_vendor.or(other.subsystem_vendor);
        self.current = other.current.or(self.current);
        self.maximum = other.maximum.or(self.maximum);
        self.is_thunderbolt |= other.is_thunderbolt;
        self.shows_driver |= other.shows_driver;
        Ok(())
    }
}

/// Reads one block.
fn read(block: &FunctionBlock, ledger: &mut Ledger) -> Listed {
    let Heading { class, interface, vendor, device } = heading::read(&block.heading);
    let mut listed = Listed::bare(block.address, block.line);
    let function = &mut listed.function;
    (function.vendor, function.device) = (vendor, device);
    function.is_silent = is_silent(block);
    // Without an answer the interface reads as ones; `lspci` has the class from the kernel.
    let interface = interface.filter(|_| !function.is_silent).unwrap_or_default();
    function.class = class.map(|class| u32::from(class) << 8 | u32::from(interface));
    let mut lines = LineNumbers { heading: block.line, ..LineNumbers::default() };
    let mut capabilities = Capabilities::default();
    let mut windows = FunctionWindows::default();
    let mut has_buses = false;
    let mut is_in_header = true;
    let mut resizable = None;
    for statement in &block.statements {
        capabilities.see(statement, ledger);
        let (key, value) = statement.text.split_once(':').unwrap_or((&statement.text, ""));
        let value = value.trim();
        match key {
            "Capabilities" => {
                is_in_header = false;
                listed.is_thunderbolt |= is_thunderbolt(value) && vendor == Some(VENDOR_INTEL);
                resizable = Resizable::from_capability(value);
                if express(value, &mut listed) {
                    let is_known = listed.port != PortType::Unknown;
                    ledger.attach_if(is_known, statement, Key::Express);
                }
            }
            "Bus" => {
                let range = buses(value);
                has_buses = range.is_some();
                ledger.attach_if(has_buses, statement, Key::Buses);
                listed.buses = range.filter(BusRange::is_assigned).or(listed.buses);
            }
            "Flags" => flags(statement, value, &mut listed, ledger),
            "NUMA node" => {
                listed.function.numa_node = value.parse().ok();
                ledger.attach_if(listed.function.numa_node.is_some(), statement, Key::NumaNode);
            }
            "IOMMU group" => {
                listed.function.iommu_group = value.parse().ok();
                ledger.attach_if(listed.function.iommu_group.is_some(), statement, Key::IommuGroup);
            }
            "Subsystem" => listed.subsystem_vendor = heading::read(&statement.text).vendor,
            "LnkCap" => {
                listed.maximum = links::speed(value);
                ledger.attach_if(links::is_whole(value), statement, Key::LinkCapability);
            }
            "LnkSta" => {
                listed.current = links::speed(value);
                lines.link = Some(statement.line);
                ledger.attach_if(links::is_whole(value), statement, Key::LinkState);
            }
            "Kernel driver in use" => {
                if let Some(name) = value.split(' ').next().filter(|name| !name.is_empty()) {
                    listed.function.driver = DriverBinding::Bound(name.to_owned());
                }
                ledger.attach_if(!value.is_empty(), statement, Key::Driver);
            }
            _ if key.starts_with("BAR ") && resizable.is_some() => {
                let fate = match resizable {
                    Some(Resizable::Virtual) => Err(SetAsideReason::OfVirtualFunctions),
                    _ => windows.resize(&statement.text),
                };
                ledger.note(statement, Key::ResizableBar, fate);
            }
            _ if is_window(&statement.text) => {
                let fate = match is_in_header {
                    true => windows.see(&statement.text),
                    false => Err(SetAsideReason::OfVirtualFunctions),
                };
                ledger.note(statement, Key::Window, fate);
            }
            _ => virtual_functions(statement, &mut listed.virtual_functions, ledger),
        }
    }
    let is_complete = block.has_end && !block.has_gap;
    (listed.function.acs, lines.acs) = capabilities.acs(is_complete);
    listed.is_conventional = capabilities.is_conventional(is_complete);
    if listed.is_conventional && listed.port == PortType::Unknown {
        listed.port = PortType::NotPcie;
    }
    let is_verbose = !block.statements.is_empty();
    listed.lacks_buses = is_verbose && !has_buses && listed.is_bridge();
    listed.shows_driver = is_complete && !block.statements.is_empty();
    listed.function.lines = Some(lines);
    (listed.function.bars, listed.function.unassigned_bars) =
        (windows.assigned, windows.unassigned);
    listed
}

/// Returns whether registers read as ones: the revision is `ff`, or the header of no known type.
fn is_silent(block: &FunctionBlock) -> bool {
    let is_of_ones = |one: &Statement| one.text.starts_with("!!! Unknown header type 7f");
    let has_capabilities =
        block.statements.iter().any(|one| one.text.starts_with("Capabilities: ["));
    !has_capabilities
        && (heading::has_no_revision(&block.heading) || block.statements.iter().any(is_of_ones))
}

/// Reads `[500 v1] Vendor Specific Information: ID=1234 Rev=1 Len=0d8`.
fn is_thunderbolt(capability: &str) -> bool {
    let id = capability.split_once("Vendor Specific Information: ID=").map(|(_, rest)| rest);
    let id = id.and_then(|rest| u16::from_str_radix(rest.get(..4)?, 16).ok());
    id == Some(THUNDERBOLT_VSEC)
}

/// Kinds of resizable windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resizable {
    /// Of the function itself.
    Physical,
    /// Of its virtual functions.
    Virtual,
}

impl Resizable {
    /// Reads the name of a capability.
    fn from_capability(name: &str) -> Option<Self> {
        let kinds =
            [("Physical Resizable BAR", Self::Physical), ("Virtual Resizable BAR", Self::Virtual)];
        kinds.into_iter().find(|(known, _)| name.contains(known)).map(|(_, kind)| kind)
    }
}

/// Reads memory node and group in `bus master, fast devsel, latency 0, NUMA node 0, IOMMU group 4`.
fn flags(statement: &Statement, value: &str, listed: &mut Listed, ledger: &mut Ledger) {
    for flag in value.split(',').map(str::trim) {
        if let Some(node) = flag.strip_prefix("NUMA node ") {
            listed.function.numa_node = node.parse().ok();
            ledger.attach_if(listed.function.numa_node.is_some(), statement, Key::NumaNode);
        } else if let Some(group) = flag.strip_prefix("IOMMU group ") {
            listed.function.iommu_group = group.parse().ok();
            ledger.attach_if(listed.function.iommu_group.is_some(), statement, Key::IommuGroup);
        }
    }
}

fn is_window(text: &str) -> bool {
    ["Region ", "Memory at ", "[virtual] Memory at ", "I/O ports at "]
        .iter()
        .any(|front| text.starts_with(front))
}

/// Names of device types in full, as `cap_express` in ls-caps.c of pciutils prints them: a line that was
/// cut ends with the beginning of one.
const EXPRESS_NAMES: [&str; 8] = [
    "Endpoint",
    "Legacy Endpoint",
    "Root Port",
    "Upstream Port",
    "Downstream Port",
    "PCI-Express to PCI/PCI-X Bridge",
    "Root Complex Integrated Endpoint",
    "Root Complex Event Collector",
];

/// Reads the port type in `[40] Express (v2) Root Port (Slot+), IntMsgNum 0`; whether it is that capability.
fn express(value: &str, listed: &mut Listed) -> bool {
    let Some((_, name)) = value.split_once(']') else { return false };
    let name = name.trim();
    if !acs::is_express(name) {
        return false;
    }
    let kind = name["Express".len()..].trim_start();
    let kind = match kind.strip_prefix("(v").and_then(|rest| rest.split_once(')')) {
        Some((_, kind)) => kind.trim_start(),
        None => kind,
    };
    let is = |known: &str| kind.starts_with(known);
    listed.port = match kind {
        _ if is("Root Port") => PortType::RootPort,
        _ if is("Upstream Port") => PortType::UpstreamPort,
        _ if is("Downstream Port") => PortType::DownstreamPort,
        _ if EXPRESS_NAMES.iter().any(|name| *name != kind && name.starts_with(kind)) => {
            PortType::Unknown
        }
        _ => PortType::OtherPcie,
    };
    listed.is_integrated = is("Root Complex ");
    listed.is_below_port = is("Endpoint") || is("Legacy Endpoint") || is("PCI-Express to PCI");
    true
}

/// Reads `primary=00, secondary=01, subordinate=05, sec-latency=0`.
fn buses(value: &str) -> Option<BusRange> {
    let number = |key: &str| {
        let (_, rest) = value.split_once(key)?;
        u8::from_str_radix(rest.get(..2)?, 16).ok()
    };
    Some(BusRange { secondary: number("secondary=")?, subordinate: number("subordinate=")? })
}

impl BusRange {
    /// Returns whether firmware or kernel gave it buses; both are 0 otherwise.
    fn is_assigned(&self) -> bool {
        self.secondary <= self.subordinate && self.secondary > 0
    }
}

/// Reads `Initial VFs: 8, Total VFs: 8, Number of VFs: 4` and `VF offset: 1, stride: 1, Device ID: 101a`.
fn virtual_functions(
    statement: &Statement,
    found: &mut Option<VirtualFunctions>,
    ledger: &mut Ledger,
) {
    let text = statement.text.as_str();
    let number = |key: &str| {
        let (_, rest) = text.split_once(key)?;
        rest.trim_start().split(',').next()?.trim().parse::<u16>().ok()
    };
    if text.starts_with("Initial VFs:") {
        let count = number("Number of VFs:");
        found.get_or_insert_default().count = count.unwrap_or(0);
        ledger.attach_if(count.is_some(), statement, Key::VirtualFunctions);
    } else if text.starts_with("VF offset:") {
        let known = found.get_or_insert_default();
        known.offset = number("VF offset:").unwrap_or(0);
        known.stride = number("stride:").unwrap_or(0);
    }
}

/// Marks functions as unbound that show no driver where others do.
fn settle_drivers(functions: &mut [Listed]) {
    if functions.iter().any(|one| one.function.driver.name().is_some()) {
        for one in functions.iter_mut().filter(|one| one.shows_driver) {
            if one.function.driver == DriverBinding::Unknown {
                one.function.driver = DriverBinding::Unbound;
            }
        }
    }
}

/// Ties virtual functions to the physical ones whose registers say where they are.
fn join_virtual_functions(functions: &mut [Listed]) {
    /// Bound of looked-up routing identifiers, to end on a text of nonsense.
    const LOOKUPS: usize = 1 << 20;
    let places: HashMap<(u32, u32), usize> =
        functions.iter().enumerate().map(|(at, one)| (routing(one.address), at)).collect();
    let mut left = LOOKUPS;
    let mut parents = Vec::new();
    for one in functions.iter() {
        let Some(found) = one.virtual_functions.filter(|found| found.offset > 0) else { continue };
        let (domain, own) = routing(one.address);
        for number in 0..u32::from(found.count) {
            let id = own + u32::from(found.offset) + number * u32::from(found.stride);
            let is_last = id > u32::from(u16::MAX) || (number > 0 && found.stride == 0);
            if is_last || left == 0 {
                break;
            }
            left -= 1;
            parents.extend(places.get(&(domain, id)).map(|&at| (at, one.address)));
        }
    }
    for (at, parent) in parents {
        functions[at].function.physical_function = Some(parent);
    }
}

/// Domain, and bus, device and function in one number (PCIe 6.0 section 2.2.4.2).
fn routing(address: Bdf) -> (u32, u32) {
    (address.domain(), u32::from(address.bus()) << 8 | u32::from(address.devfn()))
}

fn bare_function(address: Bdf, line: u32) -> Function {
    Function {
        address: Some(address),
        lines: Some(LineNumbers { heading: line, ..LineNumbers::default() }),
        ..Function::unknown(address.to_string(), Parent::Bridge(BridgeId(0)))
    }
}
