//! Signs that functions were left out of a text, and the root buses that they make uncertain.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::SortedText;
use super::function::Listed;
use super::picture::TreePicture;
use super::topology::{Bus, Placed, shows_ports};
use crate::RootBus;
use crate::sysfs::config_space::PortType;

/// Base classes whose functions are parts of a root complex or of a chipset: memory controller, bridge,
/// simple communication, system peripheral, processor, serial bus, signal processing (PCI Code and ID
/// Assignment Specification).
const OF_CHIPSETS: [u32; 7] = [0x05, 0x06, 0x07, 0x08, 0x0b, 0x0c, 0x11];

const CLASS_PCI_BRIDGE: u32 = 0x06_04;
/// First domain number that no firmware gives (`vmd_find_free_domain` in drivers/pci/controller/vmd.c).
const FIRST_VMD_DOMAIN: u32 = 0x1_0000;

/// Returns whether a trimmed line stands for others: `...`, `[snip]`, `--` of grep.
pub(super) fn is_sign(line: &str) -> bool {
    if line.len() > 40 {
        return false;
    }
    let word = line.trim_matches(|c: char| !c.is_alphanumeric());
    if word.is_empty() {
        let is_of_dots = line.contains("...") || line.contains('…');
        return line == "--" || is_of_dots || line == "[..]";
    }
    let word = word.to_ascii_lowercase();
    ["snip", "snipped", "cut", "truncated", "omitted", "output truncated", "output omitted"]
        .contains(&word.as_str())
        || word.starts_with("snip ")
        || word.ends_with(" more lines")
        || word.ends_with("lines omitted")
}

/// Returns the listed part of each root bus.
pub(super) fn root_buses(
    functions: &[Listed],
    placed: &Placed,
    text: &SortedText<'_>,
    picture: &TreePicture,
    has_cuts: bool,
) -> BTreeMap<Bus, RootBus> {
    let mut found = BTreeMap::new();
    // Without registers nothing places a bus, and that is not a sign of a cut.
    let is_plain = functions.iter().all(|one| one.buses.is_none())
        && text.blocks.iter().all(|block| block.statements.is_empty());
    let orphans: BTreeSet<Bus> = placed
        .root_buses()
        .filter(|bus| !picture.roots.contains(bus))
        .filter(|&bus| is_orphan(bus, functions, placed))
        .collect();
    let has_cuts = has_cuts
        || (!is_plain && !orphans.is_empty())
        || functions.iter().any(|one| one.lacks_buses)
        || !ascends(text)
        || lacks_beginning(functions)
        || lacks_first_functions(functions);
    for bus in placed.root_buses() {
        // Bus 0 is behind no bridge: secondary buses are above 0.
        let may_be_below = bus.1 > 0 && (has_cuts || is_plain);
        let is_known = picture.roots.contains(&bus)
            || placed.on(bus).iter().any(|&at| is_of_root_complex(&functions[at]));
        let is_assumed = orphans.contains(&bus) || (may_be_below && !is_known);
        let state = match (is_assumed, has_cuts) {
            (true, _) => RootBus::Assumed,
            (false, true) => RootBus::Partial,
            (false, false) => RootBus::Whole,
        };
        found.insert(bus, state);
    }
    found
}

/// Returns whether a function can only be on a root bus: a root port, an integrated endpoint, a host bridge.
fn is_of_root_complex(one: &Listed) -> bool {
    const HOST_BRIDGE: u32 = 0x06_00;
    one.port == PortType::RootPort
        || one.is_integrated
        || (one.class16() == Some(HOST_BRIDGE) && !one.is_below_port)
}

/// Returns whether a bus that no bridge holds is one whose bridge is missing.
fn is_orphan(bus: Bus, functions: &[Listed], placed: &Placed) -> bool {
    let (domain, number) = bus;
    if placed.unplaced.contains(&bus) {
        return true;
    }
    let on = || placed.on(bus).iter().map(|&at| &functions[at]);
    if number == 0 || on().any(is_of_root_complex) {
        return false;
    }
    let is_below_ports = |one: &Listed| {
        one.is_below_port || matches!(one.port, PortType::UpstreamPort | PortType::DownstreamPort)
    };
    if on().any(is_below_ports) {
        return true;
    }
    let is_of_chipset = |one: &Listed| {
        let class = one.class16();
        // Without configuration space a lone bridge may be the upper port of a switch as well.
        let may_be_switch = class == Some(CLASS_PCI_BRIDGE) && one.port == PortType::Unknown;
        // With root, a function without registers lost them, and may have been below a port.
        let lost_registers = one.port == PortType::Unknown && shows_ports(functions);
        class.is_some_and(|class| OF_CHIPSETS.contains(&(class >> 8)))
            && !may_be_switch
            && !lost_registers
    };
    let is_of_vmd = domain >= FIRST_VMD_DOMAIN;
    is_between_others(bus, functions, placed) || !(is_of_vmd || on().any(is_of_chipset))
}

/// Returns whether a bus lies between a root bus and one below it: the buses of a host bridge lie side by side.
fn is_between_others((domain, number): Bus, functions: &[Listed], placed: &Placed) -> bool {
    let mut earlier = placed.above.range((domain, 0)..(domain, number)).rev();
    let Some(root) = earlier.find(|(_, above)| above.is_none()).map(|(&(_, root), _)| root) else {
        return false;
    };
    let top = |mut above: Option<usize>| {
        let mut bus = None;
        while let Some(at) = above {
            let own = functions[at].address.bus();
            bus = Some(own);
            above = placed.above.get(&(domain, own)).copied().flatten();
        }
        bus
    };
    placed
        .above
        .range((domain, number)..=(domain, u8::MAX))
        .any(|(_, &above)| top(above) == Some(root))
}

/// Returns whether addresses rise; those that were listed before do not count, as in a second listing.
fn ascends(text: &SortedText<'_>) -> bool {
    let mut seen = BTreeSet::new();
    let mut last = None;
    text.blocks.iter().all(|block| {
        let rises = !seen.insert(block.address) || last < Some(block.address);
        last = last.max(Some(block.address));
        rises
    })
}

/// Returns whether the listing begins at another function than device 0, function 0 of a root bus. Domains of
/// volume management devices begin where they like (drivers/pci/controller/vmd.c).
fn lacks_beginning(functions: &[Listed]) -> bool {
    functions.first().is_some_and(|one| {
        let (domain, bus) = (one.address.domain(), one.address.bus());
        let is_root = bus == 0 || is_of_root_complex(one);
        domain < FIRST_VMD_DOMAIN && (one.address.devfn() != 0 || !is_root)
    })
}

/// Returns whether a function is listed without function 0 of its device, which every device but a virtual
/// function's has.
fn lacks_first_functions(functions: &[Listed]) -> bool {
    let mut device = None;
    functions.iter().any(|one| {
        let address = one.address;
        let own = (address.domain(), address.bus(), address.device());
        let is_first = device != Some(own);
        device = Some(own);
        let is_virtual = one.function.physical_function.is_some() || one.maximum.is_none();
        is_first && address.function() != 0 && !is_virtual
    })
}
