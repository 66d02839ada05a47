//! Reading of `lspci`: made machines that the real program prints, and small texts with each kind of dirt.

use peerlane_fabric::lspci::{LspciError, is_lspci, read};
use peerlane_fabric::{
    Acs, Bar, Bdf, Fabric, Function, FunctionKind, IommuMode, Parent, RootBus, lspci,
};
use peerlane_units::Bytes;

use crate::{handmade, lspci_tree};

#[test]
fn handmade_machines_are_read_back() {
    for fabric in handmade::all() {
        let Some(text) = lspci_tree::printed(&fabric, &["-Dvvvnn"]) else { return };
        assert!(lspci::is_lspci(&text), "{}", fabric.name);
        let read = lspci::read(&text).unwrap();
        for (_, function) in fabric.iter() {
            let address = function.address.unwrap();
            let (_, found) = read.iter().find(|(_, found)| found.address == Some(address)).unwrap();
            let what = format!("{} of {}", address, fabric.name);
            assert_eq!(found.kind, function.kind, "{what}");
            assert_eq!(found.vendor, function.vendor, "{what}");
            assert_eq!(found.device, function.device, "{what}");
            assert_eq!(found.class, function.class, "{what}");
            assert_eq!(found.acs, function.acs, "{what}");
            assert_eq!(found.numa_node, function.numa_node, "{what}");
            assert_eq!(found.iommu_group, function.iommu_group, "{what}");
            assert_eq!(found.driver, function.driver, "{what}");
            if function.acs != Acs::Unknown {
                assert_eq!(found.link, function.link, "{what}");
                assert_eq!(found.link_below, function.link_below, "{what}");
            }
            // The tree that lspci reads has addresses of its own.
            let bars = found.bars.iter().map(|&bar| Bar { address_bits: None, ..bar });
            assert_eq!(bars.collect::<Vec<_>>(), function.bars, "{what}");
        }
        let names = |fabric: &Fabric| {
            fabric
                .bridges
                .iter()
                .map(|bridge| (bridge.name.clone(), bridge.numa_node, bridge.root_bus))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&read), names(&fabric), "{}", fabric.name);
    }
}

/// A root port with ACS, and a drive below it.
const TWO: &str = "\
0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:4c43] (rev 01)
\tControl: I/O- Mem+ BusMaster+
\tStatus: Cap- 66MHz-
\tKernel modules: igen6_edac

0000:00:01.0 PCI bridge [0604]: Intel Corporation Some [x16] Express Port [8086:4c01] (prog-if 00 [Normal decode])
\tControl: I/O- Mem+ BusMaster+
\tStatus: Cap+ 66MHz- >TAbort- <TAbort-
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\tCapabilities: [88] Express (v2) Root Port (Slot+), IntMsgNum 0
\t\tLnkCap:\tPort #2, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <16us
\t\tLnkSta:\tSpeed 8GT/s, Width x4
\tCapabilities: [140 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

0000:01:00.0 Non-Volatile memory controller [0108]: Samsung Electronics Co Ltd Device [144d:a80a] (prog-if 02 [NVM Express])
\tSubsystem: Samsung Electronics Co Ltd Device [144d:a801]
\tControl: I/O- Mem+ BusMaster+
\tStatus: Cap+ 66MHz- >TAbort- <TAbort-
\tNUMA node: 0
\tIOMMU group: 14
\tRegion 0: Memory at a1200000 (64-bit, non-prefetchable) [size=16K]
\tCapabilities: [70] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM L1, Exit Latency L1 <64us
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x4
\tCapabilities: [100 v2] Advanced Error Reporting
\tKernel driver in use: vfio-pci
\tKernel modules: nvme

";

fn function<'a>(fabric: &'a Fabric, address: &str) -> &'a Function {
    let address: Bdf = address.parse().unwrap();
    fabric.functions.iter().find(|one| one.address == Some(address)).unwrap()
}

