//! Help, wrong command lines, and plans of described machines.
//!
//! `TRYCMD=overwrite cargo test -p peerlane-cli --test suite cli::` writes the present output.

use std::os::unix::ffi::OsStrExt as _;

use crate::program::Exited;
use crate::schema;

#[allow(dead_code, clippy::print_stdout, reason = "its main speaks to cargo")]
#[path = "../../build.rs"]
mod build;

#[test]
fn command_output_matches_pages() {
    trycmd::TestCases::new().env("COLUMNS", "100").env("NO_COLOR", "1").case("tests/cmd/*.trycmd");
}

#[test]
fn reference_pages_are_current() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
    let mode = if std::env::var_os("UPDATE").is_some() { "--write" } else { "--check" };
    std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["reference", mode, folder])
        .output()
        .expect("the program starts")
        .exited(0);
}

#[test]
fn closed_reader_is_no_failure() {
    let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("two ends");
    drop(reader);
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["topo", "--machine", "pair"])
        .stdout(std::os::fd::OwnedFd::from(writer))
        .status()
        .expect("the program starts");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn unwritable_output_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["topo", "--machine", "pair"])
        .stdout(full)
        .output()
        .expect("the program starts")
        .exited(2);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error: cannot write to standard output"), "{said}");
}

#[test]
fn quiet_keeps_the_json_object() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["plan", "a", "b", "--machine", "split", "--route", "p2p", "--json", "-q"])
        .output()
        .expect("the program starts")
        .exited(1);
    assert!(output.stderr.is_empty());
    let record: peerlane_results::PlanRecord = schema::read(&output.stdout);
    let answer = record.only().expect("a target");
    assert_eq!(answer.plan.as_ref().expect("a plan").route, None);
    assert!(answer.pair.is_some());
}

/// Standard error for a refused command line.
fn refused(words: &[&[u8]]) -> String {
    let words = words.iter().map(|word| std::ffi::OsStr::from_bytes(word));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"));
    let output =
        command.args(words).env("NO_COLOR", "1").output().expect("the program starts").exited(2);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn names_are_escaped_in_errors() {
    const NAME: &[u8] = b"a\nhint: rm \x1b[2J";
    const SHOWN: &str = "a\\nhint: rm \\u{1b}[2J";
    for words in [
        &[&b"copy"[..], NAME, b"b"][..],
        &[b"topo", b"--machine", NAME],
        &[b"capture", b"-o", b"x", b"--machine", NAME],
        &[b"report", NAME],
        &[b"bench", b"compare", NAME, b"b"],
        &[b"scan", NAME, b"b"],
        &[b"sim", b"pair", NAME],
        // What the argument parser refuses.
        &[NAME],
        &[b"topo", NAME],
        &[b"copy", b"a", b"b", b"--block", NAME],
        &[b"copy", b"a", b"b", b"--route", NAME],
        &[b"topo", b"\xff\x1b[2J", NAME],
    ] {
        let said = refused(words);
        let is_shown = said.contains(SHOWN) || said.contains("\u{fffd}\\u{1b}[2J");
        assert!(is_shown && !said.contains(['\x1b', '\t']), "{words:?}: {said:?}");
        assert!(!said.contains("\nhint: rm") && !said.contains("\n  hint: rm"), "{said}");
    }
}

#[test]
fn invalid_utf8_is_refused_by_name() {
    for words in [&[&b"copy"[..], b"a", b"b\xff"][..], &[b"scan", b"picture\xfe", b"b\xff"]] {
        assert_eq!(
            refused(words),
            "error: the argument \"b\\xFF\" is not UTF-8 text\n\n\
             hint: name a file by a link to it: `ln -s $'\\x62\\xff' NAME`\n"
        );
    }
    // A name of a file need not be text.
    assert!(refused(&[b"report", b"b\xff"]).contains("does not exist"));
}

#[test]
fn only_gnu_debug_builds_are_fixed() {
    let gnu = ("linux", "gnu");
    assert!(build::is_fixed("debug", gnu, "fxsr,sse,sse2"));
    for (profile, target, features) in [
        ("release", gnu, "sse2"),
        ("debug", gnu, "crt-static,sse2"),
        ("debug", ("linux", "musl"), "crt-static"),
        ("debug", ("linux", "musl"), ""),
        ("debug", ("windows", "gnu"), ""),
    ] {
        assert!(!build::is_fixed(profile, target, features), "{profile} {target:?} {features}");
    }
}
