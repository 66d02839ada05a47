//! Functions of random machines: identity, driver, windows and capabilities, after devices that there are.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::capabilities::{Capabilities, EXTENDED_KINDS, Filler, STANDARD_KINDS};
use super::registers::{Express, LinkValue, PortType};

pub(super) const KIB: u8 = 10;
pub(super) const MIB: u8 = 20;
pub(super) const GIB: u8 = 30;

/// Vendor and device.
pub(super) type Ids = (u16, u16);

/// Kind of a base address register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowKind {
    Memory32,
    Memory64,
    Prefetchable64,
    Ports,
}

/// A base address register of a model: number, kind, exponent of 2 of its size in bytes.
type WindowModel = (u8, WindowKind, u8);

/// Devices that there are.
#[derive(Debug)]
struct Model {
    ids: Ids,
    class: u32,
    drivers: &'static [&'static str],
    windows: &'static [WindowModel],
    /// A window whose size can be changed, and the exponent of the largest.
    resizable: Option<(u8, u8)>,
    has_virtual_functions: bool,
}

const fn model(
    ids: Ids,
    class: u32,
    drivers: &'static [&'static str],
    windows: &'static [WindowModel],
) -> Model {
    Model { ids, class, drivers, windows, resizable: None, has_virtual_functions: false }
}

impl Model {
    const fn resizable(mut self, index: u8, largest: u8) -> Self {
        self.resizable = Some((index, largest));
        self
    }

    const fn with_virtual_functions(mut self) -> Self {
        self.has_virtual_functions = true;
        self
    }
}

use WindowKind::{Memory32, Memory64, Ports, Prefetchable64};

/// Devices behind ports.
#[rustfmt::skip]
const PLUGGED: &[Model] = &[
    model((0x144d, 0xa80a), 0x01_08_02, &["nvme", "vfio-pci"], &[(0, Memory64, KIB + 4)]),
    model((0x1de5, 0x2000), 0x01_08_02, &["nvme"], &[(0, Memory64, KIB + 4), (4, Prefetchable64, MIB + 9)]),
    model((0x144d, 0xa824), 0x01_08_02, &["nvme"], &[(0, Memory64, KIB + 5)]).with_virtual_functions(),
    model((0x10de, 0x2330), 0x03_02_00, &["nvidia", "vfio-pci"],
        &[(0, Prefetchable64, MIB + 4), (2, Prefetchable64, GIB + 7), (4, Prefetchable64, MIB + 5)])
        .resizable(2, GIB + 7).with_virtual_functions(),
    model((0x10de, 0x2684), 0x03_00_00, &["nvidia", "nouveau"],
        &[(0, Memory32, MIB + 4), (1, Prefetchable64, MIB + 8), (3, Prefetchable64, MIB + 5), (5, Ports, 7)]).resizable(1, GIB + 5),
    model((0x1002, 0x74a1), 0x12_00_00, &["amdgpu"],
        &[(0, Prefetchable64, GIB + 8), (2, Prefetchable64, MIB + 1), (5, Memory32, KIB + 9)]).with_virtual_functions(),
    model((0x1002, 0x740f), 0x03_80_00, &["amdgpu"],
        &[(0, Prefetchable64, GIB + 6), (2, Prefetchable64, MIB + 1), (4, Ports, 8), (5, Memory32, KIB + 9)]).resizable(0, GIB + 6),
    model((0x8086, 0xe211), 0x03_00_00, &["xe"], &[(0, Memory64, MIB + 4), (2, Prefetchable64, MIB + 8)]).resizable(2, GIB + 4),
    model((0x10de, 0x22ba), 0x04_03_00, &["snd_hda_intel"], &[(0, Memory32, KIB + 4)]),
    model((0x15b3, 0x1021), 0x02_00_00, &["mlx5_core", "vfio-pci"], &[(0, Prefetchable64, MIB + 5)]).with_virtual_functions(),
    model((0x15b3, 0x101b), 0x02_07_00, &["mlx5_core"], &[(0, Prefetchable64, MIB + 5)]).with_virtual_functions(),
    model((0x8086, 0x1592), 0x02_00_00, &["ice"], &[(0, Prefetchable64, MIB + 5), (3, Prefetchable64, KIB + 6)]).with_virtual_functions(),
    model((0x14e4, 0x1750), 0x02_00_00, &["bnxt_en"], &[(0, Prefetchable64, KIB + 6), (2, Prefetchable64, MIB), (4, Prefetchable64, KIB + 5)]),
    model((0x10ee, 0x5000), 0x12_00_00, &["xclmgmt"], &[(0, Prefetchable64, MIB + 5), (2, Prefetchable64, KIB + 7)]),
    model((0x10ee, 0x5001), 0x12_00_00, &["xocl"], &[(0, Prefetchable64, MIB + 5), (4, Prefetchable64, GIB + 3)]),
    model((0x1da3, 0x1060), 0x12_00_00, &["habanalabs"], &[(0, Prefetchable64, MIB + 7), (4, Prefetchable64, GIB + 7)]),
    model((0x1000, 0x00b2), 0x01_04_00, &["megaraid_sas"], &[(0, Prefetchable64, KIB + 6), (4, Ports, 8)]),
    model((0x1000, 0x02b2), 0x05_80_00, &[], &[(0, Memory32, MIB + 5)]),
    model((0x1344, 0x6001), 0x05_02_10, &["cxl_pci"], &[(0, Memory64, KIB + 8)]),
    model((0x1b21, 0x3242), 0x0c_03_30, &["xhci_hcd"], &[(0, Memory64, KIB + 5)]),
];

