//! `peerlane sim`: its commands and their output.

use std::path::Path;
use std::process::Output;

use crate::program::{Exited, peerlane, said};
use crate::terminal::Terminal;
use peerlane_testing::Scratch;
use serde_json::Value;

const CROWD: &str = "kind = 'crowd'\ndrives = ['d0', 'd1', 'd2', 'd5']\npattern = 'incast'\n\
                     routes = ['p2p']\nblocks = ['128K']\nlength = '64M'\n";

fn machine(name: &str) -> String {
    format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn sim(workload: &str, args: &[&str]) -> Output {
    on_machine(&machine("ten"), workload, args)
}

fn on_machine(machine: &str, workload: &str, args: &[&str]) -> Output {
    let folder = Scratch::new();
    folder.write("workload.toml", workload);
    peerlane(folder.path(), &[&["sim", machine, "workload.toml"], args].concat())
}

#[test]
fn crowd_prediction_has_limits_and_gains() {
    let output = sim(CROWD, &["--engine", "flow"]).exited(0);
    let shown = output.text();
    for part in ["predicted", "incast x3", "limit", "gain", "link", "in 80 % of draws"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("overwritten"), "a prediction overwrites nothing: {shown}");
}

#[test]
fn object_is_a_benchmark_record() {
    let record: Value = sim(CROWD, &["--json"]).json();
    assert_eq!(
        (&record["schema"], &record["basis"]),
        (&"peerlane.bench/1".into(), &"predicted".into())
    );
    assert!(record["started_s"].is_null());
    let case = &record["cases"][2];
    assert_eq!(case["flows"].as_array().map(Vec::len), Some(3));
    assert_eq!(case["bytes_by_route"]["host"], 0);
    assert!(case["flows"][0]["block"]["count"].as_u64() > Some(0), "few flows have percentiles");
    assert!(case["prediction"]["gains"][0]["ratio"].as_f64() > Some(1.0));
}

#[test]
fn parameters_that_change_nothing_are_named() {
    let folder = Scratch::new();
    let file = folder.at("p.toml");
    let one = |name: &str| {
        format!(
            "[parameter.\"{name}\"]\nvalue = 2\nunit = \"count\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        )
    };
    std::fs::write(&file, one("d0.turns") + &one("d77.turns")).expect("a file");
    let file = file.to_str().expect("a name");
    let output = sim(CROWD, &["--engine", "flow", "--parameters", file]);
    let words = said(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("parameter `d77.turns` changes nothing"), "{words}");
    assert!(!words.contains("`d0.turns`"), "{words}");
}

#[test]
fn unused_keys_are_named_with_reason() {
    let words = |key| said(&sim(CROWD, &["--vary", key]));
    let unused = words("iommu.walk=2e-7,4e-7");
    let said = "parameter `iommu.walk` changes nothing on ten: no IOMMU of the machine translates";
    assert!(unused.contains(said), "{unused}");
    let used = words("drive.read.rate=1e9,2e9");
    assert!(!used.contains("changes nothing"), "{used}");
}

fn generated(machine: &str, workload: &str, args: &[&str]) -> Output {
    peerlane(Path::new("."), &[&["sim", machine, workload, "--json"], args].concat())
}

/// Text of the flow engine's prediction.
fn shown(machine: &str, workload: &str) -> String {
    peerlane(Path::new("."), &["sim", machine, workload, "--engine", "flow"]).exited(0).text()
}

#[test]
fn notation_makes_machines_and_workloads() {
    for (machine, transfers) in [("tree:20", 30), ("servers:3", 40), ("pods:2:9", 40)] {
        let output = generated(machine, &format!("random:{transfers}:1"), &["--engine", "flow"]);
        assert!(output.status.success(), "{machine}: {}", said(&output));
        let record: Value = output.json();
        let flows = record["cases"][0]["flows"].as_array().expect("transfers");
        assert_eq!((flows.len(), &record["machine"]["name"]), (transfers, &machine.into()));
        assert!(flows.iter().all(|flow| flow["bytes_by_route"]["host"] == 0));
    }
    for (machine, workload, words) in [
        ("tree:1", "random:3", "number of devices is too small; 2 to 10000 is allowed"),
        ("pods:x", "random:3", "not one of tree:DEVICES"),
        ("tree:4", "random:0", "number of transfers is too small; 1 to 100000 is allowed"),
        ("tree:99999999999999999999", "random:5", "number of devices is too large; 2 to 10000"),
        ("tree:4", "random:99999999999999999999", "number of transfers is too large; 1 to 100000"),
        (
            "pods:2:99999999999999999999",
            "random:5",
            "the seed is too large; 0 to 1844674407370955161",
        ),
        ("tree:-99999999999999999999", "random:5", "not one of tree:DEVICES"),
    ] {
        generated(machine, workload, &[]).exited(2).says(words);
    }
}

#[test]
fn commonest_limit_comes_first() {
    let shown = shown("tree:100", "random:50");
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("  limit ")).collect();
    let count = |line: &&str| -> usize {
        let number = line.rsplit_once('(').and_then(|(_, rest)| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).expect(line)
    };
    let (rest, first) = lines.split_last().expect("limits");
    let counts: Vec<usize> = first.iter().map(count).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b) && counts[0] > 1, "{shown}");
    assert!(first.len() == 6 && rest.contains(" more ("), "{shown}");
    let record: Value = generated("tree:100", "random:50", &["--engine", "flow"]).json();
    let flows = record["cases"][0]["flows"].as_array().expect("flows");
    let limited = flows.iter().filter(|flow| !flow["limited_by"].is_null()).count();
    assert_eq!(counts.iter().sum::<usize>() + count(rest), limited, "{shown}");
}

