//! A machine for every kind of finding that there can be.

use peerlane_fabric::Dna;
use peerlane_results::FindingKind;

use super::*;

/// Pairs each kind with a machine examined; a kind that is left out does not compile.
macro_rules! machines {
    ($($kind:ident => $record:expr,)*) => {
        fn machines() -> Vec<(FindingKind, DoctorRecord)> {
            vec![$((FindingKind::$kind, $record)),*]
        }

        #[allow(dead_code, reason = "it is the compiler that reads it")]
        fn has_a_machine(kind: FindingKind) {
            match kind {
                $(FindingKind::$kind => {})*
            }
        }
    };
}

machines! {
    KernelTooOld => examined(&[("'7.2.13'", "'6.1.0'")]),
    KernelWithoutP2pdma => examined(&[("p2pdma = true", "p2pdma = false")]),
    KernelOptionMissing => amd::without_options(),
    MemoryNotRegistered => with_drive("cmb_registers = { location = '0x2', size = '0x3218' }\n", ""),
    MemoryNotPublished => examined(&[("published = true", "published = false")]),
    QueuesInMemory => examined(&[
        ("available = '64M', published = true }\n", "available = '32M', published = true }\n\
          cmb_registers = { location = '0x2', size = '0x40219' }\n"),
        ("p2pdma = true", "p2pdma = true\nuse_cmb_sqes = true"),
    ]),
    MemoryInUse => examined(&[("available = '64M'", "available = '4K'")]),
    MemoryNotPermitted => not_permitted(),
    AcsRedirect => examined(&[REDIRECTS]),
    HostBridgeNotListed => examined(&[
        ("address = '0000:04:00.0'\nunder = 'down-b'", "address = '0000:00:02.0'"),
    ]),
    IommuTranslates => examined(&[("'passthrough'", "'translating'")]),
    LinkTrainedLow => with_drive("link = { current = '8GT/s x4', maximum = '16GT/s x4' }\n", ""),
    MultipathHead => examined(&[
        ("'7.2.13'", "'6.18.15'"),
        ("under = 'down-a'\nacs = 'absent'\n", "under = 'down-a'\nacs = 'absent'\n\
          namespaces = [{ name = 'nvme0n1', size = '1G', multipath_head = true }]\n"),
    ]),
    QueueRefuses => with_drive(
        "namespaces = [{ name = 'nvme0n1', size = '1G' }]\n",
        "[[stacked]]\nname = 'dm-0'\nkind = 'crypt'\nbelow = ['nvme0n1']\n",
    ),
    FileRefuses => copy::file_refuses(),
    SmallRequests => with_drive(
        "namespaces = [{ name = 'nvme0n1', size = '1G', max_request = '64K', max_hw_request = '2M' }]\n",
        "",
    ),
    DriveTakesLittle => with_drive(
        "namespaces = [{ name = 'nvme0n1', size = '1G', max_hw_request = '128K' }]\n",
        "",
    ),
    SmallWindow => with_card(
        "kind = 'gpu'\nvendor = '0x1002'\n\
         bars = [{ index = 0, size = '256M', prefetchable = true, largest = '16G' }]",
        "",
        "",
    ),
    WindowOutOfReach => amd::two_r9700(&[("'translating'", "'passthrough'")]),
    PeerModuleMissing => eight_gpus(|fabric| fabric.nvidia = None),
    GpuMemoryNotLent => eight_gpus(|_| {}),
    CufileConfiguration => eight_gpus(|fabric| {
        let found = fabric.cufile.as_mut().expect("the settings of cuFile");
        let key = "properties.force_compat_mode".to_owned();
        found.settings.insert(key, peerlane_fabric::CufileValue::Flag(true));
    }),
    GpuStackMissing => with_card("kind = 'gpu'\nvendor = '0x10de'", "", ""),
    FpgaStackMissing => with_card("kind = 'fpga'\nvendor = '0x10ee'", "", ""),
    FpgaWindowOff => with_card("kind = 'fpga'\nfpga_p2p = false", "", ""),
    FpgaKernel => with_card(
        "kind = 'fpga'\nvendor = '0x10ee'\ndriver = 'xocl'\n\
         bars = [{ index = 4, size = '8G', prefetchable = true }]",
        "{ name = 'xocl' }",
        "'libxrt_coreutil.so.2'",
    ),
    FpgaPairing => at_odds(),
    DriveNotServed => with_drive("driver = 'vfio-pci'\n", ""),
    DriveNotLive => with_drive("driver = 'nvme'\nstate = 'dead'\n", ""),
    DeviceSilent => with_drive("silent = true\n", ""),
    WindowUnassigned => with_drive("bars = [{ index = 0, size = '16K', assigned = false }]\n", ""),
    GpuExcluded => with_card("kind = 'gpu'\nvendor = '0x10de'\ndevice = '0x2204'", "", ""),
    DriveHot => with_drive("temperature = { current = 80000, warning = 74000 }\n", ""),
    CopyRefused => copy::copy_refused(),
    StaleDecision => copy::stale(),
}

