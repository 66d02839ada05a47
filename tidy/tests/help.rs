//! `./test --help` and `./demo --help` answer at once, and neither builds nor installs anything for it.

use std::path::Path;
use std::process::Command;

#[test]
fn scripts_print_help_without_running() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let repository = repository.canonicalize().expect("the repository");
    for (script, words) in [
        ("test", ["steps: scripts format typos lint unit page docs", "./test release"]),
        ("demo", ["Boots a virtual machine", "--keep <DIR>"]),
    ] {
        for option in ["--help", "-h"] {
            let output =
                Command::new(repository.join(script)).arg(option).output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{script} {option}: {output:?}");
            assert!(output.stderr.is_empty(), "{script} {option}: {output:?}");
            assert!(words.iter().all(|word| said.contains(word)), "{script} {option}: {said}");
        }
    }
}

#[test]
fn unknown_step_is_named_plainly() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test");
    let output = Command::new(script).arg("--nothing").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: there is no step --nothing\nhint: "), "{said}");
}