#[test]
fn large_case_reports_missing_range() {
    let said = ", without range and gains: more than 256 transfers";
    let many = shown("tree:8", "random:257");
    assert!(many.contains(said), "{many}");
    assert!(many.contains("% busy in the mean"), "{many}");
    assert!(!shown("tree:8", "random:8").contains(said));
}

#[test]
fn variants_are_rows() {
    let output =
        sim(CROWD, &["--json", "--vary", "depth=1,16", "--vary", "drive.write.rate=1e9..4e9"]);
    let object: Value = output.json();
    let rows = object["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 20);
    let last = |row: &Value| row["rates"][2].as_f64().expect("a rate");
    assert!(last(&rows[19]) > 3.0 * last(&rows[10]), "{rows:?}");
}

#[test]
fn link_widths_and_generations_are_variants() {
    let object: Value = sim(
        CROWD,
        &["--json", "--vary", "d0.lanes=1..16", "--vary", "d0.generation=3,4", "--steps", "5"],
    )
    .exited(0)
    .json();
    let rows = object["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 10);
    // Three drives into one: its link limits, until the media of the others do.
    let rate = |row: usize| rows[row]["rates"][2].as_f64().expect("a rate");
    assert!((rate(2) / rate(0) - 2.0).abs() < 0.02, "two lanes for one: {rows:?}");
    assert!((rate(1) / rate(0) - 2.0).abs() < 0.02, "Gen4 for Gen3: {rows:?}");
    assert!((rate(9) / rate(7) - 1.0).abs() < 1e-3, "a drive is no faster: {rows:?}");
}

#[test]
fn device_aliases_work_in_keys() {
    let folder = Scratch::new();
    let file = folder.at("p.toml");
    let one = |name: &str, value, unit| {
        format!(
            "[parameter.\"{name}\"]\nvalue = {value}\nunit = \"{unit}\"\nfrom = \"guess\"\nsource = \"a test\"\n"
        )
    };
    let both = one("/dev/d0.lanes", 1, "count") + &one("/dev/d0.write.rate", 8, "GB/s");
    std::fs::write(&file, &both).expect("a file");
    let path = file.to_str().expect("a name");
    let rates = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--vary", key]);
        let args: Vec<&str> = ["--json", "--parameters", path].into_iter().chain(keys).collect();
        let output = sim(CROWD, &args);
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        let object: Value = output.json();
        let rows = object["rows"].as_array().expect("rows");
        let key = args[args.len() - 1].split('=').next();
        assert_eq!(object["keys"][0].as_str(), key, "as it was typed");
        rows.iter().map(|row| row["rates"][2].as_f64().expect("a rate")).collect::<Vec<_>>()
    };
    // Three drives into one, which writes what its narrow link brings or its medium takes.
    let by_lanes = rates(&["d0.lanes=1,2"]);
    assert!(by_lanes[1] > 1.05 * by_lanes[0], "{by_lanes:?}");
    assert_eq!(rates(&["/dev/d0.lanes=1,2"]), by_lanes);
    let by_medium = rates(&["d0.write.rate=1e8,2e8"]);
    assert!((by_medium[1] / by_medium[0] - 2.0).abs() < 0.02, "{by_medium:?}");
    let twice = ["--vary", "d0.lanes=1", "--vary", "/dev/d0.lanes=2"];
    assert!(said(&sim(CROWD, &twice)).contains("`/dev/d0.lanes` is varied twice"));
    std::fs::write(&file, both + &one("d0.lanes", 2, "count")).expect("a file");
    let words = said(&sim(CROWD, &["--parameters", path, "--vary", "depth=1"]));
    assert!(words.contains("another name of the same device"), "{words}");
}

#[test]
fn misfits_are_explained_with_hint() {
    let wrong = CROWD.replace("'d5'", "'d77'");
    let odd = CROWD.replace("128K", "3");
    let odd_block = "has blocks of 512 bytes, and 3 is not a multiple of that";
    for (workload, args, words) in [
        (wrong.as_str(), &[][..], "no device named `d77`"),
        (&odd, &[], odd_block),
        (CROWD, &["--vary", "block=3"], odd_block),
        (
            &wrong,
            &[],
            "hint: sources and targets are d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, host, null",
        ),
        (&wrong, &["--vary", "depth=1,2"], "hint: sources and targets are d0, d1,"),
        (CROWD, &["--vary", "queues.shared=0.5,5"], "a share is 1 at most"),
        (
            CROWD,
            &["--vary", "depth=1..1e3", "--steps", "10000", "--vary", "block=1..1e6"],
            "hint: give fewer",
        ),
        (CROWD, &["--vary", "speed=1"], "nothing that can be varied"),
        (
            CROWD,
            &["--vary", "d77.lanes=1"],
            "NAME.lanes, NAME.generation (NAME is switch, switch-0, d0,",
        ),
        (
            CROWD,
            &["--vary", "d77.lanes=1"],
            ", NAME.read.rate and others of a drive (NAME is d0, d1, d2, d3, d4, d5, d6, d7, ...), device",
        ),
        (CROWD, &["--vary", "d0.lanes=3"], "1, 2, 4, 8, 12, 16 or 32 lanes"),
        (
            CROWD,
            &["--vary", "d0.lanes=3"],
            "hint: `--vary d0.lanes=1,2,4,8,12,16,32` has every number that there is",
        ),
        (CROWD, &["--vary", "d0.generation=9"], "generations of links are 1 to 6"),
        (
            CROWD,
            &["--vary", "d0.generation=9"],
            "hint: `--vary d0.generation=1,2,3,4,5,6` has every number",
        ),
        (
            CROWD,
            &["--vary", "drive.mixed=5"],
            "hint: `--vary drive.mixed=` or a file of `--parameters` gives it another",
        ),
        (
            CROWD,
            &["--vary", "pcie.mps=300"],
            "hint: `--vary pcie.mps=128,256,512,1024,2048,4096` has every number",
        ),
        (CROWD, &["--vary", "depth"], "there is no `=`"),
        (CROWD, &["--vary", "depth=1", "--vary", "depth=2,4"], "`depth` is varied twice"),
        (CROWD, &["--vary", "depth=0"], "a number above zero"),
        (CROWD, &["--vary", "depth=1,1e30"], "a depth is 1 to 1024"),
        (CROWD, &["--vary", "depth=2048"], "a depth is 1 to 1024"),
        (CROWD, &["--vary", "block=0.2"], "a block is 1 to 1073741824"),
        (CROWD, &["--vary", "depth=2.5"], "a depth is 1 to 1024, and whole"),
        (CROWD, &["--vary", "pcie.tags=0.5"], "`pcie.tags`: it is a whole number above zero"),
        (CROWD, &["--vary", "iommu.walkers=1,2.5"], "`iommu.walkers`: it is a whole number"),
        (CROWD, &["--vary", "pcie.mps=128,200"], "`pcie.mps`: PCIe has 128, 256, 512, 1024,"),
        (CROWD, &["--vary", "pcie.mrrs=128..512"], "`pcie.mrrs`: PCIe has 128, 256,"),
        (CROWD, &["--vary", "host.completion=96"], "`host.completion`: pieces are of 64, 128,"),
        (CROWD, &["--vary", "root.split=32"], "`root.split`: pieces are of 64, 128,"),
        (CROWD, &["--vary", "switch.latency=80"], "beyond what is usual, in seconds: look at"),
        (CROWD, &["--vary", "drive.read.rate=3"], "beyond what is usual, in bytes a second: look"),
        (CROWD, &["--vary", "depth"], "hint: `--vary drive.read.rate=1e9..14e9` (bytes a second)"),
        (CROWD, &["--vary", "ethernet.mtu=1"], "an MTU is 68 to 65535 bytes"),
        (CROWD, &["--vary", "ethernet.headers=1500"], "headers leave nothing of a frame"),
        (CROWD, &["--vary", "pcie.mps=1e30"], "PCIe has 128, 256,"),
        (CROWD, &["--vary", "host.command=1e30"], "a million times beyond"),
        ("kind = 'crowd'\n", &[], "cannot read the workload"),
        (CROWD, &["--parameters", "/dev/null/none"], "cannot read the parameters"),
        (
            CROWD,
            &["--parameters", &machine("ten")],
            "hint: `peerlane sim --help` shows such a file",
        ),
    ] {
        sim(workload, args).exited(2).says(words);
    }
}

#[test]
fn integer_ranges_have_whole_values() {
    for key in ["pcie.tags", "depth"] {
        let range = format!("{key}=1..4");
        let object: Value =
            sim(CROWD, &["--json", "--vary", &range, "--steps", "7"]).exited(0).json();
        let rows = object["rows"].as_array().expect("rows");
        let values: Vec<f64> = rows.iter().filter_map(|row| row["values"][0].as_f64()).collect();
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0], "{key}");
    }
}

