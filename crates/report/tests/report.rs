//! Reports of samples in every form, and of records made to do harm.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::Path;

use peerlane_report::{Drawn, Named, Record, Report, is_report};
use serde_json::Value;

/// The JSON of a sample.
fn value(name: &str) -> Value {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/results/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn named(name: &str, value: &Value) -> Named {
    let record = Record::from_json(&serde_json::to_vec(value).unwrap()).expect(name);
    Named { name: format!("{name}.json"), record }
}

fn sample(name: &str) -> Named {
    named(name, &value(name))
}

const KINDS: [&str; 16] = [
    "bench-sweep",
    "bench-sweep-predicted",
    "bench-sweep-emulated",
    "bench-matrix",
    "bench-crowd",
    "bench-stream",
    "bench-roundtrip",
    "compare",
    "compare-nodes",
    "copy",
    "fan-out",
    "batch",
    "verify",
    "verify-manifest",
    "doctor",
    "plan",
];

#[test]
fn every_kind_matches_its_markdown() {
    for name in KINDS {
        let records = [sample(name)];
        insta::assert_snapshot!(
            format!("markdown-{name}"),
            Report::new(&records, None, &[]).markdown()
        );
    }
}

#[test]
fn csv_has_runs_and_names_others() {
    let records = KINDS.map(sample);
    let (text, left_out) = Report::new(&records, None, &[]).csv();
    insta::assert_snapshot!("csv", text);
    assert_eq!(left_out, ["doctor.json", "plan.json"]);
}

/// A sample with fields of it replaced.
fn changed(name: &str, fields: &[(&str, Value)]) -> Named {
    let mut value = value(name);
    for (key, with) in fields {
        value[key] = with.clone();
    }
    named(name, &value)
}

#[test]
fn witness_of_several_drives_is_named_once() {
    let mut record = value("bench-sweep-emulated");
    for (drive, case) in record["cases"].as_array_mut().unwrap().iter_mut().enumerate() {
        for one in case["evidence"].as_array_mut().unwrap() {
            if one["says"] == "shown" {
                let dma = format!("DMA of 0000:{drive:02x}:00.0, by the kernel's tracing");
                one["looked_at"] = dma.into();
            }
        }
    }
    let records = [named("bench-sweep-emulated", &record)];
    let text = Report::new(&records, None, &[]).markdown();
    let sentence = "The p2p route was shown in every run by the kernel's tracing";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn commonest_limit_of_prediction_comes_first() {
    let mut record = value("bench-sweep-predicted");
    let flow = record["cases"][0]["flows"][0].clone();
    let asked = record["cases"][0]["asked"]["flows"][0].clone();
    let limits = [
        "link of a up",
        "its depth",
        "link of a up",
        "medium of b",
        "memory of c",
        "its depth",
        "link of a up",
    ];
    let limited = |by: &&str| {
        let mut flow = flow.clone();
        flow["limited_by"] = (*by).into();
        flow
    };
    record["cases"][0]["flows"] = limits.iter().map(limited).collect();
    record["cases"][0]["asked"]["flows"] = limits.iter().map(|_| asked.clone()).collect();
    let records = [named("crowd", &record)];
    let report = Report::new(&records, None, &[]);
    let said = "link of a up (3 of 7), its depth (2 of 7), medium of b (1 of 7), 1 more";
    assert!(report.html().unwrap().contains(said) && report.markdown().contains(said));
}

#[test]
fn record_without_runs_has_no_figures() {
    let none = serde_json::json!([]);
    for name in KINDS.into_iter().filter(|name| name.starts_with("bench-")) {
        let fields = [("cases", none.clone()), ("summaries", none.clone())];
        let records = [changed(name, &fields)];
        let report = Report::new(&records, None, &[]);
        let page = report.html().unwrap();
        assert!(!page.contains("<svg") && !page.contains("<table"), "{name}");
        let verdict = report.verdicts().next().unwrap();
        assert!(verdict.starts_with("No case was completed: "), "{name}: {verdict}");
        assert!(page.contains("the record holds what was requested, and no run"), "{name}");
        assert_eq!(report.csv().0.lines().count(), 1, "{name} has a head and no line");
    }
}

/// The machine of the samples: two drives and a third with memory, each behind a root port.
const MACHINE: &str = "
    name = 'outlined'
    cpu = { vendor = 'AuthenticAMD', family = 25 }
    p0 root-port
      nvme0n1 nvme link = '16GT/s x4'
    p1 root-port
      nvme1n1 nvme link = '16GT/s x4'
    p2 root-port
      nvme2 nvme link = '16GT/s x4'; cmb = '64M'";

#[test]
fn loads_are_drawn_on_recorded_machine() {
    const COMPUTED: &str = "computed from their rates and paths, not counted by the links";
    let page = |name, fields: &[_]| {
        let records = [changed(name, fields)];
        Report::new(&records, None, &[]).html().unwrap()
    };
    for name in ["bench-sweep", "bench-sweep-emulated"] {
        let held = page(name, &[("outline", peerlane_testing::machine_text(MACHINE).into())]);
        for words in ["Load of the links, p2p", "Load of the links, host", ">outlined<", COMPUTED] {
            assert!(held.contains(words), "{name}: {words}");
        }
        assert!(held.contains(">memory<") && held.contains(">source<"), "{name}");
        let is_by_link = held.contains("below a quarter of the link");
        assert_eq!(is_by_link, name == "bench-sweep", "{name}");
        for other in ["", "name = 1", "[[function]]", &*"x".repeat(300_000)] {
            assert!(!page(name, &[("outline", other.into())]).contains(COMPUTED), "{other:.20}");
        }
        assert!(!page(name, &[]).contains(COMPUTED), "{name} without a machine");
    }
}

#[test]
fn each_record_uses_machine_of_its_name() {
    let described = |name: &str| peerlane_testing::machine(&MACHINE.replace("outlined", name));
    let machines = ["another", "hand-made sample", "third"].map(described);
    let drawn = |fabric| Drawn { fabric, digest: "none", is_named: true };
    let drawn: Vec<Drawn<'_>> = machines.iter().map(drawn).collect();
    let records = [sample("bench-sweep")];
    let page = Report::new(&records, None, &drawn).html().unwrap();
    assert!(page.contains("The drawing is of hand-made sample"), "that of its name");
    let two = [drawn[0], drawn[2]];
    assert!(!Report::new(&records, None, &two).html().unwrap().contains("The drawing is of"));
    let page = Report::new(&records, None, &drawn[..1]).html().unwrap();
    assert!(page.contains("The drawing is of another"), "the only one");
}

#[test]
fn prediction_stands_beside_measurement_only() {
    let records = [sample("bench-sweep"), sample("bench-sweep-predicted")];
    let text = Report::new(&records, None, &[]).markdown();
    assert!(text.contains("## Predicted against measured: "), "{text}");
    assert!(text.contains("Predicted, not measured: p2p would move"), "{text}");
    let records = [sample("bench-sweep-emulated"), sample("bench-sweep-predicted")];
    let text = Report::new(&records, None, &[]).markdown();
    assert!(!text.contains("## Predicted against measured"), "{text}");
    assert!(text.contains("Emulated machine: semantics, not speed."), "{text}");
}

#[test]
fn several_records_have_one_headline() {
    let text = |names: &[&str]| {
        let records: Vec<Named> = names.iter().map(|name| sample(name)).collect();
        let report = Report::new(&records, None, &[]);
        (report.headline().map(str::to_owned), report.markdown())
    };
    assert_eq!(text(&["bench-sweep"]).0, None);
    let (headline, page) = text(&["bench-sweep", "bench-stream"]);
    insta::assert_snapshot!("headline-measured", headline.unwrap());
    assert!(page.find("## ").unwrap() > page.find("2 benchmarks").unwrap());
    let (headline, page) = text(&["bench-sweep-emulated"; 4]);
    insta::assert_snapshot!("headline-emulated", headline.unwrap());
    let head = page.split("## ").next().unwrap();
    for sentence in
        ["Emulated machine: semantics, not speed", "Content was checked", "p2p was", "Machine: "]
    {
        assert_eq!(head.matches(sentence).count(), 1, "{sentence}: {head}");
    }
}

#[test]
fn a_broken_record_leads_the_headline() {
    let none = serde_json::json!([]);
    let broken = changed("bench-sweep", &[("cases", none.clone()), ("summaries", none)]);
    let records = [sample("bench-matrix"), broken];
    let report = Report::new(&records, None, &[]);
    let headline = report.headline().unwrap();
    assert!(
        headline.starts_with("Something is wrong in 1 of 2 records: bench-sweep"),
        "{headline}"
    );
}

#[test]
fn a_page_fetches_nothing_and_describes_its_figures() {
    let records = KINDS.map(sample);
    let page = Report::new(&records, None, &[]).html().unwrap();
    for what in
        ["http://", "https://", "@import", "url(", "<img", "<iframe", "<link rel=\"stylesheet"]
    {
        assert!(!page.contains(what), "{what}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"").count());
    assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    assert_eq!(page.matches("<table>").count(), page.matches("<caption").count());
    assert!(page.matches("<svg").count() > 10);
}

#[test]
fn exceeded_limit_is_not_sweep_ceiling() {
    let mut value = value("bench-sweep-predicted");
    let cases = value["cases"].as_array_mut().unwrap();
    let first = cases.iter_mut().find(|case| case["asked"]["name"] == "4K host").unwrap();
    for (object, rate) in [("the processor", 820_000_000_u64), ("memory of x", 4_000_000_000)] {
        let limit = serde_json::json!({ "object": object, "bytes_per_second": rate });
        first["limits"].as_array_mut().unwrap().push(limit);
    }
    let records = [named("bench-sweep-predicted", &value)];
    let page = Report::new(&records, None, &[]).html().unwrap();
    // The table has it beside its size, and the chart, where the other is, does not.
    assert!(page.contains("memory of x"));
    assert_eq!(page.matches("the processor").count(), 1);
}

#[test]
fn what_a_report_writes_over_is_a_report() {
    let records = [sample("bench-sweep")];
    let report = Report::new(&records, None, &[]);
    assert!(is_report(&report.html().unwrap()));
    assert!(is_report(&report.markdown()));
    assert!(is_report(&report.csv().0));
    assert!(!is_report("# My notes\n"));
}

#[test]
fn figures_are_files_of_their_own() {
    let records = [sample("bench-sweep"), sample("bench-matrix"), sample("bench-crowd")];
    let figures = Report::new(&records, None, &[]).figures();
    assert!(figures.len() > 6, "{}", figures.len());
    for figure in figures {
        assert!(is_report(&figure.svg), "{}", figure.file);
        let drawing = roxmltree::Document::parse(&figure.svg).expect("XML");
        let words = drawing.descendants().filter(|node| node.has_tag_name("text")).count();
        assert!(words > 4, "{} shows nothing", figure.file);
    }
}

/// Texts that mean something to a browser, a terminal, an editor, a spreadsheet.
const HOSTILE: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img onerror=alert(1)>",
    "</style></svg><b>",
    "\u{1b}[2J\u{7}\u{0}",
    "\u{202e}exe.elif",
    "{{ 7 * 7 }}{% raw %}",
    "](javascript:alert(1))|`x`",
];

/// A record with every text in it replaced.
fn spoiled(name: &str, with: &str) -> Named {
    let mut value = value(name);
    spoil(&mut value, "", with);
    Named { name: with.to_owned(), ..named(name, &value) }
}

/// Texts that are one of a few words, and would make no record otherwise.
const WORDS: [&str; 20] = [
    "schema",
    "use",
    "uses",
    "state",
    "kind",
    "path",
    "order",
    "basis",
    "verdict",
    "says",
    "direction",
    "route",
    "mode",
    "verify",
    "tail",
    "cost",
    "needs",
    "source",
    "target",
    "run",
];

fn spoil(value: &mut Value, key: &str, with: &str) {
    match value {
        Value::String(text) if !WORDS.contains(&key) || text.starts_with("/dev/") => {
            *text = with.to_owned();
        }
        Value::Array(all) => all.iter_mut().for_each(|one| spoil(one, key, with)),
        Value::Object(all) => {
            all.iter_mut().for_each(|(key, one)| spoil(one, key, with));
        }
        _ => {}
    }
}

/// Markdown without its blocks of code; nothing in those has a meaning.
fn unfenced(markdown: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for line in markdown.lines() {
        match fence {
            Some(end) if line == end => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some(line.trim_end_matches("sh")),
            None => lines.push(line),
        }
    }
    assert!(fence.is_none(), "a block of code has no end");
    lines.join("\n")
}

#[test]
fn hostile_text_is_text_in_every_form() {
    let clean = Report::new(&KINDS.map(sample), None, &[]).html().unwrap();
    for with in HOSTILE.into_iter().chain([&*"long ".repeat(20_000)]) {
        let records = KINDS.map(|name| spoiled(name, with));
        let report = Report::new(&records, Some(with), &[]);
        let page = report.html().unwrap();
        assert_eq!(page.matches("<script").count(), 1, "{with}");
        assert!(!page.contains("<img") && !page.contains("49{%"), "{with}");
        for (tag, end) in [("<svg", "</svg>"), ("<style", "</style>"), ("<td", "</td>")] {
            assert_eq!(page.matches(tag).count(), page.matches(end).count(), "{tag} {with}");
        }
        assert!(!page.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{with}");
        assert!(page.len() < 12 * clean.len(), "{} bytes of {with:.20}", page.len());
        let markdown = report.markdown();
        let unescaped = unfenced(&markdown).replace("\\]", "");
        assert!(!unescaped.contains("<script") && !unescaped.contains("](javascript"), "{with}");
        let (csv, _) = report.csv();
        assert!(!csv.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{with}");
    }
}