/// All of a text that a reader of dirt must not change.
fn essence(fabric: &Fabric) -> Vec<String> {
    let one = |one: &Function| {
        format!(
            "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            one.name,
            one.kind,
            one.parent,
            one.acs,
            one.link,
            one.link_below,
            one.driver,
            one.bars,
            one.iommu_group
        )
    };
    fabric.functions.iter().map(one).collect()
}

#[test]
fn small_text_is_read_in_full() {
    let fabric = read(TWO).unwrap();
    let (port, drive) = (function(&fabric, "00:01.0"), function(&fabric, "01:00.0"));
    assert_eq!((port.kind, drive.kind), (FunctionKind::RootPort, FunctionKind::Nvme));
    assert_eq!(port.acs, Acs::Present { control: 0x1d });
    assert_eq!(drive.acs, Acs::Absent);
    assert_eq!(port.link_below, "16GT/s x16".parse().ok());
    assert_eq!(drive.link.unwrap().current, "8GT/s x4".parse().ok());
    assert_eq!(
        (drive.class, drive.numa_node, drive.iommu_group),
        (Some(0x01_08_02), Some(0), Some(14))
    );
    assert_eq!(drive.driver.name(), Some("vfio-pci"));
    assert_eq!(drive.bars[0].size, Bytes(16 << 10));
    let lines = port.lines.unwrap();
    assert_eq!((lines.heading, lines.acs, lines.link), (6, Some(15), Some(12)));
    assert_eq!(fabric.bridges[0].name, "pci0000:00");
    assert_eq!(fabric.bridges[0].root_bus, RootBus::Whole);
    assert_eq!(fabric.cpu.vendor.as_deref(), Some("GenuineIntel"));
}

#[test]
fn dirt_changes_nothing() {
    let each = |change: &dyn Fn(&str) -> String| {
        TWO.lines().map(|line| change(line) + "\n").collect::<String>()
    };
    let dirty = [
        ("fence", format!("My machine:\n\n```text\n$ sudo lspci -Dvvvnn\n{TWO}```\n\nThanks!\n")),
        ("prompt", format!("root@host:~# lspci -Dvvvnn\n{TWO}root@host:~# \n")),
        ("quotes", each(&|line| format!("> {line}"))),
        ("deep quotes", each(&|line| format!("> > >{line}"))),
        ("line ends", TWO.replace('\n', "\r\n")),
        ("spaces for tabs", TWO.replace('\t', "        ")),
        ("no indentation", each(&|line| line.trim_start().to_owned())),
        ("indentation", each(&|line| format!("    {line}"))),
        ("non-breaking spaces", TWO.replace(' ', "\u{a0}")),
        ("escapes", TWO.replace('<', "&lt;").replace('>', "&gt;")),
        ("colours", each(&|line| format!("\u{1b}[1;32m{line}\u{1b}[0m"))),
        ("byte order mark", format!("\u{feff}{TWO}")),
        ("no domains", TWO.replace("0000:0", "0")),
        ("double spacing", each(&|line| format!("{line}\n"))),
        ("twice", format!("{TWO}{TWO}")),
        ("old messages", TWO.replace("IntMsgNum 0", "MSI 00")),
        ("ok", TWO.replace("Width x4\n", "Width x4 (ok)\n").replace("8GT/s,", "8GT/s (ok),")),
        ("flags in line", TWO.replace("Width x4\n", "Width x4, TrErr- Train- SlotClk+\n")),
        (
            "wrapped",
            TWO.replace(
                " UpstreamFwd+ EgressCtrl- DirectTrans-\n",
                "\nUpstreamFwd+ EgressCtrl- DirectTrans-\n",
            )
            .replace("Samsung Electronics Co Ltd Device [", "Samsung\nElectronics Co Ltd Device\n[")
            .replace(", subordinate", ",\nsubordinate")
            .replace(" Width x4", "\nWidth x4"),
        ),
    ];
    let clean = read(TWO).unwrap();
    for (what, text) in dirty {
        assert!(is_lspci(&text), "{what}");
        let found = read(&text).unwrap();
        assert_eq!(essence(&found), essence(&clean), "{what}\n{text}");
        assert_eq!(found.bridges, clean.bridges, "{what}");
    }
}

