//! Topology XML written for NCCL: read back it is the same machine, as far as the form can carry it.

use std::collections::BTreeSet;
use std::path::Path;

use peerlane_fabric::nccl::{self, NcclWriteError};
use peerlane_fabric::{Bdf, Fabric, Function, FunctionId, FunctionKind, GpuLink, LinkSpeed, lspci};
use proptest::prelude::*;

use crate::{lspci_tree, random};

/// Every machine of `fixtures/`, by the name of its file or folder.
fn fixtures() -> Vec<(String, Fabric)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut found = Vec::new();
    for kind in ["sysfs", "lspci", "nccl"] {
        for entry in std::fs::read_dir(folder.join(kind)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = || std::fs::read_to_string(&path).unwrap();
            let fabric = match (kind, path.extension().and_then(|end| end.to_str())) {
                ("sysfs", None) => Fabric::discover(&path.join("tree.tar.zst")).unwrap(),
                ("lspci", Some("txt")) => lspci::read(&text()).unwrap(),
                ("nccl", Some("xml")) => nccl::read(&text()).unwrap(),
                _ => continue,
            };
            found.push((name, fabric));
        }
    }
    assert!(found.len() >= 22, "{} fixtures", found.len());
    found
}

/// Facts of a function that the form carries, with the address of the listed switch above.
type Facts = (Option<Bdf>, FunctionKind, [Option<u32>; 4], Option<LinkSpeed>, Option<Bdf>);

/// The functions of `fabric` with these addresses.
fn facts(fabric: &Fabric, listed: &BTreeSet<Bdf>) -> BTreeSet<String> {
    let is_listed = |function: &Function| function.address.is_some_and(|at| listed.contains(&at));
    let node = |id: FunctionId| {
        let top = fabric.upward(id).filter(|&id| is_listed(fabric.function(id))).last().unwrap();
        fabric.function(top).numa_node.or(fabric.bridges[fabric.bridge_of(top).0].numa_node)
    };
    let facts = |(id, function): (FunctionId, &Function)| -> Facts {
        let mut above = fabric.upward(id).skip(1).map(|id| fabric.function(id));
        // A bridge of unknown type is taken for the switch in whose place it is.
        let kind =
            if function.kind.is_bridge() { FunctionKind::UpstreamPort } else { function.kind };
        let class = if function.kind.is_bridge() { Some(0x06_04_00) } else { function.class };
        let ids = [function.vendor.map(u32::from), function.device.map(u32::from), class, node(id)];
        // Bus 00 is a root bus, where no link is.
        let link =
            fabric.trainable(id).filter(|_| function.address.is_some_and(|at| at.bus() != 0));
        let switch = above.find(|one| is_listed(one)).and_then(|switch| switch.address);
        (function.address, kind, ids, link, switch)
    };
    let found = fabric.iter().filter(|(_, function)| is_listed(function)).map(facts);
    found.map(|facts| format!("{facts:x?}")).collect()
}

/// NVLinks by the addresses of their ends.
fn nvlinks(fabric: &Fabric) -> BTreeSet<(Option<Bdf>, Option<Bdf>, Option<u32>)> {
    ends(fabric, &fabric.nvlinks)
}

fn ends(
    fabric: &Fabric,
    links: &Option<Vec<GpuLink>>,
) -> BTreeSet<(Option<Bdf>, Option<Bdf>, Option<u32>)> {
    let address = |id: FunctionId| fabric.function(id).address;
    links
        .iter()
        .flatten()
        .map(|&GpuLink { gpus: (one, other), links }| {
            let ends = (address(one), address(other));
            (ends.0.min(ends.1), ends.0.max(ends.1), links)
        })
        .collect()
}

fn listed(fabric: &Fabric) -> BTreeSet<Bdf> {
    fabric.functions.iter().filter_map(|function| function.address).collect()
}

