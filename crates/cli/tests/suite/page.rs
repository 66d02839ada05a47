//! The page for browsers: its answers are the records that the program prints.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files of a folder of the repository with one ending, by their path in it.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| format!("{folder}/{}", name.to_string_lossy()));
    let mut files: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    files.sort();
    files
}

/// Every machine of the fixtures.
fn machines() -> Vec<String> {
    let captures = files("fixtures/sysfs", "").into_iter().map(|at| format!("{at}/tree.tar.zst"));
    let captures = captures.filter(|path| repository().join(path).is_file());
    [
        files("fixtures/lspci", ".txt"),
        files("fixtures/nccl", ".xml"),
        files("fixtures/questions", ".toml"),
        files("machines", ".toml"),
        captures.collect(),
    ]
    .concat()
}

/// Bytes in base64 (RFC 4648 section 4), as the page sends files.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0_usize, |bits, &byte| (bits << 8) | usize::from(byte))
            << (8 * (3 - part.len()));
        for letter in 0..=part.len() {
            text.push(char::from(LETTERS[(bits >> (18 - 6 * letter)) & 63]));
        }
        text.extend(std::iter::repeat_n('=', 3 - part.len()));
    }
    text
}

/// A machine as the page gives it: a file by its name, with the name that the program has for it.
fn given(path: &str) -> Value {
    let bytes = std::fs::read(repository().join(path)).expect("a file");
    json!({ "name": path, "bytes": base64(&bytes) })
}

#[track_caller]
fn asked(request: &Value) -> Value {
    let answer = peerlane_web::answer(&request.to_string());
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert!(answer["error"].is_null(), "{answer}");
    answer["ok"].clone()
}

#[track_caller]
fn printed(words: &[&str]) -> Value {
    let output = program::peerlane(&repository(), &[words, &["--json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn examinations_equal_printed_records() {
    let machines = machines();
    assert!(machines.len() >= 40, "{} machines", machines.len());
    for path in machines {
        let answer = asked(&json!({ "ask": "examine", "machine": given(&path) }));
        assert_eq!(answer["doctor"], printed(&["doctor", "--machine", &path]), "{path}");
        let svg = answer["svg"].as_str().expect("a drawing");
        assert!(svg.contains("<svg") && !svg.contains("<style"), "{path}");
    }
}

#[test]
fn pairs_equal_printed_answers() {
    let path = "fixtures/lspci/eight-gpus.txt";
    for (one, other) in [("gpu:0", "gpu:1"), ("0000:1c:00.0", "gpu:0"), ("0000:1a:00.0", "gpu:3")] {
        let request = json!({ "ask": "pair", "machine": given(path), "ends": [one, other] });
        let mut answer = asked(&request)["plan"].clone();
        let target = answer["jobs"][0]["targets"][0].as_object_mut().expect("a target");
        let explanation = target.remove("explanation");
        assert!(explanation.is_some_and(|steps| steps.as_array().is_some_and(|s| !s.is_empty())));
        assert_eq!(answer, printed(&["plan", one, other, "--machine", path]), "{one} {other}");
    }
}

#[test]
fn changes_equal_printed_ones() {
    let [before, after] =
        ["switch-redirecting", "switch-direct"].map(|name| format!("fixtures/lspci/{name}.txt"));
    let request = json!({ "ask": "diff", "machine": given(&before), "other": given(&after) });
    assert_eq!(asked(&request), printed(&["topo", "diff", &before, &after]));
}

#[test]
fn scrubbed_texts_keep_their_answers() {
    let described =
        [("fixtures/nccl", ".xml"), ("fixtures/questions", ".toml"), ("machines", ".toml")];
    let described = described.into_iter().flat_map(|(folder, end)| files(folder, end));
    for path in files("fixtures/lspci", ".txt").into_iter().chain(described) {
        let scrubbed = asked(&json!({ "ask": "scrub", "machine": given(&path) }));
        let text = scrubbed["text"].as_str().expect("a text");
        let original = std::fs::read_to_string(repository().join(&path)).expect("a text");
        assert_eq!(text.lines().count(), original.lines().count(), "{path}");
        let of = |text: &str| asked(&json!({ "ask": "examine", "machine": { "text": text } }));
        assert_eq!(of(text)["doctor"], of(&original)["doctor"], "{path}");
    }
}

#[test]
fn steps_taken_as_done_leave_the_plan() {
    let machine = given("fixtures/lspci/eight-gpus.txt");
    let before = asked(&json!({ "ask": "examine", "machine": machine }));
    assert_eq!(before["doctor"]["steps"].as_array().map(Vec::len), Some(1));
    let assume = json!({ "steps": [1], "settings": "iommu=pt" });
    let after = asked(&json!({ "ask": "examine", "machine": machine, "assume": assume }));
    assert_eq!(after["doctor"]["steps"].as_array().map(Vec::len), Some(0));
    assert_eq!(after["doctor"]["assumed"].as_array().map(Vec::len), Some(2));
}

#[test]
fn files_of_the_plan_install_it() {
    let machine = given("fixtures/lspci/eight-gpus.txt");
    let files = asked(&json!({ "ask": "fix", "machine": machine }));
    let files = files.as_array().expect("files");
    let names: Vec<&str> = files.iter().filter_map(|file| file["path"].as_str()).collect();
    assert!(names.contains(&"plan.txt") && names.contains(&"install.sh"), "{names:?}");
    let nccl = asked(&json!({ "ask": "nccl", "machine": machine }));
    assert!(nccl["text"].as_str().is_some_and(|text| text.contains("<system")));
}

#[test]
fn last_machine_answers_further_questions() {
    let mut session = peerlane_web::Session::default();
    let first = json!({ "ask": "examine", "machine": given("fixtures/lspci/eight-gpus.txt") });
    session.answer(&first.to_string());
    let second = session.answer(r#"{"ask":"pair","ends":["gpu:0","gpu:1"]}"#);
    assert!(second.starts_with(r#"{"ok":"#), "{second}");
    let bare = peerlane_web::answer(r#"{"ask":"svg"}"#);
    assert!(bare.contains("no machine was given"), "{bare}");
}

#[test]
fn wrong_requests_are_refused_in_words() {
    for (request, expected) in [
        ("", "EOF"),
        (r#"{"ask":"dance","machine":{"text":""}}"#, "dance"),
        (r#"{"ask":"examine","machine":{"text":"Dear list"}}"#, "neither a machine file"),
        (r#"{"ask":"examine","machine":{"name":"a","bytes":"?"}}"#, "not base64"),
    ] {
        let answer = peerlane_web::answer(request);
        assert!(answer.starts_with(r#"{"error":"#) && answer.contains(expected), "{answer}");
    }
}

#[test]
fn page_without_a_build_is_refused() {
    if option_env!("PEERLANE_PAGE").is_some() {
        return peerlane_testing::skip("page", "this build has a page");
    }
    let words = ["doctor", "--machine", "pair", "--html", "target/never.html"];
    let output = program::peerlane(&repository(), &words);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot write a page: this build has none"), "{told}");
}
