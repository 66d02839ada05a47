//! Habits from other programs: a folder as target, near names, silence, errors as objects.

use std::path::Path;

use peerlane_results::{ERROR_SCHEMA, ErrorRecord};
use peerlane_testing::Scratch;

use crate::program::{Exited, command, peerlane, said, typed};
use crate::schema;

#[test]
fn failures_with_json_are_objects() {
    let folder = Scratch::new();
    folder.write("set.bin", "data");
    for (line, what, hint) in [
        ("copy set.bni x --json", "cannot use the source", Some("did you mean set.bin?")),
        ("topo --machine par --json -q", "cannot find machine par", Some("did you mean pair?")),
        ("topo --machina pair --json", "unexpected argument '--machina' found", None),
        ("copy set.bin gone/ --json", "cannot use the target", Some("mkdir -p gone/")),
    ] {
        let output = typed(folder.path(), line);
        let record: ErrorRecord = schema::read(&output.stdout);
        assert_eq!((record.schema.as_str(), record.what.as_str()), (ERROR_SCHEMA, what));
        assert_eq!(output.status.code(), Some(i32::from(record.status)), "{line}");
        assert!(hint.is_none_or(|hint| record.hint.as_deref() == Some(hint)), "{record:?}");
        assert!(said(&output).starts_with(&format!("error: {what}")), "{}", said(&output));
    }
}

#[test]
fn folder_target_takes_source_name() {
    let folder = Scratch::new();
    folder.write("set.bin", "data");
    folder.folder("backup");
    let output = typed(folder.path(), "copy set.bin backup/ -q").exited(0);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(folder.read("backup/set.bin"), b"data");
    typed(folder.path(), "verify set.bin backup").exited(0);
    typed(folder.path(), "copy set.bin gone/").exited(2).says("there is no directory gone/");
    assert!(!folder.at("gone").exists());
}

#[test]
fn unknown_devices_suggest_known_ones() {
    let folder = Scratch::new();
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/lspci/eight-gpus.txt");
    for (device, hint) in
        [("gpu0", "hint: did you mean gpu:0?"), ("mlx5_0", "hint: its NICs are 0000:")]
    {
        let output =
            peerlane(folder.path(), &["plan", device, "gpu:1", "--machine", machine]).exited(2);
        output.says(hint);
    }
}

#[test]
fn piped_source_is_named_a_pipe() {
    let folder = Scratch::new();
    let mut command = crate::program::command(folder.path());
    let command = command.args(["copy", "/dev/stdin", "x"]).stdin(std::process::Stdio::piped());
    let output = command.output().expect("the program starts");
    output.says("/dev/stdin is a pipe");
    output.says("hint: write its data to a file");
}

#[test]
fn sample_claims_only_its_share() {
    let folder = Scratch::new();
    folder.write("one", vec![1; 16 << 20]);
    folder.write("other", vec![1; 16 << 20]);
    let first = |line: &str| {
        let text = typed(folder.path(), line).text();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let said = first("verify one other --verify sample");
    assert!(said.contains("other: no difference in the sample (0.8 % read), "), "{said}");
    assert!(first("verify one other").contains("other: equal, "));
    let said = first("copy one copied");
    assert!(said.ends_with("no difference in the sample (0.8 % read)"), "{said}");
}

#[test]
fn plain_copy_prints_few_lines() {
    let folder = Scratch::new();
    folder.write("one", vec![1; 1 << 20]);
    let lines = |line: &str| {
        let text = typed(folder.path(), line).exited(0).text();
        assert!(text.starts_with("copied 1 MiB from "), "{text}");
        text.lines().count()
    };
    assert!(lines("copy one brief") <= 4);
    assert!(lines("copy one whole -v") > 8);
}

#[test]
fn help_and_completions_are_commands() {
    let folder = Scratch::new();
    for (line, words) in [
        ("help", "Global options:"),
        ("help copy", "Usage: peerlane copy"),
        ("help lab run", "Usage: peerlane lab run"),
        ("completions bash", "_peerlane()"),
        ("completions zsh", "#compdef peerlane"),
        ("completions fish", "complete -c peerlane"),
    ] {
        let output = typed(folder.path(), line);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(words), "{line}: {text}");
    }
    let help = typed(folder.path(), "help copy");
    assert!(
        !String::from_utf8_lossy(&help.stdout).contains("--color"),
        "global options stand once"
    );
}

