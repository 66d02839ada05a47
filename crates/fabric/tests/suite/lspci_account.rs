//! The account of a text: each key in it is attached to a function, or set aside with a reason.

use std::path::Path;

use peerlane_fabric::lspci::{Key, SetAsideReason, TextAccount, read};
use peerlane_fabric::{Acs, Fabric, Function, FunctionKind};
use peerlane_units::Bytes;

/// A port and a GPU with the capabilities of real ones: three of them have keys of the header among their registers.
const REAL: &str = "\
0000:00:00.0 Host bridge: Intel Corporation Ice Lake Memory Map/VT-d (rev 04)
\tControl: I/O- Mem+ BusMaster+
\tStatus: Cap- 66MHz-

0000:00:01.0 PCI bridge: Intel Corporation Device 347a (rev 04) (prog-if 00 [Normal decode])
\tControl: I/O- Mem+ BusMaster+
\tStatus: Cap+ 66MHz- UDF- >TAbort- <TAbort-
\tLatency: 0, Cache Line Size: 64 bytes
\tNUMA node: 0
\tIOMMU group: 7
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\tSecondary status: 66MHz- FastB2B- ParErr- <SERR- <PERR-
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #1, Speed 16GT/s, Width x16, ASPM L1
\t\t\tClockPM- Surprise+ LLActRep+ BwNot+
\t\tLnkSta:\tSpeed 16GT/s, Width x16
\t\t\tTrErr- Train- SlotClk+ DLActive+
\t\tSltCtl:\tEnable: AttnBtn- PwrFlt-
\t\t\tControl: AttnInd Unknown, PwrInd Unknown, Power- Interlock-
\t\tSltSta:\tStatus: AttnBtn- PowerFlt- MRL- CmdCplt- PresDet+
\t\tLnkSta2: Current De-emphasis Level: -3.5dB
\tCapabilities: [90] Power Management version 3
\t\tFlags: PMEClk- DSI- D1- D2- AuxCurrent=0mA
\t\tStatus: D0 NoSoftRst+ PME-Enable- DSel=0 DScale=0 PME-
\tCapabilities: [110 v1] Virtual Channel
\t\tVC0:\tCaps:\tPATOffset=00 MaxTimeSlots=1
\t\t\tCtrl:\tEnable+ ID=0 ArbSelect=Fixed
\t\t\tStatus:\tNegoPending- InProgress-
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

0000:01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\tControl: I/O- Mem+ BusMaster+
\tStatus: Cap+ 66MHz- UDF-
\tNUMA node: 0
\tIOMMU group: 14
\tRegion 0: Memory at 380000000000 (64-bit, prefetchable) [size=128G]
\tRegion 5: I/O ports at e000 [size=128]
\tCapabilities: [40] Power Management version 3
\t\tStatus: D0 NoSoftRst+ PME-Enable-
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16
\tCapabilities: [134 v1] Physical Resizable BAR
\t\tBAR 0: current size: 128GB, supported: 64MB 128GB
\tCapabilities: [250 v1] Single Root I/O Virtualization (SR-IOV)
\t\tInitial VFs: 32, Total VFs: 32, Number of VFs: 0, Function Dependency Link: 00
\t\tVF offset: 4, stride: 1, Device ID: 0000
\t\tRegion 0: Memory at 0000000000000000 (64-bit, prefetchable)
\tCapabilities: [290 v1] Virtual Resizable BAR
\t\tBAR 0: current size: 4GB, supported: 4GB
\tKernel driver in use: nvidia
\tKernel modules: nvidiafb, nouveau, nvidia
";

fn account(text: &str) -> TextAccount {
    read(text).expect("a machine").account.expect("an account")
}

fn function<'a>(fabric: &'a Fabric, name: &str) -> &'a Function {
    fabric.functions.iter().find(|one| one.name == name).expect(name)
}

fn counts(account: &TextAccount, key: Key) -> (usize, usize) {
    let count = account.count(key);
    (count.in_text, count.attached)
}

#[test]
fn real_capabilities_lose_nothing() {
    let fabric = read(REAL).expect("a machine");
    let (port, gpu) = (function(&fabric, "0000:00:01.0"), function(&fabric, "0000:01:00.0"));
    assert_eq!((port.acs, port.driver.name()), (Acs::Present { control: 0x1d }, Some("pcieport")));
    assert_eq!((port.iommu_group, port.link_below), (Some(7), "16GT/s x16".parse().ok()));
    assert_eq!((gpu.kind, gpu.vendor, gpu.device), (FunctionKind::Gpu, Some(0x10de), Some(0x2330)));
    assert_eq!((gpu.bars.len(), gpu.bars[0].size), (1, Bytes(128 << 30)));
    let account = fabric.account.expect("an account");
    assert!(account.is_complete(), "{:?}", account.set_aside);
    assert_eq!(counts(&account, Key::AcsControl), (1, 1));
    assert_eq!(counts(&account, Key::LinkState), (2, 2));
    assert_eq!(counts(&account, Key::Heading), (3, 3));
    let aside: Vec<(u32, Key)> = account.set_aside.iter().map(|one| (one.line, one.key)).collect();
    let line = |start: &str| {
        u32::try_from(REAL[..REAL.find(start).expect(start)].lines().count()).expect("few") + 1
    };
    let expected = [
        (line("\t\tRegion 0: Memory at 0000000000000000"), Key::Window),
        (line("\t\tBAR 0: current size: 4GB"), Key::ResizableBar),
    ];
    assert_eq!(aside, expected);
    assert_eq!(account.summary(), "3 functions; 1 of 1 ACS registers read; 2 of 2 links read");
}

