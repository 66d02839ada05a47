//! What a person types and reads: help, wrong command lines, and plans of described machines.
//!
//! `TRYCMD=overwrite cargo test -p peerlane-cli --test cli` writes what the program says now.

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