/// Names of NICs, which come in another order.
fn nic_names(fabric: &Fabric) -> BTreeSet<(Option<Bdf>, BTreeSet<String>)> {
    let nics = fabric.functions.iter().filter(|function| function.kind == FunctionKind::Nic);
    nics.map(|nic| (nic.address, nic.kernel_names.iter().cloned().collect())).collect()
}

fn payload(fabric: &Fabric) -> impl Iterator<Item = (FunctionId, &Function)> {
    let is_end = |(id, function): &(FunctionId, &Function)| match function.kind {
        FunctionKind::Gpu => fabric.moves_payload(*id),
        kind => matches!(kind, FunctionKind::Nic | FunctionKind::Nvme | FunctionKind::Fpga),
    };
    fabric.iter().filter(is_end)
}

#[test]
fn fixtures_are_read_back_alike() {
    for (name, fabric) in fixtures() {
        let written = fabric.to_nccl_xml().unwrap();
        assert_eq!(written.notes, [""; 0], "{name}");
        let read = nccl::read(&written.text).unwrap();
        let listed = listed(&read);
        for (_, function) in payload(&fabric) {
            assert!(listed.contains(&function.address.unwrap()), "{name}: {}", function.name);
        }
        assert_eq!(facts(&read, &listed), facts(&fabric, &listed), "{name}");
        assert_eq!(nvlinks(&read), nvlinks(&fabric), "{name}");
        assert_eq!(ends(&read, &read.xgmi), ends(&fabric, &fabric.xgmi), "{name}");
        assert_eq!(nic_names(&read), nic_names(&fabric), "{name}");
        assert_eq!(read.cpu.vendor, fabric.cpu.vendor, "{name}");
        let again = read.to_nccl_xml().unwrap();
        assert_eq!(again.text, written.text, "{name}");
    }
}

