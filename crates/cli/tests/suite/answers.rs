//! One answer from every command: states, exit statuses and first lines of `plan` and `doctor` over
//! all fixtures, and the uses that the fixes of plans open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::program::{Exited, repository};
use peerlane_testing::Scratch;
use serde_json::Value;

use crate::program;

/// Every captured tree and every pasted text.
fn machines() -> Vec<String> {
    let files = |folder: &str, file: &dyn Fn(PathBuf) -> PathBuf| -> Vec<String> {
        let entries = std::fs::read_dir(repository().join(folder)).expect("fixtures").flatten();
        let paths = entries.map(|entry| file(entry.path()));
        let paths = paths.filter(|path| path.is_file() && path.extension() != Some("md".as_ref()));
        paths.map(|path| path.display().to_string()).collect()
    };
    let mut all = files("fixtures/sysfs", &|folder| folder.join("tree.tar.zst"));
    all.extend(files("fixtures/lspci", &|file| file));
    all.sort();
    assert!(all.len() > 15, "{all:?}");
    all
}

/// Exit status and first line of a command, and the object that it prints with `--json`.
fn run(words: &[&str]) -> (i32, String, Value) {
    let plain = program::peerlane(&repository(), words);
    let first =
        String::from_utf8_lossy(&plain.stdout).lines().next().unwrap_or_default().to_owned();
    let with_json: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let output = program::peerlane(&repository(), &with_json);
    assert_eq!(plain.status.code(), output.status.code(), "{words:?}");
    let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&output.stderr))
    });
    (output.status.code().expect("a status"), first, object)
}

fn list<'a>(record: &'a Value, field: &str) -> &'a [Value] {
    record[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// An example pair of each row of uses: state of the row, and the two names.
fn examples(record: &Value) -> Vec<(String, [String; 2])> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let rows = list(record, "uses").iter();
    rows.map(|row| (text(&row["state"]), [0, 1].map(|end| text(&row["example"][end])))).collect()
}

#[test]
fn plan_and_doctor_agree_on_every_pair() {
    let mut states = BTreeSet::new();
    for machine in machines() {
        let (_, _, record) = run(&["doctor", "--machine", &machine]);
        for (state, [one, other]) in examples(&record) {
            let (planned, plan_line, plan) = run(&["plan", &one, &other, "--machine", &machine]);
            let plan = &plan["jobs"][0]["targets"][0];
            let (examined, doctor_line, pair) =
                run(&["doctor", &one, &other, "--machine", &machine]);
            let of = format!("{machine}: {one} -> {other}");
            assert_eq!(plan["state"], pair["state"], "{of}");
            assert_eq!(plan["verdict"], pair["verdict"], "{of}");
            assert_eq!(pair["verdict"], doctor_line.as_str(), "{of}");
            let is_refused = !list(&plan["plan"], "refusals").is_empty();
            assert_eq!(plan_line, doctor_line, "{of}");
            assert_eq!(plan_line.starts_with(&format!("{one} -> {other}: refused: ")), is_refused);
            assert_eq!(plan["state"], state.as_str(), "{of}");
            // A kernel without io_uring copies nothing, whatever else reaches the device.
            let starts = plan["plan"].is_null() || plan["plan"]["route"].is_string();
            let (by_plan, by_doctor) = match state.as_str() {
                _ if is_refused => (1, 1),
                "direct" | "expected" | "via-cpu" => (0, 0),
                "host" if starts => (0, 1),
                "host" | "no" | "unknown" => (1, 1),
                other => panic!("{of}: state {other}"),
            };
            assert_eq!((planned, examined), (by_plan, by_doctor), "{of}: {state}");
            states.insert(state);
        }
    }
    assert!(states.len() >= 4, "{states:?}");
}

