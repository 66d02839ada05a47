//! Verdicts of machines read from `lspci` against those of the same machines read from sysfs.

use std::path::Path;

use peerlane_fabric::{
    Acs, DriverBinding, Environment, Fabric, FunctionId, FunctionKind, Link, LinkSpeed, lspci,
};
use peerlane_reach::{MapType, decide};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{handmade, lspci_tree, random};

/// Lines about kernel and processor, as people paste them below a listing.
fn surroundings(fabric: &Fabric) -> String {
    let mut text = String::new();
    if let Some(release) = &fabric.kernel.release {
        text += &format!("Linux host {release} #1 SMP x86_64 GNU/Linux\n");
    }
    if let Some(vendor) = &fabric.cpu.vendor {
        text += &format!("vendor_id\t: {vendor}\n");
    }
    if let Some(family) = fabric.cpu.family {
        text += &format!("cpu family\t: {family}\n");
    }
    text
}

/// The function of another fabric at the same address.
fn same(from: &Fabric, id: FunctionId, to: &Fabric) -> Option<FunctionId> {
    let address = from.function(id).address;
    to.iter().find(|(_, function)| function.address == address).map(|(id, _)| id)
}

/// Returns whether a verdict depends on an unknown fact.
fn is_open(map: MapType) -> bool {
    !matches!(map, MapType::BusAddress | MapType::ThroughHostBridge | MapType::NotSupported)
}

/// Asserts that a text says of each pair the same as sysfs, or less; returns the number of pairs
/// that it says something about.
pub(crate) fn compare(sysfs: &Fabric, text: &str, may_say_less: bool) -> usize {
    let Ok(read) = lspci::read(text) else {
        assert!(may_say_less, "refused:\n{text}");
        return 0;
    };
    let mut known = 0;
    for (one, _) in read.iter() {
        for (other, _) in read.iter() {
            let ends = same(&read, one, sysfs).zip(same(&read, other, sysfs));
            let ends = ends.unwrap_or_else(|| panic!("an invented function\n{text}"));
            let (found, expected) = (decide(&read, one, other), decide(sysfs, ends.0, ends.1));
            if is_open(found.map) {
                // A port that ends the text may be cut short; peers are endpoints.
                let is_port = [one, other].iter().any(|&end| read.function(end).kind.is_bridge());
                let is_fair = may_say_less || is_port || is_open(expected.map);
                assert!(is_fair, "{}\nbut {}\n{text}", found.summary(), expected.summary());
                continue;
            }
            known += 1;
            if !is_open(expected.map) {
                let answers = [(found.map, found.distance), (expected.map, expected.distance)];
                assert_eq!(
                    answers[0],
                    answers[1],
                    "{}\nnot {}\n{text}",
                    found.summary(),
                    expected.summary()
                );
            }
        }
    }
    known
}

/// The same machine as discovery finds it.
fn discovered(fabric: &Fabric) -> Fabric {
    Fabric::discover_snapshot(Path::new("made"), peerlane_testing::sysfs_tree(fabric).unwrap())
        .unwrap()
}

