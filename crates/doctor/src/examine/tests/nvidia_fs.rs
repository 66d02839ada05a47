//! Storage to GPU by nvidia-fs: drivers registered with it, and whether cuFile finds drives.

use super::*;

/// A server whose GPU memory is not lent, with `nvidia_fs` loaded; `changes` are to its text.
fn server(changes: &[(&str, &str)]) -> DoctorRecord {
    const CARD: &str = "[[function]]\nname = 'gpu'\nkind = 'gpu'\nvendor = '0x10de'\nunder = 'down-a'\n\
                        acs = 'absent'\ndriver = 'nvidia'\n";
    let mut text = SOUND.replace(
        "p2pdma = true\n",
        "p2pdma = true\nmodules = [{ name = 'nvidia' }, { name = 'nvidia_fs' }]\n",
    );
    text = text.replace("kind = 'nvme'\n", "kind = 'nvme'\ndriver = 'nvme'\n") + CARD;
    text = text.replace("name = 'm'\n", "name = 'm'\nlibraries = ['libcufile.so.0']\n");
    for (from, to) in changes {
        assert!(text.contains(from), "nothing to change: {from}");
        text = text.replacen(from, to, 1);
    }
    examine(&Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

const REGISTERED: (&str, &str) = ("p2pdma = true\n", "p2pdma = true\nnvidia_fs_nvme = true\n");
const UNREGISTERED: (&str, &str) = ("p2pdma = true\n", "p2pdma = true\nnvidia_fs_nvme = false\n");
const UDEV: (&str, &str) = ("[kernel]\n", "[environment]\nudev = false\n[kernel]\n");
/// nvidia-fs is the only direct way.
const OLD_KERNEL: (&str, &str) = ("'7.2.13'", "'6.1.0'");

fn storage(record: &DoctorRecord) -> (RouteState, &str) {
    let of = |one: &&results::UseAnswer| one.of_use == results::Use::StorageToGpu;
    let found = record.uses.iter().find(of).expect("storage to GPU");
    (found.state, &found.because)
}

#[test]
fn registered_drives_are_direct() {
    let record = server(&[REGISTERED, OLD_KERNEL]);
    assert_eq!(storage(&record).0, RouteState::Direct, "{record:?}");
    assert_eq!(record.unknown, []);
}

#[test]
fn loaded_module_alone_leaves_it_open() {
    let record = server(&[OLD_KERNEL]);
    let (state, because) = storage(&record);
    assert_eq!(state, RouteState::Unknown);
    assert!(because.contains("`cat /proc/driver/nvidia-fs/modules`"), "{because}");
    let unknown = record.unknown.iter().find(|one| one.what.contains("registered with nvidia_fs"));
    assert!(unknown.is_some_and(|one| one.needs.contains("gdscheck -p")), "{:?}", record.unknown);
}

#[test]
fn unregistered_drives_are_refused_with_fix() {
    let record = server(&[UNREGISTERED, OLD_KERNEL]);
    assert_eq!(storage(&record).0, RouteState::Host);
    let is_it = |one: &&Finding| one.kind == FindingKind::GpuStackMissing;
    let found = record.findings.iter().find(is_it).expect("the stack");
    assert!(found.what.contains("nvme is not registered with nvidia_fs"), "{}", found.what);
    let seen = found.evidence.iter().any(|one| one.showed == "nvme is not registered");
    assert!(seen, "{found:?}");
    let fix = found.fix.as_ref().expect("a fix");
    assert!(fix.commands[0].contains("mlnx-nvme-dkms"), "{fix:?}");
    assert!(fix.what.contains("lend memory"), "P2PDMA is the other way: {fix:?}");
}

#[test]
fn lent_memory_needs_no_registration() {
    let lent =
        ("driver = 'nvidia'\n", "driver = 'nvidia'\np2pmem = { size = '1G', published = true }\n");
    let record = server(&[UNREGISTERED, lent]);
    assert_eq!(storage(&record).0, RouteState::Direct, "{record:?}");
    assert!(record.is_healthy(), "{record:?}");
}

#[test]
fn missing_udev_is_found_where_it_bears() {
    let has_udev = |record: &DoctorRecord| {
        record
            .findings
            .iter()
            .any(|one| one.evidence.iter().any(|seen| seen.showed == "there is none"))
    };
    let record = server(&[REGISTERED, UDEV]);
    assert_eq!(storage(&record).0, RouteState::Host);
    assert!(has_udev(&record), "{record:?}");
    let step = record.steps.iter().find(|step| step.what.contains("/run/udev:/run/udev:ro"));
    assert!(step.is_some(), "{:?}", record.steps);
    assert!(!has_udev(&server(&[REGISTERED])));
    let record = server(&[UNREGISTERED, UDEV, OLD_KERNEL]);
    assert!(!has_udev(&record), "no direct way is there anyway: {record:?}");
}

#[test]
fn text_of_gdscheck_names_modules() {
    let text = "00:01.0 3D controller [0302]: NVIDIA Corporation Device [10de:20b0]\n\
                \tKernel driver in use: nvidia\n\n\
                00:02.0 Non-Volatile memory controller [0108]: Device [144d:a80a]\n\
                \tKernel driver in use: nvme\n\n";
    let record = |more: &str| {
        let text = format!("{text}Linux box 5.15.0-101-generic #51 SMP x86_64 GNU/Linux\n{more}");
        examine(&peerlane_fabric::lspci::read(&text).expect("a machine"))
    };
    let silent = record("");
    assert!(silent.unknown.iter().any(|one| one.what == "whether the module nvidia_fs is loaded"));
    let refused =
        record(" nvidia_fs version:  2.17 libcufile version: 2.12\n NVMe : Unsupported\n");
    assert_eq!(storage(&refused).0, RouteState::Host, "{refused:?}");
    assert!(
        !refused.unknown.iter().any(|one| one.what.contains("loaded")),
        "{:?}",
        refused.unknown
    );
}