#[test]
fn prose_wraps_and_commands_do_not() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let doctor = "doctor --machine fixtures/lspci/eight-gpus.txt";
    let shown = |columns: &str| {
        let mut command = command(root.as_ref());
        command.args(doctor.split(' ')).env("COLUMNS", columns);
        String::from_utf8(command.output().expect("it starts").stdout).expect("text")
    };
    let (narrow, wide) = (shown("60"), shown("9999"));
    let stays_whole = |line: &&str| {
        let line = line.trim_start();
        let is_row = line.matches("  ").count() > 1;
        line.starts_with("sudo ") || line.starts_with("echo ") || line.contains('`') || is_row
    };
    let long: Vec<&str> = narrow.lines().filter(|line| line.chars().count() > 60).collect();
    assert!(long.iter().all(stays_whole), "{long:#?}");
    let commands = wide.lines().filter(|line| line.starts_with("     sudo "));
    assert!(commands.clone().count() > 2 && commands.clone().all(|line| narrow.contains(line)));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&wide), "only line ends differ");
}

#[test]
fn one_device_has_its_path_and_pairs() {
    let root: &Path = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").as_ref();
    let machine = "--machine fixtures/lspci/eight-gpus.txt";
    let text = typed(root, &format!("topo 18:00.0 {machine}")).text();
    assert!(text.starts_with("0000:18:00.0 (GPU) gpu:0, 32 GT/s x16"), "{text}");
    assert!(text.contains("\n  0000:16:00.0 (upstream port)"), "{text}");
    assert!(
        text.contains(
            "\n  1c:00.0, 3e:00.0, 9e:00.0, be:00.0\n    between the devices, through the CPU"
        ),
        "{text}"
    );
    typed(root, &format!("topo gpu:9 {machine}")).exited(2);
    let output = typed(root, &format!("topo gpu:0 {machine} --json"));
    output.says("`peerlane doctor gpu:0 --json`");
}

#[test]
fn examples_of_help_stay_whole() {
    let folder = Scratch::new();
    let mut command = command(folder.path());
    let text =
        command.args(["export", "--help"]).env("COLUMNS", "60").output().expect("it runs").text();
    let example = "  peerlane export /dev/nvme0n1 --listen 10.0.0.1 --allow nqn.2014-08.org";
    assert!(text.contains(example), "{text}");
    assert!(!text.contains('\u{a0}'), "{text}");
}

#[test]
fn ports_are_refused_by_both_commands() {
    let root: &Path = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").as_ref();
    for command in ["plan", "doctor"] {
        let words = "0000:15:01.0 gpu:0 --machine fixtures/lspci/eight-gpus.txt";
        let output = typed(root, &format!("{command} {words}"));
        assert_eq!(output.status.code(), Some(2), "{command}");
        output.says("it is a port or bridge");
    }
}

#[test]
fn nics_that_a_topology_names_take_part() {
    let root: &Path = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").as_ref();
    let text = typed(root, "topo bnxt_re0 --machine fixtures/nccl/mi300.xml").text();
    assert!(text.contains("gpu:0, gpu:1, gpu:2, gpu:3\n    unknown"), "{text}");
    let text = typed(root, "doctor --machine fixtures/nccl/mi300.xml").text();
    assert!(text.contains("network to GPU   unknown"), "{text}");
}

#[test]
fn missing_drive_is_no_file() {
    let folder = Scratch::new();
    folder.write("set.bin", "data");
    typed(folder.path(), "copy set.bin nvme77")
        .exited(2)
        .says("nvme77 is not a device of this machine");
    assert!(!folder.at("nvme77").exists());
    typed(folder.path(), "copy set.bin ./nvme77 -q").exited(0);
    typed(folder.path(), "plan nvme76 nvme77")
        .exited(2)
        .says("nvme76 is not a device of this machine");
}

#[test]
fn predicted_route_without_memory_is_not_possible() {
    let folder = Scratch::new();
    typed(folder.path(), "bench sweep a host --routes p2p --on model --machine pair").exited(77);
}
