//! Benchmarks on files: files written and left alone, records kept, and going on.

mod model;
mod stages;
mod turns;
mod writes;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::program::typed;
pub(crate) use crate::program::{Exited, said};
use peerlane_results::{BenchRecord, CaseRecord, Path as Way, RouteVerdict};
use peerlane_testing::Scratch;

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const LENGTH: usize = 1024 * KIB;

/// A folder with a source on the file system of the build.
pub(crate) fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let content: Vec<u8> = (0..LENGTH).map(|at| (at / 3 + at / 4096).to_le_bytes()[0]).collect();
    folder.write("source", &content);
    folder
}

pub(crate) fn bench(folder: &Path, words: &str) -> Output {
    typed(folder, &format!("bench {words}"))
}

pub(crate) fn record(output: &Output) -> BenchRecord {
    output.json()
}

#[test]
fn read_needs_no_scratch() {
    let folder = folder();
    let words = "stream --source source --target host --block 64K --depth 4 --repeats 2 --json";
    let output = bench(folder.path(), words).exited(0);
    let found = record(&output);
    assert_eq!(found.cases.len(), 2);
    for run in &found.cases {
        assert_eq!((run.bytes.0, run.flows[0].block.count), (LENGTH as u64, 16));
        assert_eq!((run.bytes_by_route.host, run.verification), (run.bytes, None));
        assert_ne!(run.verdict, RouteVerdict::Contradicted, "{:?}", run.evidence);
    }
}

#[test]
fn impossible_p2p_is_left_out_or_refused() {
    let folder = folder();
    for (ends, model) in [("source host", ""), ("a host", " --on model --machine pair")] {
        let words = format!("sweep {ends} --block 64K --length 64K --json{model}");
        let output = bench(folder.path(), &words);
        assert_eq!(output.status.code(), Some(0), "{words}: {}", said(&output));
        assert!(said(&output).contains("p2p is left out: `host` is host memory"), "{words}");
        let found = record(&output);
        assert!(found.cases.iter().all(|run| run.asked.flows[0].path == Way::HostPipelined));
        assert!(found.cases.iter().all(|run| run.bytes_by_route.p2p.0 == 0));
    }
    let before = folder.read("source");
    bench(folder.path(), "sweep source host --block 64K --routes p2p")
        .exited(77)
        .says("p2p needs memory of a device");
    assert!(folder.read("source") == before);
}

#[test]
fn words_of_other_tools_are_known() {
    let folder = folder();
    let words = "stream source host --bs 64KiB --iodepth 4 --runs 2 --warmup 0 --time 20ms \
                 --bwlimit 900MB --json -f";
    let output = bench(folder.path(), words).exited(0);
    let found = record(&output);
    let flow = &found.asked.cases[0].flows[0];
    assert_eq!((flow.block.0, flow.depth), (64 << 10, 4));
    assert_eq!(flow.limit.map(|limit| limit.0), Some(900_000_000));
    assert_eq!(found.asked.cases[0].time_ns.map(|time| time.0), Some(20_000_000));
    assert_eq!((found.asked.repeats.warm_up, found.cases.len()), (0, 2));
}

#[test]
fn only_scratch_range_is_written() {
    let folder = folder();
    let old = vec![0x5a; 2 * LENGTH];
    folder.write("target", &old);
    let words = "sweep source target --routes host,host-serial,host-page-cache,host-mapped --block 16K,256K \
                 --length 512K --target-offset 256K --repeats 1 --json";
    bench(folder.path(), words).exited(2).says("`--scratch` does not name it");
    bench(folder.path(), &format!("{words} --scratch target")).exited(2).says("target exists");
    assert!(folder.read("target") == old, "nothing was changed");

    let output = bench(folder.path(), &format!("{words} --scratch target --force")).exited(0);
    let found = record(&output);
    let paths = |way| found.cases.iter().filter(|run| run.asked.flows[0].path == way).count();
    let ways = [Way::HostPipelined, Way::HostSerial, Way::HostPageCache, Way::HostMapped];
    assert_eq!(ways.map(paths), [2, 2, 2, 2]);
    let checked = |run: &CaseRecord| run.verification.is_some_and(|one| one.bytes == run.bytes);
    assert!(found.cases.iter().all(checked));
    let source = folder.read("source");
    let target = folder.read("target");
    let range = 256 * KIB..768 * KIB;
    assert!(target[range.clone()] == source[..512 * KIB], "the range holds the source");
    assert!(target[..range.start] == old[..range.start], "before the range");
    assert!(target[range.end..] == old[range.end..], "behind the range");
}

