//! Topology XML of NCCL and RCCL.

use peerlane_fabric::nccl::{self, NcclError};
use peerlane_fabric::{Acs, Fabric, FunctionId, FunctionKind, GpuLink, LinkSpeed, Origin, RootBus};
use proptest::prelude::*;

const H100: &str = include_str!("../../../../fixtures/nccl/h100.xml");
const MI300: &str = include_str!("../../../../fixtures/nccl/mi300.xml");
const WORKSTATION: &str = include_str!("../../../../fixtures/nccl/workstation.xml");

fn read(text: &str) -> Fabric {
    assert!(nccl::is_nccl(text));
    let fabric = nccl::read(text).unwrap();
    assert_eq!(fabric.origin, Origin::Text);
    assert!(fabric.functions.iter().all(|function| function.acs == Acs::Unknown));
    assert!(fabric.bridges.iter().all(|bridge| bridge.root_bus == RootBus::Partial));
    let written = Fabric::from_toml(&fabric.to_toml()).unwrap();
    let mut expected = Fabric { origin: Origin::Description, ..fabric.clone() };
    for function in &mut expected.functions {
        // Machine files do not keep where a fact was read.
        function.lines = None;
    }
    assert_eq!(written, expected);
    fabric
}

fn id(fabric: &Fabric, name: &str) -> FunctionId {
    fabric.find(name).unwrap()
}

fn count(fabric: &Fabric, kind: FunctionKind) -> usize {
    fabric.functions.iter().filter(|function| function.kind == kind).count()
}

/// Kinds from a function up to the root.
fn above(fabric: &Fabric, name: &str) -> Vec<FunctionKind> {
    fabric.upward(id(fabric, name)).skip(1).map(|id| fabric.function(id).kind).collect()
}

#[test]
fn server_functions_have_ports_above() {
    let fabric = read(H100);
    assert_eq!((count(&fabric, FunctionKind::Gpu), count(&fabric, FunctionKind::Nic)), (8, 8));
    let ports = [FunctionKind::RootPort, FunctionKind::UpstreamPort, FunctionKind::DownstreamPort];
    assert_eq!(ports.map(|kind| count(&fabric, kind)), [4, 4, 16]);
    let upward = [FunctionKind::DownstreamPort, FunctionKind::UpstreamPort, FunctionKind::RootPort];
    assert_eq!(above(&fabric, "0000:1c:00.0"), upward);
    let nic = fabric.function(id(&fabric, "0000:1e:00.0"));
    assert_eq!(nic.kernel_names, ["mlx5_0"]);
    assert_eq!((nic.vendor, nic.device, nic.class), (Some(0x15b3), Some(0x1021), Some(0x02_07_00)));
    assert_eq!(nic.numa_node, Some(0));
    let link = nic.link.unwrap();
    let gen5 = LinkSpeed { megatransfers: 32_000, width: 16 };
    assert_eq!((link.current, link.maximum), (None, Some(gen5)));
    assert_eq!(fabric.cpu.vendor.as_deref(), Some("GenuineIntel"));
    assert_eq!(fabric.cpu.family, Some(6));
    let nodes: Vec<_> = fabric.bridges.iter().map(|bridge| bridge.numa_node).collect();
    assert_eq!(nodes, [Some(0), Some(1)]);
}

#[test]
fn functions_name_their_lines() {
    let line = |name: &str, text: &str| {
        let fabric = nccl::read(text).unwrap();
        let lines = fabric.function(id(&fabric, name)).lines.unwrap();
        let index = usize::try_from(lines.heading).unwrap() - 1;
        text.lines().nth(index).unwrap().contains(name)
    };
    assert!(line("0000:1c:00.0", H100));
    assert!(line("0000:ce:00.0", &format!("\u{feff}\n```xml\n{H100}```\n")));
}

#[test]
fn nvswitches_connect_all_their_gpus() {
    let links = read(H100).nvlinks.unwrap();
    assert_eq!(links.len(), 8 * 7 / 2);
    assert!(links.iter().all(|link| link.links == Some(18)), "{links:?}");
    assert_eq!(read(WORKSTATION).nvlinks, Some(Vec::new()));
    assert_eq!(read(WORKSTATION).xgmi, None, "NCCL does not look for it");
}

#[test]
fn xgmi_connects_pairs_apart_from_nvlink() {
    let fabric = read(MI300);
    let links = fabric.xgmi.unwrap();
    assert_eq!((links.len(), fabric.nvlinks), (4 * 3 / 2, None));
    assert!(links.iter().all(|link| link.links == Some(1)), "{links:?}");
    let alone = MI300.replace("<xgmi ", "<other ");
    assert_eq!(read(&alone).xgmi, Some(Vec::new()), "RCCL looked and found none");
}

