//! The tree of functions, from the bus ranges of bridges.
//!
//! A bus hangs from the innermost bridge whose range holds it, not only from one whose secondary bus it
//! is: virtual functions lie on buses behind it. Buses that no bridge holds are those of host bridges.

use std::collections::{BTreeMap, BTreeSet};

use super::function::Listed;
use crate::sysfs::config_space::PortType;
use crate::sysfs::functions;
use crate::{BridgeId, FunctionId, FunctionKind, HostBridge, Link, Parent, Rates, RootBus};

/// Domain and number of a bus.
pub(super) type Bus = (u32, u8);

/// The places of the functions of a listing; functions are named by their position in it.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The bridge above each bus that has functions; `None` for a root bus.
    pub(super) above: BTreeMap<Bus, Option<usize>>,
    /// Buses in the range of a bridge that are not directly behind it, without another explanation:
    /// the bridge between is missing.
    pub(super) unplaced: BTreeSet<Bus>,
    /// Functions of each bus, in address order.
    on: BTreeMap<Bus, Vec<usize>>,
}

impl Placed {
    /// Root buses in order.
    pub(super) fn root_buses(&self) -> impl Iterator<Item = Bus> + '_ {
        self.above.iter().filter(|(_, above)| above.is_none()).map(|(&bus, _)| bus)
    }

    /// Functions of a bus, in address order.
    pub(super) fn on(&self, bus: Bus) -> &[usize] {
        self.on.get(&bus).map_or(&[], Vec::as_slice)
    }
}

fn bus(listed: &Listed) -> Bus {
    (listed.address.domain(), listed.address.bus())
}

/// Finds the bridge above each bus. The listing is in address order.
pub(super) fn place(functions: &mut [Listed]) -> Placed {
    let mut placed = Placed::default();
    for (at, one) in functions.iter_mut().enumerate() {
        // The buses behind a bridge have higher numbers than its own (PCIe 6.0 section 7.5.1.3.2).
        one.buses = one.buses.filter(|range| range.secondary > one.address.bus());
        placed.on.entry(bus(one)).or_default().push(at);
    }
    let mut bridges: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, one) in functions.iter().enumerate().filter(|(_, one)| one.buses.is_some()) {
        bridges.entry(one.address.domain()).or_default().push(at);
    }
    let mut holders: BTreeMap<u32, Vec<Option<usize>>> = BTreeMap::new();
    for (domain, mut bridges) in bridges {
        // Wide ranges first, so that inner ones replace them.
        bridges.sort_by_key(|&at| {
            let width = functions[at].buses.map_or(0, |range| range.subordinate - range.secondary);
            std::cmp::Reverse(width)
        });
        let holder = holders.entry(domain).or_insert_with(|| vec![None; 256]);
        for at in bridges {
            let Some(range) = functions[at].buses else { continue };
            let held = usize::from(range.secondary)..=usize::from(range.subordinate);
            holder[held].fill(Some(at));
        }
    }
    let buses: Vec<Bus> = placed.on.keys().copied().collect();
    for (domain, number) in buses {
        let above = holders.get(&domain).and_then(|holder| holder[usize::from(number)]);
        let is_behind = above.is_none_or(|above| {
            functions[above].buses.is_some_and(|range| range.secondary == number)
        });
        let found = match physical_bus((domain, number), functions, &placed) {
            Some(physical) if above.is_none() || !is_behind => {
                let is_placed = !placed.unplaced.contains(&physical);
                is_placed.then(|| placed.above.get(&physical).copied().flatten())
            }
            _ => (is_behind || may_be_virtual((domain, number), above, functions, &placed))
                .then_some(above),
        };
        placed.above.insert((domain, number), found.flatten());
        if found.is_none() {
            placed.unplaced.insert((domain, number));
        }
    }
    placed
}

/// The bus of the physical functions of a bus that has only virtual ones.
fn physical_bus(own: Bus, functions: &[Listed], placed: &Placed) -> Option<Bus> {
    let mut found = None;
    for &at in placed.on(own) {
        let physical = functions[at].function.physical_function?;
        let physical = (physical.domain(), physical.bus());
        if found.is_some_and(|found| found != physical) {
            return None;
        }
        found = Some(physical);
    }
    found.filter(|&physical| physical < own)
}

/// Returns whether a listing shows registers, as one with root does.
pub(super) fn shows_ports(functions: &[Listed]) -> bool {
    functions.iter().any(|one| !matches!(one.port, PortType::Unknown | PortType::NotPcie))
}

