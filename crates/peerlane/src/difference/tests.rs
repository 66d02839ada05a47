use super::*;

/// Two drives and a GPU below root ports, and further functions.
fn machine(functions: &[&str]) -> Fabric {
    let port = |number: u8| {
        format!(
            "[[function]]\nname = '0000:00:0{number}.0'\naddress = '0000:00:0{number}.0'\n\
             kind = 'root-port'\nvendor = '0x8086'\ndevice = '0x3c0{number}'\n"
        )
    };
    let ports: String = (1..5).map(port).collect();
    let functions: String = functions.iter().map(|one| format!("[[function]]\n{one}\n")).collect();
    Fabric::from_toml(&format!("name = 'm'\n{ports}{functions}")).expect("a machine")
}

fn below(port: u8, name: &str, kind: &str, more: &str) -> String {
    format!(
        "name = '{name}'\nkind = '{kind}'\naddress = '0000:0{port}:00.0'\n\
         under = '0000:00:0{port}.0'\n{more}"
    )
}

fn sentences(before: &[&str], after: &[&str]) -> (String, Vec<String>) {
    let record = record(&machine(before), &machine(after));
    (record.verdict, record.changes.into_iter().map(|change| change.what).collect())
}

const H100: &str = "vendor = '0x10de'\ndevice = '0x2330'";

#[test]
fn functions_that_come_and_go_have_names() {
    let gpu = below(1, "gpu", "gpu", H100);
    let drive = below(2, "drive", "nvme", "");
    let (verdict, changes) = sentences(&[&drive], &[&drive, &gpu]);
    assert!(verdict.starts_with("1 change: gpu:0 (0000:01:00.0) new"), "{verdict}");
    assert_eq!(changes, ["new: gpu:0 (0000:01:00.0), NVIDIA GH100 [H100 SXM5 80GB]"]);
    let (verdict, changes) = sentences(&[&drive, &gpu], &[&gpu]);
    assert!(verdict.starts_with("1 change: drive (0000:02:00.0) gone"), "{verdict}");
    assert_eq!(changes, ["gone: drive (0000:02:00.0)"]);
}

#[test]
fn switches_are_told_by_what_is_below() {
    let switch = below(1, "up", "upstream-port", "vendor = '0x1000'\ndevice = '0xc030'");
    let port = "name = 'down'\nkind = 'downstream-port'\nunder = 'up'\naddress = '0000:05:00.0'";
    let nic = "name = 'net'\nkind = 'nic'\nunder = 'down'\naddress = '0000:06:00.0'";
    let (_, changes) = sentences(&[], &[&switch, port, nic]);
    assert_eq!(changes, ["new: net (0000:06:00.0), with 2 further functions"]);
    let (_, changes) = sentences(&[], &[&switch, port]);
    assert_eq!(
        changes,
        [
            "new: up (0000:01:00.0), Broadcom / LSI PEX890xx PCIe Gen 5 Switch, with 1 further function"
        ]
    );
}

#[test]
fn moved_cards_name_both_addresses() {
    let (verdict, changes) =
        sentences(&[&below(1, "gpu", "gpu", H100)], &[&below(2, "gpu", "gpu", H100)]);
    assert!(verdict.starts_with("1 change: gpu:0 (0000:02:00.0) moved"), "{verdict}");
    assert_eq!(changes, ["moved: gpu:0, 0000:01:00.0 -> 0000:02:00.0"]);
}

#[test]
fn single_pairs_are_no_example() {
    let redirecting = format!("{H100}\nacs = 'redirect'");
    let switch = below(1, "up", "upstream-port", "");
    let gpu = |more: &str| {
        format!("name = 'gpu'\nkind = 'gpu'\nunder = 'up'\naddress = '0000:05:00.0'\n{more}")
    };
    let nic = "name = 'net'\nkind = 'nic'\nunder = 'up'\naddress = '0000:05:01.0'";
    let (verdict, changes) =
        sentences(&[&switch, &gpu(H100), nic], &[&switch, &gpu(&redirecting), nic]);
    let direct = "1 pair: direct, below the host bridge -> permitted, through the host bridge";
    let redirection = "ACS redirection at gpu:0 (0000:05:00.0): off -> on";
    assert_eq!(changes, [&format!("{direct}, net -> gpu:0"), redirection]);
    assert!(verdict.starts_with("2 changes: 1 pair direct -> through the host bridge; "));
}

#[test]
fn unlike_machines_are_told_so() {
    let before = Fabric::from_toml("name = 'a'\n[[function]]\nname = 'x'\nkind = 'nvme'\n");
    let after = Fabric::from_toml("name = 'b'\n[[function]]\nname = 'y'\nkind = 'nvme'\n");
    let record = record(&before.expect("a machine"), &after.expect("a machine"));
    assert!(record.verdict.contains("no function in common"), "{}", record.verdict);
    assert_eq!(record.matched, 0);
}

#[test]
fn many_names_are_counted() {
    let drives: Vec<String> =
        (1..5).map(|port| below(port, &format!("d{port}"), "nvme", "driver = 'nvme'")).collect();
    let taken: Vec<String> = drives
        .iter()
        .map(|drive| drive.replace("driver = 'nvme'", "driver = 'vfio-pci'"))
        .collect();
    let all = |list: &[String]| machine(&list.iter().map(String::as_str).collect::<Vec<_>>());
    let record = record(&all(&drives), &all(&taken));
    assert_eq!(
        record.changes[0].what,
        "driver of d1 (0000:01:00.0), d2 (0000:02:00.0), d3 (0000:03:00.0) and 1 other: nvme -> vfio-pci"
    );
    assert!(record.verdict.starts_with("1 change: driver of 4 functions"), "{}", record.verdict);
}
