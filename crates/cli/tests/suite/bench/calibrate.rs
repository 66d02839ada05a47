//! Calibrations: parameters from measurements, their file, and predictions with it.

use std::fs;

use peerlane_results::{BenchRecord, Path};

use super::{bench, folder, record, said};
use crate::program::{Exited, typed};

#[test]
fn calibration_reads_and_writes_parameter_file() {
    let folder = folder();
    let before = fs::read(folder.path().join("source")).expect("it");
    let words = "calibrate source --time 0.02 --repeats 1 --parameters p.toml -o rows.json";
    let text = bench(folder.path(), words).exited(0).text();
    assert!(text.contains("source, read") && text.contains("rows held out"), "{text}");
    assert!(!text.contains("source, write"), "{text}");
    let parameters = fs::read_to_string(folder.path().join("p.toml")).expect("parameters");
    assert_eq!(parameters.matches("[parameter.\"source.").count(), 5, "{parameters}");
    assert!(text.contains("source, random read"), "{text}");
    assert!(parameters.contains("source.random-read.commands"), "{parameters}");
    assert!(folder.path().join("rows.json").is_file());
    assert!(fs::read(folder.path().join("source")).expect("it") == before, "nothing was written");
}

#[test]
fn scratch_file_is_calibrated_both_ways() {
    let folder = folder();
    let words =
        "calibrate source --scratch source --force --time 0.02 --repeats 1 --parameters p.toml";
    bench(folder.path(), words).exited(0);
    let parameters = fs::read_to_string(folder.path().join("p.toml")).expect("parameters");
    for name in ["source.read.rate", "source.write.rate", "source.random-write.commands"] {
        assert!(parameters.contains(name), "{parameters}");
    }
}

#[test]
fn parameters_survive_a_closed_terminal() {
    let folder = folder();
    let full = fs::File::options().write(true).open("/dev/full").expect("it");
    let words = "bench calibrate source --time 0.02 --repeats 1 --parameters p.toml";
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(words.split_whitespace())
        .current_dir(folder.path())
        .stdout(full)
        .output()
        .expect("it runs")
        .exited(2);
    output.says("cannot write to standard output");
    assert!(folder.path().join("p.toml").is_file(), "{}", said(&output));
}

#[test]
fn sim_predicts_with_calibrated_parameters() {
    let folder = folder();
    let at = folder.path();
    let words = "calibrate source --time 0.02 --repeats 1 --parameters p.toml -o rows.json";
    bench(at, words).exited(0);
    let pair = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/pair.toml");
    let pair = fs::read_to_string(pair).expect("it is there");
    let machine = pair.replace("name = \"a\"", "name = \"source\"");
    fs::write(at.join("machine.toml"), machine).expect("room");
    let rows = fs::read_to_string(at.join("rows.json")).expect("the rows");
    let rows: BenchRecord = serde_json::from_str(&rows).expect("a record");
    // Integers of TOML end before some seeds.
    let asked = peerlane_results::Workload { seed: 7, ..rows.asked.clone() };
    let asked = peerlane_bench::workload::print(&asked).expect("a workload");
    fs::write(at.join("workload.toml"), asked).expect("room");
    let words = "sim machine.toml workload.toml --parameters p.toml --engine closed --json";
    let output = typed(at, words).exited(0);
    assert!(!said(&output).contains("changes nothing"), "{}", said(&output));
    let predicted = record(&output);
    let name = "read 4K depth 32";
    let case = predicted.cases.iter().find(|case| case.asked.name == name).expect(name);
    let found = case.rate().expect("a rate").0 as f64;
    let parameters = fs::read_to_string(at.join("p.toml")).expect("parameters");
    let parameters: toml::Table = parameters.parse().expect("TOML");
    let value = |name: &str| {
        let name = format!("source.read.{name}");
        parameters["parameter"][name.as_str()]["value"].as_float().expect("a number")
    };
    // What was measured on a busy machine need not fit the model; what was written down must be used.
    let expected =
        [value("commands") * 4096.0, value("rate") * 1e6, 32.0 * 4096.0 / value("time-4096")];
    let expected = expected.into_iter().fold(f64::INFINITY, f64::min);
    assert!((found / expected - 1.0).abs() < 0.02, "{found} for {expected}: {parameters}");
}

#[test]
fn an_interrupted_calibration_resumes() {
    let folder = folder();
    let at = folder.path();
    let words = "calibrate source --time 0.02 --repeats 2";
    bench(at, &format!("{words} -o rows.json")).exited(0);
    let kept = || -> BenchRecord {
        let text = fs::read_to_string(at.join("rows.json")).expect("the rows");
        serde_json::from_str(&text).expect("a record")
    };
    let whole = kept();
    assert_eq!(whole.packets.len(), 1, "one drive: {:?}", whole.packets);
    let mut half = whole.clone();
    half.cases.truncate(half.cases.len() / 2);
    fs::write(at.join("rows.json"), serde_json::to_string(&half).expect("JSON")).expect("room");
    bench(at, &format!("{words} --resume rows.json --parameters p.toml")).exited(0);
    let resumed = kept();
    assert_eq!((resumed.cases.len(), &resumed.packets), (whole.cases.len(), &whole.packets));
    assert!(fs::read_to_string(at.join("p.toml")).expect("it").contains("source.read.rate"));
    fs::write(at.join("before.json"), serde_json::to_string(&whole).expect("JSON")).expect("room");
    let text = bench(at, "compare before.json rows.json --json").text();
    assert!(
        text.contains("\"case\": \"read 4K depth 1\"")
            || text.contains("\"case\":\"read 4K depth 1\""),
        "{text}"
    );
    typed(at, "report rows.json -o report.html").exited(0);
}

#[test]
fn host_to_host_uses_one_core() {
    let folder = folder();
    let words = "stream --source host --target host --block 64K --length 4M --repeats 1 --json";
    let output = bench(folder.path(), words).exited(0);
    let run = record(&output).cases.remove(0);
    assert_eq!((run.asked.name.as_str(), run.asked.flows[0].depth), ("host to host 64K", 1));
    assert_eq!((run.bytes.0, run.bytes_by_route.host), (4 << 20, run.bytes));
    assert_eq!(run.verification.expect("a check").bytes, run.bytes);
    let routes = "host-page-cache,host-mapped";
    let words = format!("sweep source host --routes {routes} --block 64K --repeats 1 --json");
    let output = bench(folder.path(), &words).exited(0);
    for run in record(&output).cases {
        assert_eq!((run.bytes.0, run.verification), (super::LENGTH as u64, None));
        if run.asked.flows[0].path == Path::HostMapped {
            assert!(run.page_faults.is_some_and(|faults| faults.minor + faults.major > 0));
        }
    }
}