/// Devices that are parts of a root complex.
#[rustfmt::skip]
const INTEGRATED: &[Model] = &[
    model((0x8086, 0xa282), 0x01_06_01, &["ahci"], &[(0, Memory32, KIB + 3), (1, Memory32, KIB), (2, Ports, 3), (5, Memory32, KIB + 1)]),
    model((0x8086, 0xa2af), 0x0c_03_30, &["xhci_hcd"], &[(0, Memory64, KIB + 6)]),
    model((0x8086, 0x4680), 0x03_00_00, &["i915"], &[(0, Memory64, MIB + 4), (2, Prefetchable64, MIB + 8), (4, Ports, 6)]).with_virtual_functions(),
    model((0x8086, 0x09a4), 0x08_80_00, &[], &[]),
    model((0x1022, 0x1486), 0x10_80_00, &["ccp"], &[(2, Memory32, MIB), (5, Memory32, KIB + 3)]),
    model((0x1b36, 0x0010), 0x01_08_02, &["nvme"], &[(0, Memory64, KIB + 4)]),
];

/// Parts of a root complex that come on a root bus of their own.
#[rustfmt::skip]
const ACCELERATORS: &[Model] = &[
    model((0x8086, 0x0b25), 0x08_80_00, &["idxd"], &[(0, Prefetchable64, KIB + 6), (2, Prefetchable64, KIB + 7)]),
    model((0x8086, 0x4940), 0x0b_40_00, &["4xxx"], &[(0, Prefetchable64, KIB + 9), (2, Prefetchable64, MIB + 2)])
        .with_virtual_functions(),
];

/// Conventional devices behind a bridge from PCIe.
const CONVENTIONAL: &[Model] = &[
    model((0x1a03, 0x2000), 0x03_00_00, &["ast"], &[(0, Memory32, MIB + 6), (2, Ports, 7)]),
    model((0x102b, 0x0536), 0x03_00_00, &["mgag200"], &[(0, Memory32, MIB + 4)]),
    model((0x104c, 0x8023), 0x0c_00_10, &["firewire_ohci"], &[(0, Memory32, KIB + 1)]),
];

/// Devices of a hypervisor on its root bus.
const EMULATED: &[Model] = &[
    model(
        (0x1af4, 0x1041),
        0x02_00_00,
        &["virtio-pci"],
        &[(1, Memory32, KIB + 2), (4, Prefetchable64, KIB + 4)],
    ),
    model(
        (0x1af4, 0x1042),
        0x01_00_00,
        &["virtio-pci"],
        &[(1, Memory32, KIB + 2), (4, Prefetchable64, KIB + 4)],
    ),
    model(
        (0x1234, 0x1111),
        0x03_00_00,
        &["bochs-drm"],
        &[(0, Memory32, MIB + 4), (2, Memory32, KIB + 2)],
    ),
];

/// Uncore of a processor: conventional functions on a root bus of their own.
const UNCORE: &[Model] = &[
    model((0x8086, 0x3450), 0x08_80_00, &[], &[]),
    model((0x8086, 0x324c), 0x08_80_00, &["skx_uncore"], &[]),
    model((0x8086, 0x2f81), 0x11_01_00, &["hswep_uncore"], &[]),
];

/// State of the window in address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowState {
    Assigned,
    /// The kernel marks it, and keeps its size.
    Marked,
    /// The kernel cleared its line.
    Cleared,
}

/// A base address register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) index: u8,
    pub(super) kind: WindowKind,
    /// Exponent of 2 of its size in bytes.
    pub(super) shift: u8,
    pub(super) state: WindowState,
}

