//! Any two devices: the answers of `plan A B` for machines that people paste, and the pairs in `topo`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use peerlane::topology::Topology;
use peerlane_results::MapType;
use peerlane_testing::Scratch;
use serde_json::Value;

use crate::program::{Exited, command};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn peerlane(machine: &str, words: &[&str]) -> Output {
    command(Path::new("."))
        .args(words)
        .arg("--machine")
        .arg(fixture(machine))
        .output()
        .expect("the program starts")
}

/// The only target of a plan.
fn target(record: &Value) -> &Value {
    &record["jobs"][0]["targets"][0]
}

/// The direction in which the first of two devices reaches memory of the second, and the exit status.
fn forward(machine: &str, first: &str, second: &str) -> (Value, Option<i32>) {
    let output = peerlane(machine, &["plan", first, second, "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(answer["schema"], "peerlane.plan/1");
    (target(&answer)["pair"]["forward"].clone(), output.status.code())
}

const SERVER: &str = "sysfs/eight-gpus/tree.tar.zst";

#[test]
fn gpus_name_their_redirecting_ports() {
    let (found, status) = forward(SERVER, "gpu:0", "gpu:1");
    assert_eq!((&found["verdict"], status), (&"through-host-bridge".into(), Some(1)));
    assert_eq!(found["ports"], serde_json::json!(["0000:17:00.0", "0000:17:01.0"]));
    assert_eq!((&found["turn"], &found["class"]), (&"root-complex".into(), &"PIX".into()));
    assert_eq!(found["distance"], 4);
    assert_eq!(found["slowest_link"]["speed"], "32GT/s x16");
}

#[test]
fn nics_reach_gpus_and_lend_nothing() {
    let (found, status) = forward(SERVER, "mlx5_0", "gpu:0");
    assert_eq!((&found["initiator"], status), (&"mlx5_0".into(), Some(1)));
    let rules = found["drivers"].as_array().expect("rules");
    assert!(rules.iter().any(|rule| rule["driver"] == "nvidia-peermem"), "{rules:?}");
    let answer: Value = peerlane(SERVER, &["plan", "mlx5_0", "gpu:0", "--json"]).json();
    assert!(target(&answer)["plan"].is_null() && target(&answer)["pair"]["backward"].is_null());
}

#[test]
fn nic_and_drive_name_memory() {
    let output = peerlane(SERVER, &["plan", "mlx5_0", "nvme0n1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let headline = "mlx5_0 -> nvme0n1: through host memory: neither has memory for peers; memory of gpu:0 can lie";
    assert!(text.starts_with(headline), "{text}");
    assert!(text.contains("`peerlane plan mlx5_0 gpu:0`, `peerlane plan nvme0 gpu:0`"), "{text}");
    let answer: Value = peerlane(SERVER, &["plan", "mlx5_0", "nvme0n1", "--json"]).json();
    assert_eq!(target(&answer)["pair"]["between"], "gpu:0");
}

#[test]
fn nic_without_rdma_is_refused() {
    const MACHINE: &str = "eth0 nic driver = 'e1000e'; acs = 'absent'\n\
        nvme0 nvme driver = 'nvme'; acs = 'absent'; \
        p2pmem = { size = '64M', available = '64M', published = true }";
    let folder = Scratch::new();
    let machine = folder.at("m.toml");
    std::fs::write(&machine, peerlane_testing::machine_text(MACHINE)).expect("a machine file");
    let output = peerlane(machine.to_str().expect("a path"), &["plan", "eth0", "nvme0"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with("eth0 -> nvme0: through host memory: NVMe over RDMA (e1000e)"),
        "{text}"
    );
    assert!(text.contains("--transport tcp") && text.contains("through host memory"), "{text}");
}

#[test]
fn devices_without_memory_use_host_memory() {
    let output = peerlane(SERVER, &["plan", "mlx5_0", "mlx5_1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with("mlx5_0 -> mlx5_1: through host memory: neither has memory"),
        "{text}"
    );
}

#[test]
fn unknown_devices_are_an_error() {
    let output = peerlane(SERVER, &["plan", "gpu:0", "mlx5_99"]).exited(2);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has no device or file `mlx5_99`"), "{said}");
}

#[test]
fn guests_are_judged_by_the_host() {
    let answer: Value = peerlane(SERVER, &["plan", "gpu:0", "gpu:1", "--guest", "--json"]).json();
    let guest = &target(&answer)["pair"]["guest"];
    assert!(!guest["reasons"].as_array().expect("reasons").is_empty(), "{guest}");
}

#[test]
fn explanations_follow_both_directions() {
    let text = peerlane(SERVER, &["plan", "gpu:0", "gpu:1", "--explain"]).text();
    for question in ["may gpu:0 reach memory of gpu:1?", "may gpu:1 reach memory of gpu:0?"] {
        assert!(text.contains(question), "{text}");
    }
}

/// The three states of intel/compute-runtime #935, as text of `lspci`.
#[test]
fn two_graphics_cards_have_three_states() {
    let (found, status) = forward("lspci/separate-ports.txt", "03:00.0", "07:00.0");
    assert_eq!((&found["verdict"], status), (&"refused".into(), Some(0)));
    assert_eq!(found["ports"], serde_json::json!([]));
    let reasons = found["kernel"]["reasons"].to_string();
    assert!(reasons.contains("8086:4c43) is not on"), "{reasons}");

    let (found, status) = forward("lspci/switch-redirecting.txt", "05:00.0", "09:00.0");
    assert_eq!((&found["verdict"], status), (&"refused".into(), Some(0)));
    let ports = ["0000:02:00.0", "0000:02:01.0", "0000:04:00.0", "0000:08:00.0"];
    assert_eq!(found["ports"], serde_json::json!(ports));

    let (found, status) = forward("lspci/switch-direct.txt", "05:00.0", "09:00.0");
    // Whether xe moves what others import depends on the kernel, which the text does not name.
    assert_eq!((&found["verdict"], status), (&"bus-address".into(), Some(1)));
    assert_eq!((&found["distance"], &found["turn"]), (&8.into(), &"switch".into()));
    assert_eq!(found["slowest_link"]["speed"], "8GT/s x8");
}

#[test]
fn lspci_text_is_read_from_stdin() {
    let folder = Scratch::new();
    let path = folder.at("lspci.txt");
    let mut text = std::fs::read_to_string(fixture("lspci/switch-direct.txt")).expect("a fixture");
    text += "Linux host 7.2.13 #1 SMP PREEMPT x86_64 GNU/Linux\n";
    std::fs::write(&path, text).expect("room");
    let file = std::fs::File::open(path).expect("a file");
    let output = command(Path::new("."))
        .args(["plan", "gpu:0000:05:00.0", "gpu:0000:09:00.0", "--machine", "-"])
        .stdin(Stdio::from(file))
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.lines().next().is_some_and(|line| line.contains(": direct: ")), "{text}");
}

#[test]
fn linked_gpus_are_direct_by_their_links() {
    let cases = [
        ("nccl/h100.xml", "18 NVLinks", "nvlink", "xgmi"),
        ("nccl/mi300.xml", "1 XGMI link", "xgmi", "nvlink"),
    ];
    for (machine, links, key, other) in cases {
        let output = peerlane(machine, &["plan", "gpu:0", "gpu:1"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let headline = format!("gpu:0 -> gpu:1: direct: they are connected by {links}\n");
        assert!(text.starts_with(&headline), "{text}");
        assert_eq!(output.status.code(), Some(0), "{text}");
        let answer: Value = peerlane(machine, &["plan", "gpu:0", "gpu:1", "--json"]).json();
        assert_eq!(target(&answer)["pair"][key], format!("connected by {links}"));
        assert!(target(&answer)["pair"][other].is_null());
        let text = peerlane(machine, &["doctor", "gpu:0", "gpu:1"]).text();
        assert!(text.starts_with(&headline), "{text}");
    }
}

/// Runs the program on a topology on standard input.
fn on_topology(elements: &str, words: &[&str]) -> Output {
    let mut program = command(Path::new("."))
        .args(words)
        .args(["--machine", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let text = format!("<system version=\"1\"><cpu numaid=\"0\">{elements}</cpu></system>\n");
    let mut input = program.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("the program reads");
    drop(input);
    program.wait_with_output().expect("the program ends")
}

#[test]
fn made_up_switches_are_warned_of() {
    let function =
        |at: &str, class: &str| format!("<pci busid=\"{at}:00:00.0\" class=\"{class}\"/>");
    let elements = format!(
        "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\">{}{}</pci>",
        function("0001", "0x030200"),
        function("0101", "0x020700")
    );
    let text = on_topology(&elements, &["plan", "gpu:0", "0101:00:00.0"]).text();
    assert!(text.contains("PIX for nvidia-smi"), "{text}");
    assert!(text.contains("the maker of gpu:0 is unknown (not in this input)"), "{text}");
    for words in [&["plan", "gpu:0", "0101:00:00.0"][..], &["topo"], &["doctor"]] {
        let said = String::from_utf8_lossy(&on_topology(&elements, words).stderr).into_owned();
        assert!(
            said.starts_with("warning: ffff:ff:01.0 is a switch by the word of this file"),
            "{said}"
        );
    }
}

#[test]
fn gpus_of_other_makers_may_lend_memory() {
    let gpu = |bus: &str| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"0x038000\" vendor=\"0x1d94\"><gpu dev=\"0\" gdr=\"1\"/></pci>"
        )
    };
    let elements = gpu("37") + &gpu("3a");
    let text = on_topology(&elements, &["plan", "0000:37:00.0", "0000:3a:00.0"]).text();
    assert!(text.contains("to memory of gpu:0000:3a:00.0, if it lends any"), "{text}");
    assert!(text.starts_with("0000:37:00.0 -> 0000:3a:00.0: unknown: "), "{text}");
    let text = on_topology(&elements, &["doctor"]).text();
    assert!(text.contains("unknown: GPU to GPU"), "{text}");
}

#[test]
fn topo_lists_redirecting_ports_per_pair() {
    let object: Value = peerlane(SERVER, &["topo", "--json"]).json();
    let topology: Topology = serde_json::from_value(object).expect("a topology");
    let pair = topology.pair("0000:18:00.0", "0000:19:00.0").expect("an answer for the two GPUs");
    assert_eq!(pair.redirecting, ["0000:17:00.0", "0000:17:01.0"]);
    assert_eq!(pair.verdict, MapType::ThroughHostBridge);
}

#[test]
fn example_gates_a_job_by_the_pair() {
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/gate-job.sh");
    let programs = Path::new(env!("CARGO_BIN_EXE_peerlane")).parent().expect("a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    let run = |machine: &str, words: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        shell.arg(&gate).args(words).env("PATH", &path);
        shell.env("PEERLANE_MACHINE", fixture(machine)).output().expect("a shell")
    };
    let job = ["nvme0", "nvme1", "--", "sh", "-c", "echo started; exit 7"];
    let output = run("sysfs/lab-pair/tree.tar.zst", &job);
    assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b"started\n"[..]), "{output:?}");
    for (machine, device) in [("lab-acs", "nvme1"), ("lab-pair", "nvme9")] {
        let words = ["nvme0", device, "--", "echo", "started"];
        let output = run(&format!("sysfs/{machine}/tree.tar.zst"), &words);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0), "{output:?}");
    }
    assert_eq!(run("sysfs/lab-pair/tree.tar.zst", &["nvme0", "nvme1"]).status.code(), Some(64));
}