/// Returns whether all of a bus may be virtual functions of those directly behind the port that holds it.
///
/// Only a listing without root, which shows no registers, leaves that open. A port has one device
/// below it, so no bridge shares its bus with the physical functions, which are of the same maker.
fn may_be_virtual(own: Bus, above: Option<usize>, functions: &[Listed], placed: &Placed) -> bool {
    let Some(range) = above.and_then(|above| functions[above].buses) else { return false };
    let beside = placed.on((own.0, range.secondary));
    let is_of_maker =
        |vendor: u16| beside.iter().any(|&other| functions[other].function.vendor == Some(vendor));
    !shows_ports(functions)
        && beside.iter().all(|&other| !functions[other].is_bridge())
        && placed.on(own).iter().all(|&at| {
            let one = &functions[at];
            !one.is_bridge() && one.function.vendor.is_some_and(is_of_maker)
        })
}

/// Host bridges and functions, parents before children, each bus in address order.
pub(super) fn build(
    listed: Vec<Listed>,
    placed: &Placed,
    root_buses: &BTreeMap<Bus, RootBus>,
) -> (Vec<HostBridge>, Vec<Listed>) {
    let mut below: BTreeMap<usize, Vec<Bus>> = BTreeMap::new();
    for (&bus, above) in &placed.above {
        if let Some(above) = above {
            below.entry(*above).or_default().push(bus);
        }
    }
    let shows_drivers = listed.iter().any(|one| one.function.driver.name().is_some());
    let mut waiting: Vec<Option<Listed>> = listed.into_iter().map(Some).collect();
    let mut built: Vec<Listed> = Vec::with_capacity(waiting.len());
    let mut bridges = Vec::new();
    for root in placed.root_buses() {
        let id = BridgeId(bridges.len());
        let first = built.len();
        let mut stack: Vec<(usize, Parent)> = Vec::new();
        stack.extend(placed.on(root).iter().rev().map(|&at| (at, Parent::Bridge(id))));
        while let Some((at, parent)) = stack.pop() {
            let Some(mut one) = waiting[at].take() else { continue };
            let own = FunctionId(built.len());
            let buses = below.get(&at).map_or(&[][..], Vec::as_slice);
            let above = match parent {
                Parent::Bridge(_) => None,
                Parent::Function(id) => Some(built[id.0].function.kind),
            };
            settle(&mut one, parent, above, !buses.is_empty(), shows_drivers);
            built.push(one);
            let children = buses.iter().rev().flat_map(|&bus| placed.on(bus).iter().rev());
            stack.extend(children.map(|&at| (at, Parent::Function(own))));
        }
        bridges.push(HostBridge {
            name: format!("pci{:04x}:{:02x}", root.0, root.1),
            numa_node: built[first..].iter().find_map(|one| {
                one.function.numa_node.filter(|_| one.function.parent == Parent::Bridge(id))
            }),
            peer: Rates::default(),
            socket_link: None,
            root_bus: root_buses.get(&root).copied().unwrap_or_default(),
        });
    }
    (bridges, built)
}

/// Gives a function its place, kind and links.
///
/// Without configuration space, a port is told as discovery does: by its driver and position. Where the
/// text shows no driver at all, a bridge that decodes normally counts as a port.
fn settle(
    one: &mut Listed,
    parent: Parent,
    above: Option<FunctionKind>,
    has_children: bool,
    shows_drivers: bool,
) {
    const NORMAL_DECODE: u32 = 0x06_04_00;
    let class = one.function.class;
    let driver = one.function.driver.name();
    let may_be_port = class.is_none() || class == Some(NORMAL_DECODE);
    let driver =
        if shows_drivers || !one.is_bridge() || !may_be_port { driver } else { Some("pcieport") };
    let port = functions::port(one.port, driver, above);
    let function = &mut one.function;
    function.parent = parent;
    function.kind = functions::kind(class, function.vendor, port);
    if (has_children || one.buses.is_some()) && !function.kind.is_bridge() {
        function.kind = FunctionKind::OtherBridge;
    }
    if function.kind.is_bridge() {
        function.bars.clear();
        function.unassigned_bars.clear();
    }
    let faces_down = matches!(function.kind, FunctionKind::RootPort | FunctionKind::DownstreamPort);
    function.link_below = one.maximum.filter(|_| faces_down);
    let has_link = above.is_some() && !faces_down && one.port != PortType::NotPcie;
    let link = Link { current: one.current, maximum: one.maximum };
    let is_known = link.current.is_some() || link.maximum.is_some();
    function.link = (has_link && is_known).then_some(link);
}