/// Virtual functions that a physical one has.
#[derive(Debug, Clone, Copy)]
pub(super) struct VirtualFunctions {
    pub(super) count: u16,
    /// They lie on the bus behind that of the physical one.
    pub(super) is_on_next_bus: bool,
    pub(super) has_driver: bool,
}

/// A function without its place.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) ids: Ids,
    pub(super) class: u32,
    pub(super) revision: u8,
    pub(super) subsystem: Ids,
    /// `None` for a conventional device.
    pub(super) express: Option<Express>,
    pub(super) acs: Option<u16>,
    pub(super) driver: Option<&'static str>,
    pub(super) windows: Vec<Window>,
    pub(super) resizable: Option<(u8, u8)>,
    pub(super) virtual_functions: Option<VirtualFunctions>,
    pub(super) capabilities: Capabilities,
    pub(super) command: u16,
    /// It shares the group of the function above it.
    pub(super) shares_group: bool,
    /// It does not answer.
    pub(super) is_asleep: bool,
}

fn fillers(kinds: usize, most: usize) -> impl Strategy<Value = Vec<Filler>> {
    // Most kinds occur once in a list; those of a maker's own may come again.
    vec((0..kinds, seed()), 0..most)
        .prop_map(|all| all.into_iter().map(|(kind, seed)| Filler { kind, seed }).collect())
}

/// A seed for content; 0 makes zeros.
fn seed() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0u64), 4 => any::<u64>()]
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    (fillers(STANDARD_KINDS, 7), fillers(EXTENDED_KINDS, 14), seed())
        .prop_map(|(standard, extended, layout)| Capabilities { standard, extended, layout })
}

/// Control registers of ACS: none, off, as the kernel sets them, and any.
fn acs() -> impl Strategy<Value = Option<u16>> {
    prop_oneof![
        2 => Just(None),
        3 => Just(Some(0)),
        2 => Just(Some(0x1d)),
        1 => (0u16..0x80).prop_map(Some),
    ]
}

fn link() -> impl Strategy<Value = (LinkValue, LinkValue)> {
    (1u8..=6, select(vec![1u8, 2, 4, 8, 16]), 0u8..3, 0u8..3).prop_map(
        |(code, width, slower, narrower)| {
            let maximum = LinkValue { code, width };
            let current = LinkValue {
                code: code.saturating_sub(slower).max(1),
                width: (width >> narrower).max(1),
            };
            (maximum, current)
        },
    )
}

fn express(port_type: PortType) -> impl Strategy<Value = Express> {
    (prop_oneof![1 => Just(1u8), 5 => Just(2u8)], any::<bool>(), link(), seed()).prop_map(
        move |(version, has_slot, (maximum, current), seed)| Express {
            port_type,
            version,
            // A newer device has the newer registers.
            has_slot: has_slot
                && matches!(port_type, PortType::RootPort | PortType::DownstreamPort),
            maximum,
            current,
            seed,
        },
    )
}

/// Facts of a function that its model does not decide.
fn state() -> impl Strategy<Value = (u8, u16, bool)> {
    let command = prop_oneof![Just(0x0406u16), Just(0x0002), Just(0x0000), Just(0x0547)];
    (any::<u8>(), command, any::<bool>())
}

fn windows(model: &'static Model) -> impl Strategy<Value = Vec<Window>> {
    let state = prop_oneof![
        24 => Just(WindowState::Assigned),
        1 => Just(WindowState::Marked),
        1 => Just(WindowState::Cleared),
    ];
    vec(state, model.windows.len()).prop_map(|states| {
        let window = |(&(index, kind, shift), state)| Window { index, kind, shift, state };
        model.windows.iter().zip(states).map(window).collect()
    })
}

fn of_model(
    model: &'static Model,
    express: impl Strategy<Value = Option<Express>>,
) -> impl Strategy<Value = Part> {
    let drivers: Vec<Option<&str>> =
        model.drivers.iter().map(|&name| Some(name)).chain([None]).collect();
    let virtual_functions =
        (0u16..4, any::<bool>(), any::<bool>()).prop_map(|(count, is_on_next_bus, has_driver)| {
            VirtualFunctions { count, is_on_next_bus, has_driver }
        });
    // ACS of endpoints is that between functions of one device.
    let acs = prop_oneof![3 => Just(None), 1 => Just(Some(0u16)), 1 => (0u16..0x80).prop_map(Some)];
    let parts = (express, acs, select(drivers), windows(model), option::of(virtual_functions));
    (parts, capabilities(), state()).prop_map(
        |((express, acs, driver, windows, virtual_functions), capabilities, state)| {
            let (revision, command, shares_group) = state;
            let is_express = express.is_some();
            Part {
                ids: model.ids,
                class: model.class,
                revision,
                subsystem: (model.ids.0, 0x0001),
                express,
                acs: acs.filter(|_| is_express),
                driver,
                windows,
                resizable: model.resizable.filter(|_| is_express),
                virtual_functions: virtual_functions
                    .filter(|_| is_express && model.has_virtual_functions),
                capabilities,
                command,
                shares_group,
                is_asleep: false,
            }
        },
    )
}

