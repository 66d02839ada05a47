//! `tools/tally.sh`, which counts for `./test`, on planted logs.

use std::path::Path;
use std::process::Command;

const OUTPUT: &str = "\
running 3 tests
test a ... ok
test b ... ignored, needs a GPU
test c ... ignored
test result: ok. 10 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 5 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

/// Runs `script` with the functions of `tools/tally.sh` and two files, `$1` and `$2`.
fn bash(script: &str, output: &str, skips: &str) -> String {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let files = [("output", output), ("skips", skips)];
    let [output, skips] = files.map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the log is written");
        path
    });
    let tally = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tally.sh");
    let result = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("source \"$0\"; {script}")])
        .args([&tally, &output, &skips])
        .output()
        .expect("bash runs");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    String::from_utf8(result.stdout).expect("bash writes UTF-8").trim_end().to_owned()
}

#[track_caller]
fn check(output: &str, status: &str, skips: &str, expected: &str) {
    assert_eq!(bash(&format!("tally \"$1\" {status} \"$2\""), output, skips), expected);
}

#[test]
fn adds_up_all_test_programs() {
    check(OUTPUT, "101", "", "15 3 2");
}

#[test]
fn skips_are_subtracted_once() {
    check(OUTPUT, "101", "a: no QEMU\na: no QEMU\nd: no kernel\n", "13 3 4");
}

#[test]
fn uncompiled_step_counts_as_failure() {
    check("error: could not compile\n", "101", "", "0 1 0");
}

#[test]
fn counts_nothing_where_nothing_ran() {
    check("", "0", "", "0 0 0");
}

#[test]
fn reads_the_last_line_of_pytest() {
    let check = |output: &str, status: &str, expected: &str| {
        assert_eq!(
            bash(&format!("tally_pytest \"$1\" {status}"), output, ""),
            expected,
            "{output}"
        );
    };
    check(
        "..s\nSKIPPED [1] x.py:1: in 3.0s no\n160 passed, 2 skipped in 63.10s (0:01:03)\n",
        "0",
        "160 0 2",
    );
    check("== 1 failed, 3 passed, 2 errors in 0.12s ==\n", "1", "3 3 0");
    check("error: the wheel was not built\n", "1", "0 1 0");
    check("no tests ran in 0.01s\n", "5", "0 1 0");
}

#[test]
fn lists_ignored_tests_with_their_reasons() {
    let lines = bash("ignored_tests \"$1\"", OUTPUT, "");
    assert_eq!(lines, "b: needs a GPU\nc: ignored without a reason");
}

#[test]
fn sums_reasons_from_the_most_frequent() {
    let skips = "a: no QEMU: install it\nb: no kernel\nm::c: no kernel\n";
    let table = bash("reasons <\"$2\"", "", skips);
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    assert_eq!(lines, ["2  no kernel", "1  no QEMU: install it"]);
}
