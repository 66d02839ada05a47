//! Benchmarks on the model: they write nothing but the record.

use std::fs;

use super::{bench, folder, record, said};
use crate::program::Exited;

#[test]
fn prediction_overwrites_only_a_record() {
    let folder = folder();
    fs::write(folder.path().join("precious"), "dear diary").expect("room");
    let words = "sweep a b --block 1M --on model --machine pair";
    bench(folder.path(), &format!("{words} -o precious"))
        .exited(2)
        .says("is not a record of a benchmark");
    let precious = fs::read_to_string(folder.path().join("precious")).expect("it");
    assert_eq!(precious, "dear diary");
    for _ in 0..2 {
        bench(folder.path(), &format!("{words} -o run.json")).exited(0);
    }
}

#[test]
fn model_refuses_options_it_ignores() {
    let folder = folder();
    let words = "stream --source a --target host --on model";
    for more in [
        "--resume run.json",
        "--scratch a",
        "--force",
        "--timeout 5",
        "--fio j",
        "--repeats 2",
        "--warm-up 0",
        "--until 2%",
    ] {
        let output = bench(folder.path(), &format!("{words} --machine pair {more}"));
        assert_eq!(output.status.code(), Some(2), "{more}");
        assert!(said(&output).contains("cannot be used with"), "{more}: {}", said(&output));
    }
    let measured = "stream --source source --target host";
    for (words, reason) in [
        (words.to_owned(), "--machine <WHAT>"),
        (format!("{measured} --machine pair"), "--on <WHERE>"),
        (format!("{measured} --on this --machine pair"), "`--on this` measures"),
        (format!("{measured} --parameters p.toml"), "--machine <WHAT>"),
    ] {
        let output = bench(folder.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(said(&output).contains(reason), "{words}: {}", said(&output));
    }
    let rate = |more: &str| {
        let output =
            bench(folder.path(), &format!("{words} --machine pair --json {more}")).exited(0);
        record(&output).summaries[0].rate.mean
    };
    let slow = "[parameter.\"drive.read.rate\"]\nvalue = 1\nunit = \"MB/s\"\nfrom = \"guess\"\n\
                source = \"this test\"\n";
    fs::write(folder.path().join("p.toml"), slow).expect("room");
    assert!(rate("--parameters p.toml") < rate("") / 100.0);
}

#[test]
fn predictions_are_compared_without_test() {
    let folder = folder();
    let slow = "[parameter.\"drive.read.rate\"]\nvalue = 100\nunit = \"MB/s\"\nfrom = \"guess\"\n\
                source = \"this test\"\n";
    fs::write(folder.path().join("p.toml"), slow).expect("room");
    let words = "stream --source a --target host --on model --machine pair";
    for more in ["-o before.json", "-o after.json --parameters p.toml"] {
        bench(folder.path(), &format!("{words} {more}")).exited(0);
    }
    let output = bench(folder.path(), "compare before.json after.json");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", said(&output));
    assert!(text.contains("both are predicted") && text.contains("slower by the model"), "{text}");
    for word in ["confidence", "Welch", "threshold", " to 0."] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn options_affect_model_or_are_named() {
    let folder = folder();
    let words = "stream --source host --target a --block 4K --depth 64 --on model --machine pair";
    let of = |more: &str| {
        let output = bench(folder.path(), &format!("{words} --json {more}")).exited(0);
        (record(&output), said(&output))
    };
    let (plain, _) = of("");
    let (random, _) = of("--random");
    assert!(random.summaries[0].rate.mean < 0.5 * plain.summaries[0].rate.mean);
    let (timed, _) = of("--time 3");
    assert_eq!(timed.cases[0].elapsed_ns.0, 3_000_000_000);
    let (limited, _) = of("--limit 10MB");
    assert!((limited.summaries[0].rate.mean / 10e6 - 1.0).abs() < 0.01);
    let (moved, words) = of("--offset 1M --target-offset 2M");
    assert_eq!(moved.summaries, plain.summaries);
    for option in ["--offset", "--target-offset"] {
        assert!(words.contains(&format!("{option} changes nothing on the model")), "{words}");
    }
}

#[test]
fn model_routes_host_path_into_gpu() {
    let folder = folder();
    for (ends, slower) in
        [("--source drive0 --target gpu:gpu", true), ("--source gpu:gpu --target drive0", false)]
    {
        let words = format!(
            "stream {ends} --on model --machine donard-gen5 --length 16M --block 1M --depth 1 \
             --routes p2p,host --json"
        );
        let output = bench(folder.path(), &words).exited(0);
        let found = record(&output);
        let bytes = |run: &peerlane_results::CaseRecord| {
            (run.host_memory.bytes.map_or(0, |bytes| bytes.0), run.bytes_by_route.host.0)
        };
        let (length, runs) = (16 << 20, &found.cases);
        assert_eq!(bytes(&runs[0]), (0, 0), "{ends}");
        // Written there, and read out of it again.
        assert_eq!(bytes(&runs[1]), (2 * length, length), "{ends}");
        assert!(!slower || runs[1].elapsed_ns > runs[0].elapsed_ns, "a leg more");
    }
}

/// Eight drives of 13 GB/s below one socket, a GPU below the other, and a port that is called as no host bridge is.
fn two_sockets() -> String {
    let drive =
        |n| format!(" root{n} root-port\n  a{n} nvme read = '13GB/s'; link = '32GT/s x4'\n");
    let drives: String = (0..8).map(drive).collect();
    peerlane_testing::machine_text(&format!(
        "name = 'two'\niommu = 'off'\ncpu = {{ vendor = 'AuthenticAMD', family = 25 }}\n\
         pci0000:00 host-bridge numa_node = 0\n{drives}\
         pci0000:80 host-bridge numa_node = 1\n top root-port\n  g gpu link = '32GT/s x16'"
    ))
}

#[test]
fn socket_link_is_named_by_bridges() {
    let folder = folder();
    fs::write(folder.path().join("two.toml"), two_sockets()).expect("room");
    let sources: String = (0..8).map(|n| format!(" --source a{n}")).collect();
    let words = format!("stream{sources} --target gpu:0 --on model --machine two.toml --block 1M");
    let output = bench(folder.path(), &words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for line in [
        "limit     link between sockets from pci0000:00 to pci0000:80 (8 of 8 transfers)",
        "gain      10 % more of link between sockets from pci0000:00 to pci0000:80: 10.0 % more",
        "link      pci0000:00 to pci0000:80: 31.0 GB/s, 100 % busy in the mean",
        "warning: the rate between peers through pci0000:00 and pci0000:80 is not given (`p2p_write`),",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("root1") && !text.contains("31.0 GB/s to 31.0 GB/s"), "{text}");
}

#[test]
fn assumptions_are_stated_once() {
    let folder = folder();
    let words = "sweep a b --via cmb:c --block 64K,1M --on model --machine pair";
    let text = bench(folder.path(), words).text();
    let line = "warning: nothing says how fast the links of switch, a, b and c are: taken for 16GT/s x4; \
                say it in the machine file (`link = \"16GT/s x4\"`)";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    assert_eq!(text.matches("warning:").count(), 1, "{text}");
}