#[test]
fn numbers_may_be_missing() {
    let names = TWO
        .replace(" [0600]", "")
        .replace(" [0604]", "")
        .replace(" [0108]", "")
        .replace(" [8086:4c43]", "")
        .replace(" [8086:4c01]", "")
        .replace(" [144d:a80a]", "");
    let fabric = read(&names).unwrap();
    let drive = function(&fabric, "01:00.0");
    assert_eq!((drive.vendor, drive.device, drive.class), (Some(0x144d), None, Some(0x01_08_02)));
    assert_eq!(drive.kind, FunctionKind::Nvme);
    assert_eq!(fabric.cpu.vendor, None);
    let plain =
        read("00:00.0 0600: 8086:4c43 (rev 01)\n00:02.0 0300: 8086:4c8a (rev 04)\n").unwrap();
    assert_eq!(function(&plain, "00:02.0").kind, FunctionKind::Gpu);
    assert_eq!(function(&plain, "00:02.0").acs, Acs::Unknown);
}

#[test]
fn hidden_registers_are_unknown() {
    let denied: String = TWO
        .lines()
        .filter(|line| !line.starts_with("\t\t") && !line.contains("v1]") && !line.contains("v2]"))
        .map(|line| {
            let is_capability = line.starts_with("\tCapabilities:");
            if is_capability {
                "\tCapabilities: <access denied>\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    for text in [
        denied.clone(),
        denied.replace('<', "&lt;").replace('>', "&gt;"),
        denied.replace("<access denied>", ""),
    ] {
        let fabric = read(&text).unwrap();
        let (port, drive) = (function(&fabric, "00:01.0"), function(&fabric, "01:00.0"));
        assert_eq!((port.acs, drive.acs), (Acs::Unknown, Acs::Unknown));
        assert_eq!((port.kind, drive.link), (FunctionKind::RootPort, None));
        assert_eq!(function(&fabric, "00:00.0").acs, Acs::Absent, "it has no capabilities");
    }
}

#[test]
fn cut_acs_register_decides_if_redirecting() {
    let with = |register: &str| {
        let from = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n\tKernel";
        let fabric = read(&TWO.replace(from, &format!("{register}\n\tKernel"))).unwrap();
        function(&fabric, "00:01.0").acs
    };
    assert_eq!(with("SrcValid+ TransBlk- ReqRedir+ Cmp"), Acs::Present { control: 0x05 });
    assert_eq!(with("SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ E"), Acs::Unknown);
    assert_eq!(
        with("SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl-"),
        Acs::Present { control: 1 }
    );
    assert_eq!(with("SrcVal"), Acs::Unknown);
    assert_eq!(with(""), Acs::Unknown);
}

#[test]
fn cut_capability_is_not_absent() {
    let (port, _) = TWO.split_once("\tCapabilities: [140 v1]").unwrap();
    for end in [
        "",
        "\tCapab\n\n",
        "\tCapabilities: [14",
        "\tCapabilities: [140 v1] Acc\n\n",
        "...\n\n",
        "[snip]\n",
        "```\n",
    ] {
        let text = format!("{port}{end}");
        let fabric = read(&text).unwrap();
        assert_eq!(function(&fabric, "00:01.0").acs, Acs::Unknown, "{end:?}");
    }
}

#[test]
fn lost_heading_drops_its_registers() {
    let drive = TWO.find("0000:01:00.0").unwrap();
    let end = drive + TWO[drive..].find('\n').unwrap() + 1;
    for kept in [end, drive + TWO[drive..].find("\tControl").unwrap()] {
        let text = format!("{}{}", &TWO[..drive], &TWO[kept..]);
        let fabric = read(&text).unwrap();
        assert_eq!(fabric.functions.len(), 2);
        let port = function(&fabric, "00:01.0");
        assert_eq!(port.driver.name(), Some("pcieport"));
        assert!(port.iommu_group.is_none());
    }
}

#[test]
fn missing_bridge_makes_assumed_bus() {
    let from = TWO.find("0000:00:01.0").unwrap();
    let to = TWO.find("0000:01:00.0").unwrap();
    let fabric = read(&format!("{}{}", &TWO[..from], &TWO[to..])).unwrap();
    let states: Vec<_> =
        fabric.bridges.iter().map(|one| (one.name.as_str(), one.root_bus)).collect();
    assert_eq!(states, [("pci0000:00", RootBus::Partial), ("pci0000:01", RootBus::Assumed)]);
    let nested = TWO
        .replace("subordinate=01", "subordinate=05")
        .replace("0000:01:00.0 Non", "0000:03:00.0 Non");
    let fabric = read(&nested).unwrap();
    assert_eq!(function(&fabric, "03:00.0").parent, Parent::Bridge(peerlane_fabric::BridgeId(1)));
}

#[test]
fn selections_are_not_whole() {
    let drive = &TWO[TWO.find("0000:01:00.0").unwrap()..];
    let fabric = read(&format!("$ sudo lspci -vvvnn -s 01:00.0\n{drive}")).unwrap();
    assert_eq!(fabric.bridges[0].root_bus, RootBus::Assumed);
    let snipped = TWO.replace("\n\n0000:01", "\n\n[...]\n\n0000:01");
    assert_eq!(read(&snipped).unwrap().bridges[0].root_bus, RootBus::Partial);
}

#[test]
fn picture_alone_gives_the_places() {
    let text = "-+-[0000:40]-+-00.0\n |           \\-01.0-[41]----00.0\n \\-[0000:00]---00.0\n";
    assert!(is_lspci(text));
    let fabric = read(text).unwrap();
    let names: Vec<_> =
        fabric.bridges.iter().map(|one| (one.name.as_str(), one.root_bus)).collect();
    assert_eq!(names, [("pci0000:00", RootBus::Whole), ("pci0000:40", RootBus::Whole)]);
    let drive = function(&fabric, "41:00.0");
    assert_eq!((drive.acs, drive.vendor, drive.kind), (Acs::Unknown, None, FunctionKind::Other));
    assert!(matches!(drive.parent, Parent::Function(_)));
    let named = text.replace("----00.0", "----00.0  Samsung Drive [x4] [144d:a80a]");
    let fabric = read(&named).unwrap();
    let drive = function(&fabric, "41:00.0");
    assert_eq!((drive.vendor, drive.device, drive.class), (Some(0x144d), Some(0xa80a), None));
}

#[test]
fn repeated_listing_is_no_cut() {
    let port = &TWO[TWO.find("0000:00:01.0").unwrap()..TWO.find("0000:01:00.0").unwrap()];
    assert_eq!(read(&format!("{TWO}{port}")).unwrap().bridges[0].root_bus, RootBus::Whole);
}

#[test]
fn virtual_functions_have_their_physical_one() {
    let vf = "\
0000:02:00.4 Ethernet controller [0200]: Mellanox Technologies Virtual [15b3:101e]
\tControl: I/O- Mem- BusMaster+
\tStatus: Cap+ 66MHz-
\tRegion 0: Memory at a0000000 (64-bit, prefetchable) [virtual] [size=1M]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM not supported
\t\tLnkSta:\tSpeed unknown (downgraded), Width x0 (downgraded)
\tCapabilities: [100 v1] Vendor Specific Information: ID=0000

";
    let text = TWO.replace("subordinate=01", "subordinate=02").replace(
        "\tKernel driver in use: vfio-pci",
        "\tCapabilities: [160 v1] Single Root I/O Virtualization (SR-IOV)\n\
             \t\tInitial VFs: 8, Total VFs: 8, Number of VFs: 2, Function Dependency Link: 00\n\
             \t\tVF offset: 257, stride: 3, Device ID: 101e\n\
             \t\tRegion 0: Memory at 00000000b0000000 (64-bit, prefetchable)\n\
             \tKernel driver in use: vfio-pci",
    );
    // 01:00.0 and 257 is 02:00.1; the next one is three further.
    let fabric = read(&(text + vf)).unwrap();
    let found = function(&fabric, "02:00.4");
    assert_eq!(found.physical_function, "0000:01:00.0".parse().ok());
    assert_eq!(found.link.unwrap().current, None);
    let port = fabric.functions.iter().position(|one| one.name == "0000:00:01.0").unwrap();
    assert_eq!(found.parent, Parent::Function(peerlane_fabric::FunctionId(port)));
    assert_eq!(function(&fabric, "01:00.0").bars.len(), 1);
}

#[test]
fn vmd_domain_has_host_bridge() {
    let text = format!(
        "{TWO}10000:e0:06.0 PCI bridge [0604]: Intel Corporation Device [8086:9a09]\n\
         \tControl: I/O+\n\tStatus: Cap+ 66MHz-\n\
         \tBus: primary=e0, secondary=e1, subordinate=e1, sec-latency=0\n\
         \tCapabilities: <access denied>\n\tKernel driver in use: pcieport\n\n\
         10000:e1:00.0 Non-Volatile memory controller [0108]: Device [144d:a80a]\n\
         \tControl: I/O+\n\tStatus: Cap+ 66MHz-\n\tCapabilities: <access denied>\n\n"
    );
    let fabric = read(&text).unwrap();
    let names: Vec<_> =
        fabric.bridges.iter().map(|one| (one.name.as_str(), one.root_bus)).collect();
    assert_eq!(names, [("pci0000:00", RootBus::Whole), ("pci10000:e0", RootBus::Whole)]);
    assert_eq!(function(&fabric, "10000:e0:06.0").kind, FunctionKind::RootPort);
}

#[test]
fn lines_about_the_machine_are_used() {
    let text = format!(
        "{TWO}$ uname -a\nLinux gpu01 6.8.0-60-generic #63-Ubuntu SMP PREEMPT x86_64 GNU/Linux\n\
         $ cat /proc/cmdline\nBOOT_IMAGE=/boot/vmlinuz root=UUID=secret ro intel_iommu=on iommu=pt quiet\n\
         $ grep -m3 -E 'vendor|family|model' /proc/cpuinfo\n\
         vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: AMD EPYC 7763\n"
    );
    let fabric = read(&text).unwrap();
    assert_eq!(fabric.kernel.release.as_deref(), Some("6.8.0-60-generic"));
    let parameters = ["intel_iommu=on", "iommu=pt"].map(str::to_owned);
    assert_eq!(fabric.kernel.parameters.as_deref(), Some(&parameters[..]));
    assert_eq!(fabric.iommu, IommuMode::Passthrough);
    assert_eq!((fabric.cpu.vendor.as_deref(), fabric.cpu.family), (Some("AuthenticAMD"), Some(25)));
    assert_eq!(essence(&fabric), essence(&read(TWO).unwrap()));
    let lscpu = format!(
        "Vendor ID:   GenuineIntel\n  Model name:  Intel(R) Xeon(R)\n    CPU family:  6\n\n{TWO}"
    );
    let fabric = read(&lscpu).unwrap();
    assert_eq!((fabric.cpu.vendor.as_deref(), fabric.cpu.family), (Some("GenuineIntel"), Some(6)));
}

#[test]
fn emulated_and_amd_bridges_hide_processor() {
    for (from, to) in [
        ("8086:4c43", "8086:29c0"),
        ("8086:4c43", "1022:1480"),
        (
            "(rev 01)\n\tControl",
            "(rev 01)\n\tSubsystem: Red Hat, Inc. Device [1af4:1100]\n\tControl",
        ),
    ] {
        assert_eq!(read(&TWO.replace(from, to)).unwrap().cpu.vendor, None, "{to}");
    }
}

const MATRIX: &str = "\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tPXB\t0-31\t0\t\tN/A
NIC0\tPXB\tPXB\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
";

const GPUS: &str = "\
0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:4c43]
0000:00:02.0 3D controller [0302]: NVIDIA Corporation Device [10de:20b0]
0000:00:03.0 3D controller [0302]: NVIDIA Corporation Device [10de:20b0]
";

#[test]
fn nvlinks_are_taken_from_the_matrix() {
    let links = |text: &str| read(text).unwrap().nvlinks;
    let found = links(&format!("{GPUS}\n{MATRIX}")).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].gpus.0.0, found[0].gpus.1.0, found[0].links), (1, 2, Some(12)));
    assert_eq!(links(&format!("{MATRIX}\n{GPUS}")).unwrap().len(), 1);
    assert_eq!(links(&format!("{GPUS}\n{}", MATRIX.replace("NV12", "SYS"))), Some(Vec::new()));
    assert_eq!(links(GPUS), None);
    let (two, _) = GPUS.split_once("0000:00:03").unwrap();
    assert_eq!(links(&format!("{two}\n{MATRIX}")), None, "another number of GPUs");
}

