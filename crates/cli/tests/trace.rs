//! Traces of copies of real files, and of predictions: what is in them is what the record says.

use std::fs;
use std::path::Path;

use peerlane_results::{BatchRecord, BenchRecord, CopyRecord, FanOutRecord};
use perfetto::{Decoded, decode};
use program::{peerlane, said, typed};
use terminal::Terminal;

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../report/tests/common/perfetto.rs"]
mod perfetto;
mod program;

#[allow(dead_code, reason = "each test program uses a part of it")]
mod schema;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod terminal;
#[path = "../../../tools/testing.rs"]
mod testing;

const LENGTH: usize = (6 << 20) + 77;
const BLOCK: u64 = 128 << 10;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    fs::write(folder.path().join("source"), vec![0x5a; LENGTH]).expect("room");
    folder
}

fn trace(folder: &Path) -> Decoded {
    decode(&fs::read(folder.join("trace")).expect("a trace"))
}

/// Slices on tracks of this name below the drive of any file whose path ends so.
fn on_drive(trace: &Decoded, file: &str, name: &str) -> usize {
    let roots = trace.tracks.values().filter(|(root, parent)| {
        *parent == 0 && root.trim_end_matches(')').ends_with(&format!("/{file}"))
    });
    roots.map(|(root, _)| trace.below(root, name)).sum()
}