/// The listing that a user without root gets.
fn without_root(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let is_first = line.starts_with("\tCapabilities: [40]");
        if is_first {
            kept += "\tCapabilities: <access denied>\n";
        } else if !line.starts_with("\tCapabilities:") && !line.starts_with("\t\t")
            || line.contains("PriDiscTmr")
        {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

#[test]
fn handmade_machines_keep_their_verdicts() {
    for fabric in handmade::all() {
        let Some(text) = lspci_tree::printed(&fabric, &["-Dvvvnn"]) else { return };
        let sysfs = discovered(&fabric);
        let text = text + &surroundings(&fabric);
        let known = compare(&sysfs, &text, false);
        let known_without = compare(&sysfs, &without_root(&text), true);
        assert!(known_without <= known, "{}", fabric.name);
        for options in [&["-Dvv"][..], &["-v"], &["-nn"], &["-Dnvv"], &["-t"], &["-tv"], &[]] {
            let text = lspci_tree::printed(&fabric, options).unwrap();
            compare(&sysfs, &text, true);
        }
    }
}

#[test]
fn listing_without_domains_agrees() {
    for fabric in handmade::all() {
        let Some(text) = lspci_tree::printed(&fabric, &["-vvnn"]) else { return };
        compare(&discovered(&fabric), &(text + &surroundings(&fabric)), false);
    }
}

#[test]
fn contradicting_registers_name_their_line() {
    let port = |address: &str, kind: &str, buses: &str, more: &str| {
        format!(
            "0000:{address} PCI bridge [0604]: Some [1000:c030] (prog-if 00 [Normal decode])\n\
             \tControl: I/O-\n\tStatus: Cap+\n\tBus: primary=00, {buses}, sec-latency=0\n\
             \tCapabilities: [40] Express (v2) {kind}, MSI 00\n{more}\
             \tKernel driver in use: pcieport\n\n"
        )
    };
    let acs = |bit: &str| {
        format!(
            "\tCapabilities: [100 v1] Access Control Services\n\t\tACSCtl:\tSrcValid- TransBlk- \
             ReqRedir{bit} CmpltRedir{bit} UpstreamFwd- EgressCtrl- DirectTrans-\n"
        )
    };
    let drive = |address: &str| {
        format!(
            "0000:{address} Non-Volatile memory controller [0108]: Some [144d:a80a]\n\
             \tControl: I/O-\n\tStatus: Cap+\n\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n\
             \t\tDevSta: x\n\tKernel driver in use: nvme\n\n"
        )
    };
    let doubtful =
        |bit| port("02:00.0", "Downstream Port", "secondary=03, subordinate=03", &acs(bit));
    let text = [
        "0000:00:00.0 Host bridge [0600]: Some [8086:4c43]\n\tStatus: Cap-\n\n".to_owned(),
        port("00:01.0", "Root Port", "secondary=01, subordinate=04", &acs("-")),
        port("01:00.0", "Upstream Port", "secondary=02, subordinate=04", ""),
        doubtful("-"),
        port("02:01.0", "Downstream Port", "secondary=04, subordinate=04", &acs("-")),
        drive("03:00.0"),
        drive("04:00.0"),
        doubtful("+"),
    ]
    .concat();
    let line = text.lines().zip(1..).filter(|(line, _)| line.contains("ReqRedir+")).last();
    let fabric = lspci::read(&text).unwrap();
    let find = |name| fabric.find(name).unwrap();
    let found = decide(&fabric, find("0000:03:00.0"), find("0000:04:00.0"));
    assert!(is_open(found.map), "{}", found.summary());
    let expected =
        format!("the register in line {} is cut, or contradicts another", line.unwrap().1);
    assert!(
        found.facts.iter().any(|fact| fact.to_string().contains(&expected)),
        "{:?}",
        found.facts
    );
}

/// Any machine as firmware and kernel leave one: numbered buses, classes as kinds.
fn machine() -> impl Strategy<Value = Fabric> {
    random::fabric().prop_map(|mut fabric| {
        lspci_tree::number(&mut fabric);
        fabric.stacked.clear();
        fabric.mounts = None;
        fabric.libraries = None;
        fabric.kernel.modules = None;
        fabric.nvlinks = None;
        fabric.environment = Environment::default();
        for function in &mut fabric.functions {
            function.name = function.address.unwrap().to_string();
            let is_root = matches!(function.parent, peerlane_fabric::Parent::Bridge(_));
            // A port is what its place says, so that both readers can tell it without root.
            function.kind = match function.kind {
                FunctionKind::RootPort
                | FunctionKind::UpstreamPort
                | FunctionKind::DownstreamPort
                    if is_root =>
                {
                    FunctionKind::RootPort
                }
                FunctionKind::RootPort => FunctionKind::OtherBridge,
                kind => kind,
            };
            let (class, vendor) = match function.kind {
                kind if kind.is_bridge() => (0x06_04_00, 0x8086),
                FunctionKind::Nvme => (0x01_08_02, 0x144d),
                FunctionKind::Gpu => (0x03_02_00, 0x10de),
                FunctionKind::Fpga => (0x12_00_00, 0x10ee),
                FunctionKind::Nic => (0x02_00_00, 0x15b3),
                _ => (0x08_80_00, 0x8086),
            };
            function.class = Some(class);
            function.vendor.get_or_insert(vendor);
            function.device.get_or_insert(0x1234);
            if function.kind == FunctionKind::Fpga {
                function.vendor = Some(vendor);
            }
            function.driver = match function.kind {
                FunctionKind::RootPort
                | FunctionKind::UpstreamPort
                | FunctionKind::DownstreamPort => DriverBinding::Bound("pcieport".to_owned()),
                FunctionKind::Nvme => DriverBinding::Bound("nvme".to_owned()),
                _ => DriverBinding::Unbound,
            };
            let speed = |speed: LinkSpeed| LinkSpeed {
                megatransfers: [2_500, 8_000, 32_000][speed.megatransfers as usize % 3],
                width: 1 << (speed.width % 5),
            };
            function.link = function.link.map(|link| Link {
                current: link.current.map(speed),
                maximum: link.maximum.map(speed),
            });
            function.link_below = function.link_below.map(speed);
            function.nvme = None;
            function.physical_function = None;
            function.mig_instances = None;
            function.bars.clear();
            function.unassigned_bars.clear();
            function.kernel_names.clear();
            function.fpga_p2p = None;
            function.p2pmem = None;
            function.iommu_type = None;
        }
        fabric
    })
}

/// Damage that people and programs do to a text.
#[derive(Debug, Clone)]
pub(crate) enum Damage {
    Quote,
    Fence,
    LineEnds,
    Spaces,
    Indent,
    Html,
    Narrow(usize),
    Wrap(usize),
    Cut(Index, usize),
    Head(Index),
    Tail(Index),
    Snip(Index, Index),
    Repeat,
    /// Whole functions, none of them the first of its bus.
    Missing(Index, usize),
    /// A line of one kind, in one function.
    Without(&'static str, Index),
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Quote),
        Just(Damage::Fence),
        Just(Damage::LineEnds),
        Just(Damage::Spaces),
        Just(Damage::Indent),
        Just(Damage::Html),
        (40usize..100).prop_map(Damage::Narrow),
        (50usize..100).prop_map(Damage::Wrap),
        (any::<Index>(), 0usize..60).prop_map(|(line, at)| Damage::Cut(line, at)),
        any::<Index>().prop_map(Damage::Head),
        any::<Index>().prop_map(Damage::Tail),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Snip(from, to)),
        Just(Damage::Repeat),
        (any::<Index>(), 1usize..4).prop_map(|(at, count)| Damage::Missing(at, count)),
        (prop::sample::select(vec!["Bus:", "ACS", "Capabilities:", "0000:"]), any::<Index>())
            .prop_map(|(front, at)| Damage::Without(front, at)),
    ]
}

