//! Every finding on a machine that has it, and its absence on one that has not.

use super::*;
use peerlane_results::{self as results, FindingKind, Needs, RouteState};

/// Three drives below one switch, the last one with memory to lend; no fault.
const SOUND: &str = concat!(
    "\
name = 'm'
iommu = 'passthrough'
[kernel]
release = '7.2.13'
p2pdma = true
",
    include_str!("../../../engine/tests/machines/switch.toml"),
    "\
[[function]]
name = 'a'
kind = 'nvme'
address = '0000:03:00.0'
under = 'down-a'
acs = 'absent'
[[function]]
name = 'b'
kind = 'nvme'
address = '0000:04:00.0'
under = 'down-b'
acs = 'absent'
p2pmem = { size = '64M', available = '64M', published = true }
"
);

/// Examines a machine by its fabric alone.
fn examine(fabric: &Fabric) -> DoctorRecord {
    super::examine(fabric, &HostFacts::default())
}

fn examined(changes: &[(&str, &str)]) -> DoctorRecord {
    let mut text = SOUND.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "nothing to change: {from}");
        text = text.replacen(from, to, 1);
    }
    examine(&Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn only(changes: &[(&str, &str)]) -> Finding {
    let mut record = examined(changes);
    assert_eq!(record.findings.len(), 1, "{:?}", record.findings);
    record.findings.remove(0)
}

const REDIRECTS: (&str, &str) = (
    "under = 'up'\nacs = 'absent'\n[[function]]\nname = 'down-b'",
    "under = 'up'\nacs = { control = 0x1d }\n[[function]]\nname = 'down-b'",
);
const ZEN: (&str, &str) = ("'GenuineIntel'\nfamily = 6", "'AuthenticAMD'\nfamily = 25");

#[test]
fn a_sound_machine_has_no_findings() {
    let record = examined(&[]);
    assert_eq!((record.findings, record.unknown), (vec![], vec![]));
    assert_eq!(record.verdict, "2 drives: direct: drive to drive; nothing to fix");
}

#[test]
fn kernels_without_mappable_memory_are_found() {
    assert_eq!(only(&[("'7.2.13'", "'6.1.0'")]).kind, FindingKind::KernelTooOld);
    let found = only(&[("p2pdma = true", "p2pdma = false")]);
    assert_eq!((found.kind, found.cost), (FindingKind::KernelWithoutP2pdma, Cost::Routes));
}

#[test]
fn kernel_fix_names_the_package_of_the_architecture() {
    let old = ("'7.2.13'", "'6.1.0'");
    let arm = ("'GenuineIntel'\nfamily = 6", "'CPU implementer 0x41'");
    for (found, package) in
        [(only(&[old]), "linux-image-amd64 "), (only(&[old, arm]), "linux-image-arm64 ")]
    {
        let fix = found.fix.expect("a fix");
        assert!(fix.commands[0].contains(package), "{fix:?}");
    }
}

#[test]
fn refused_redirection_is_fixed_by_path() {
    let found = only(&[REDIRECTS]);
    assert_eq!((found.kind, found.cost), (FindingKind::AcsRedirect, Cost::Routes));
    assert_eq!(found.object, "down-a");
    assert_eq!(found.evidence[0].looked_at, "0000:02:00.0 in the description");
    let fix = found.fix.expect("a fix");
    assert!(
        fix.commands.iter().all(|at| at.contains("pci=config_acs=0010001@0000:00:01.0/00.0/00.0")),
        "{fix:?}"
    );
    assert!(
        fix.commands.iter().all(|at| !at.contains("\\\"")),
        "one port needs no quotes: {fix:?}"
    );
    assert!(fix.weakens.is_some_and(|cost| cost.contains("IOMMU groups")));
    assert_eq!(fix.needs, Needs::Reboot);
}

#[test]
fn a_redirection_that_the_root_complex_forwards_costs_speed() {
    let found = only(&[REDIRECTS, ZEN]);
    assert_eq!((found.kind, found.cost), (FindingKind::AcsRedirect, Cost::Speed));
}

#[test]
fn unlisted_host_bridge_needs_other_hardware() {
    let apart = ("address = '0000:04:00.0'\nunder = 'down-b'", "address = '0000:00:02.0'");
    let found = only(&[apart]);
    assert_eq!((found.kind, found.cost), (FindingKind::HostBridgeNotListed, Cost::Routes));
    assert_eq!(found.fix.map(|fix| fix.needs), Some(Needs::Hardware));
    assert!(examined(&[apart, ZEN]).is_healthy(), "a CPU that forwards is no fault");
}

#[test]
fn unreadable_acs_bits_are_unknown() {
    let record = examined(&[(REDIRECTS.0, &REDIRECTS.0.replacen("'absent'", "'unknown'", 1))]);
    assert!(record.is_healthy());
    assert!(record.unknown[0].needs.contains("sudo peerlane doctor"), "{:?}", record.unknown);
}

#[test]
fn a_translating_iommu_costs_speed() {
    let found = only(&[("'passthrough'", "'translating'")]);
    assert_eq!((found.kind, found.cost), (FindingKind::IommuTranslates, Cost::Speed));
}

#[test]
fn memory_that_is_missing_withheld_or_taken_is_found() {
    let withheld = only(&[("published = true", "published = false")]);
    assert_eq!((withheld.kind, withheld.cost), (FindingKind::MemoryNotPublished, Cost::Routes));
    assert_eq!(only(&[("available = '64M'", "available = '4K'")]).kind, FindingKind::MemoryInUse);
}

#[test]
fn machines_are_told_of_no_device_that_they_lack() {
    let record = examine(&Fabric::from_toml("name = 'vm'").expect("a machine"));
    assert_eq!((record.findings, record.steps, record.unknown), (vec![], vec![], vec![]));
    assert!(record.verdict.starts_with("no GPUs, NVMe drives"), "{}", record.verdict);
    const MEMORY: &str = "p2pmem = { size = '64M', available = '64M', published = true }\n";
    let record = examined(&[(MEMORY, "")]);
    assert!(record.is_healthy(), "{record:?}");
    let [drives] = &record.uses[..] else { panic!("{record:?}") };
    assert_eq!((drives.of_use, drives.state), (results::Use::DriveToDrive, RouteState::Host));
    assert!(drives.because.contains("no drive here lends memory"), "{drives:?}");
}

#[test]
fn tree_without_pci_is_no_answer() {
    let empty = Fabric::from_toml("name = 'cpus'").expect("a machine");
    let record = examine(&Fabric { origin: Origin::Tree("kept".into()), ..empty });
    assert!(record.is_healthy() && record.verdict.contains("unknown"), "{record:?}");
    assert!(record.unknown[0].needs.contains("peerlane capture"), "{record:?}");
}

#[test]
fn pasted_text_is_told_nothing_of_memory() {
    let pair =
        Fabric::from_toml(include_str!("../../../../machines/split.toml")).expect("a machine");
    let mut pasted = Fabric { origin: Origin::Text, ..pair };
    for function in &mut pasted.functions {
        function.p2pmem = None;
    }
    let record = examine(&pasted);
    assert!(record.uses.iter().all(|one| one.state == RouteState::Unknown), "{record:?}");
    assert!(record.unknown[0].needs.contains("peerlane capture"), "{record:?}");
}

/// Puts `keys` into drive `a`, and `rest` at the end of the file.
fn with_drive(keys: &str, rest: &str) -> DoctorRecord {
    const DRIVE: &str = "under = 'down-a'\nacs = 'absent'\n";
    const END: &str = "published = true }\n";
    examined(&[(DRIVE, &format!("{DRIVE}{keys}")), (END, &format!("{END}{rest}"))])
}

fn kinds(record: &DoctorRecord) -> Vec<FindingKind> {
    record.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn downgraded_link_found_but_not_slot() {
    const SLOT: &str = "name = 'down-a'\nkind = 'downstream-port'\n";
    let link = |below: &str, current: &str| {
        let slot = format!("{SLOT}link_below = '{below}'\n");
        let drive = format!(
            "under = 'down-a'\nlink = {{ current = '{current}', maximum = '16GT/s x4' }}\n"
        );
        examined(&[(SLOT, &slot), ("under = 'down-a'\n", &drive)])
    };
    let low = link("16GT/s x4", "8GT/s x4");
    assert_eq!(kinds(&low), [FindingKind::LinkTrainedLow]);
    assert!(low.findings[0].what.contains("8GT/s x4"), "{:?}", low.findings);
    assert!(link("8GT/s x4", "8GT/s x4").is_healthy(), "the slot supports no more");
}

#[test]
fn a_drive_at_its_warning_temperature_is_hot() {
    let at = |current: u32| {
        with_drive(&format!("temperature = {{ current = {current}, warning = 74000 }}\n"), "")
    };
    assert_eq!(kinds(&at(75_000)), [FindingKind::DriveHot]);
    assert!(at(40_000).is_healthy());
}

#[test]
fn small_requests_found_with_command() {
    let limits = |set: &str, hardware: &str| {
        let keys = format!(
            "namespaces = [{{ name = 'nvme0n1', size = '1G', max_request = '{set}', \
             max_hw_request = '{hardware}' }}]\n"
        );
        with_drive(&keys, "")
    };
    let small = limits("128K", "2M");
    assert_eq!(kinds(&small), [FindingKind::SmallRequests]);
    let fix = small.findings[0].fix.as_ref().expect("a fix");
    assert_eq!(fix.commands, ["echo 1024 | sudo tee /sys/block/nvme0n1/queue/max_sectors_kb"]);
    assert!(limits("512K", "512K").is_healthy(), "the drive takes no more");
    assert!(limits("1280K", "2M").is_healthy(), "no peer-to-peer request is longer than 1 MiB");
}

#[test]
fn drive_limit_found_where_commands_multiply() {
    const SPACE: &str = "namespaces = [{ name = 'nvme0n1', size = '1G', max_request = '128K', \
                         max_hw_request = '128K' }]\n";
    let found = with_drive(SPACE, "");
    assert_eq!(kinds(&found), [FindingKind::DriveTakesLittle]);
    let what = &found.findings[0].what;
    assert!(what.contains("(MDTS)") && what.contains("takes 8 commands"), "{what}");
    const DRIVE: &str = "under = 'down-a'\nacs = 'absent'\n";
    let both = [(DRIVE, &*format!("{DRIVE}{SPACE}")), ("'passthrough'", "'translating'")];
    assert_eq!(only(&both).kind, FindingKind::IommuTranslates, "whose limit it is then");
}

#[test]
fn withheld_memory_reason_follows_visible_registers() {
    const MEMORY: &str = "published = true }\n";
    let what =
        |registers: &str| only(&[(MEMORY, &format!("published = false }}\n{registers}"))]).what;
    assert!(what("").contains("cannot be seen"));
    let cmb = |size: &str| format!("cmb_registers = {{ location = '0x2', size = '{size}' }}\n");
    assert!(what(&cmb("0x4208")).contains("of read commands there and not of writes"));
    assert!(what(&cmb("0x4210")).contains("of write commands there and not of reads"));
}

#[test]
fn old_multipath_heads_found_with_workarounds() {
    const HEAD: &str = "namespaces = [{ name = 'nvme0n1', size = '1G', multipath_head = true }]\n";
    assert!(with_drive(HEAD, "").is_healthy());
    const DRIVE: &str = "under = 'down-a'\nacs = 'absent'\n";
    let found = only(&[(DRIVE, &format!("{DRIVE}{HEAD}")), ("'7.2.13'", "'6.18.15'")]);
    assert_eq!(found.kind, FindingKind::MultipathHead);
    let fix = found.fix.expect("a fix");
    assert!(fix.what.contains("/dev/ng0n1") && fix.commands[0].contains("nvme_core.multipath=N"));
}

#[test]
fn stacked_devices_found_unless_passing_pages() {
    const SPACE: &str = "namespaces = [{ name = 'nvme0n1', size = '1G' }]\n";
    let stacked = |name: &str, kind: &str| {
        with_drive(
            SPACE,
            &format!(
                "[[stacked]]\nname = '{name}'\nkind = '{kind}'\nbelow = ['nvme0n1']\n\
                 [[mount]]\ndevice = '{name}'\npoint = '/data'\nfile_system = 'ext4'\n"
            ),
        )
    };
    let record = stacked("dm-0", "crypt");
    assert_eq!(kinds(&record), [FindingKind::QueueRefuses]);
    assert!(record.findings[0].what.ends_with("so no file below /data can"), "{record:?}");
    assert_eq!(kinds(&stacked("md0", "raid5")), [FindingKind::QueueRefuses]);
    assert!(stacked("md0", "raid1").is_healthy());
}

#[test]
fn lowest_refusing_layer_is_found() {
    const LAYERS: &str = "[[stacked]]\nname = 'md127'\nkind = 'raid1'\nbelow = ['nvme0n1']\n\
        [[stacked]]\nname = 'dm-0'\nkind = 'crypt'\nbelow = ['md127']\n\
        [[stacked]]\nname = 'dm-1'\nkind = 'lvm'\nbelow = ['dm-0']\n\
        [[mount]]\ndevice = 'dm-1'\npoint = '/'\nfile_system = 'ext4'\n";
    let record = with_drive("namespaces = [{ name = 'nvme0n1', size = '1G' }]\n", LAYERS);
    assert_eq!(kinds(&record), [FindingKind::QueueRefuses]);
    let found = &record.findings[0];
    assert_eq!(found.object, "dm-0");
    assert!(found.what.ends_with("so no file below / can"), "{found:?}");
    assert!(found.evidence.iter().any(|seen| seen.showed == "nvme0n1"), "down to the drive");
}

#[test]
fn parameters_with_a_semicolon_survive_the_shell_and_grub() {
    let fabric = Fabric::from_toml(SOUND).expect("a machine");
    let commands = boot_loader::commands(&fabric, "pci=disable_acs_redir=a;b");
    let [debian, fedora, suse, arch, systemd_boot, proxmox] = &commands[..] else {
        panic!("six commands: {commands:?}")
    };
    for (command, words) in [
        (suse, ["tee -a /etc/default/grub ", "grub2-mkconfig -o /boot/grub2/grub.cfg"]),
        (arch, ["tee -a /etc/default/grub ", "grub-mkconfig -o /boot/grub/grub.cfg"]),
        (systemd_boot, ["/etc/kernel/cmdline", "kernel-install add-all"]),
        (proxmox, ["/etc/kernel/cmdline", "proxmox-boot-tool refresh"]),
    ] {
        assert!(words.iter().all(|word| command.contains(word)), "{command}");
    }
    let line = debian.split(" | ").next().expect("what is written");
    let script =
        format!("{line} > f && GRUB_CMDLINE_LINUX=quiet && . ./f && echo \"$GRUB_CMDLINE_LINUX\"");
    let folder = tempfile::tempdir().expect("a folder");
    let _turn = crate::testing::Turn::take();
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(folder.path()).output().expect("a shell");
    let args = String::from_utf8(output.stdout).expect("text");
    assert_eq!(args, "quiet pci=\"disable_acs_redir=a;b\"\n");
    assert!(fedora.contains("--args='pci=\"disable_acs_redir=a;b\"'"), "{fedora}");
}

#[test]
fn unregistered_buffer_found_with_reason() {
    // Reads and writes of data, units of 1 MiB: 3 units, and 4.
    let cmb = |size: &str| {
        with_drive(&format!("cmb_registers = {{ location = '0x2', size = '{size}' }}\n"), "")
    };
    let odd = cmb("0x3218");
    assert_eq!(kinds(&odd), [FindingKind::MemoryNotRegistered]);
    assert!(odd.findings[0].what.contains("not a multiple of 2 MiB"), "{odd:?}");
    assert!(cmb("0x4218").findings[0].what.contains("may begin"), "the size is no reason");
}

#[test]
fn queues_are_found_only_where_they_take_much() {
    const MEMORY: &str = "available = '64M', published = true }\n";
    let queues = |available: &str, are_used: bool| {
        let memory = format!(
            "available = '{available}', published = true }}\n\
             cmb_registers = {{ location = '0x2', size = '0x40219' }}\n"
        );
        examined(&[
            (MEMORY, &memory),
            ("p2pdma = true", &format!("p2pdma = true\nuse_cmb_sqes = {are_used}")),
        ])
    };
    assert_eq!(kinds(&queues("32M", true)), [FindingKind::QueuesInMemory]);
    assert!(queues("63M", true).is_healthy());
    assert!(queues("32M", false).is_healthy(), "somebody else holds it");
}

#[test]
fn accelerators_that_storage_does_not_reach_are_found() {
    let gpu = |modules: &str, largest: &str| {
        examined(&[
            ("p2pdma = true", &format!("p2pdma = true\nmodules = [{modules}]")),
            (
                "published = true }\n",
                &format!(
                    "published = true }}\n[[function]]\nname = 'gpu'\nkind = 'gpu'\n\
                     vendor = '0x10de'\nunder = 'down-a'\nacs = 'absent'\n\
                     bars = [{{ index = 1, size = '256M', prefetchable = true{largest} }}]\n"
                ),
            ),
        ])
    };
    const LOADED: &str = "{ name = 'nvidia' }, { name = 'nvidia_fs' }";
    assert_eq!(kinds(&gpu("", "")), [FindingKind::GpuStackMissing]);
    let unknown = gpu(LOADED, "").unknown;
    assert!(unknown[0].what.contains("libcufile.so.0"), "{unknown:?}");
    let compatibility = gpu("{ name = 'nvidia' }", "");
    assert!(compatibility.findings[0].what.contains("compatibility mode"), "{compatibility:?}");
    assert_eq!(kinds(&gpu(LOADED, ", largest = '32G'")), [FindingKind::SmallWindow]);
    assert!(gpu(LOADED, "").is_healthy());
    let card = |is_on: bool| {
        with_drive(
            "",
            &format!(
                "[[function]]\nname = 'card'\nkind = 'fpga'\nunder = 'down-a'\nacs = 'absent'\n\
                 fpga_p2p = {is_on}\n"
            ),
        )
    };
    assert_eq!(kinds(&card(false)), [FindingKind::FpgaWindowOff]);
    let window = |size: &str| {
        with_card(
            &format!(
                "kind = 'fpga'\nvendor = '0x10ee'\ndriver = 'xocl'\n\
                 bars = [{{ index = 4, size = '{size}', prefetchable = true }}]"
            ),
            "{ name = 'xocl' }",
            "'libxrt_coreutil.so.2'",
        )
    };
    assert_eq!(kinds(&window("32M")), [FindingKind::SmallWindow, FindingKind::FpgaKernel]);
    assert_eq!(kinds(&window("8G")), [FindingKind::FpgaKernel]);
    assert!(card(true).is_healthy());
}

#[test]
fn other_kernel_is_advised_only_with_other_memory() {
    let with = |driver: &str, cmb: &str| {
        examined(&[
            ("p2pdma = true", "p2pdma = false\nmodules = [{ name = 'xocl' }]"),
            ("name = 'm'", "name = 'm'\nlibraries = ['libxrt_coreutil.so.2']"),
            (
                "p2pmem = { size = '64M', available = '64M', published = true }\n",
                &format!(
                    "{cmb}[[function]]\nname = 'card'\nkind = 'fpga'\nvendor = '0x10ee'\nunder = 'down-b'\n\
                     acs = 'absent'\ndriver = '{driver}'\n\
                     bars = [{{ index = 4, size = '8G', prefetchable = true }}]\n"
                ),
            ),
        ])
    };
    let of_kernel = |record: &DoctorRecord| {
        let is_it = |one: &&Finding| one.kind == FindingKind::KernelWithoutP2pdma;
        record.findings.iter().find(is_it).cloned()
    };
    const CMB: &str = "cmb_registers = { location = '0x2', size = '0x4218' }\n";
    let found = of_kernel(&with("xocl", CMB)).expect("the kernel");
    assert_eq!(found.cost, Cost::Routes);
    assert!(found.what.contains("card by XRT's own path"), "{}", found.what);
    assert!(
        found.fix.and_then(|fix| fix.weakens).is_some_and(|cost| cost.contains("XRT's own path"))
    );
    assert_eq!(of_kernel(&with("xocl", "")), None, "it would take the only way");
    assert_eq!(of_kernel(&with("vfio-pci", "")), None, "no memory to reach");
}

/// A sound machine with a card, and its installed libraries and loaded modules.
fn with_card(card: &str, modules: &str, libraries: &str) -> DoctorRecord {
    examined(&[
        ("iommu = 'passthrough'", &format!("iommu = 'passthrough'\nlibraries = [{libraries}]")),
        ("p2pdma = true", &format!("p2pdma = true\nmodules = [{modules}]")),
        (
            "published = true }\n",
            &format!(
                "published = true }}\n[[function]]\nname = 'card'\nunder = 'down-a'\n\
                 acs = 'absent'\n{card}\n"
            ),
        ),
    ])
}

#[test]
fn remaining_cufile_mode_named_with_gaps() {
    const GPU: &str = "kind = 'gpu'\nvendor = '0x10de'";
    const DRIVER: &str = "{ name = 'nvidia', version = '570.133.20' }";
    let loaded = format!("{DRIVER}, {{ name = 'nvidia_fs' }}");
    let said = |record: DoctorRecord| {
        assert_eq!(kinds(&record), [FindingKind::GpuStackMissing]);
        assert_eq!(record.unknown, []);
        record.findings[0].what.clone()
    };
    let what = said(with_card(GPU, DRIVER, "'libcufile.so.0'"));
    assert!(what.contains("compatibility mode") && what.contains("lends no memory"), "{what}");
    let old = "{ name = 'nvidia', version = '535.1' }";
    let what = said(with_card(GPU, old, "'libcufile.so.0'"));
    assert!(what.contains("535.1 is older than 565"), "{what}");
    let what = said(with_card(GPU, &loaded, "'libcuda.so.1'"));
    assert!(what.contains("libcufile.so.0") && what.contains("direct by nvidia_fs"), "{what}");
    let lends = format!("{GPU}\np2pmem = {{ size = '1G' }}");
    let what = said(with_card(&lends, DRIVER, ""));
    assert!(what.contains("direct by P2PDMA"), "{what}");
    assert!(with_card(GPU, &loaded, "'libcufile.so.0'").is_healthy());
    assert!(with_card(&lends, DRIVER, "'libcufile.so.0'").is_healthy());
}

#[test]
fn cards_of_xrt_need_its_driver_and_its_library() {
    const CARD: &str = "kind = 'fpga'\nvendor = '0x10ee'";
    const XRT: &str = "'libxrt_coreutil.so.2'";
    let found = with_card(CARD, "", "");
    assert_eq!(kinds(&found), [FindingKind::FpgaStackMissing]);
    assert!(found.findings[0].what.contains("xocl and libxrt_coreutil"), "{found:?}");
    let found = with_card(CARD, "{ name = 'xocl' }", "");
    assert!(found.findings[0].what.ends_with("without libxrt_coreutil.so.2 (XRT)"), "{found:?}");
    assert!(with_card(CARD, "{ name = 'xocl' }", XRT).is_healthy());
    let managed = format!("{CARD}\ndriver = 'xclmgmt'");
    let found = with_card(&managed, "{ name = 'xocl' }", XRT);
    assert_eq!(kinds(&found), [FindingKind::FpgaStackMissing]);
    assert!(found.findings[0].what.contains("has no function of it"), "{found:?}");
    assert!(with_card("kind = 'fpga'\nvendor = '0x1172'", "", "").is_healthy(), "another maker's");
}

#[test]
fn reach_of_amd_compute_card_is_unknown() {
    let card = |class: &str| {
        with_card(&format!("kind = 'gpu'\nvendor = '0x1002'\nclass = '{class}'"), "", "")
    };
    let unknown = card("0x120000").unknown;
    assert!(unknown[0].needs.contains("ais-check"), "{unknown:?}");
    assert_eq!(card("0x030000").unknown, [], "a display");
}

mod amd;
mod copy;
mod headline;
mod kinds;
mod nccl;
mod nvidia_fs;
mod plan;
mod scripts;