#[test]
fn variant_values_of_any_size_show() {
    let shown = sim(CROWD, &["--vary", "switch.latency=80e-9,150e-9"]).text();
    let values = shown.lines().skip(2).filter_map(|line| line.split_whitespace().next());
    assert_eq!(values.collect::<Vec<_>>(), ["8e-8", "1.5e-7"], "{shown}");
}

#[test]
fn described_device_values_can_vary() {
    let workload = "kind = 'sweep'\nsource = 'drive0'\ntarget = 'drive1'\nvia = 'fpga:fpga1'\n\
                    routes = ['p2p']\nblocks = ['1M']\n";
    let rates = |key: &str| -> Vec<f64> {
        let machine = machine("r7515-10-smartssd");
        let found: Value =
            on_machine(&machine, workload, &["--json", "--vary", key]).exited(0).json();
        let rows = found["rows"].as_array().expect("rows");
        rows.iter().filter_map(|row| row["rates"][0].as_f64()).collect()
    };
    for key in [
        "drive0.read.rate=1e9,2e9",
        "/dev/drive0.read.rate=1e9,2e9",
        "drive1.write.rate=5e8,1e9",
        "fpga:fpga1.memory.write=5e8,1e9",
        "drive0.read.commands=500,1000",
    ] {
        let found = rates(key);
        assert!((1.9..2.01).contains(&(found[1] / found[0])), "{key}: {found:?}");
    }
}

