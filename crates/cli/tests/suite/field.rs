//! Machines as people reported them, in their smallest form, with the answers that help.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::program::{said, typed};
use peerlane_testing::Scratch;
use serde_json::Value;

fn machines() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/field"))
}

/// Runs these words on a machine.
fn about(machine: &str, words: &str) -> Output {
    typed(machines(), &format!("{words} --machine {machine}.toml"))
}

#[track_caller]
fn text(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The findings of a whole machine, the worst first: kind, sentence and fix.
fn findings(machine: &str) -> Vec<Value> {
    let found = text(&about(machine, "doctor --json"), 1);
    let record: Value = serde_json::from_str(&found).expect("a record");
    record["findings"].as_array().expect("a list").clone()
}

#[test]
fn held_drive_shows_the_way_back() {
    let found = findings("held-drive");
    assert_eq!((&found[0]["kind"], &found[0]["object"]), (&"drive-not-served".into(), &"b".into()));
    assert!(found[0]["what"].as_str().is_some_and(|what| what.contains("vfio-pci")), "{found:?}");
    let commands = found[0]["fix"]["commands"].to_string();
    for step in ["0000:05:00.0/driver/unbind", "echo nvme", "driver_override", "drivers_probe"] {
        assert!(commands.contains(step), "{commands}");
    }
    let plan = about("held-drive", "plan a b");
    assert_eq!(text(&plan, 1), "");
    let said = said(&plan);
    assert!(said.contains("`b`: vfio-pci has it") && said.contains("drivers_probe"), "{said}");
}

#[test]
fn consumer_gpu_has_no_direct_way() {
    let plan = text(&about("consumer-gpu", "plan drive gpu:0"), 0);
    let refused = "    refused: NVIDIA GA102 [GeForce RTX 3090] is a GeForce, and this path is for";
    assert_eq!(plan.matches(refused).count(), 2, "{plan}");
    assert!(plan.starts_with("drive -> gpu:0: through host memory: "), "{plan}");
    let pair = text(&about("consumer-gpu", "doctor drive gpu:0"), 1);
    assert!(pair.starts_with("drive -> gpu:0: through host memory: "), "{pair}");
    let found = findings("consumer-gpu");
    assert!(found.iter().any(|one| one["kind"] == "gpu-excluded"), "{found:?}");
}

#[test]
fn small_window_of_xrt_comes_first() {
    let found = findings("small-xrt-window");
    assert_eq!(found[0]["kind"], "small-window", "{found:?}");
    let fix = found[0]["fix"].to_string();
    assert!(fix.contains("Above 4G decoding") && fix.contains("without switching it off"), "{fix}");
    let all = text(&about("small-xrt-window", "doctor"), 1);
    assert!(!all.contains("linux-image") && !all.contains("CONFIG_PCI_P2PDMA"), "{all}");
}

#[test]
fn two_ports_share_one_namespace() {
    for ends in ["nvme1 nvme2", "0002:01:00.0 0003:01:00.0"] {
        let plan = text(&about("dual-port", &format!("plan {ends}")), 1);
        let first = plan.lines().next().unwrap_or_default();
        let words = [" -> ", ": refused: ", "are one namespace, nvme1n1"];
        assert!(words.iter().all(|word| first.contains(word)), "{plan}");
    }
}

#[test]
fn gpu_refusal_has_whole_sentences() {
    let plan = text(&about("unlisted-bridge-gpu", "plan drive gpu:0"), 1);
    assert!(plan.contains("(8086:7d1b) is not on the kernel's list"), "{plan}");
    assert!(plan.contains("the kernel refuses the route: put both below one switch"), "{plan}");
    for broken in [": ;", "; ;", "disable_acs_redir"] {
        assert!(!plan.contains(broken), "{broken}: {plan}");
    }
}

/// A drive with one namespace, as a tool writes it that follows no links.
const DRIVE: [(&str, &str); 10] = [
    ("vendor", "0x1b36\n"),
    ("device", "0x0010\n"),
    ("class", "0x010802\n"),
    ("nvme/nvme1/model", "MODEL                                   \n"),
    ("nvme/nvme1/serial", "SERIAL              \n"),
    ("nvme/nvme1/firmware_rev", "1.0     \n"),
    ("nvme/nvme1/state", "live\n"),
    ("nvme/nvme1/nvme1n1/size", "2097152\n"),
    ("nvme/nvme1/nvme1n1/nsid", "1\n"),
    ("nvme/nvme1/nvme1n1/queue/logical_block_size", "512\n"),
];

/// Output of `topo` for that drive, with each text followed by zeros up to `length`.
fn drawn(length: usize) -> String {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    for (name, content) in DRIVE {
        let path = folder.at("tree/sys/devices/pci0000:00/0000:00:05.0").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        let mut bytes = content.as_bytes().to_vec();
        bytes.resize(length.max(bytes.len()), 0);
        fs::write(path, bytes).expect("room");
    }
    text(&typed(folder.path(), "topo --machine tree"), 0)
}

#[test]
fn texts_end_at_the_first_zero() {
    let padded = drawn(4096);
    assert_eq!(padded, drawn(0));
    assert!(padded.contains("nvme1n1 1 GiB") && !padded.contains('\0'), "{padded:?}");
}

#[test]
fn missing_driver_link_is_not_known() {
    let drawn = drawn(0);
    assert!(drawn.contains("driver unknown") && !drawn.contains("no driver"), "{drawn}");
}

#[test]
fn functions_without_classes_are_not_known() {
    for machine in ["tree-only.txt", "unclassified.xml"] {
        let said = text(&typed(machines(), &format!("doctor --machine {machine}")), 1);
        let first = said.lines().next().unwrap_or_default();
        let expected =
            "what is possible here is unknown: the text shows no classes; run `sudo lspci";
        assert!(first.contains(expected), "{said}");
        assert!(!said.contains("no two devices"), "{said}");
    }
}

#[test]
fn lone_drive_answers_no() {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let drive = "name = 'box'\n[[function]]\nname = 'nvme0'\nkind = 'nvme'\ndriver = 'nvme'\n";
    folder.write("box.toml", drive);
    let said = text(&typed(folder.path(), "doctor --machine box.toml"), 0);
    let expected =
        "box: one NVMe drive (nvme0) and no second device: nothing to exchange payload with";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn unregistered_drive_is_refused_by_nvidia_fs() {
    const REFUSAL: &str = "the driver nvme is not registered with nvidia_fs";
    let plan = text(&typed(machines(), "plan 02:00.0 gpu:0 --machine unregistered-nvme.txt"), 0);
    const HEADLINE: &str = "02:00.0 -> gpu:0: through host memory: ";
    assert!(plan.starts_with(HEADLINE) && plan.contains(REFUSAL), "{plan}");
    let pair = text(&typed(machines(), "doctor 02:00.0 gpu:0 --machine unregistered-nvme.txt"), 1);
    assert!(pair.starts_with(HEADLINE) && pair.contains("mlnx-nvme-dkms"), "{pair}");
    assert!(!pair.contains("whether the module"), "{pair}");
}

/// The captured server with eight GPUs, with `nvidia_fs` loaded and addresses passed through.
fn with_nvidia_fs(registered: &str, words: &str) -> Output {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let archive =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sysfs/eight-gpus/tree.tar.zst");
    let machine = typed(folder.path(), &format!("topo --machine {archive} --format toml"));
    let machine = String::from_utf8(machine.stdout).expect("text");
    let key = "nvme_multipath = true\n";
    let module = "[[kernel.modules]]\nname = \"nvme\"\n";
    assert!(machine.contains(key) && machine.contains(module), "{machine}");
    let machine = machine.replace(key, &format!("{key}{registered}"));
    let machine =
        machine.replace(module, &format!("[[kernel.modules]]\nname = \"nvidia_fs\"\n\n{module}"));
    folder.write("server.toml", machine);
    folder.write("cmdline", "iommu=pt\n");
    typed(folder.path(), &format!("{words} --machine server.toml --assume cmdline"))
}

#[test]
fn loaded_nvidia_fs_is_no_direct_way_yet() {
    let words = "doctor nvme0n1 gpu:0";
    let open = text(&with_nvidia_fs("", words), 1);
    let first = open.lines().next().unwrap_or_default();
    assert!(first.starts_with("nvme0n1 -> gpu:0: unknown: "), "{open}");
    assert!(first.contains("`cat /proc/driver/nvidia-fs/modules`"), "{open}");
    let refused = text(&with_nvidia_fs("nvidia_fs_nvme = false\n", words), 1);
    assert!(refused.contains(": through host memory: "), "{refused}");
    assert!(refused.contains("not registered with nvidia_fs: it takes the nvme of"), "{refused}");
    let check = with_nvidia_fs("", &format!("{words} --check"));
    assert!(text(&check, 3).starts_with("PEERLANE UNKNOWN - "), "{check:?}");
}
