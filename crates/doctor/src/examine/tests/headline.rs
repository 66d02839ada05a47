//! Machines whose devices have no use, and machines that hide their devices.

use super::*;

fn verdict(devices: &str) -> DoctorRecord {
    let text = format!("name = 'm'\n{devices}");
    let record =
        examine(&Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}")));
    assert!(record.is_positive() && record.uses.is_empty(), "{record:?}");
    record
}

const DRIVE: &str = "[[function]]\nname = 'nvme0'\nkind = 'nvme'\ndriver = 'nvme'\n";
const NIC: &str = "[[function]]\nname = 'eth0'\nkind = 'nic'\ndriver = 'igb'\nvendor = '0x8086'\n";
const GPU: &str = "[[function]]\nname = 'a'\nkind = 'gpu'\nvendor = '0x10de'\n";

#[test]
fn lone_device_lacks_a_second_one() {
    let memory = "shareable memory (a GPU, an FPGA card, or a drive with a CMB)";
    let lone = "one NVMe drive (nvme0) and no second device: nothing to exchange payload with";
    assert_eq!(verdict(DRIVE).verdict, format!("{lone}; also missing: {memory}"));
    let kernel = format!("[kernel]\np2pdma = false\n{DRIVE}");
    let expected = format!("{lone}; also missing: {memory}, CONFIG_PCI_P2PDMA in the kernel");
    assert_eq!(verdict(&kernel).verdict, expected);
    let old = format!("[kernel]\nrelease = '5.15.0'\n{DRIVE}");
    assert_eq!(
        verdict(&old).verdict,
        format!("{lone}; also missing: {memory}, Linux 6.2 or later")
    );
    let gpu = "one GPU (gpu:0) and no second device: nothing to exchange payload with";
    assert_eq!(verdict(GPU).verdict, gpu);
    assert!(verdict(NIC).verdict.starts_with("one NIC (eth0) and no second device"));
}

#[test]
fn devices_without_use_lack_memory_or_rdma() {
    let found = verdict(&format!("{DRIVE}{NIC}"));
    let expected = "1 NIC, 1 drive: none can exchange data directly; missing: shareable memory";
    assert!(found.verdict.starts_with(expected), "{}", found.verdict);
    let found = verdict(&format!("{GPU}{NIC}"));
    assert!(found.verdict.ends_with("missing: RDMA of the NIC"), "{}", found.verdict);
    assert_eq!(found.unknown, []);
}

#[test]
fn text_without_classes_is_not_known() {
    let text = "-[0000:00]-+-00.0  A\n           \\-01.0-[01]----00.0  B\n";
    let mut fabric = peerlane_fabric::lspci::read(text).expect("a machine");
    let record = examine(&fabric);
    let reason = "the text shows no classes; run `sudo lspci -Dvvvnn`";
    assert_eq!(record.verdict, format!("what is possible here is unknown: {reason}"));
    assert_eq!(record.hidden_devices.as_deref(), Some(reason));
    assert_eq!(record.unknown[0].needs, "`sudo lspci -Dvvvnn`");
    assert!(!record.is_positive(), "{record:?}");
    let last = fabric.functions.len() - 1;
    fabric.functions[last].kind = FunctionKind::Gpu;
    let record = examine(&fabric);
    assert!(record.verdict.starts_with("1 GPU in the text; what else is"), "{}", record.verdict);
    fabric.functions[last].class = Some(0x030200);
    let record = examine(&fabric);
    assert!(record.verdict.contains("the text shows no class of 0000:00:00.0;"), "{record:?}");
}

#[test]
fn pair_without_classes_is_not_known() {
    let text = "-[0000:00]-+-00.0  A\n           \\-01.0-[01]--+-00.0  B\n                        \\-01.0  C\n";
    let fabric = peerlane_fabric::lspci::read(text).expect("a machine");
    let ends = ["0000:01:00.0", "0000:01:01.0"];
    let ids = ends.map(|name| fabric.find(name).expect("a function"));
    let record = examine_devices(&fabric, (ids[0], ids[1]), ends.map(str::to_owned));
    assert_eq!(record.state, Some(RouteState::Unknown), "{record:?}");
    assert!(!record.is_positive() && record.verdict.contains(": unknown: "), "{record:?}");
}