#[test]
fn doctor_status_follows_fixes_and_uses() {
    for machine in machines() {
        let (status, line, record) = run(&["doctor", "--machine", &machine]);
        let states: Vec<String> = examples(&record).into_iter().map(|(state, _)| state).collect();
        let has = |state: &str| states.iter().any(|one| one == state);
        let is_open = !list(&record, "steps").is_empty()
            || has("unknown")
            || record["hidden_devices"].is_string();
        assert_eq!(status, i32::from(is_open), "{machine}: {line}");
        let verdict = record["verdict"].as_str().expect("a verdict");
        let first = verdict.split_once(". ").map_or(verdict, |(first, _)| first);
        assert!(line.ends_with(first), "{machine}: {line}");
        let check = program::peerlane(&repository(), &["doctor", "--check", "--machine", &machine]);
        let costs = list(&record, "findings").iter().any(|one| one["pairs"] != 0);
        let expected = if costs || has("via-cpu") || has("host") || has("no") {
            1
        } else if has("unknown") || record["hidden_devices"].is_string() {
            3
        } else {
            0
        };
        assert_eq!(check.status.code(), Some(expected), "{machine}: {line}");
        for one in states.iter().zip(list(&record, "uses")) {
            let expect = format!("--expect={}", one.1["use"].as_str().expect("a use"));
            let check =
                program::peerlane(&repository(), &["doctor", &expect, "--machine", &machine]);
            let status = check.status.code().expect("a status");
            let is_worst = |status: i32| match one.0.as_str() {
                "host" | "no" => status == 2,
                "unknown" => matches!(status, 2 | 3),
                "via-cpu" => status != 0,
                _ => true,
            };
            assert!(is_worst(status), "{machine}: {expect}: {status}");
        }
    }
}

/// Kinds of findings whose fix is a setting that drop-ins install.
fn fixed_by_settings(record: &Value) -> BTreeSet<String> {
    let has_settings = |one: &&Value| !list(&one["fix"], "settings").is_empty();
    let kind = |one: &Value| one["kind"].as_str().expect("a kind").to_owned();
    list(record, "findings").iter().filter(has_settings).map(kind).collect()
}

/// Weight of a state: the better, the less.
fn weight(state: &str) -> u64 {
    ["direct", "expected", "via-cpu", "unknown", "host", "no"]
        .iter()
        .position(|&one| one == state)
        .expect("a state") as u64
}

fn weights(record: &Value) -> u64 {
    let rows = list(record, "uses").iter();
    rows.map(|row| {
        weight(row["state"].as_str().expect("a state")) * row["pairs"].as_u64().expect("pairs")
    })
    .sum()
}

/// Settings that change routes, each as a file of a boot configuration.
const OTHER_SETTINGS: [(&str, &str); 5] = [
    ("cmdline.d/other.conf", "iommu=pt\n"),
    ("cmdline.d/other.conf", "iommu=nopt\n"),
    ("cmdline.d/other.conf", "nvme_core.multipath=N\n"),
    ("cmdline.d/other.conf", "intel_iommu=off amd_iommu=off\n"),
    ("modules-load.d/other.conf", "nvidia_fs\n"),
];

#[test]
fn plans_fix_what_they_claim() {
    let mut plans = 0;
    for machine in machines() {
        let (_, _, before) = run(&["doctor", "--machine", &machine]);
        let claimed = fixed_by_settings(&before);
        if claimed.is_empty() {
            continue;
        }
        plans += 1;
        let folder = Scratch::new();
        let fix = folder.at("fix").display().to_string();
        program::peerlane(&repository(), &["doctor", "--machine", &machine, "--write-fix", &fix]);
        let (_, _, after) = run(&["doctor", "--machine", &machine, "--assume", &fix]);
        let left = fixed_by_settings(&after);
        assert!(left.is_disjoint(&claimed), "{machine}: {left:?} of {claimed:?}");
        for (_, [one, other]) in examples(&before) {
            let (_, _, pair) =
                run(&["doctor", &one, &other, "--machine", &machine, "--assume", &fix]);
            let left = fixed_by_settings(&pair);
            assert!(left.is_empty(), "{machine}: {one} -> {other}: {left:?}");
        }
        for (path, setting) in OTHER_SETTINGS {
            let path = Path::new(&fix).join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, setting).expect("a file");
            let (_, line, other) = run(&["doctor", "--machine", &machine, "--assume", &fix]);
            assert!(
                weights(&after) <= weights(&other),
                "{machine} is better with {setting}: {line}"
            );
            std::fs::remove_file(&path).expect("the file");
        }
    }
    assert!(plans >= 5, "{plans}");
}