impl Damage {
    pub(crate) fn apply(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let each = |change: &dyn Fn(&str) -> String| {
            lines.iter().map(|line| change(line) + "\n").collect::<String>()
        };
        match self {
            Self::Quote => each(&|line| format!("> {line}")),
            Self::Fence => format!("Here it is:\n\n```\n$ sudo lspci -Dvvvnn\n{text}```\n"),
            Self::LineEnds => text.replace('\n', "\r\n"),
            Self::Spaces => each(&|line| line.replace('\t', "        ")),
            Self::Indent => each(&|line| format!("    {line}")),
            Self::Html => text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
            Self::Narrow(width) => each(&|line| line.chars().take(*width).collect()),
            Self::Wrap(width) => each(&|line| wrapped(line, *width)),
            Self::Cut(line, at) => {
                let cut = line.index(lines.len().max(1));
                let keep = |(number, line): (usize, &&str)| {
                    let short: String = line.chars().take(*at).collect();
                    if number == cut { short + "\n" } else { (*line).to_owned() + "\n" }
                };
                lines.iter().enumerate().map(keep).collect()
            }
            Self::Head(line) => lines[line.index(lines.len().max(1)).min(lines.len())..].join("\n"),
            Self::Tail(line) => lines[..line.index(lines.len().max(1)).min(lines.len())].join("\n"),
            Self::Snip(from, to) => {
                let (from, to) = (from.index(lines.len() + 1), to.index(lines.len() + 1));
                let (from, to) = (from.min(to), from.max(to));
                [&lines[..from], &["[...]"], &lines[to..]].concat().join("\n") + "\n"
            }
            // An empty line behind a block that was cut would end it.
            Self::Repeat => format!("{text}{text}"),
            Self::Missing(at, count) => {
                let blocks: Vec<&str> = text.split_inclusive("\n\n").collect();
                let first = at.index(blocks.len().max(1));
                let is_missing = |at: usize, block: &str| {
                    (first..first + count).contains(&at) && !block.contains(":00.0 ")
                };
                let kept = blocks.iter().enumerate().filter(|(at, block)| !is_missing(*at, block));
                let kept: String = kept.map(|(_, block)| *block).collect();
                // Without any register left, nothing tells a bus below a lost port from a root bus.
                if kept.contains("Express (v2)") { kept } else { text.to_owned() }
            }
            Self::Without(front, at) => {
                let is_it = |line: &str| line.trim_start().starts_with(front);
                let count = lines.iter().filter(|line| is_it(line)).count();
                let gone = at.index(count.max(1));
                let mut seen = 0;
                let mut kept = String::new();
                for line in &lines {
                    seen += usize::from(is_it(line));
                    if !(is_it(line) && seen == gone + 1) {
                        kept += line;
                        kept.push('\n');
                    }
                }
                kept
            }
        }
    }
}

/// A line broken at its spaces, as mail programs do.
fn wrapped(line: &str, width: usize) -> String {
    let mut broken = String::new();
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        if column > 0 && column + word.len() > width {
            broken.push('\n');
            column = 0;
        }
        broken += word;
        column += word.len();
    }
    broken
}

proptest! {
    // Damage that leaves no sign cannot be noticed, and a rare machine may have it: a fixed seed keeps a run
    // repeatable, and PROPTEST_RNG_SEED with PROPTEST_CASES explores.
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 300,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_machines_keep_their_verdicts(mut fabric in machine()) {
        for function in fabric.functions.iter_mut().filter(|one| one.acs == Acs::Unknown) {
            function.acs = Acs::Absent;
        }
        if let Some(text) = lspci_tree::printed(&fabric, &["-Dvvvnn"]) {
            let sysfs = discovered(&fabric);
            let text = text + &surroundings(&fabric);
            let known = compare(&sysfs, &text, false);
            prop_assert!(compare(&sysfs, &without_root(&text), true) <= known);
        }
    }

    #[test]
    fn damaged_texts_only_lose_facts(
        fabric in machine(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        if let Some(text) = lspci_tree::printed(&fabric, &["-Dvvvnn"]) {
            let sysfs = discovered(&fabric);
            let mut text = text;
            for damage in &damages {
                text = damage.apply(&text);
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
            compare(&sysfs, &(text + &surroundings(&fabric)), true);
        }
    }
}