#[test]
fn closed_form_shows_saturating_depth() {
    let shown = sim(CROWD, &["--engine", "closed"]).text();
    assert!(shown.contains("  knee      more than "), "{shown}");
    let of = |depth: &str| {
        let workload = format!("{CROWD}depth = {depth}\n");
        let record: Value = sim(&workload, &["--engine", "closed", "--json"]).json();
        let flow = &record["cases"][0]["flows"][0];
        let rate = record["summaries"][0]["rate"]["mean"].as_f64().expect("a rate");
        (flow["knee"].as_u64().expect("a number"), rate)
    };
    let (knee, all) = of("1024");
    let [below, at] = [knee - 1, knee].map(|depth| of(&depth.to_string()).1);
    assert!(below < 0.999 * all && at > 0.999 * all, "{knee}: {below} {at} {all}");
    let flow = sim(CROWD, &["--engine", "flow"]).text();
    assert!(!flow.contains("knee"), "{flow}");
}

#[test]
fn ethernet_in_bits_is_explained_or_refused() {
    let folder = Scratch::new();
    let file = folder.at("nic.toml");
    let of = |ethernet: &str| {
        let machine = peerlane_testing::machine_text(&format!(
            "name = 'nic'
             r0 root-port link_below = '16GT/s x16'
               n0 nic link = '16GT/s x16'; ethernet = '{ethernet}'
             r1 root-port link_below = '16GT/s x4'
               d0 nvme link = '16GT/s x4'; size = '1T'"
        ));
        std::fs::write(&file, machine).expect("a file");
        let workload = "kind = 'stream'\nsource = 'host'\ntarget = 'd0'\nblocks = '1M'\n";
        let output = on_machine(file.to_str().expect("a name"), workload, &[]);
        (output.status.code(), said(&output))
    };
    assert_eq!(of("12.5GB/s"), (Some(0), String::new()));
    let (code, words) = of("100GB/s");
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("the Ethernet of n0 carries 100 GB/s, and its link 31."), "{words}");
    let (code, words) = of("400GB/s");
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("an Ethernet carries 200 GB/s at most"), "{words}");
}