#[test]
fn fixtures_keep_their_number_of_ports() {
    let mut compared = 0;
    for (name, fabric) in fixtures() {
        let read = nccl::read(&fabric.to_nccl_xml().unwrap().text).unwrap();
        for (id, function) in payload(&fabric) {
            let ports = |fabric: &Fabric, id| fabric.upward(id).skip(1).count();
            let address = function.address.unwrap();
            let is_on_other_root_bus = ports(&fabric, id) == 0 && address.bus() != 0;
            let is_bridge = |id| fabric.function(id).kind == FunctionKind::OtherBridge;
            if fabric.upward(id).any(is_bridge) || is_on_other_root_bus {
                // NCCL's form has neither conventional bridges nor root buses.
                continue;
            }
            let found = read.find(&address.to_string()).unwrap();
            assert_eq!(ports(&read, found), ports(&fabric, id), "{name}: {address}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} functions");
}

/// Reads the text by the rules of NCCL's own reader, which is stricter than XML in some things and laxer in
/// others, and returns the elements with their attributes.
fn as_nccl_reads(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut elements = Vec::new();
    let mut open = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(' ');
        if line.starts_with("<!-- ") && line.ends_with(" -->") {
            continue;
        }
        if let Some(name) = line.strip_prefix("</").and_then(|rest| rest.strip_suffix('>')) {
            assert_eq!(open.pop().as_deref(), Some(name), "{line}");
            continue;
        }
        let tag = line.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).expect(line);
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = Vec::new();
        while !rest.is_empty() {
            let (key, after) = rest.split_once("=\"").expect(line);
            let (value, after) = after.split_once('"').expect(line);
            assert!(value.len() < 255 && !value.contains('&'), "{line}");
            assert!(key.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
            attributes.push((key.to_owned(), value.to_owned()));
            rest = after.strip_prefix(' ').unwrap_or(after);
            assert!(after.is_empty() || after != rest, "{line}");
        }
        assert!(attributes.len() <= 16, "{line}");
        elements.push((name.to_owned(), attributes));
        if !is_closed {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty());
    elements
}

#[test]
fn attributes_that_nccl_demands_are_there() {
    for (name, fabric) in fixtures() {
        let elements = as_nccl_reads(&fabric.to_nccl_xml().unwrap().text);
        let has = |attributes: &[(String, String)], wanted: &str| {
            attributes.iter().any(|(key, _)| key == wanted)
        };
        let vendors: Vec<_> = fabric.gpus().iter().map(|&id| fabric.function(id).vendor).collect();
        let version = if vendors.contains(&Some(0x1002)) { "2" } else { "1" };
        assert_eq!(elements[0], ("system".into(), vec![("version".into(), version.into())]));
        assert!(elements.len() <= 256, "{name}");
        for (tag, attributes) in &elements {
            let needed: &[&str] = match tag.as_str() {
                "system" => &["version"],
                "cpu" => &["numaid"],
                "pci" => &["busid", "class"],
                "net" => &["name"],
                "nvlink" | "xgmi" => &["target", "count", "tclass"],
                _ => &[],
            };
            for one in needed {
                assert!(has(attributes, one), "{name}: {tag} without {one}");
            }
            let is_intel = attributes.contains(&("vendor".into(), "GenuineIntel".into()));
            let ids = ["familyid", "modelid"].map(|key| has(attributes, key));
            assert!(!is_intel || ids[0] == ids[1], "{name}: one without the other");
            assert!(!has(attributes, "rank") && !has(attributes, "dev"), "{name}: NCCL's own");
        }
    }
}

#[test]
fn unused_devices_are_listed_without_parts() {
    let by_name = |wanted: &str| fixtures().into_iter().find(|(name, _)| name == wanted).unwrap().1;
    let machine = by_name("eight-gpus");
    let text = machine.to_nccl_xml().unwrap().text;
    assert!(text.contains("class=\"0x010802\"") && text.contains("<net name="), "{text}");
    let other = |one: &&Function| matches!(one.kind, FunctionKind::Other | FunctionKind::RootPort);
    for part in machine.functions.iter().filter(other) {
        assert!(!text.contains(&part.name), "{}", part.name);
    }
}

fn machine(functions: &[&str]) -> Fabric {
    let functions: String = functions.iter().map(|one| format!("[[function]]\n{one}\n")).collect();
    Fabric::from_toml(&format!("name = 'm'\n[[host_bridge]]\nname = 'b'\n{functions}")).unwrap()
}

const GPU: &str = "kind = 'gpu'\nvendor = '0x10de'\ndevice = '0x2330'";

/// GPUs with this number of NVLinks between each two.
fn linked(gpus: usize, links: Option<u32>) -> Fabric {
    let functions: Vec<String> = (0..gpus)
        .map(|at| format!("name = 'g{at}'\naddress = '0000:0{}:00.0'\n{GPU}", at + 1))
        .collect();
    let mut fabric = machine(&functions.iter().map(String::as_str).collect::<Vec<_>>());
    let pairs = (0..gpus).flat_map(|one| (one + 1..gpus).map(move |other| (one, other)));
    let pairs = pairs.map(|(one, other)| (FunctionId(one), FunctionId(other)));
    fabric.nvlinks = Some(pairs.map(|gpus| GpuLink { gpus, links }).collect());
    fabric
}

#[test]
fn excess_nvlinks_lead_through_switches() {
    let count = |fabric: &Fabric| {
        let written = fabric.to_nccl_xml().unwrap();
        assert_eq!(nvlinks(&nccl::read(&written.text).unwrap()), nvlinks(fabric));
        let text = written.text;
        (text.matches("<nvlink ").count(), text.matches("target=\"fffffff:ffff:ff\"").count())
    };
    assert_eq!(count(&linked(4, Some(6))), (12, 0), "18 links on each");
    assert_eq!(count(&linked(5, Some(6))), (5, 5), "24 links would be on each");
}

#[test]
fn nvlinks_are_written_all_or_none() {
    let notes = |fabric: &Fabric| {
        let written = fabric.to_nccl_xml().unwrap();
        assert!(!written.text.contains("<nvlink"));
        for note in &written.notes {
            assert!(written.text.contains(&format!("<!-- {note} -->\n")), "{}", written.text);
        }
        written.notes.join("\n")
    };
    assert!(notes(&linked(2, None)).contains("number is unknown"));
    let mut uneven = linked(5, Some(6));
    uneven.nvlinks.as_mut().unwrap()[3].links = Some(7);
    assert!(notes(&uneven).contains("NVSwitches would join other pairs too"));
    let mut other = linked(2, Some(6));
    other.functions[0].kind = FunctionKind::Nic;
    assert!(notes(&other).contains("not a GPU"));
    let mut twice = linked(2, Some(6));
    let first = twice.nvlinks.as_ref().unwrap()[0];
    twice.nvlinks.as_mut().unwrap().push(first);
    assert!(notes(&twice).contains("twice"));
}

#[test]
fn xgmi_is_written_all_or_none() {
    let mut fabric = linked(3, Some(2));
    for gpu in &mut fabric.functions {
        gpu.vendor = Some(0x1002);
    }
    fabric.xgmi = fabric.nvlinks.take();
    let written = fabric.to_nccl_xml().unwrap();
    assert!(written.text.contains("<system version=\"2\">"), "{}", written.text);
    assert_eq!((written.text.matches("<xgmi ").count(), written.notes.len()), (6, 0));
    let read = nccl::read(&written.text).unwrap();
    assert_eq!(ends(&read, &read.xgmi), ends(&fabric, &fabric.xgmi));
    fabric.xgmi.as_mut().unwrap()[0].links = None;
    let written = fabric.to_nccl_xml().unwrap();
    assert_eq!(
        written.notes,
        ["XGMI left out, so that RCCL asks the driver: their number is unknown"]
    );
    assert!(!written.text.contains("<xgmi"), "{}", written.text);
}

#[test]
fn made_up_switches_are_written_again() {
    let text = "<system version=\"1\"><cpu numaid=\"0\">\
                <pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">\
                <pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\
                <pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>\
                </pci></cpu></system>";
    let written = nccl::read(text).unwrap().to_nccl_xml().unwrap();
    let switch = "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">";
    assert!(written.text.contains(switch), "{}", written.text);
    assert_eq!(
        written.text.matches("link_speed=\"16.0 GT/s PCIe\"").count(),
        3,
        "{}",
        written.text
    );
}

#[test]
fn root_ports_of_a_topology_are_written_again() {
    let text = "<system version=\"1\"><cpu numaid=\"-1\"><pci busid=\"0000:00:01.0\" class=\"0x060400\">\
                <pci busid=\"0000:02:00.0\" class=\"0x020000\"/></pci></cpu></system>";
    let written = nccl::read(text).unwrap().to_nccl_xml().unwrap();
    assert_eq!(written.notes, [""; 0]);
    assert!(written.text.contains("busid=\"0000:00:01.0\""), "{}", written.text);
    assert_eq!(nccl::read(&written.text).unwrap().to_nccl_xml().unwrap().text, written.text);
}

#[test]
fn unclassified_functions_are_written_alone() {
    let text = |others: &str| {
        let unknown = "<pci busid=\"0000:00:16.0\"/><pci busid=\"0000:45:00.0\"><pci busid=\"0000:4f:00.0\"/></pci>";
        let text =
            format!("<system version=\"1\"><cpu numaid=\"0\">{unknown}{others}</cpu></system>");
        nccl::read(&text).unwrap().to_nccl_xml().unwrap().text
    };
    let alone = text("");
    assert!(alone.contains("<pci busid=\"0000:00:16.0\"/>"), "{alone}");
    assert!(alone.contains("<pci busid=\"0000:45:00.0\" class=\"0x060400\">"), "{alone}");
    let with_nic = text("<pci busid=\"0000:00:17.0\" class=\"0x020000\"/>");
    assert!(!with_nic.contains("0000:00:16.0"), "{with_nic}");
}

#[test]
fn functions_without_address_are_noted() {
    let switch = "name = 'up'\nkind = 'upstream-port'\nunder = 'b'";
    let below = "name = 'n'\nkind = 'nvme'\nunder = 'up'\naddress = '0000:05:00.0'";
    let nic = "name = 'c'\nkind = 'nic'\naddress = '0000:06:00.0'";
    let written = machine(&[switch, below, nic]).to_nccl_xml().unwrap();
    assert_eq!(written.notes, ["1 function left out: no PCI address, or none of a switch above"]);
    assert!(written.text.contains("0000:06:00.0") && !written.text.contains("0000:05:00.0"));
    let refused = machine(&[switch, below]).to_nccl_xml().unwrap_err();
    assert_eq!(refused, NcclWriteError::NoFunction);
    assert!(refused.hint().unwrap().contains("address = "));
}

#[test]
fn excess_elements_and_levels_are_noted() {
    let nics: Vec<String> = (0..200)
        .map(|at| format!("name = 'n{at}'\nkind = 'nic'\naddress = '0000:{at:02x}:01.0'"))
        .collect();
    let large = machine(&nics.iter().map(String::as_str).collect::<Vec<_>>());
    let notes = large.to_nccl_xml().unwrap().notes;
    assert!(
        notes[0].starts_with("402 elements: NCCL 2.21 to 2.30 refuse more than 256"),
        "{notes:?}"
    );
    nccl::read(&chain(99).to_nccl_xml().unwrap().text).unwrap();
    assert_eq!(chain(100).to_nccl_xml().unwrap_err(), NcclWriteError::TooDeep { most: 100 });
}

/// A drive below this many switches.
fn chain(switches: usize) -> Fabric {
    let under = |at: usize| if at == 0 { "b".to_owned() } else { format!("u{}", at - 1) };
    let mut functions: Vec<String> = (0..switches)
        .map(|at| {
            let place = format!("under = '{}'\naddress = '0000:{at:02x}:02.0'", under(at));
            format!("name = 'u{at}'\nkind = 'upstream-port'\n{place}")
        })
        .collect();
    let drive = "name = 'n'\nkind = 'nvme'\naddress = '0000:f0:00.0'";
    functions.push(format!("{drive}\nunder = '{}'", under(switches)));
    machine(&functions.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A fabric whose functions have addresses as firmware gives them.
fn numbered() -> impl Strategy<Value = Fabric> {
    random::fabric().prop_map(|mut fabric| {
        lspci_tree::number(&mut fabric);
        for function in &mut fabric.functions {
            // The kind follows from the class where there is one.
            function.class = match function.kind {
                FunctionKind::Nvme => Some(0x01_08_02),
                FunctionKind::Fpga => Some(0x12_00_00),
                kind if kind.is_bridge() => Some(0x06_04_00),
                _ => None,
            };
            match function.kind {
                FunctionKind::Fpga => function.vendor = Some(0x10ee),
                FunctionKind::Gpu => function.vendor = Some(0x10de),
                _ => {}
            }
        }
        fabric
    })
}

proptest! {
    #[test]
    fn random_machines_are_read_back_alike(fabric in numbered()) {
        match fabric.to_nccl_xml() {
            Err(error) => {
                prop_assert_eq!(error, NcclWriteError::NoFunction);
                prop_assert_eq!(payload(&fabric).count(), 0);
            }
            Ok(written) => {
                let read = nccl::read(&written.text).unwrap();
                let listed = listed(&read);
                prop_assert!(payload(&fabric).all(|(_, one)| listed.contains(&one.address.unwrap())));
                prop_assert_eq!(facts(&read, &listed), facts(&fabric, &listed));
                if written.notes.is_empty() {
                    prop_assert_eq!(nvlinks(&read), nvlinks(&fabric));
                }
            }
        }
    }

    #[test]
    fn any_names_and_places_make_xml(fabric in random::fabric()) {
        if let Ok(written) = fabric.to_nccl_xml() {
            let read = nccl::read(&written.text);
            prop_assert!(read.is_ok(), "{:?}\n{}", read.unwrap_err(), written.text);
        }
    }
}