#[test]
fn summary_of_verbose_form_is_read() {
    let text = "00:00.0 Host bridge: Intel Corporation Device 1234\n\n\
                00:01.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n\
                \tFlags: bus master, fast devsel, latency 0, IRQ 16, NUMA node 1,\nIOMMU group 4\n\
                \tMemory at 80000000 (32-bit, non-prefetchable) [size=16M]\n\
                \tCapabilities: <access denied>\n\tKernel driver in use: nvidia\n";
    let fabric = read(text).expect("a machine");
    let gpu = function(&fabric, "0000:00:01.0");
    assert_eq!((gpu.numa_node, gpu.iommu_group, gpu.bars.len()), (Some(1), Some(4), 1));
    let account = fabric.account.as_ref().expect("an account");
    assert!(account.is_complete(), "{:?}", account.set_aside);
    assert_eq!(counts(account, Key::IommuGroup), (1, 1));
}

#[test]
fn dirt_keeps_the_account_complete() {
    let each = |change: &dyn Fn(usize, &str) -> String| {
        REAL.lines().enumerate().map(|(at, line)| change(at, line) + "\n").collect::<String>()
    };
    let dirty = [
        ("no indentation", each(&|_, line| line.trim_start().to_owned())),
        ("one level", each(&|_, line| line.replace("\t\t", "\t"))),
        ("cat -n", each(&|at, line| format!("{:6}\t{line}", at + 1))),
        ("grep -n", each(&|at, line| format!("{}:{line}", at + 1))),
        ("grep -n of a file", each(&|at, line| format!("my-lspci.txt-{}-{line}", at + 1))),
        ("page", format!("<pre><code>{}</code></pre>", REAL.replace('<', "&lt;"))),
        ("coloured page", each(&|_, line| format!("<span class=\"line\">{line}</span>"))),
        ("mail", REAL.replace('=', "=3D").replace(" ASPM", " =\nASPM")),
        ("no empty lines", REAL.replace("\n\n", "\n")),
        ("hex dump", REAL.replace("\n\n", "\n00: 86 80 7a 34 07 04 10 00\n10: 00 00 00 00\n\n")),
    ];
    let clean = account(REAL);
    for (what, text) in dirty {
        let found = account(&text);
        assert_eq!(
            (found.keys, found.lost),
            (clean.keys.clone(), clean.lost.clone()),
            "{what}\n{text}"
        );
    }
}

#[test]
fn empty_line_inside_substates_is_no_gap() {
    let from = REAL.find("\tCapabilities: [148 v1]").expect("ACS");
    let substates =
        "\tCapabilities: [140 v1] L1 PM Substates\n\t\tL1SubCtl1: PCI-PM_L1.2-\n\n\t\tL1SubCtl2:\n";
    let found = account(&format!("{}{substates}{}", &REAL[..from], &REAL[from..]));
    assert_eq!((found.keys.clone(), found.lost), (account(REAL).keys, account(REAL).lost));
}

#[test]
fn lost_heading_is_set_aside_in_full() {
    let start = REAL.find("0000:01:00.0").expect("the GPU");
    let end = start + REAL[start..].find('\n').expect("a line") + 1;
    // Without the heading, and without the empty line before it: the keys of the port's block end with its driver.
    for text in [
        format!("{}{}", &REAL[..start], &REAL[end..]),
        format!("{}{}", REAL[..start].trim_end_matches('\n').to_owned() + "\n", &REAL[end..]),
    ] {
        let fabric = read(&text).expect("a machine");
        let account = fabric.account.as_ref().expect("an account");
        assert_eq!(counts(account, Key::LinkState), (2, 1));
        assert_eq!((account.lost(Key::Window), account.lost(Key::Driver)), (2, 1));
        let reasons = account.set_aside.iter().all(|one| one.reason == SetAsideReason::AfterGap);
        assert!(reasons && !account.is_complete(), "{:?}", account.set_aside);
        assert_eq!(function(&fabric, "0000:00:01.0").driver.name(), Some("pcieport"));
    }
}

#[test]
fn repeated_header_before_capabilities_is_lost() {
    let from = REAL.find("\tLatency").expect("a line");
    let other = "\tStatus: Cap+ 66MHz-\n\tNUMA node: 1\n";
    let text = format!("{}{other}{}", &REAL[..from], &REAL[from..]);
    let fabric = read(&text).expect("a machine");
    assert_eq!(function(&fabric, "0000:00:01.0").acs, Acs::Unknown);
    assert_eq!(fabric.account.expect("an account").lost(Key::AcsControl), 1);
}