#[test]
fn a_trace_has_the_requests_that_the_record_counts() {
    let folder = folder();
    let words = ["copy", "source", "target", "--route", "host", "--block", "128K", "--depth", "5"];
    let more = ["--json", "--verify", "none", "--trace", "trace"];
    let output = peerlane(folder.path(), &[&words[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let record: CopyRecord = schema::read(&output.stdout);
    let trace = trace(folder.path());
    assert_eq!(record.shape.request.0, BLOCK);
    let blocks = usize::try_from(record.bytes.0.div_ceil(BLOCK)).expect("a count");
    assert_eq!(on_drive(&trace, "source", "reads"), blocks);
    assert_eq!(on_drive(&trace, "target", "writes"), blocks);
    assert!(on_drive(&trace, "target", "flushes") >= 1);
    assert_eq!(trace.below("host memory", "payload"), blocks);
    assert!(record.latency.read.count <= blocks as u64);
    let slots = trace.counts_of("host memory", "slots in use");
    let most = slots.iter().max().copied().expect("a counter");
    assert!((1..=u64::from(record.shape.slots)).contains(&most), "{most} slots in use");
    assert_eq!(slots.last(), Some(&0), "no slot stays in use");
    assert!(trace.instants.is_empty(), "nothing was left out");
}

#[test]
fn a_trace_of_several_targets_has_one_read_and_a_write_for_each() {
    let folder = folder();
    let words = ["copy", "source", "a", "b", "--route", "host", "--block", "128K", "--json"];
    let more = ["--verify", "none", "--trace", "trace"];
    let output = peerlane(folder.path(), &[&words[..], &more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let record: FanOutRecord = schema::read(&output.stdout);
    let trace = trace(folder.path());
    let blocks = usize::try_from(record.read.0.div_ceil(BLOCK)).expect("a count");
    assert_eq!(on_drive(&trace, "source", "reads"), blocks);
    assert_eq!(on_drive(&trace, "a", "writes"), blocks);
    assert_eq!(on_drive(&trace, "b", "writes"), blocks);
}

#[test]
fn the_copies_of_a_batch_are_in_one_trace() {
    let folder = folder();
    let jobs = "[[copy]]\nsource = \"source\"\ntarget = \"a\"\n\n\
                [[copy]]\nsource = \"source\"\ntarget = \"b\"\n";
    fs::write(folder.path().join("jobs.toml"), jobs).expect("room");
    let words = ["copy", "--batch", "jobs.toml", "--jobs", "2", "--route", "host", "--json"];
    let output = peerlane(folder.path(), &[&words[..], &["--trace", "trace"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let record: BatchRecord = schema::read(&output.stdout);
    assert_eq!(record.jobs.len(), 2);
    let trace = trace(folder.path());
    let processors = trace.tracks.values().filter(|(name, _)| name.starts_with("processor: "));
    assert_eq!(processors.count(), 2);
    assert!(on_drive(&trace, "a", "writes") > 0 && on_drive(&trace, "b", "writes") > 0);
}

#[test]
fn a_file_that_is_there_or_that_the_copy_makes_is_no_place_for_a_trace() {
    let folder = folder();
    for name in ["source", "missing/trace", "target", "../NAME/target", "journal"] {
        let own = folder.path().file_name().expect("a name").to_string_lossy();
        let name = &name.replace("NAME", &own);
        let words = ["copy", "source", "target", "--route", "host", "--journal", "journal"];
        let words = [&words[..], &["--trace", name]].concat();
        let output = peerlane(folder.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(&format!("cannot write {name}")));
        assert!(!folder.path().join("target").exists(), "nothing was moved");
    }
    assert_eq!(fs::metadata(folder.path().join("source")).expect("it").len(), LENGTH as u64);
}

/// Three drives that fill a fourth one.
fn incast(route: &str) -> String {
    format!(
        "kind = 'crowd'\ndrives = ['d0', 'd1', 'd2', 'd5']\npattern = 'incast'\nroutes = ['{route}']\n\
         blocks = ['128K']\nlength = '64M'\n"
    )
}

/// Blocks that were moved on the model, and its trace.
fn predicted(route: &str) -> (u64, Decoded) {
    let folder = folder();
    fs::write(folder.path().join("crowd.toml"), incast(route)).expect("room");
    let output = typed(folder.path(), "sim ten crowd.toml --json --trace trace");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let note = "trace in trace: open it at https://ui.perfetto.dev";
    assert!(said(&output).contains(note), "{}", said(&output));
    let record: BenchRecord = schema::read(&output.stdout);
    let case = record.cases.iter().find(|case| case.flows.len() == 3).expect("the incast");
    (case.flows.iter().map(|flow| flow.block.count).sum(), trace(folder.path()))
}

#[test]
fn predictions_show_host_memory_empty_or_full_by_their_route() {
    // 16 blocks in flight of each, and two cases of one transfer before that of three.
    for (route, memory, slots) in [("p2p", "cmb:d0", 48), ("host", "host memory", 48)] {
        let (blocks, trace) = predicted(route);
        let memory = format!("{memory} (predicted)");
        let on_host = trace.below("host memory (predicted)", "payload");
        assert_eq!(on_host > 0, route == "host");
        let payload = trace.below(&memory, "payload") as u64;
        assert!(payload > blocks, "{payload} of {blocks} blocks, and those of other windows");
        let counts = trace.counts_of(&memory, "slots in use");
        assert_eq!(counts.iter().max().copied(), Some(slots), "{route}");
        assert_eq!(counts.last(), Some(&0));
        let writes = trace.below("d0 (predicted)", "writes") as u64;
        assert!(writes > blocks, "{writes} of {blocks}");
        assert!(trace.instants.is_empty(), "{:?}", trace.instants);
        let roots = trace.tracks.values().filter(|(_, parent)| *parent == 0);
        for (name, _) in roots {
            assert!(name.ends_with("(predicted)"), "{name}");
        }
    }
}

#[test]
fn the_commands_of_the_page_leave_traces_of_predictions() {
    let folder = folder();
    let page = include_str!("../../../docs/trace.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix("    peerlane "));
    let lines = lines.filter(|line| line.starts_with("sim ") || line.contains("--on model"));
    let mut count = 0;
    for line in lines {
        let output = typed(folder.path(), line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", said(&output));
        let name = line.split("--trace ").nth(1).and_then(|rest| rest.split(' ').next());
        let name = name.expect("a trace");
        let decoded = decode(&fs::read(folder.path().join(name)).expect("a trace"));
        assert!(decoded.slices.len() > 1000, "{line}: {}", decoded.slices.len());
        count += 1;
    }
    assert_eq!(count, 2, "a command of sim, and one of bench");
}

#[test]
fn a_prediction_that_is_interrupted_leaves_nothing_where_its_trace_was_to_be() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let drives = (0..10).map(|drive| format!("d{drive}"));
    let words = ["bench", "crowd"].map(str::to_owned).into_iter().chain(drives);
    let more = "--pattern all-to-all --length 100G --on model --machine ten --trace run.pftrace";
    let words: Vec<String> = words.chain(more.split(' ').map(str::to_owned)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut terminal = Terminal::start(folder.path(), &words, "");
    assert!(terminal.read_until(" s so far"), "{}", terminal.shown);
    terminal.interrupt();
    let left = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0);
}

#[test]
fn a_prediction_without_packets_or_of_many_variants_has_no_trace_and_says_what_to_do() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("crowd.toml"), incast("p2p")).expect("room");
    let file_exists =
        ("crowd.toml", "", "cannot write crowd.toml", "name a file that is not there");
    for (name, more, error, hint) in [
        file_exists,
        ("-", "", "`-` would be a pipe", "`./-` is one of that name"),
        ("run.json", "-o ./run.json", "two files of this command", "choose another name"),
        ("trace", "--engine flow", "this engine simulates no packets", "`--engine tlp`"),
        ("trace", "--engine closed", "this engine simulates no packets", "`--engine tlp`"),
        ("trace", "--vary depth=1,2", "`--vary` makes many", "take `--vary` away"),
    ] {
        let output = typed(folder.path(), &format!("sim ten crowd.toml --trace {name} {more}"));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{name} {more}: {said}");
        let (before, after) = said.split_once("hint: ").expect("a hint");
        assert!(before.contains(error) && after.contains(hint), "{said}");
        assert!(output.stdout.is_empty());
    }
    let many = typed(folder.path(), "sim tree:200 random:300 --trace trace");
    assert_eq!(many.status.code(), Some(2), "{}", said(&many));
    assert!(said(&many).contains("too many transfers run at a time"), "{}", said(&many));
    assert!(!at("trace").exists() && !at("run.json").exists() && !at("-").exists());
    assert_eq!(fs::read_to_string(at("crowd.toml")).expect("it"), incast("p2p"));
}
