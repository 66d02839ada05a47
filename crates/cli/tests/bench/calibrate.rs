//! Calibrations: parameters out of measurements, their file, and what the model makes of it.

use std::fs;
use std::path::Path;

use peerlane_results::{BenchRecord, CaseRecord, Path as Way};

use crate::program::typed;
use crate::{bench, folder, record, refused, said};

/// Rates of a file on this file system say nothing; that a file of parameters comes out of them does.
#[test]
fn a_calibration_writes_parameters_with_their_error_and_reads_only() {
    let folder = folder();
    let before = fs::read(folder.path().join("source")).expect("it");
    let words = "calibrate source --time 0.02 --repeats 1 --parameters p.toml -o rows.json";
    let output = bench(folder.path(), words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
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
fn a_file_that_may_be_written_is_calibrated_both_ways_within_its_size() {
    let folder = folder();
    let words =
        "calibrate source --scratch source --force --time 0.02 --repeats 1 --parameters p.toml";
    let output = bench(folder.path(), words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let parameters = fs::read_to_string(folder.path().join("p.toml")).expect("parameters");
    for name in ["source.read.rate", "source.write.rate", "source.random-write.commands"] {
        assert!(parameters.contains(name), "{parameters}");
    }
}

#[test]
fn parameters_are_written_also_where_nobody_can_be_shown_them() {
    let folder = folder();
    let full = fs::File::options().write(true).open("/dev/full").expect("it");
    let words = "bench calibrate source --time 0.02 --repeats 1 --parameters p.toml";
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(words.split_whitespace())
        .current_dir(folder.path())
        .stdout(full)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("cannot write to standard output"), "{}", said(&output));
    assert!(folder.path().join("p.toml").is_file(), "{}", said(&output));
}

/// A machine with a drive of this name.
fn machine_with(folder: &Path, drive: &str) {
    let pair = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/pair.toml");
    let pair = fs::read_to_string(pair).expect("it is there");
    assert!(pair.contains("name = \"a\""));
    let text = pair.replace("name = \"a\"", &format!("name = \"{drive}\""));
    fs::write(folder.join("machine.toml"), text).expect("room");
}

fn rate(case: &CaseRecord) -> f64 {
    case.rate().expect("a rate").0 as f64
}

/// The one number of the record's only case, as `sim` says it with these options.
fn predicted(folder: &Path, workload: &str, more: &str) -> f64 {
    fs::write(folder.join("workload.toml"), workload).expect("room");
    let output = typed(folder, &format!("sim machine.toml workload.toml --json {more}"));
    assert_eq!(output.status.code(), Some(0), "{workload}: {}", said(&output));
    assert!(!said(&output).contains("changes nothing"), "{}", said(&output));
    rate(&record(&output).cases[0])
}

#[test]
fn what_a_calibration_learnt_is_what_the_model_predicts_with_it() {
    let folder = folder();
    let at = folder.path();
    let words = "calibrate source --time 0.02 --repeats 1 --parameters p.toml -o rows.json";
    let output = bench(at, words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    machine_with(at, "source");
    let rows = fs::read_to_string(at.join("rows.json")).expect("the rows");
    let rows: BenchRecord = serde_json::from_str(&rows).expect("a record");
    let row = |name: &str| rows.cases.iter().find(|case| case.asked.name == name).expect(name);
    let copy = row("copy 16M");
    assert!(copy.verification.expect("a check").mismatches == 0, "what was copied is compared");
    let host = "kind = 'stream'\nsource = 'host'\ntarget = 'host'\nblocks = '16M'\n";
    let found = predicted(at, host, "--parameters p.toml");
    assert!((found / rate(copy) - 1.0).abs() < 0.01, "{found} for {}", rate(copy));
    assert!((predicted(at, host, "") / 10e9 - 1.0).abs() < 0.01, "what is built in");
    let cached = "kind = 'sweep'\nsource = 'source'\ntarget = 'host'\nblocks = '1M'\n\
                  routes = 'host-page-cache'\n";
    let alone = cached.replace("host-page-cache", "host-serial");
    let [cached, alone] = [cached, &alone].map(|text| predicted(at, text, "--parameters p.toml"));
    let expected = 1.0 / (1.0 / alone + 1.0 / rate(copy));
    assert!((cached / expected - 1.0).abs() < 0.02, "{cached} for {expected}");
    // All rows of the record are a workload of the model, too; integers of TOML end before some seeds.
    let asked = peerlane_results::Workload { seed: 7, ..rows.asked.clone() };
    let asked = peerlane_bench::workload::print(&asked).expect("a workload");
    assert!(predicted(at, &asked, "--parameters p.toml") > 0.0);
}

#[test]
fn a_calibration_goes_on_where_it_was_interrupted_and_is_reported_and_compared() {
    let folder = folder();
    let at = folder.path();
    let words = "calibrate source --time 0.02 --repeats 2";
    let output = bench(at, &format!("{words} -o rows.json"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let kept = || -> BenchRecord {
        let text = fs::read_to_string(at.join("rows.json")).expect("the rows");
        serde_json::from_str(&text).expect("a record")
    };
    let whole = kept();
    assert_eq!(whole.packets.len(), 1, "one drive: {:?}", whole.packets);
    let mut half = whole.clone();
    half.cases.truncate(half.cases.len() / 2);
    fs::write(at.join("rows.json"), serde_json::to_string(&half).expect("JSON")).expect("room");
    let output = bench(at, &format!("{words} --resume rows.json --parameters p.toml"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let resumed = kept();
    assert_eq!((resumed.cases.len(), &resumed.packets), (whole.cases.len(), &whole.packets));
    assert!(fs::read_to_string(at.join("p.toml")).expect("it").contains("host.copy"));
    fs::write(at.join("before.json"), serde_json::to_string(&whole).expect("JSON")).expect("room");
    let output = bench(at, "compare before.json rows.json --json");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("\"case\": \"copy 64K\"") || text.contains("\"case\":\"copy 64K\""),
        "{text}"
    );
    let output = typed(at, "report rows.json -o report.html");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn host_to_host_is_a_stream_of_one_core_and_a_read_goes_by_the_page_cache() {
    let folder = folder();
    let words = "stream --source host --target host --block 64K --length 4M --repeats 1 --json";
    let output = bench(folder.path(), words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let run = record(&output).cases.remove(0);
    assert_eq!((run.asked.name.as_str(), run.asked.flows[0].depth), ("host to host 64K", 1));
    assert_eq!((run.bytes.0, run.bytes_by_route.host), (4 << 20, run.bytes));
    assert_eq!(run.verification.expect("a check").bytes, run.bytes);
    let routes = "host-page-cache,host-mapped";
    let words = format!("sweep source host --routes {routes} --block 64K --repeats 1 --json");
    let output = bench(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for run in record(&output).cases {
        assert_eq!((run.bytes.0, run.verification), (crate::LENGTH as u64, None));
        if run.asked.flows[0].path == Way::HostMapped {
            assert!(run.page_faults.is_some_and(|faults| faults.minor + faults.major > 0));
        }
    }
}

#[test]
fn memories_that_are_none_or_not_there_are_named() {
    let folder = folder();
    refused(folder.path(), "calibrate source --via host", &["memories of devices: `cmb:NAME`"]);
    let twice = "calibrate source --via cmb:a --via cmb:a";
    refused(folder.path(), twice, &["cmb:a is given twice as a memory"]);
    let output = bench(folder.path(), "calibrate source --via cmb:nobody");
    assert!(said(&output).contains("nobody"), "{}", said(&output));
    assert_ne!(output.status.code(), Some(0));
}