#[test]
fn driveless_machine_has_no_drive_rates() {
    let folder = Scratch::new();
    let machine = folder.at("gpu.toml");
    let words = "name = 'gpu'\nr root-port\n g gpu p2pmem.size = '1G'";
    std::fs::write(&machine, peerlane_testing::machine_text(words)).expect("a file");
    let workload = "kind = 'stream'\nsource = 'host'\ntarget = 'gpu:0'\nblocks = '1M'\n";
    let hint = "hint: one of depth, block, NAME.lanes, NAME.generation (NAME is g), device.";
    on_machine(machine.to_str().expect("a name"), workload, &["--vary", "speed=1"]).says(hint);
}

#[test]
fn long_work_reports_on_terminal() {
    for (words, told) in [
        (&["sim", "tree:4000", "random:9000", "--engine", "flow"][..], " of 9000 transfers, "),
        (&["sim", "tree:4000", "random:9000", "--vary", "depth=1,2"], "variant "),
    ] {
        let mut terminal = Terminal::start(Path::new("."), words, "");
        assert!(terminal.read_until(" s so far"), "{}", terminal.shown);
        assert!(terminal.shown.contains(told), "{}", terminal.shown);
        terminal.interrupt();
    }
}

#[test]
fn table_shows_predicted_routes() {
    let both = CROWD.replace("['p2p']", "['p2p', 'host']");
    let output = sim(&both, &["--engine", "flow"]);
    let shown = output.text();
    assert!(!shown.contains("unknown"), "{shown}");
    let rows = |path: &str| {
        let is_of = |line: &&str| line.starts_with("  incast x3") && line.contains(path);
        shown.lines().filter(is_of).map(str::to_owned).collect::<Vec<_>>()
    };
    for path in [" p2p ", " host "] {
        let all = rows(path);
        let words: Vec<&str> = all[0].split_whitespace().collect();
        assert_eq!(words[words.len() - 3], path.trim(), "{shown}");
    }
}

#[test]
fn same_prediction_is_not_compared() {
    let folder = Scratch::new();
    let at = |name: &str| folder.at(name).display().to_string();
    for record in ["one.json", "other.json"] {
        sim(CROWD, &["--engine", "flow", "-o", &at(record)]).exited(0);
    }
    std::os::unix::fs::symlink(at("one.json"), at("link.json")).expect("a link");
    let compare = |files: &[&str]| {
        let output = peerlane(folder.path(), &[&["bench", "compare"], files].concat());
        (output.status.code(), output.text())
    };
    let (code, shown) = compare(&["one.json", "other.json"]);
    assert_eq!(code, Some(0), "{shown}");
    let twice = "a record of the run after is given twice";
    assert!(shown.contains("same") && !shown.contains(twice), "{shown}");
    for files in [
        &["one.json", "one.json"][..],
        &["one.json", "link.json"],
        &["one.json", "other.json", "link.json", "other.json"],
    ] {
        let (code, shown) = compare(files);
        assert_eq!(code, Some(1), "{files:?}: {shown}");
        assert!(shown.contains("is given twice"), "{files:?}: {shown}");
    }
}

#[test]
fn small_cases_are_predicted_by_packets() {
    let shown = sim(CROWD, &[]).text();
    assert!(shown.contains("  engine    tlp: few enough transfers for packets"), "{shown}");
    assert!(shown.contains("  latency   median of a transfer "), "{shown}");
    let flow = sim(CROWD, &["--engine", "flow"]).text();
    assert!(flow.contains("  engine    flow: as asked for"), "{flow}");
    assert!(!flow.contains("latency"), "{flow}");
}
