//! Machines in words and as drawings, examined and planned on: fixtures with the expected output,
//! and very large machines.
//!
//! `UPDATE=1 cargo test -p peerlane-cli --test suite topo` writes the present output.

use crate::program;
use crate::program::{Exited, repository};
use crate::schema;
use peerlane_testing::{Scratch, check_file};
use std::path::Path;
use std::process::Output;

use peerlane::topology::Topology;
use peerlane_fabric::{Fabric, Function, capture};
use peerlane_results::MapType;

fn peerlane(words: &[&str]) -> Output {
    program::peerlane(&repository(), words)
}

/// Standard output of a run that succeeds.
fn said(words: &[&str]) -> String {
    let output = peerlane(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn fixtures_match_their_texts() {
    let mut seen = 0;
    for entry in std::fs::read_dir(repository().join("fixtures/sysfs")).expect("fixtures") {
        let folder = entry.expect("an entry").path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        let archive = format!("fixtures/sysfs/{name}/tree.tar.zst");
        let svg = said(&["topo", "--machine", &archive, "--format", "svg"]);
        well_formed(&svg);
        seen += 1;
        check_file(folder.join("topo.txt"), &said(&["topo", "--machine", &archive]));
        check_file(folder.join("doctor.txt"), &answered(&["doctor", "--machine", &archive]));
        let [source, target] = &drives(&archive)[..] else { continue };
        let plan = answered(&["plan", source, target, "--explain", "--machine", &archive]);
        check_file(folder.join("plan.txt"), &plan);
    }
    assert!(seen >= 16, "{seen} fixtures");
}

/// Standard output of a run that has an answer, even a negative one.
fn answered(words: &[&str]) -> String {
    let output = peerlane(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The first and the last drive with a namespace of a machine; fewer where it has fewer.
fn drives(archive: &str) -> Vec<String> {
    let machine = Fabric::discover(&repository().join(archive)).expect("a machine");
    let has_namespace =
        |one: &&Function| one.nvme.as_ref().is_some_and(|nvme| !nvme.namespaces.is_empty());
    let drives = machine.functions.iter().filter(has_namespace);
    let names: Vec<String> = drives.map(|one| one.name.clone()).collect();
    match (names.first(), names.last()) {
        (Some(first), Some(last)) if first != last => vec![first.clone(), last.clone()],
        _ => Vec::new(),
    }
}

/// Checks conditions of a browser, as far as possible without one: every element is closed in
/// order, and nothing is fetched or run.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').expect("a tag that ends");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = after;
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for banned in ["<script", "onload", "url(", "@import", "<image", "href=\"http"] {
        assert!(!svg.contains(banned), "{banned}");
    }
    let addresses: Vec<&str> = svg.matches("http").collect();
    assert_eq!(addresses.len(), 1, "the name space and nothing else");
}

/// A machine of `domains` host bridges with seven switches of 31 drives each, 449 functions a domain.
fn large(domains: usize) -> Fabric {
    let mut tree = "name = 'large'\ncpu = { vendor = 'GenuineIntel', family = 6 }\n".to_owned();
    for domain in 0..domains {
        tree += &format!("pci{domain:04x}:00 host-bridge\n h{domain} other 8086:29c0\n");
        for switch in 0..7 {
            let at = format!("{domain}-{switch}");
            tree += &format!(" r{at} root-port link_below = '16GT/s x16'\n");
            tree += &format!("  u{at} upstream-port link = '16GT/s x16'\n");
            for slot in 0..31 {
                let memory = if slot == 0 { "cmb = '64M'; " } else { "" };
                let controller = domain * 217 + switch * 31 + slot;
                tree += &format!("   d{at}-{slot} downstream-port link_below = '16GT/s x4'\n");
                tree += &format!(
                    "    n{at}-{slot} nvme {memory}size = '1G'; link = '16GT/s x4'; \
                     controller = 'nvme{controller}'\n"
                );
            }
        }
    }
    peerlane_testing::machine(&tree)
}

#[test]
fn large_machine_is_drawn() {
    // Ten thousand functions in the long form.
    let trees = if std::env::var_os("PEERLANE_FULL").is_some() { 23 } else { 5 };
    let folder = Scratch::new();
    let machine = large(trees);
    assert_eq!(machine.functions.len(), 449 * trees);
    let content = peerlane_testing::sysfs_tree(&machine).expect("a tree");
    let archive = folder.at("large.tar.zst");
    std::fs::write(&archive, capture::pack(&content).expect("an archive")).expect("a file");
    let root = archive.to_str().expect("a path");
    let text = said(&["topo", "--machine", root]);
    assert_eq!(text.matches("(NVMe)").count(), trees * 217);
    // A drive reaches the memory below its own switch, and no Intel bridge that is not listed.
    let row = format!("cmb:nvme0: 31 by bus address, {} refused", trees * 217 - 31);
    assert!(
        text.contains(&row),
        "{}",
        text.lines()
            .skip_while(|line| !line.starts_with("Who"))
            .take(5)
            .collect::<Vec<_>>()
            .join("\n")
    );
    let svg = said(&["topo", "--machine", root, "--format", "svg"]);
    well_formed(&svg);
    assert_eq!(svg.matches("rotate(-55)").count(), trees * 7, "a column for every memory");
    assert!(svg.len() < trees * (4 << 20) / 23, "{} bytes", svg.len());
    let gauges = said(&["topo", "--machine", root, "--format", "openmetrics"]);
    assert!(
        gauges.contains(&format!("peerlane_pairs{{verdict=\"bus-address\"}} {}\n", trees * 7 * 30)),
        "30 others below each switch"
    );
    assert!(!gauges.contains("peerlane_pair_permitted{"), "too many to list");
    assert!(gauges.lines().count() < 6 * machine.functions.len(), "{}", gauges.lines().count());
    if let Some(keep) = std::env::var_os("PEERLANE_KEEP_LARGE") {
        let keep = Path::new(&keep);
        capture::write_folder(&content, &keep.join("tree")).expect("a folder");
        std::fs::copy(&archive, keep.join("large.tar.zst")).expect("a copy");
        std::fs::write(keep.join("large.toml"), machine.to_toml()).expect("a file");
        std::fs::write(keep.join("large.svg"), svg).expect("a file");
    }
}

#[test]
fn texts_for_other_programs_replace_whole_files() {
    let folder = Scratch::new();
    let archive = "fixtures/sysfs/lab-acs/tree.tar.zst";
    for (format, foreign) in
        [("openmetrics", "# HELP node_load1 1m load average.\n"), ("nfd", "rdma=true\n")]
    {
        let file = folder.at(format);
        let words = |machine| {
            let file = file.to_str().expect("a path").to_owned();
            ["topo", "--machine", machine, "--format", format, "-o"]
                .map(str::to_owned)
                .into_iter()
                .chain([file])
        };
        let run = |machine| {
            let words: Vec<_> = words(machine).collect();
            peerlane(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let shown = said(&["topo", "--machine", archive, "--format", format]);
        let written = || std::fs::read_to_string(&file).expect("a text");
        for _ in 0..2 {
            let output = run(archive);
            assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
            assert_eq!(written(), shown);
        }
        assert!(!run("/nowhere").status.success(), "there is no such machine");
        assert_eq!(written(), shown, "the old file stays");
        std::fs::write(&file, foreign).expect("room");
        let refused = run(archive);
        assert!(!refused.status.success() && written() == foreign, "{refused:?}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let drawing = folder.at("drawing");
    let words = ["topo", "--machine", archive, "--format", "svg", "-o"];
    let refused = peerlane(&[&words[..], &[drawing.to_str().expect("a path")]].concat());
    assert!(!refused.status.success() && !drawing.exists(), "{refused:?}");
    let words = ["topo", "--machine", archive, "--format", "openmetrics", "--json"];
    assert_eq!(said(&words), said(&["topo", "--machine", archive, "--json"]));
}

#[test]
fn node_labels_are_those_of_the_examination() {
    let labels = |name: &str| {
        let archive = format!("fixtures/sysfs/{name}/tree.tar.zst");
        let text = said(&["topo", "--machine", &archive, "--format", "nfd"]);
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        labels("lab-ten"),
        ["peerlane.direct-drive-drive=45", "peerlane.expected-drive-drive=0"]
    );
    let redirected = labels("lab-acs");
    assert_eq!(redirected[0], "peerlane.direct-drive-drive=0");
    assert_eq!(redirected.last().map(String::as_str), Some("peerlane.because=acs-redirect"));
    let eight = labels("eight-gpus");
    assert!(eight.contains(&"peerlane.direct-storage-gpu=0".to_owned()), "{eight:?}");
    assert!(
        !eight.iter().any(|label| label.contains("gpu-nic")),
        "unknown has no label: {eight:?}"
    );
    assert!(labels("laptop").is_empty());
}

#[test]
fn documented_drawing_is_current() {
    let archive = "fixtures/sysfs/r7515/tree.tar.zst";
    let svg = said(&["topo", "--machine", archive, "--format", "svg"]);
    well_formed(&svg);
    check_file(repository().join("docs/examples/topo-r7515.svg"), &svg);
}

#[test]
fn object_has_machine_keys_and_reach() {
    let text = said(&["topo", "--machine", "fixtures/sysfs/lab-acs/tree.tar.zst", "--json"]);
    let object: serde_json::Value = schema::read(text.as_bytes());
    assert_eq!(object["schema"], "peerlane.topo/1");
    assert_eq!(object["function"].as_array().map(Vec::len), Some(13));
    let topology: Topology = serde_json::from_value(object).expect("a topology");
    let (memories, initiators): (Vec<_>, Vec<_>) =
        topology.groups.iter().map(|group| (&group.memories, &group.initiators)).unzip();
    let memory = memories.into_iter().flatten().next().expect("a memory");
    let others: Vec<_> = initiators.into_iter().flatten().filter(|name| *name != memory).collect();
    assert_eq!(others.len(), 2);
    for initiator in others {
        let found = topology.pair(memory, initiator).expect("an answer");
        assert_eq!((found.verdict, found.distance), (MapType::NotSupported, None));
        assert!(found.redirecting.len() > 1, "{found:?}");
    }
}

#[test]
fn page_command_finds_pair() {
    let no_program = std::process::Command::new("jq").arg("--version").output().is_err();
    if no_program {
        return peerlane_testing::skip("jq", "there is no jq");
    }
    let page = std::fs::read_to_string(repository().join("docs/pairs.md")).expect("a page");
    let (_, section) = page.split_once("## JSON").expect("a section");
    let command = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let command = command.expect("a command");
    let printed = |command: &str| {
        let output = page_command(&repository(), command);
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
    };
    assert_eq!(printed(command), ("bus-address\n".to_owned(), true));
    let split = command.replace("--machine pair", "--machine split");
    assert_eq!(printed(&split), ("refused\n".to_owned(), true));
    assert_eq!(printed(&split.replace("initiator a", "initiator c")).0, "bus-address\n", "its own");
}

#[test]
fn capture_shows_like_its_machine() {
    let folder = Scratch::new();
    let archive = folder.at("this.tar.zst");
    let path = archive.to_str().expect("a path");
    let written = said(&["capture", "-o", path]);
    assert!(written.contains("functions") && written.contains("1 host name"), "{written}");
    let again = peerlane(&["capture", "-o", path]);
    assert_eq!(again.status.code(), Some(2), "a file that is there is not written over");
    let tree = folder.at("tree");
    said(&["capture", "--machine", path, "-o", tree.to_str().expect("a path")]);
    let shown = |root: &str| {
        let text = said(&["topo", "--machine", root]);
        text.split_once("): ").expect("a heading").1.to_owned()
    };
    assert_eq!(shown(path), shown(tree.to_str().expect("a path")));
}

#[test]
fn capture_with_report_holds_the_answers() {
    let folder = Scratch::new();
    let (plain, whole) = (folder.at("plain"), folder.at("whole"));
    let archive = "fixtures/sysfs/eight-gpus/tree.tar.zst";
    let capture = |to: &Path, more: &[&str]| {
        let words = ["capture", "--machine", archive, "-o", to.to_str().expect("a path")];
        peerlane(&[&words, more].concat())
    };
    assert!(capture(&plain, &[]).status.success());
    let output = capture(&whole, &["--with-report"]);
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8_lossy(&output.stderr).into_owned();
    let read = |name: &str| std::fs::read_to_string(whole.join("peerlane").join(name));
    for name in ["doctor.txt", "versions.txt"] {
        assert!(listed.contains(&format!("peerlane/{name}: ")), "{listed}");
    }
    assert!(read("doctor.txt").expect("an answer").contains("iommu"));
    assert!(read("versions.txt").expect("an answer").contains("kernel: "));
    assert!(
        read("kernel.txt").is_err(),
        "the log is that of this machine, not of the captured one"
    );
    assert!(!plain.join("peerlane").exists());
    let shown = |root: &Path| {
        let text = said(&["topo", "--machine", root.to_str().expect("a path")]);
        text.split_once("): ").expect("a heading").1.to_owned()
    };
    assert_eq!(shown(&plain), shown(&whole), "answers are no part of the machine");
    let again = folder.at("this");
    let output = peerlane(&["capture", "-o", again.to_str().expect("a path"), "--with-report"]);
    assert!(output.status.success(), "{output:?}");
    assert!(again.join("peerlane/kernel.txt").exists());
}

#[test]
fn machine_text_is_read_from_stdin() {
    let text = std::fs::read(repository().join("fixtures/nccl/h100.xml")).expect("a fixture");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["topo", "--machine", "-", "--json"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, &text).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let of_file = said(&["topo", "--machine", "fixtures/nccl/h100.xml", "--json"]);
    // A text has the name of its file.
    assert_eq!(
        String::from_utf8(output.stdout).expect("text"),
        of_file.replace("h100.xml", "input")
    );
}

#[test]
fn topologies_of_nccl_are_drawn() {
    for name in ["h100", "mi300", "workstation"] {
        let file = format!("fixtures/nccl/{name}.xml");
        let svg = said(&["topo", "--machine", &file, "--format", "svg"]);
        well_formed(&svg);
        let text = std::fs::read_to_string(repository().join(&file)).expect("a fixture");
        let pci = text.split("busid=\"").skip(1).map(|rest| &rest[..12]);
        for address in pci {
            assert!(svg.contains(address), "{name}: {address}");
        }
    }
}

/// The commands of a section of a page that call the program, in order.
fn commands(page: &str, section: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(page)).expect("a page");
    let section = text.split_once(section).unwrap_or_else(|| panic!("{section}")).1;
    let block = section.split("```").nth(1).expect("commands");
    block.lines().filter(|line| line.starts_with("peerlane ")).map(str::to_owned).collect()
}

#[test]
fn page_commands_write_nccl_topologies() {
    let folder = folder_of_the_page();
    let commands = commands("docs/captures.md", "## Topology files for NCCL");
    assert_eq!(commands.len(), 4, "{commands:?}");
    // The first is about this machine, which may have nothing to list.
    for command in &commands[1..] {
        let output = page_command(folder.path(), command);
        assert!(output.status.success(), "{command}: {}", program::said(&output));
    }
    let topology = folder.text("topo.xml");
    assert_eq!(topology.matches("<gpu").count(), 8);
    well_formed(&folder.text("topo.svg"));
}

/// Copies of fixtures by the names that pages give them.
fn folder_of_the_page() -> Scratch {
    let folder = Scratch::new();
    for (fixture, name) in [
        ("sysfs/lab-pair/tree.tar.zst", "before.tar.zst"),
        ("sysfs/lab-translating/tree.tar.zst", "after.tar.zst"),
        ("sysfs/eight-gpus/tree.tar.zst", "machine.tar.zst"),
        ("lspci/switch-direct.txt", "lspci.txt"),
    ] {
        let from = repository().join("fixtures").join(fixture);
        std::fs::copy(from, folder.at(name)).expect("room");
    }
    folder
}

/// Runs a command of a page.
fn page_command(folder: &Path, command: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_peerlane");
    let script = format!("peerlane() {{ '{program}' \"$@\"; }}; {command}");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", &script]).current_dir(folder).output().expect("a shell")
}

#[test]
fn commands_of_the_page_compare_machines() {
    let folder = folder_of_the_page();
    let commands = commands("docs/captures.md", "## What changed between two machines");
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in &commands {
        let output = page_command(folder.path(), command);
        assert_eq!(output.status.code(), Some(1), "{command}: {}", program::said(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" changes: "), "{command}: {text}");
    }
}

#[test]
fn differences_decide_the_exit_status() {
    let status = |words: &[&str]| peerlane(words).status.code();
    assert_eq!(status(&["topo", "diff", "pair", "pair"]), Some(0));
    assert_eq!(status(&["topo", "diff", "pair", "acs"]), Some(1));
    assert_eq!(status(&["topo", "diff", "pair", "no-such-machine"]), Some(2));
    assert_eq!(status(&["topo", "diff", "pair"]), Some(2));
    assert_eq!(status(&["topo", "--machine", "pair", "diff", "pair", "acs"]), Some(2));
    assert_eq!(said(&["topo", "diff", "pair", "pair", "-q"]), "");
}

#[test]
fn differences_are_told_worst_first() {
    let text = peerlane(&["topo", "diff", "pair", "acs"]).text();
    let first = text.lines().next().expect("a line");
    assert!(
        first.starts_with("2 changes: 2 pairs direct -> refused; ACS redirection on"),
        "{text}"
    );
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    assert!(at("worse:") < at("  2 pairs: direct") && at("  2 pairs: direct") < at("  ACS redir"));
    let redirects = "    ACS redirects peer traffic up to the CPU at down-";
    assert!(at(redirects) < at("could not be compared:"));
    let json = peerlane(&["topo", "diff", "acs", "pair", "--json"]);
    let record: peerlane_results::TopoDiffRecord = schema::read(&json.stdout);
    assert_eq!(record.schema, peerlane_results::TOPO_DIFF_SCHEMA);
    assert_eq!(record.changes[0].effect, peerlane_results::ChangeEffect::Better);
    let pairs = record.changes[0].pairs.as_ref().expect("pairs");
    assert_eq!((pairs.count, pairs.before), (2, peerlane_results::MapType::NotSupported));
}

#[test]
fn facts_of_one_side_take_one_line() {
    let text = |name: &str| repository().join("fixtures/lspci").join(name).display().to_string();
    let (root, user) = (text("switch-redirecting.txt"), text("switch-unprivileged.txt"));
    let text = peerlane(&["topo", "diff", &root, &user]).exited(1).text();
    assert!(text.starts_with("no change in what both show; cannot tell of "), "{text}");
    let (_, told) = text.split_once("cannot tell:\n").expect("a section");
    let lines: Vec<&str> = told.lines().take_while(|line| !line.is_empty()).collect();
    let [line] = lines[..] else { panic!("{text}") };
    assert!(line.starts_with("  unknown after: "), "{text}");
    assert!(line.contains("ACS redirection of ") && line.contains(" functions"), "{text}");
    assert_eq!(peerlane(&["topo", "diff", &user, &user]).status.code(), Some(0));
}

#[test]
fn addressless_machines_make_no_nccl_topology() {
    let output = peerlane(&["topo", "--machine", "pair", "--format", "nccl"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let said = program::said(&output);
    assert!(said.contains("cannot write a topology for NCCL") && said.contains("hint:"), "{said}");
}

#[test]
fn existing_paths_come_before_names() {
    let folder = Scratch::new();
    folder.write("pair", "name = \"mine\"\n");
    folder.folder("split");
    let shown = |name: &str| program::peerlane(folder.path(), &["topo", "--machine", name]);
    assert!(String::from_utf8_lossy(&shown("pair").stdout).starts_with("mine"));
    let refused = shown("split").exited(2);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("the folder has no sys/devices") && said.contains("lspci"), "{said}");
    assert!(String::from_utf8_lossy(&shown("ten").stdout).starts_with("ten"));
}