#[test]
fn gpus_out_of_sight_join_no_xgmi() {
    let gpu = |bus: &str| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"0x120000\" vendor=\"0x1002\"><gpu sm=\"1\" gcn=\"gfx942\">\
             <xgmi target=\"0000:09:00.0\" count=\"1\" tclass=\"0x068000\"/></gpu></pci>"
        )
    };
    let text = format!("<system><cpu>{}{}</cpu></system>", gpu("01"), gpu("02"));
    assert_eq!(read(&text).xgmi, Some(Vec::new()), "XGMI has no switches");
}

#[test]
fn links_without_search_stay_unknown() {
    let gpu = |bus: &str, below: &str| {
        format!("<pci busid=\"0000:{bus}:00.0\" class=\"0x030200\" vendor=\"0x10de\">{below}</pci>")
    };
    let links = |first: &str, second: &str| {
        let text = format!("<system><cpu>{}{}</cpu></system>", gpu("01", first), gpu("02", second));
        read(&text).nvlinks
    };
    let searched = "<gpu dev=\"0\" sm=\"80\"/>";
    assert_eq!(links(searched, searched), Some(Vec::new()));
    assert_eq!(links("", ""), None, "a file of a cloud lists no links");
    assert_eq!(links(searched, "<gpu/>"), None);
    assert_eq!(read("<system><cpu><pci busid=\"0000:01:00.0\"/></cpu></system>").nvlinks, None);
}

#[test]
fn direct_nvlinks_are_counted_once() {
    let link = |to: &str, class: &str| format!("<nvlink target=\"{to}\" count=\"4\"{class}/>");
    let gpu = |bus: &str, links: &str| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"0x030200\" vendor=\"0x10de\">\
             <gpu dev=\"0\">{links}</gpu></pci>"
        )
    };
    let both = link("0000:02:00.0", " tclass=\"0x030200\"");
    let back = link("00000000:01:00.0", "") + &link("0006:00:00.0", " tclass=\"0x068001\"");
    let text = format!("<system><cpu>{}{}</cpu></system>", gpu("01", &both), gpu("02", &back));
    let fabric = read(&text);
    let gpus = (id(&fabric, "0000:01:00.0"), id(&fabric, "0000:02:00.0"));
    assert_eq!(fabric.nvlinks, Some(vec![GpuLink { gpus, links: Some(4) }]));
}

#[test]
fn amd_vendor_matches_kernel_words() {
    let fabric = read(MI300);
    assert_eq!(fabric.cpu.vendor.as_deref(), Some("AuthenticAMD"));
    assert_eq!(fabric.cpu.family, Some(0x19));
    assert_eq!((count(&fabric, FunctionKind::Gpu), count(&fabric, FunctionKind::Nic)), (4, 8));
    let switch = [FunctionKind::DownstreamPort, FunctionKind::UpstreamPort];
    let upward = [&switch[..], &switch[..], &[FunctionKind::RootPort]].concat();
    assert_eq!(above(&fabric, "0000:0f:00.0"), upward);
    let parent = |name: &str| fabric.function(id(&fabric, name)).parent;
    assert_eq!(parent("0000:10:00.0"), parent("0000:10:00.1"), "one port leads to one bus");
}

#[test]
fn switchless_functions_have_root_ports() {
    let fabric = read(WORKSTATION);
    assert_eq!(above(&fabric, "0000:01:00.0"), [FunctionKind::RootPort]);
    assert_eq!(above(&fabric, "0000:00:1f.6"), []);
    let named: Vec<&str> = fabric.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
    assert_eq!(named, ["pci0000", "pci0000:00"]);
    assert!(fabric.functions.iter().all(|one| !one.kernel_names.contains(&"docker0".to_owned())));
    assert_eq!(fabric.bridges[0].numa_node, None, "-1 is no node");
}