/// A benchmark that is refused with these words on standard error.
#[track_caller]
fn refused(folder: &Path, words: &str, parts: &[&str]) {
    let output = bench(folder, words);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{words}: {said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{words}: {said}");
}

#[test]
fn too_small_end_is_named_with_size() {
    let folder = folder();
    folder.write("empty", "");
    let words = "stream --source empty --target host";
    refused(folder.path(), words, &["empty has 0 bytes", "hint: name a drive or a larger file"]);
}

#[test]
fn same_file_is_refused_before_consent() {
    let folder = folder();
    let parts = "--routes host --target-offset 512K --length 512K --block 64K";
    for more in ["", "--scratch source", "--scratch source --force"] {
        for ranges in ["", parts] {
            let words = format!("sweep source source {ranges} {more}");
            let hint = "hint: name another file as the target";
            refused(folder.path(), &words, &["source are one file\n", hint]);
        }
    }
}

#[test]
fn misfit_block_and_repeated_end_are_named() {
    let folder = folder();
    for (words, part) in [
        ("stream source host --block 3000", "a block is a multiple of 4096 bytes"),
        (
            "stream --source source --source source --target host",
            "source is given twice as a source",
        ),
    ] {
        refused(folder.path(), words, &[part]);
    }
}

#[test]
fn scratch_source_gets_seeded_pattern() {
    let folder = folder();
    let before = folder.read("source");
    let words = "sweep source target --routes host --block 64K --repeats 1 --seed 7 --json \
                 --scratch source --scratch target --force";
    bench(folder.path(), words).exited(0);
    let after = folder.read("source");
    assert!(after != before, "the source holds a pattern");
    assert!(after == folder.read("target"), "and so does the target");
}

#[test]
fn writes_from_host_are_read_back() {
    let folder = folder();
    for order in ["", "--random"] {
        let words = format!(
            "stream --source host --target new{order} --block 16K --depth 8 --length 512K {order} \
             --repeats 1 --json --scratch new{order}"
        );
        let output = bench(folder.path(), &words).exited(0);
        let run = record(&output).cases.remove(0);
        let checked = run.verification.expect("content is checked");
        assert_eq!((run.bytes.0, checked.mismatches), (512 * KIB as u64, 0));
        assert!(checked.bytes.0 > 0 && checked.bytes <= run.bytes);
    }
}

#[test]
fn record_resumes_with_same_workload_only() {
    let folder = folder();
    let words = "sweep source host --block 4K,64K --routes host --repeats 3 --seed 5";
    let output = bench(folder.path(), &format!("{words} -o run.json --json")).exited(0);
    let mut kept = record(&output);
    let order = |found: &BenchRecord| -> Vec<(String, u32)> {
        found.cases.iter().map(|run| (run.asked.name.clone(), run.repeat)).collect()
    };
    let whole = order(&kept);
    kept.cases.truncate(4);
    let file = folder.at("run.json");
    fs::write(&file, serde_json::to_vec(&kept).expect("JSON")).expect("room");

    let output = bench(folder.path(), &format!("{words} --depth 3 --resume run.json")).exited(2);
    let reason = "the record is of another workload: 4K host: another depth of flow 0: 16, 3";
    output.says(reason);

    let output = bench(folder.path(), &format!("{words} --resume run.json --json")).exited(0);
    let found = record(&output);
    assert_eq!(order(&found), whole, "the order is that of the seed");
    assert_eq!(found.cases[..4], kept.cases[..], "what ran before stays");
    let saved = fs::read_to_string(&file).expect("the record");
    let saved: BenchRecord = serde_json::from_str(&saved).expect("a record");
    assert_eq!(saved, found);

    let text = bench(folder.path(), "compare run.json run.json").exited(1).text();
    assert!(text.contains("a record of the run after is given twice"), "{text}");
}

/// Starts a benchmark, waits for a line that has these words, interrupts it, and returns its status and all
/// that it said.
pub(crate) fn interrupt(
    folder: &Path,
    words: &str,
    at: impl Fn(&str, &mut Child) -> bool,
) -> (Option<i32>, String) {
    let mut child = peerlane_testing::heeding(env!("CARGO_BIN_EXE_peerlane"))
        .arg("bench")
        .args(words.split_whitespace())
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut said = Vec::new();
    for line in lines.by_ref() {
        said.push(line.expect("text"));
        if said.last().is_some_and(|line| at(line, &mut child)) {
            break;
        }
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    said.extend(lines.map_while(Result::ok));
    (child.wait().expect("an end").code(), said.join("\n"))
}

/// Waits until a run was kept, after the first line was said.
pub(crate) fn is_kept<'a>(
    folder: &'a Path,
    file: &'a str,
) -> impl Fn(&str, &mut Child) -> bool + 'a {
    move |line, child| {
        assert!(line.contains("seed"), "{line}");
        while !folder.join(file).exists() {
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "it ended before it kept a run: {ended:?}");
            std::thread::yield_now();
        }
        true
    }
}

#[test]
fn interrupt_exits_130_and_is_resumable() {
    let folder = folder();
    let words = "stream --source source --target host --repeats 100000 -o run.json";
    let (status, said) = interrupt(folder.path(), words, is_kept(folder.path(), "run.json"));
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("--resume run.json"), "{said}");
    let text = folder.text("run.json");
    let kept: BenchRecord = serde_json::from_str(&text).expect("a whole record");
    assert!(!kept.cases.is_empty());
}

