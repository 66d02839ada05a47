use super::*;

/// Two drives and a GPU below root ports, and further functions.
fn machine(functions: &[&str]) -> Fabric {
    peerlane_testing::machine(&format!(
        "0000:00:01.0 root-port @ 8086:3c01\n0000:00:02.0 root-port @ 8086:3c02\n\
         0000:00:03.0 root-port @ 8086:3c03\n0000:00:04.0 root-port @ 8086:3c04\n{}",
        functions.join("\n")
    ))
}

fn below(port: u8, name: &str, kind: &str, more: &str) -> String {
    format!("{name} {kind} @0000:0{port}:00.0 under = '0000:00:0{port}.0'; {more}")
}

fn sentences(before: &[&str], after: &[&str]) -> (String, Vec<String>) {
    let record = record(&machine(before), &machine(after));
    (record.verdict, record.changes.into_iter().map(|change| change.what).collect())
}

const H100: &str = "vendor = '0x10de'; device = '0x2330'";

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
    let switch = below(1, "up", "upstream-port", "vendor = '0x1000'; device = '0xc030'");
    let port = "down downstream-port @0000:05:00.0 under = 'up'";
    let nic = "net nic @0000:06:00.0 under = 'down'";
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
    let redirecting = format!("{H100}; acs = 'redirect'");
    let switch = below(1, "up", "upstream-port", "");
    let gpu = |more: &str| format!("gpu gpu @0000:05:00.0 under = 'up'; {more}");
    let nic = "net nic @0000:05:01.0 under = 'up'";
    let (verdict, changes) =
        sentences(&[&switch, &gpu(H100), nic], &[&switch, &gpu(&redirecting), nic]);
    let direct = "1 pair: direct, below the host bridge -> permitted, through the host bridge";
    let redirection = "ACS redirection at gpu:0 (0000:05:00.0): off -> on";
    assert_eq!(changes, [&format!("{direct}, net -> gpu:0"), redirection]);
    assert!(verdict.starts_with("2 changes: 1 pair direct -> through the host bridge; "));
}

#[test]
fn unlike_machines_are_told_so() {
    let before = peerlane_testing::machine("name = 'a'\nx nvme");
    let record = record(&before, &peerlane_testing::machine("name = 'b'\ny nvme"));
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

/// The text of a workstation, as root or not.
fn lspci(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/lspci");
    std::fs::read_to_string(folder.join(name)).expect("a text")
}

/// A text with something else for the last function, a sound card.
fn with_last(text: &str, last: &str) -> String {
    let (rest, _) = text.rsplit_once("0000:0a:00.0 Audio").expect("the function");
    format!("{rest}{last}")
}

/// The record of two texts.
fn of_texts(before: &str, after: &str) -> TopoDiffRecord {
    let read = |text: &str| peerlane_fabric::lspci::read(text).expect("a machine");
    record(&read(before), &read(after))
}

#[test]
fn functions_missing_from_whole_text_are_gone() {
    let whole = lspci("switch-redirecting.txt");
    let plain = |text: &str| {
        let headings = text.lines().filter(|line| line.starts_with("0000:"));
        headings.map(|line| format!("{line}\n")).collect::<String>()
    };
    for form in [str::to_owned, plain as fn(&str) -> String] {
        let (all, fewer) = (form(&whole), form(&with_last(&whole, "")));
        let found = of_texts(&all, &fewer);
        assert!(found.verdict.starts_with("1 change: "), "{}", found.verdict);
        assert!(found.changes[0].what.starts_with("gone: "), "{}", found.changes[0].what);
        assert!(!found.is_unchanged() && !found.verdict.contains("cannot tell"));
        let back = of_texts(&fewer, &all);
        assert!(back.changes[0].what.starts_with("new: "), "{}", back.changes[0].what);
        assert!(of_texts(&all, &all).is_unchanged());
    }
}

#[test]
fn functions_missing_from_cut_text_are_not_known() {
    let whole = lspci("switch-redirecting.txt");
    let cut = with_last(&whole, "[...]\n");
    let found = of_texts(&whole, &cut);
    assert_eq!((found.changes.len(), found.is_unchanged()), (0, false));
    let told = "no change in what both show; cannot tell whether 1 function is gone";
    assert!(found.verdict.starts_with(told), "{}", found.verdict);
    let missing = found.uncompared.iter().find(|one| one.fact == ChangeKind::Removed);
    let what = &missing.expect("the function").what;
    assert!(what.starts_with("gone or cut off: 0000:0a:00.0"), "{what}");
    let back = of_texts(&cut, &whole);
    assert!(back.verdict.contains("cannot tell whether 1 function is new"), "{}", back.verdict);
}

#[test]
fn equal_cut_texts_are_unchanged() {
    let whole = lspci("switch-redirecting.txt");
    let cut = with_last(&whole, "[...]\n");
    let found = of_texts(&cut, &cut);
    assert!(found.is_unchanged() && found.verdict.starts_with("no change"), "{}", found.verdict);
    // Each lacks another function.
    let (first, rest) = cut.split_at(cut.find("0000:06:00.0").expect("the function"));
    let other = format!("{first}{}", &rest[rest.find("0000:07:00.0").expect("a function")..]);
    let other = format!("{other}{}", &whole[whole.rfind("0000:0a:00.0").expect("one")..]);
    let found = of_texts(&cut, &other);
    let told = "cannot tell whether 1 function is gone; cannot tell whether 1 function is new";
    assert!(found.changes.is_empty() && found.verdict.contains(told), "{}", found.verdict);
}

#[test]
fn facts_shown_to_root_alone_are_not_known() {
    let (root, user) = (lspci("switch-redirecting.txt"), lspci("switch-unprivileged.txt"));
    for (before, after, side) in [(&root, &user, "unknown after"), (&user, &root, "unknown before")]
    {
        let found = of_texts(before, after);
        assert_eq!((found.changes.len(), found.is_unchanged()), (0, false), "{found:#?}");
        assert!(found.verdict.contains("; cannot tell of "), "{}", found.verdict);
        let acs = found.uncompared.iter().find(|one| one.fact == ChangeKind::AcsRedirection);
        let what = &acs.expect("a fact that root sees").what;
        assert!(what.ends_with(side), "{what}");
    }
    assert!(of_texts(&user, &user).is_unchanged());
}