#[test]
fn made_up_switches_keep_place_and_links() {
    let function = |bus: &str| {
        format!(
            "<pci busid=\"{bus}:00:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b0\" \
             link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"/>"
        )
    };
    let text = format!(
        "<system version=\"1\"><cpu numaid=\"0\" vendor=\"AuthenticAMD\" familyid=\"23\">\
         <pci busid=\"ffff:ff:01.0\" class=\"0x060400\" vendor=\"0xffff\" link_speed=\"16 GT/s\" link_width=\"16\">{}{}</pci>\
         </cpu></system>",
        function("0001"),
        function("0002")
    );
    let fabric = read(&text);
    let upward = [FunctionKind::DownstreamPort, FunctionKind::UpstreamPort, FunctionKind::RootPort];
    assert_eq!(above(&fabric, "0001:00:00.0"), upward);
    let switch = fabric.function(id(&fabric, "ffff:ff:01.0"));
    assert_eq!((switch.vendor, count(&fabric, FunctionKind::UpstreamPort)), (None, 1));
    let speed = |name: &str| fabric.function(id(&fabric, name)).link.unwrap().maximum.unwrap();
    assert_eq!(speed("ffff:ff:01.0").megatransfers, 16_000);
    assert_eq!(speed("0002:00:00.0").megatransfers, 32_000);
    let notes = fabric.topology_notes();
    assert!(notes[0].starts_with("ffff:ff:01.0 is a switch by the word of this file"), "{notes:?}");
    assert_eq!(fabric.cpu.family, None, "a family of 23 has no base of 15");
}

#[test]
fn made_up_switches_share_no_port() {
    let switch =
        |at: &str, below: &str| format!("<pci busid=\"{at}\" class=\"0x060400\">{below}</pci>");
    let gpu = |bus: &str| format!("<pci busid=\"0000:{bus}:00.0\" class=\"0x030200\"/>");
    let text = format!(
        "<system><cpu>{}{}{}{}</cpu></system>",
        switch("ffff:ff:01.0", &gpu("01")),
        switch("ffff:ff:02.0", &gpu("02")),
        switch("0000:00:01.0", &(gpu("03") + &gpu("04"))),
        switch("0000:00:02.0", &(gpu("05") + &gpu("06"))),
    );
    let fabric = read(&text);
    let upward = [FunctionKind::DownstreamPort, FunctionKind::UpstreamPort, FunctionKind::RootPort];
    let mut tops = Vec::new();
    for gpu in ["01", "02", "03", "05"] {
        let name = format!("0000:{gpu}:00.0");
        assert_eq!(above(&fabric, &name), upward, "{name}");
        tops.push(fabric.upward(id(&fabric, &name)).last());
    }
    tops.dedup();
    assert_eq!(tops.len(), 4, "{tops:?}");
    assert!(fabric.topology_notes()[0].starts_with("ffff:ff:01.0 and 3 more are switches"));
}

#[test]
fn gpus_linked_to_themselves_hide_links() {
    let gpu = "<pci busid=\"0001:00:00.0\" class=\"0x030200\"><gpu sm=\"80\">\
               <nvlink target=\"0001:00:00.0\" count=\"12\" tclass=\"0x030200\"/></gpu></pci>";
    assert_eq!(read(&format!("<system><cpu>{gpu}</cpu></system>")).nvlinks, None);
}

#[test]
fn links_on_root_buses_are_kept() {
    let text = "<system><cpu><pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" \
                link_width=\"16\"/></cpu></system>";
    let fabric = read(text);
    let link = fabric.function(id(&fabric, "0001:00:00.0")).link.unwrap().maximum.unwrap();
    assert_eq!((link.megatransfers, link.width), (16_000, 16));
}

#[test]
fn repeated_addresses_keep_their_places() {
    let function = |at: &str, class: &str, below: &str| {
        format!("<pci busid=\"0000:{at}:00.0\" class=\"{class}\">{below}</pci>\n")
    };
    let switch = |gpu: &str| function("05", "0x060400", &function(gpu, "0x030200", ""));
    let text = format!(
        "<system><cpu>\n{}{}{}</cpu></system>",
        function("01", "0x060400", &format!("{}{}", switch("0a"), switch("0b"))),
        switch("0c"),
        function("0a", "0x020000", "")
    );
    let fabric = read(&text);
    let find = |name: &str| id(&fabric, name);
    let top = find("0000:01:00.0");
    let above = |name: &str| fabric.upward(find(name)).any(|id| id == top);
    assert_eq!(["0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0"].map(above), [true, true, false]);
    let switches = ["0000:05:00.0", "0000:05:00.0-2", "0000:05:00.0-3"].map(find);
    let addresses = switches.map(|id| fabric.function(id).address.is_some());
    assert_eq!(addresses, [true, false, false]);
    let parents = switches.map(|id| fabric.function(id).parent);
    assert!(parents[0] != parents[1], "each is below a port of its own");
    assert_eq!(fabric.function(find("0000:0a:00.0-2")).kind, FunctionKind::Nic);
    let notes = fabric.topology_notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].starts_with("0000:05:00.0 stands in line 2 and again in lines 4, 7:"),
        "{notes:?}"
    );
    assert!(read(H100).topology_notes().is_empty());
}