#[test]
fn overlapping_transfers_are_refused() {
    let folder = folder();
    let full = r#"
schema = "peerlane.workload/1"
name = "two on one"
kind = "crowd"
seed = 1
repeats = { warm_up = 0, least = 1, most = 1 }
[[cases]]
name = "both"
"#;
    let flow = |offset: usize| {
        format!(
            "[[cases.flows]]\nsource = 'host'\ntarget = 'new'\npath = 'host-pipelined'\n\
             block = '16K'\ndepth = 2\norder = 'sequential'\noffset = 0\ntarget_offset = {offset}\n\
             bytes = '64K'\nstart_ns = 0\n"
        )
    };
    for (offset, status) in [(32 * KIB, 2), (64 * KIB, 0)] {
        let text = format!("{full}{}{}", flow(0), flow(offset));
        folder.write("both.toml", text);
        let output = bench(folder.path(), "run both.toml --scratch new --force --json");
        assert_eq!(output.status.code(), Some(status), "{offset}: {}", said(&output));
        if status == 2 {
            output.says("two transfers of a case meet");
        } else {
            assert_eq!(record(&output).cases[0].flows.len(), 2);
        }
    }
}

#[test]
fn record_replaces_only_a_record() {
    let folder = folder();
    let source = folder.read("source");
    folder.write("notes", "dear diary");
    folder.write("other.json", r#"{"schema":"peerlane.copy/1"}"#);
    folder.write("empty", "");
    std::os::unix::fs::symlink("absent", folder.at("link")).expect("a link");
    let words = "stream --source source --target host --repeats 1";
    for (output, reason) in [
        ("source", "which is measured"),
        ("./source", "which is measured"),
        ("notes", "is not a record of a benchmark"),
        ("other.json", "is not a record of a benchmark"),
        ("empty", "is not a record of a benchmark"),
        ("link", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("absent/run.json", "No such file"),
    ] {
        let found = bench(folder.path(), &format!("{words} -o {output}"));
        assert_eq!(found.status.code(), Some(2), "{output}: {}", said(&found));
        assert!(said(&found).contains(reason), "{output}: {}", said(&found));
    }
    assert!(folder.read("source") == source);
    assert_eq!(folder.text("notes"), "dear diary");
    assert!(folder.at("link").is_symlink() && !folder.at("absent").exists());

    bench(folder.path(), &format!("{words} -o one --trace one"))
        .exited(2)
        .says("two outputs are one file");
    let new = "stream --source host --target new --length 64K --scratch new -o new";
    bench(folder.path(), new).exited(2);
    assert!(!folder.at("new").exists() && !folder.at("one").exists());

    for _ in 0..2 {
        bench(folder.path(), &format!("{words} -o run.json")).exited(0);
    }
}

#[test]
fn impossible_record_is_refused_everywhere() {
    let folder = folder();
    let words = "stream --source source --target host --block 64K,128K --repeats 3 --seed 5";
    let output = bench(folder.path(), &format!("{words} -o run.json --json")).exited(0);
    let found = record(&output);
    let lies: [fn(&mut BenchRecord); 3] = [
        |one| one.cases[0].elapsed_ns.0 = 0,
        |one| one.cases[0].bytes.0 = u64::MAX,
        |one| one.cases[1] = one.cases[0].clone(),
    ];
    for lie in lies {
        let mut lying = found.clone();
        lie(&mut lying);
        folder.write("lie.json", serde_json::to_vec(&lying).expect("JSON"));
        let resume = format!("{words} --resume lie.json");
        for words in ["compare run.json lie.json", resume.as_str()] {
            let output = bench(folder.path(), words);
            assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
            output.says("read the record lie.json");
        }
        Command::new(env!("CARGO_BIN_EXE_peerlane"))
            .args(["report", "lie.json"])
            .current_dir(folder.path())
            .output()
            .expect("the program starts")
            .exited(2);
    }
    let mut fewer = found.clone();
    fewer.cases.retain(|run| run.asked.name == found.asked.cases[0].name);
    fewer.asked.cases.truncate(1);
    let save = |record: &BenchRecord| {
        folder.write("less.json", serde_json::to_vec(record).expect("JSON"));
    };
    save(&fewer);
    bench(folder.path(), "compare run.json less.json")
        .exited(1)
        .says("1 case is missing in less.json");
    fewer.cases.clear();
    save(&fewer);
    bench(folder.path(), "compare less.json less.json").exited(1).says("nothing could be compared");
}

#[test]
fn missing_gpu_is_one_error() {
    let folder = folder();
    for words in ["stream --source source --target gpu:77", "roundtrip source --via gpu:77"] {
        let output = bench(folder.path(), words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(77), "{words}: {said}");
        assert!(said.starts_with("error: cannot measure with gpu:77\ncaused by: "), "{said}");
        assert!(said.contains("\nhint: ") && said.matches("error:").count() == 1, "{said}");
        assert!(output.stdout.is_empty());
    }
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
        assert_eq!((run.bytes.0, run.verification), (LENGTH as u64, None));
        if run.asked.flows[0].path == Way::HostMapped {
            assert!(run.page_faults.is_some_and(|faults| faults.minor + faults.major > 0));
        }
    }
}