#[test]
fn one_device_is_examined_with_every_other() {
    const SERVER: &str = "fixtures/sysfs/eight-gpus/tree.tar.zst";
    let (status, line, record) = run(&["doctor", "mlx5_0", "--machine", SERVER]);
    assert_eq!(status, 1, "{line}");
    assert!(line.starts_with("eight-gpus: mlx5_0: "), "{line}");
    let rows = list(&record, "uses");
    assert!(rows.iter().all(|row| row["use"] == "network-gpu" && row["of"] == 8), "{rows:?}");
    let steps = list(&record, "steps").iter().map(|step| &step["pairs"]);
    assert!(steps.clone().count() > 0 && steps.clone().all(|pairs| pairs.as_u64() <= Some(8)));
    let (status, line, _) =
        run(&["doctor", "nvme0", "--machine", "fixtures/sysfs/laptop/tree.tar.zst"]);
    assert_eq!(
        (status, line.as_str()),
        (0, "laptop: nvme0: no other device here exchanges payload with it")
    );
    const CARDS: &str = "fixtures/sysfs/r7515/tree.tar.zst";
    let (_, _, record) = run(&["doctor", "0000:04:00.1", "--machine", CARDS]);
    let findings = list(&record, "findings");
    assert!(findings.iter().all(|one| one["pairs"].as_u64() > Some(0)), "{findings:?}");
    assert!(findings.iter().all(|one| one["object"] != "0000:cc:00.1"), "{findings:?}");

    program::peerlane(&repository(), &["doctor", "gpu:99", "--machine", SERVER]).exited(2);
}

#[test]
fn matrix_has_the_states_of_doctor() {
    for machine in machines() {
        let (_, _, record) = run(&["doctor", "--machine", &machine]);
        let text =
            program::peerlane(&repository(), &["topo", "--matrix", "--machine", &machine]).text();
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        // Columns end where their names end.
        let end = |name: &str| header.find(&format!(" {name}")).map(|at| at + 1 + name.len());
        for (state, ends) in examples(&record) {
            let [one, other] = ends.map(|end| end.trim_start_matches("0000:").to_owned());
            // The kind precedes a name that does not tell it.
            let is_row = |line: &&str| line.split_whitespace().take(2).any(|word| word == one);
            let row = text.lines().skip(1).find(is_row);
            let (row, end) = (row.expect(&text), end(&other).expect(&text));
            let cell = row[..end.min(row.len())].rsplit(' ').next().expect("a cell");
            let expected = match state.as_str() {
                "expected" => "expect",
                "via-cpu" => "cpu",
                "unknown" => "?",
                other => other,
            };
            assert_eq!(cell, expected, "{machine}: {one} -> {other}\n{text}");
        }
    }
}

#[test]
fn redirected_peers_go_via_cpu_until_fixed() {
    const TEXT: &str = "fixtures/lspci/eight-gpus.txt";
    let words = ["doctor", "0000:1c:00.0", "gpu:0", "--machine", TEXT];
    let (status, line, before) = run(&words);
    assert_eq!((status, &before["state"]), (0, &"via-cpu".into()), "{line}");
    assert!(line.contains("ACS redirects peer traffic up to the CPU at 0000:17:0"), "{line}");
    let folder = Scratch::new();
    let fix = folder.at("fix").display().to_string();
    program::peerlane(&repository(), &["doctor", "--machine", TEXT, "--write-fix", &fix]);
    let (_, line, after) = run(&[&words[..], &["--assume", &fix]].concat());
    assert_eq!(after["state"], "expected", "{line}");
}

/// pcie_switch_ref.h of NVIDIA's open kernel modules 595.45.04 does not list the switch of this machine.
#[test]
fn gpus_below_unlisted_switch_are_unknown() {
    let words = ["doctor", "gpu:0", "gpu:1", "--machine", "fixtures/lspci/eight-gpus.txt"];
    let (status, line, found) = run(&words);
    assert_eq!((status, &found["state"]), (1, &"unknown".into()), "{line}");
    assert!(line.contains("PEX890xx PCIe Gen 5 Switch) is not on the driver's list"), "{line}");
}