#[test]
fn functions_without_class_may_be_anything() {
    let text = "<system><cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/>\
                <pci busid=\"0000:45:00.0\"><pci busid=\"0000:4f:00.0\" link_speed=\"32 GT/s PCIe/s\" \
                link_width=\"16\"/></pci><pci busid=\"0000:00:17.0\" class=\"0x0c0330\"/></cpu></system>";
    let fabric = read(text);
    let is_unclassified = |name: &str| fabric.function(id(&fabric, name)).is_unclassified();
    assert!(is_unclassified("0000:00:16.0") && is_unclassified("0000:4f:00.0"));
    assert!(!is_unclassified("0000:00:17.0"), "a USB controller is known to be neither");
    assert!(!is_unclassified("0000:45:00.0"), "what is above others is a switch");
}

#[test]
fn gpus_of_any_maker_are_accelerators() {
    let memory = |vendor: &str, below: &str| {
        let fabric = read(&format!(
            "<system><cpu><pci busid=\"0000:01:00.0\" class=\"0x030000\" vendor=\"{vendor}\">{below}</pci>\
             </cpu></system>"
        ));
        fabric.memory(id(&fabric, "0000:01:00.0")).is_some()
    };
    assert!(memory("0x1d94", "<gpu dev=\"0\" gdr=\"1\"/>"));
    assert!(!memory("0x1a03", ""), "a console");
}

#[test]
fn ports_on_bus_0_are_root() {
    let text = "<system><cpu><pci busid=\"0000:00:01.0\" class=\"0x060400\">\
                <pci busid=\"0000:02:00.0\" class=\"0x02\"/></pci></cpu></system>";
    let fabric = read(text);
    assert_eq!(above(&fabric, "0000:02:00.0"), [FunctionKind::OtherBridge, FunctionKind::RootPort]);
    assert_eq!(fabric.function(id(&fabric, "0000:02:00.0")).kind, FunctionKind::Nic);
}

#[test]
fn refusals_name_line_and_command() {
    let one = "<pci busid=\"0000:01:00.0\"/>";
    for (text, says) in [
        ("<html></html>".to_owned(), "element <system>"),
        ("<system>\n<cpu a=>".to_owned(), "line 2"),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><system>&b;</system>".to_owned(), "DTD"),
        ("<system version=\"1\"/>".to_owned(), "cannot find a PCI function"),
        ("<system><gpu dev=\"0\"/></system>".to_owned(), "cannot find a PCI function"),
        ("<system>\n<pci busid=\"0000:01.0\"/></system>".to_owned(), "line 2: `0000:01.0`"),
        ("<system><pci/></system>".to_owned(), "line 1: ``"),
        (
            format!("<system><cpu host_hash=\"1\">{one}</cpu><cpu host_hash=\"2\"/></system>"),
            "of 2 hosts",
        ),
    ] {
        let error = nccl::read(&text).expect_err(&text);
        assert!(error.to_string().contains(says), "{text}: {error}");
        assert!(error.hint().contains("NCCL_TOPO_DUMP_FILE=topo.xml"), "{}", error.hint());
    }
}

#[test]
fn deep_and_large_documents_are_refused() {
    let deep =
        format!("{}{}", "<pci busid=\"0000:01:00.0\">".repeat(50_000), "</pci>".repeat(50_000));
    let deep = nccl::read(&format!("<system>{deep}</system>"));
    assert!(matches!(deep, Err(NcclError::TooLarge { most: 100, .. })), "{deep:?}");
    let other = format!("{}{}", "<a>".repeat(400_000), "</a>".repeat(400_000));
    assert_eq!(nccl::read(&format!("<system>{other}</system>")), Err(NcclError::NoFunction));
    let functions = (0..30_000_u32).map(|number| {
        format!("<pci busid=\"{:04x}:{:02x}:00.0\"/>", number / 200, number % 200 + 1)
    });
    let large = nccl::read(&format!("<system>{}</system>", functions.collect::<String>()));
    assert!(matches!(large, Err(NcclError::TooLarge { .. })), "a root port is above each");
}

proptest! {
    #[test]
    fn damaged_text_never_panics(at in 0..H100.len(), length in 0_usize..200, put in ".{0,20}") {
        for text in [H100, MI300, WORKSTATION] {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            let damaged = format!("{}{put}{}", &text[..at], &text[end..]);
            if let Ok(fabric) = nccl::read(&damaged) {
                Fabric::from_toml(&fabric.to_toml()).unwrap();
            }
        }
    }
}
