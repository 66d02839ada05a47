//! The plan for a server with eight GPUs: one step a cause, and nothing left once it is carried out.

use std::path::Path;

use peerlane_fabric::Acs;
use peerlane_fabric::assume::BootConfiguration;
use peerlane_results::{Setting, Use as RecordUse};

use super::*;

/// Eight GPUs, eight drives and four network controllers below four switches.
pub(super) fn eight_gpus() -> Fabric {
    let archive =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sysfs/eight-gpus/tree.tar.zst");
    let bytes = std::fs::File::open(archive).expect("a capture");
    let content = peerlane_fabric::capture::unpack_machine(bytes).expect("a tree");
    Fabric::discover_snapshot(Path::new(archive), content).expect("a machine")
}

#[test]
fn headline_begins_with_worst_finding() {
    let record = examine(&eight_gpus());
    assert!(
        record.verdict.starts_with(
            "the IOMMU translates every address (and 4 more findings); 5 fixes, 1 reboot."
        ),
        "{}",
        record.verdict
    );
    let uses: Vec<RecordUse> = record.uses.iter().map(|one| one.of_use).collect();
    for one in [RecordUse::StorageToGpu, RecordUse::NetworkToGpu, RecordUse::GpuToGpu] {
        assert!(uses.contains(&one), "{uses:?}");
    }
    let of = |wanted| record.uses.iter().find(|one| one.of_use == wanted).expect("a use").of;
    assert_eq!((of(RecordUse::StorageToGpu), of(RecordUse::NetworkToGpu)), (64, 32));
    assert_eq!((of(RecordUse::GpuToGpu), of(RecordUse::DriveToDrive)), (28, 28));
}

#[test]
fn redirection_of_all_switches_is_one_step() {
    let fabric = eight_gpus();
    let record = examine(&fabric);
    let is_acs = |one: &&Finding| one.kind == FindingKind::AcsRedirect;
    let found = record.findings.iter().find(is_acs).expect("redirection");
    assert_eq!(found.evidence.len(), 20, "each downstream port");
    let steps: Vec<_> = record.steps.iter().filter(|step| step.command.contains("acs")).collect();
    let [step] = &steps[..] else { panic!("{steps:?}") };
    assert!(step.reboot && step.weakens.is_some(), "{step:?}");
    // Pairs below one switch: 4 switches of 2 GPUs, 2 drives and 1 network controller.
    assert_eq!(step.pairs, 4 * (4 + 2 + 1), "{step:?}");
}

#[test]
fn steps_come_in_order_and_restarts_together() {
    let record = examine(&eight_gpus());
    let orders: Vec<u32> = record.steps.iter().map(|step| step.order).collect();
    assert_eq!(orders, (1..).take(orders.len()).collect::<Vec<u32>>());
    assert!(record.steps.is_sorted_by_key(|step| step.needs), "{:?}", record.steps);
}

#[test]
fn assumed_plan_leaves_what_cannot_be_fixed() {
    let mut fabric = eight_gpus();
    let record = examine(&fabric);
    let settings: Vec<&Setting> = record.steps.iter().flat_map(|step| &step.settings).collect();
    assert!(settings.len() >= 3, "{settings:?}");
    let folder = tempfile::tempdir().expect("a folder");
    for file in drop_ins(&record) {
        let path = folder.path().join(file.path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, file.content).expect("room");
    }
    let configuration = BootConfiguration::read(folder.path()).expect("a configuration");
    configuration.apply(&mut fabric);
    assert!(
        fabric
            .functions
            .iter()
            .filter(|one| one.kind == FunctionKind::DownstreamPort)
            .all(|port| { port.acs != Acs::Unknown && port.acs.redirects() == Some(false) })
    );
    let after = examine(&fabric);
    assert_eq!(kinds(&after), [], "{after:?}");
    assert_eq!(after.steps, []);
    let network =
        after.uses.iter().find(|one| one.of_use == RecordUse::NetworkToGpu).expect("a use");
    assert_eq!(
        (network.state, network.pairs),
        (RouteState::Direct, 8),
        "below one switch: {after:?}"
    );
}

#[test]
fn kernel_is_no_obstacle_to_pairs_that_ask_none() {
    let mut fabric = eight_gpus();
    fabric.kernel.release = Some("6.1.0".to_owned());
    let has_kernel = |record: &DoctorRecord| kinds(record).contains(&FindingKind::KernelTooOld);
    let id = |word: &str| fabric.find_device(word).expect("a device");
    let typed = || ["one", "other"].map(str::to_owned);
    let gpus = examine_devices(&fabric, (id("gpu:0"), id("gpu:1")), typed());
    assert!(!has_kernel(&gpus), "{gpus:?}");
    let storage = examine_devices(&fabric, (id("nvme0"), id("gpu:0")), typed());
    assert!(has_kernel(&storage) && has_kernel(&examine(&fabric)), "{storage:?}");
}

#[test]
fn network_and_drive_name_memory_between_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs");
    let examined = |machine: &str, words: [&str; 2]| {
        let fabric = Fabric::discover(&path.join(machine).join("tree.tar.zst")).expect("a machine");
        let ends = words.map(|word| fabric.find_device(word).expect("a device"));
        examine_devices(&fabric, (ends[0], ends[1]), words.map(str::to_owned))
    };
    let by_gpu = examined("eight-gpus", ["nvme0", "mlx5_0"]);
    assert!(by_gpu.verdict.ends_with("memory of gpu:0 can lie between them"), "{by_gpu:?}");
    assert!(by_gpu.notes[1].contains("`peerlane plan mlx5_0 gpu:0`"), "{by_gpu:?}");
    let by_tcp = examined("sr635", ["eno1", "nvme0"]);
    assert!(by_tcp.verdict.starts_with("eno1 -> nvme0: through host memory"), "{by_tcp:?}");
    assert!(by_tcp.notes[0].contains("export /dev/nvme0n1 --transport tcp"), "{by_tcp:?}");
    assert!(examined("eight-gpus", ["gpu:0", "mlx5_0"]).notes.is_empty());
}
