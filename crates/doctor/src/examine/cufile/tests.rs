use peerlane_fabric::Fabric;

use super::*;

/// A machine with these settings and these further facts.
fn fabric(machine: &str, settings: &str) -> Fabric {
    let settings: String = settings.split(';').map(|line| format!("{line}\n")).collect();
    let text = format!("name = 'm'\n{machine}\n[cufile.settings]\n{settings}");
    Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The note on a key.
fn note(machine: &str, settings: &str, key: &str) -> Option<CufileNote> {
    let notes = audit(&fabric(machine, settings));
    for note in &notes {
        let sentences = [&note.consequence, &note.advice];
        assert!(sentences.iter().all(|text| !text.is_empty() && !text.contains("  ")), "{note:?}");
        assert!(sentences.iter().all(|text| !text.ends_with('.')), "{note:?}");
    }
    notes.into_iter().find(|note| note.key == key)
}

/// Asserts that a key is noted with these words.
#[track_caller]
fn says(machine: &str, settings: &str, key: &str, words: &str) -> CufileNote {
    let found = note(machine, settings, key);
    let found = found.unwrap_or_else(|| panic!("no note on {key}"));
    assert!(found.consequence.contains(words), "{found:?}");
    found
}

#[track_caller]
fn silent(machine: &str, settings: &str, key: &str) {
    assert_eq!(note(machine, settings, key), None);
}

const WITHOUT_NVIDIA_FS: &str = "[kernel]\nmodules = []";

fn version(number: &str) -> String {
    format!("libraries = ['libcufile.so.0', 'libcufile.so.{number}']")
}

#[test]
fn keys_that_force_host_memory_come_first() {
    for key in ["force_compat_mode", "vanilla_posix_io_mode", "posix_io_mode"] {
        let key = format!("properties.{key}");
        let found = says("", &format!("'{key}' = true"), &key, "every request");
        assert!(found.forces_host);
        silent("", &format!("'{key}' = false"), &key);
    }
    let settings = "'properties.allow_compat_mode' = true;'properties.force_compat_mode' = true";
    assert_eq!(audit(&fabric("", settings))[0].key, "properties.force_compat_mode");
}

#[test]
fn compatibility_mode_is_said_either_way() {
    let key = "properties.allow_compat_mode";
    says("", &format!("'{key}' = true"), key, "the call does not say so");
    says("", &format!("'{key}' = false"), key, "is an error");
    assert_eq!(says("", "", key, "is unknown").value, "not set");
    let other = "properties.use_compat_mode";
    says("", &format!("'{other}' = true"), other, "gdscheck prints");
    silent("", "", other);
}

#[test]
fn fallbacks_are_noted_where_they_are_on() {
    let fallback = "properties.gds_fallback_io";
    assert_eq!(says("", &format!("'{fallback}' = true"), fallback, "repeated").since, "1.17");
    silent("", &format!("'{fallback}' = false"), fallback);
    let holes = "sparse.p2p_compat_enable";
    says("", &format!("'{holes}' = false"), holes, "holes");
    silent("", &format!("'{holes}' = true"), holes);
    let unaligned = "fs.generic.posix_unaligned_writes";
    says("", &format!("'{unaligned}' = true"), unaligned, "not aligned to 4 KiB");
    silent("", &format!("'{unaligned}' = false"), unaligned);
    let threads = "execution.parallel_io";
    says("", &format!("'{threads}' = false"), threads, "on a stream");
    silent("", &format!("'{threads}' = true"), threads);
}

#[test]
fn small_requests_have_thresholds() {
    for system in ["lustre", "beegfs", "scatefs"] {
        let key = format!("fs.{system}.posix_gds_min_kb");
        says("", &format!("'{key}' = 8"), &key, "requests of 8 KiB and less");
        silent("", &format!("'{key}' = 0"), &key);
    }
}

#[test]
fn p2pdma_wants_two_keys_from_1_16_on() {
    let (all, drives) = ("properties.use_pci_p2pdma", "block.nvme.use_pci_p2pdma");
    let on = format!("'{all}' = true");
    assert!(!says("", "", all, "nvidia-fs is the only direct path").forces_host);
    let forced =
        says(WITHOUT_NVIDIA_FS, &format!("'{all}' = false"), all, "goes through host memory");
    assert!(forced.forces_host);
    silent("", &on, all);
    says("", &on, drives, "from cuFile 1.16 on P2PDMA is preferred");
    says(&version("1.18.1"), &on, drives, "needs both keys");
    silent(&version("1.13.1"), &on, drives);
    let late = format!("{}\n{WITHOUT_NVIDIA_FS}", version("1.18.1"));
    assert!(says(&late, &on, drives, "needs both keys").forces_host);
    let both = format!("{on};'{drives}' = true");
    says(&version("1.18.1"), &both, drives, "is not repeated by nvidia-fs");
    says(&version("1.11.1"), &on, all, "cuFile 1.11 does not know the key");
}

#[test]
fn keys_of_later_versions_are_not_known() {
    for (key, number, since) in [
        ("block.nvme.use_pci_p2pdma", "1.15.1", "1.16"),
        ("block.raid1.use_pci_p2pdma", "1.18.1", "1.19"),
        ("properties.vanilla_posix_io_mode", "1.18.1", "1.19"),
        ("properties.gds_fallback_io", "1.16.0", "1.17"),
        ("fs.panfs.use_pci_p2pdma", "1.19.0", "1.20"),
    ] {
        let settings = format!("'{key}' = true");
        let found = says(&version(number), &settings, key, "does not know the key");
        assert_eq!((found.since, found.forces_host), (since, false), "{key}");
    }
    let key = "properties.posix_io_mode";
    let found =
        says(&version("1.19.0"), &format!("'{key}' = true"), key, "vanilla_posix_io_mode there");
    assert!(!found.forces_host);
}

#[test]
fn arrays_depend_on_key_and_kernel() {
    let stacked = |level: &str| {
        format!("stacked = [{{ name = 'md0', kind = '{level}', below = ['nvme0n1'] }}]")
    };
    for (level, key) in [("raid0", "raid"), ("raid1", "raid1"), ("raid10", "raid10")] {
        let key = format!("block.{key}.use_pci_p2pdma");
        says(&stacked(level), "", &key, "are not taken by P2PDMA");
        silent("", "", &key);
        let on = format!("'{key}' = true");
        says("[kernel]\nrelease = '6.8.0'", &on, &key, "Linux 6.8 passes no peer pages");
        says("[kernel]\nrelease = '7.2.13'", &on, &key, "are taken by P2PDMA");
    }
}

#[test]
fn remote_storage_by_p2pdma_is_noted() {
    let key = "block.nvmeof.use_pci_p2pdma";
    says("", &format!("'{key}' = true"), key, "NVMe-oF by RDMA");
    silent("", &format!("'{key}' = false"), key);
    for system in ["beegfs", "gpfs", "lustre", "nfs", "panfs", "scatefs", "virtiofs"] {
        let key = format!("fs.{system}.use_pci_p2pdma");
        says("", &format!("'{key}' = true"), &key, system);
        silent("", &format!("'{key}' = false"), &key);
    }
    silent("", "", "fs.lustre.use_pci_p2pdma");
}

const DRIVE: &str = "mount = [{ device = 'nvme0n1', point = '/data', file_system = 'ext4' }]\n\
                     [[function]]\nname = 'nvme0'\nkind = 'nvme'\n\
                     namespaces = [{ name = 'nvme0n1', size = '1G' }]";

#[test]
fn denied_things_of_this_machine_force_host_memory() {
    for (list, here, elsewhere) in [
        ("drivers", "nvme", "scaleflux"),
        ("devices", "/dev/nvme0n1", "/dev/nvme9n1"),
        ("mounts", "/data", "/other"),
        ("filesystems", "ext4", "lustre"),
    ] {
        let key = format!("denylist.{list}");
        let found = says(
            DRIVE,
            &format!("'{key}' = ['{here}']"),
            &key,
            "are here; cuFile takes no direct path",
        );
        assert!(found.forces_host, "{found:?}");
        let found =
            says(DRIVE, &format!("'{key}' = ['{elsewhere}']"), &key, "none of them is seen here");
        assert!(!found.forces_host, "{found:?}");
        silent(DRIVE, &format!("'{key}' = []"), &key);
    }
    says("", "'denylist.fsids' = 2", "denylist.fsids", "which file systems");
    silent("", "'denylist.fsids' = 0", "denylist.fsids");
    let former =
        says(DRIVE, "'blacklist.drivers' = 1", "blacklist.drivers", "nothing is held back");
    assert_eq!(former.since, "unknown");
}

#[test]
fn writes_of_remote_storage_may_take_host_memory() {
    for key in ["properties.gds_rdma_write_support", "fs.gpfs.gds_write_support"] {
        says("", &format!("'{key}' = false"), key, "go through host memory");
        silent("", &format!("'{key}' = true"), key);
    }
    let weka = "fs.weka.rdma_write_support";
    says("", &format!("'{weka}' = true"), weka, "go by RDMA");
    silent("", &format!("'{weka}' = false"), weka);
    let streams = "fs.gpfs.gds_async_support";
    says("", &format!("'{streams}' = false"), streams, "on a stream to GPFS");
    silent("", &format!("'{streams}' = true"), streams);
}

#[test]
fn peer_types_want_their_modules() {
    let key = "properties.rdma_peer_type";
    let (dmabuf, peer_mem) = (format!("'{key}' = 'dmabuf'"), format!("'{key}' = 'peer_mem'"));
    says("[nvidia]\nopen = false", &dmabuf, key, "proprietary ones are loaded");
    silent("[nvidia]\nopen = true", &dmabuf, key);
    says("[kernel]\nmodules = []", &peer_mem, key, "is not loaded");
    silent("[kernel]\nmodules = [{ name = 'nvidia_peermem' }]", &peer_mem, key);
    says("", &format!("'{key}' = 'other'"), key, "are documented");
}

#[test]
fn routing_says_its_order() {
    let key = "properties.rdma_dynamic_routing";
    let on =
        format!("'{key}' = true;'properties.rdma_dynamic_routing_order' = ['GPU_MEM', 'SYS_MEM']");
    says("", &on, key, "goes by GPU_MEM, SYS_MEM");
    says("", &on, key, "no addresses are set");
    let addressed = format!("{on};'properties.rdma_dev_addr_list' = 2");
    assert!(
        !says("", &addressed, key, "SYS_MEM is host memory").consequence.contains("no addresses")
    );
    silent("", &format!("'{key}' = false"), key);
    let topology = "miscellaneous.enable_static_routing";
    says("", &format!("'{topology}' = true"), topology, "saved before");
    silent("", &format!("'{topology}' = false"), topology);
}

#[test]
fn values_of_other_kinds_are_not_known() {
    for (key, value) in [
        ("properties.use_pci_p2pdma", "'true'"),
        ("properties.force_compat_mode", "1"),
        ("denylist.mounts", "'/data'"),
        ("fs.lustre.posix_gds_min_kb", "true"),
        ("properties.rdma_peer_type", "true"),
    ] {
        let found = says("", &format!("\"{key}\" = {value}"), key, "is unknown");
        assert!(!found.forces_host);
    }
}

#[test]
fn damaged_file_is_noted_and_missing_one_is_not() {
    let damaged = Fabric::from_toml("name = 'm'\n[cufile]\nproblem = 'line 2: expected `:`'");
    let notes = audit(&damaged.expect("a machine"));
    let keys: Vec<&str> = notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(keys, ["/etc/cufile.json", "environment"]);
    assert_eq!(notes[0].value, "line 2: expected `:`");
    assert_eq!(audit(&Fabric::from_toml("name = 'm'").expect("a machine")), []);
}

#[test]
fn installed_defaults_are_noted() {
    let archive =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sysfs/eight-gpus/tree.tar.zst");
    let notes = audit(&Fabric::discover(std::path::Path::new(archive)).expect("a machine"));
    let keys: Vec<&str> = notes.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(keys, ["properties.use_pci_p2pdma", "properties.allow_compat_mode", "environment"]);
    assert!(notes[0].forces_host, "nvidia_fs is not loaded: {:?}", notes[0]);
    assert_eq!(notes[0].since, "1.13");
}