#[test]
fn gdscheck_tells_nvidia_fs_state() {
    let text = format!(
        "{GPUS}\n GDS release version: 1.7.2.10\n nvidia_fs version:  2.17 libcufile version: 2.12\n \
         Platform: x86_64\n NVMe               : Unsupported\n IOMMU: disabled\n Platform verification succeeded\n"
    );
    let fabric = read(&text).unwrap();
    assert_eq!(fabric.kernel.seen_modules[0].version.as_deref(), Some("2.17"));
    assert_eq!(fabric.kernel.has_module("nvidia_fs"), Some(true));
    assert_eq!(fabric.kernel.has_module("nvidia_peermem"), None);
    assert_eq!((fabric.iommu, fabric.kernel.nvidia_fs_nvme), (IommuMode::Off, Some(false)));
}

#[test]
fn texts_without_functions_get_hint() {
    let bare = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n";
    let gdscheck =
        " GDS release version: 1.7.2.10\n nvidia_fs version:  2.17 libcufile version: 2.12\n";
    for (text, expected) in [
        (bare, LspciError::BareAcs { line: 1 }),
        (MATRIX, LspciError::OtherProgram { program: "nvidia-smi topo -m" }),
        (gdscheck, LspciError::OtherProgram { program: "gdscheck -p" }),
        (
            "Slot:\t00:00.0\nClass:\tHost bridge\n",
            LspciError::OtherProgram { program: "lspci -vmm" },
        ),
    ] {
        assert!(is_lspci(text), "{text}");
        let error = read(text).unwrap_err();
        assert_eq!(error, expected);
        assert!(error.hint().contains("sudo lspci -Dvvvnn > lspci.txt"), "{}", error.hint());
    }
    for text in ["", "name = 'x'\n[[function]]\n", "<system version=\"1\"/>", "hello\n00: 86 80\n"]
    {
        assert!(!is_lspci(text), "{text}");
        assert_eq!(read(text), Err(LspciError::NoFunction));
    }
}

#[test]
fn functions_of_two_machines_are_refused() {
    let other = TWO.replace("144d:a80a", "1b36:0010");
    let error = read(&format!("{TWO}{other}")).unwrap_err();
    assert!(matches!(error, LspciError::TwoMachines { .. }), "{error}");
}

#[test]
fn unfinished_function_leaves_acs_open() {
    let block = "0000:00:00.0 Ethernet controller [0200]: Intel Corporation Device [8086:1234]\n\
                 \tStatus: Cap+ 66MHz-\n\
                 \tCapabilities: [40] Express (v2) Root Complex Integrated Endpoint, MSI 00\n\
                 \t\tDevSta:\tCorrErr- NonFatalErr-\n";
    assert_eq!(read(block).unwrap().functions[0].acs, Acs::Unknown);
    assert_eq!(read(&format!("{block}\n")).unwrap().functions[0].acs, Acs::Absent);
}