fn one_of(
    models: &'static [Model],
    express: fn() -> BoxedStrategy<Option<Express>>,
) -> BoxedStrategy<Part> {
    let models = (0..models.len()).prop_map(|at| &models[at]);
    models.prop_flat_map(move |model| of_model(model, express())).boxed()
}

/// A device behind a port.
pub(super) fn plugged() -> BoxedStrategy<Part> {
    let part = one_of(PLUGGED, || {
        prop_oneof![4 => express(PortType::Endpoint), 1 => express(PortType::LegacyEndpoint)]
            .prop_map(Some)
            .boxed()
    });
    let is_asleep = prop_oneof![30 => Just(false), 1 => Just(true)];
    (part, is_asleep)
        .prop_map(|(part, is_asleep)| Part {
            virtual_functions: part.virtual_functions.filter(|_| !is_asleep),
            is_asleep,
            ..part
        })
        .boxed()
}

/// An accelerator on a root bus of its own.
pub(super) fn accelerator() -> BoxedStrategy<Part> {
    one_of(ACCELERATORS, || express(PortType::Integrated).prop_map(Some).boxed())
}

/// A function of a root complex.
pub(super) fn integrated() -> BoxedStrategy<Part> {
    one_of(INTEGRATED, || {
        prop_oneof![
            4 => express(PortType::Integrated).prop_map(Some),
            1 => express(PortType::EventCollector).prop_map(Some),
            4 => Just(None),
        ]
        .boxed()
    })
}

/// A device of a hypervisor, on bus 0 of its domain.
pub(super) fn emulated() -> BoxedStrategy<Part> {
    let own = one_of(EMULATED, || option::of(express(PortType::Integrated)).boxed());
    prop_oneof![own, plugged()].boxed()
}

pub(super) fn uncore() -> BoxedStrategy<Part> {
    one_of(UNCORE, || Just(None).boxed())
}

/// A conventional device.
pub(super) fn conventional() -> BoxedStrategy<Part> {
    one_of(CONVENTIONAL, || Just(None).boxed())
}

/// A host bridge function.
pub(super) fn host_bridge(ids: &'static [Ids]) -> BoxedStrategy<Part> {
    let express = option::of(express(PortType::Integrated));
    (bare(), express, select(ids))
        .prop_map(|(part, express, ids)| Part { ids, class: 0x06_00_00, express, ..part })
        .boxed()
}

/// A port; `ids` are those of its maker.
pub(super) fn port(ids: &'static [Ids], port_type: PortType) -> BoxedStrategy<Part> {
    let driver = prop_oneof![12 => Just(Some("pcieport")), 1 => Just(Some("vfio-pci"))];
    let parts = (express(port_type), acs(), select(ids), driver);
    (bare(), parts)
        .prop_map(|(part, (express, acs, ids, driver))| {
            // An upstream port of one function has no ACS (PCIe 6.0 section 6.12.1).
            let acs = acs.filter(|_| express.port_type != PortType::UpstreamPort);
            Part { ids, class: 0x06_04_00, express: Some(express), acs, driver, ..part }
        })
        .boxed()
}

/// A bridge from PCIe to conventional PCI.
pub(super) fn bridge_to_pci() -> BoxedStrategy<Part> {
    let parts = (bare(), express(PortType::BridgeToPci));
    parts
        .prop_map(|(part, express)| Part {
            ids: (0x1a03, 0x1150),
            class: 0x06_04_00,
            express: Some(express),
            ..part
        })
        .boxed()
}

/// A function without driver and windows.
fn bare() -> impl Strategy<Value = Part> {
    (capabilities(), state()).prop_map(|(capabilities, (revision, command, shares_group))| Part {
        ids: (0, 0),
        class: 0,
        revision,
        subsystem: (0x8086, 0x0000),
        express: None,
        acs: None,
        driver: None,
        windows: Vec::new(),
        resizable: None,
        virtual_functions: None,
        capabilities,
        command,
        shares_group,
        is_asleep: false,
    })
}