#[test]
fn reasons_name_the_fault() {
    let reason = |text: &str, key: Key| {
        let account = account(text);
        account.set_aside.iter().find(|one| one.key == key).map(|one| one.reason)
    };
    let head = "00:00.0 Host bridge: Intel Corporation Device 1234\n";
    for (text, key, expected) in [
        ("\t\tACSCtl: ReqRedir+\n", Key::AcsControl, None),
        ("\t\tACSCtl: SrcValid+ Tra\n", Key::AcsControl, Some(SetAsideReason::Value)),
        ("\t\tLnkSta: Speed 8GT/s, Wid\n", Key::LinkState, Some(SetAsideReason::Value)),
        ("\tBus: primary=00, seco\n", Key::Buses, Some(SetAsideReason::Value)),
        ("\tRegion 0: Memory at f0000000 (32-bit)\n", Key::Window, Some(SetAsideReason::NoSize)),
        ("\tx LnkSta: Speed 8GT/s, Width x4\n", Key::LinkState, Some(SetAsideReason::InsideLine)),
        ("\n\n\tNUMA node: 1\n", Key::NumaNode, Some(SetAsideReason::AfterGap)),
        (
            "\t\tACSCtl: ReqRedir+\n\t\tACSCtl: ReqRedir-\n",
            Key::AcsControl,
            Some(SetAsideReason::Twice),
        ),
    ] {
        assert_eq!(reason(&format!("{head}{text}"), key), expected, "{text}");
    }
    let before = format!("\tKernel driver in use: nvme\n{head}");
    assert_eq!(reason(&before, Key::Driver), Some(SetAsideReason::NoHeading));
}

#[test]
fn every_fixture_is_read_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/lspci");
    let mut texts = 0;
    for entry in std::fs::read_dir(folder).expect("fixtures") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let account = account(&std::fs::read_to_string(&path).expect("a text"));
            assert!(account.is_complete(), "{}: {:?}", path.display(), account.set_aside);
            assert_eq!(
                account.functions,
                account.count(Key::Heading).in_text,
                "{}",
                path.display()
            );
            texts += 1;
        }
    }
    assert!(texts >= 5);
}

#[test]
fn silent_function_is_told_apart() {
    let silent = "0000:03:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff) (prog-if ff)\n\
                  \t!!! Unknown header type 7f\n\tKernel driver in use: nvidia\n";
    let fabric = read(&format!("{REAL}\n{silent}")).expect("a machine");
    let found = function(&fabric, "0000:03:00.0");
    assert_eq!((found.is_silent, found.class), (true, Some(0x03_02_00)));
    assert!(!function(&fabric, "0000:01:00.0").is_silent);
    let virtual_function =
        silent.replace("(rev ff) (prog-if ff)\n\t!!! Unknown header type 7f", "(rev a1)");
    let fabric = read(&format!("{REAL}\n{virtual_function}")).expect("a machine");
    assert!(!function(&fabric, "0000:03:00.0").is_silent);
}

#[test]
fn displays_of_management_are_no_gpus() {
    for maker in [
        "ASPEED Technology, Inc. ASPEED Graphics Family",
        "Matrox Electronics Systems Ltd. Integrated Matrox G200eW3 Graphics Controller",
        "Cirrus Logic GD 5446",
        "Red Hat, Inc. QXL paravirtual graphic card",
        "Red Hat, Inc. Virtio 1.0 GPU",
    ] {
        let text = format!("{REAL}\n0000:02:00.0 VGA compatible controller: {maker} (rev 04)\n");
        let fabric = read(&text).expect("a machine");
        assert_eq!(function(&fabric, "0000:02:00.0").kind, FunctionKind::Other, "{maker}");
        let gpus: Vec<&str> =
            fabric.gpus().iter().map(|&id| fabric.function(id).name.as_str()).collect();
        assert_eq!(gpus, ["0000:01:00.0"], "{maker}");
    }
}

#[test]
fn paths_of_bridges_place_functions() {
    let text = "00:01.1/01:00.0/02:00.0 Processing accelerators: AMD Device 74a1\n\
                40:01.1/41:00.0/42:00.0 Processing accelerators: AMD Device 74a1\n";
    let fabric = read(text).expect("a machine");
    assert_eq!((fabric.functions.len(), fabric.bridges.len()), (6, 2));
    let gpu = fabric.functions.iter().position(|one| one.name == "0000:42:00.0").expect("a GPU");
    let way: Vec<&str> = fabric
        .upward(peerlane_fabric::FunctionId(gpu))
        .map(|id| fabric.function(id).name.as_str())
        .collect();
    assert_eq!(way, ["0000:42:00.0", "0000:41:00.0", "0000:40:01.1"]);
}
