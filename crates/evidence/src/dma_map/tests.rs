use super::*;
use peerlane_testing::Scratch;

const DRIVE: &str = "0000:03:00.0";
const MEMORY: &str = "0000:05:00.0";

fn map() -> AddressMap {
    let tree = Scratch::new();
    let resource = "0x00000000f4000000 0x00000000f7ffffff 0x14220c\n";
    tree.write(format!("sys/bus/pci/devices/{MEMORY}/resource"), resource);
    tree.write("proc/iomem", "00100000-7fffffff : System RAM\n");
    AddressMap::read(&Root::at(tree.path()), &[MEMORY.parse().unwrap()]).unwrap()
}

fn counted(text: &str) -> ObservedDma {
    let histograms = hist::parse(text);
    let drive = DRIVE.parse().unwrap();
    let mut seen = ObservedDma::default();
    seen.add_decisions(PROBES[0], &histograms, drive);
    seen.add_addresses(&histograms, drive, &map(), true);
    seen
}

fn histogram(rows: &str) -> String {
    format!(
        "# trigger info: hist:keys=x if client == \"{DRIVE}\" [active]\n{rows}\n    Dropped: 0\n"
    )
}

#[test]
fn rows_sum_by_owner_and_decision() {
    let text = histogram(
        "{ device: 0000:03:00.0   , dir:  2, phys_addr: ~ 4093640704-4095737855 } hitcount: 1  size: 512\n\
         { device: 0000:03:00.0   , dir:  1, phys_addr: ~ 2097152-4194303 } hitcount: 1  size: 1024\n\
         { device: 0000:04:00.0   , dir:  1, phys_addr: ~ 2097152-4194303 } hitcount: 1  size: 9999",
    );
    let addresses = counted(&text).addresses.unwrap();
    let functions = BTreeMap::from([(MEMORY.parse().unwrap(), 512)]);
    assert_eq!((addresses.ram, addresses.functions), (1024, functions));
    let seen = counted(&histogram("{ map: 3 } hitcount: 128\n{ map: 1 } hitcount: 2"));
    let decisions = [(observed::Decision::BusAddress, 128), (observed::Decision::Other(1), 2)];
    assert_eq!(seen.decisions, Some(BTreeMap::from(decisions)));
}

#[test]
fn earlier_counts_are_taken_off() {
    let before = counted(&histogram("{ map: 3 } hitcount: 7"));
    let after = counted(&histogram("{ map: 3 } hitcount: 128"));
    let decisions = after.since(&before).decisions.unwrap();
    assert_eq!(decisions, BTreeMap::from([(observed::Decision::BusAddress, 121)]));
    assert_eq!(after.since(&after).decisions, Some(BTreeMap::new()));
}

#[test]
fn earlier_bounces_are_taken_off() {
    let bounced = |bytes: u64| {
        let text = histogram(&format!("{{ dev_name: {DRIVE} }} hitcount: 1  size: {bytes}"));
        let mut seen = ObservedDma::default();
        seen.add_bounces(&hist::parse(&text), DRIVE.parse().unwrap());
        seen
    };
    assert_eq!(bounced(9216).since(&bounced(4096)).bounced, 5120);
}

#[test]
fn unwatched_drive_has_no_decisions() {
    let text = histogram("{ map: 3 } hitcount: 7").replace(DRIVE, "0000:09:00.0");
    assert_eq!(counted(&text).decisions, None);
}

#[test]
fn planted_tree_is_not_traced() {
    let tree = Scratch::new();
    let found = DmaWitness::begin(&Root::at(tree.path()), &[], &[], false).unwrap_err();
    assert!(found.to_string().contains("not that of this machine"), "{found}");
}
