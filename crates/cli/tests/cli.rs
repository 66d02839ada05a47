//! What a person types and reads: help, wrong command lines, and plans of described machines.
//!
//! `TRYCMD=overwrite cargo test -p peerlane-cli --test cli` writes what the program says now.

#[allow(dead_code, clippy::print_stdout, reason = "its main speaks to cargo")]
#[path = "../build.rs"]
mod build;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod schema;

#[test]
fn command_lines_say_what_the_pages_show() {
    trycmd::TestCases::new().env("COLUMNS", "100").env("NO_COLOR", "1").case("tests/cmd/*.trycmd");
}

#[test]
fn reference_pages_are_current() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
    let mode = if std::env::var_os("UPDATE").is_some() { "--write" } else { "--check" };
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["reference", mode, folder])
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
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
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["topo", "--machine", "pair"])
        .stdout(full)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error: cannot write to standard output"), "{said}");
}

#[test]
fn json_is_one_object_and_quiet_keeps_it() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["plan", "a", "b", "--machine", "split", "--route", "p2p", "--json", "-q"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty());
    let plan: peerlane_results::Plan = schema::read(&output.stdout);
    assert_eq!(plan.schema, peerlane_results::PLAN_SCHEMA);
    assert_eq!(plan.route, None);
}

#[test]
fn only_debug_builds_for_linux_with_the_gnu_library_have_a_fixed_address() {
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