/// The captured server with eight GPUs, changed.
fn eight_gpus(change: impl FnOnce(&mut Fabric)) -> DoctorRecord {
    let mut fabric = plan::eight_gpus();
    change(&mut fabric);
    examine(&fabric)
}

/// The test itself denies the memory, since it may run as root.
fn not_permitted() -> DoctorRecord {
    let fabric = Fabric::from_toml(SOUND).expect("a machine");
    let owner = fabric.find("b").expect("a drive");
    let denied = [(owner, "no permission".to_owned())].into();
    super::super::examine(&fabric, &HostFacts { denied, dnas: Dnas::default() })
}

/// A sound machine with a SmartSSD whose switch has `ssd` and whose FPGA is named by `named`.
fn smartssd(named: &str, unknown: Vec<(String, String)>) -> DoctorRecord {
    let mut text = SOUND.to_owned();
    for (name, kind, under, ids) in [
        ("board", "upstream-port", "root", "vendor = '0x10ee'\ndevice = '0x9134'"),
        ("board-a", "downstream-port", "board", ""),
        ("board-b", "downstream-port", "board", ""),
        ("ssd", "nvme", "board-a", "vendor = '0x144d'\ndevice = '0xa824'"),
        ("card", "fpga", "board-b", "vendor = '0x10ee'\ndevice = '0x6988'"),
    ] {
        text += &format!(
            "[[function]]\nname = '{name}'\nkind = '{kind}'\nunder = '{under}'\nacs = 'absent'\n{ids}\n"
        );
    }
    let fabric = Fabric::from_toml(&text).expect("a machine");
    let dna = |low: u32| Dna::of_words([low, 1, 1]).expect("DNA");
    let id = |name: &str| fabric.find(name).expect("a function");
    let known = [(id("card"), dna(7)), (id("ssd"), dna(8)), (id(named), dna(7))];
    let dnas = Dnas::of_test(known.into(), unknown);
    super::super::examine(&fabric, &HostFacts { dnas, ..HostFacts::default() })
}

fn at_odds() -> DoctorRecord {
    smartssd("a", Vec::new())
}

#[test]
fn switch_dna_conflict_and_unreadable_found() {
    let of = |record: &DoctorRecord| {
        let is_it = |one: &&Finding| one.kind == FindingKind::FpgaPairing;
        record.findings.iter().find(is_it).map(|one| one.what.clone())
    };
    let says = "card hangs from one switch with ssd, and the FPGA's DNA is what a names";
    assert_eq!(of(&at_odds()).as_deref(), Some(says));
    assert_eq!(of(&smartssd("ssd", Vec::new())), None, "both say the same");
    let card = smartssd("card", vec![("card".to_owned(), "no permission".to_owned())]);
    let says = "card hangs from one switch with ssd, which names another FPGA";
    assert_eq!(of(&card).as_deref(), Some(says));
    let unknown = card.unknown.iter().find(|one| one.what.contains("DNA of card"));
    assert!(unknown.is_some_and(|one| one.what.contains("no permission")), "{:?}", card.unknown);
}

#[test]
fn each_kind_found_only_where_present() {
    let sound = examined(&[]);
    for (kind, record) in machines() {
        let found: Vec<&Finding> = record.findings.iter().filter(|one| one.kind == kind).collect();
        assert!(!found.is_empty(), "{kind:?}: {:?}", record.findings);
        for one in found {
            // A plan's refusal says what it rests on.
            let rests = !one.evidence.is_empty() || kind == FindingKind::CopyRefused;
            assert!(rests && !one.what.is_empty(), "{one:?}");
            assert!(!one.what.contains('\n') && !one.object.is_empty(), "{one:?}");
        }
        assert!(!kinds(&sound).contains(&kind), "{kind:?} is not on a sound machine");
    }
}
