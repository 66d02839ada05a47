//! Copies of real files to several targets, and lists of copies.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::lab;
use crate::program::{Exited, peerlane, said};
use peerlane_results::{CopyRecord, PlanRecord};
use peerlane_testing::{Loop, Scratch};

const LENGTH: usize = (5 << 20) + 77;

/// A folder with a source, on the file system of the build.
fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let content: Vec<u8> = (0..LENGTH)
        .map(|index| u8::try_from((index / 7 + index / 4096) % 251).expect("a byte"))
        .collect();
    folder.write("source", content);
    folder
}

fn is_copy(folder: &Path, name: &str) -> bool {
    let read = |name: &str| fs::read(folder.join(name)).expect("a file");
    read(name) == read("source")
}

#[test]
fn one_source_becomes_several_targets() {
    let folder = folder();
    let words = ["copy", "source", "a", "b", "c", "--route", "host", "--json", "--verify", "full"];
    let output = peerlane(folder.path(), &words).exited(0);
    let record: CopyRecord = lab::schema::read(&output.stdout);
    assert_eq!(record.jobs.len(), 1);
    assert_eq!((record.jobs[0].read.0, record.jobs[0].targets.len()), (LENGTH as u64, 3));
    assert!(["a", "b", "c"].iter().all(|name| is_copy(folder.path(), name)));
    let output = peerlane(folder.path(), &["plan", "source", "d", "e", "--json"]);
    let plan: PlanRecord = lab::schema::read(&output.stdout);
    assert_eq!((plan.jobs.len(), plan.targets().count()), (1, 2));
    assert!(plan.targets().all(|target| target.plan.is_some()));
    let dry = peerlane(folder.path(), &["copy", "source", "d", "e", "--dry-run"]);
    assert!(String::from_utf8_lossy(&dry.stdout).contains("2 targets: route host"));
    assert!(!folder.at("d").exists(), "a dry run changes nothing");
}

#[test]
fn targets_get_permissions_less_umask() {
    let folder = folder();
    let mode = |name: &str| fs::metadata(folder.at(name)).expect("a file").mode() & 0o7777;
    fs::set_permissions(folder.at("source"), Permissions::from_mode(0o775)).expect("mine");
    let jobs = "[[copy]]\nsource = 'source'\ntarget = 'c'\n";
    folder.write("jobs.toml", jobs.to_owned() + &jobs.replace("'c'", "'d'"));
    let program = env!("CARGO_BIN_EXE_peerlane");
    for (umask, expected) in [("022", 0o755), ("027", 0o750), ("077", 0o700), ("000", 0o775)] {
        let script = format!(
            "umask {umask}; '{program}' copy source a b --route host -q; \
             '{program}' copy --batch jobs.toml --jobs 2 --route host -q"
        );
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-ec", &script]).current_dir(folder.path()).output();
        output.expect("a shell").exited(0);
        for name in ["a", "b", "c", "d"] {
            assert_eq!(mode(name), expected, "{name}, umask {umask}");
            fs::remove_file(folder.at(name)).expect("a target");
        }
    }
}

#[test]
fn at_most_sixteen_targets_are_accepted() {
    let folder = folder();
    let names: Vec<String> = (0..17).map(|number| format!("t{number}")).collect();
    let words = |count: usize| {
        let targets = names[..count].iter().map(String::as_str);
        let more = ["--route", "host", "--block", "64K", "--depth", "1"];
        ["copy", "source"].into_iter().chain(targets).chain(more).collect::<Vec<_>>()
    };
    peerlane(folder.path(), &words(16)).exited(0);
    assert!(names[..16].iter().all(|name| is_copy(folder.path(), name)));
    peerlane(folder.path(), &words(17)).exited(2);
    assert!(!folder.at("t16").exists());
}

#[test]
fn one_target_is_one_job_with_one_target() {
    let folder = folder();
    let output = peerlane(folder.path(), &["copy", "source", "a", "--route", "host", "--json"]);
    let record: CopyRecord = lab::schema::read(&output.stdout);
    let job = &record.jobs[0];
    assert_eq!((job.source.as_str(), job.read.0), ("source", LENGTH as u64));
    assert_eq!(job.targets[0].target, "a");
    assert_eq!(record.only().expect("a completed copy").bytes.0, LENGTH as u64);
}

#[test]
fn one_refused_target_keeps_all() {
    let folder = folder();
    folder.write("b", "precious");
    let output =
        peerlane(folder.path(), &["copy", "source", "a", "b", "--route", "host"]).exited(2);
    output.says("b already exists");
    assert!(!folder.at("a").exists());
    assert_eq!(folder.read("b"), b"precious");
    let output = peerlane(folder.path(), &["copy", "source", "a", "./a", "--route", "host"]);
    output.says("two targets are one file");
}

const JOBS: &str = "
[[copy]]
source = 'source'
target = 'a'
verify = 'full'

[[copy]]
source = 'source'
targets = ['b', 'c']
block = '64K'
length = 1000000
limit = '100M'
";

#[test]
fn batch_is_reported_in_one_object() {
    let folder = folder();
    folder.write("jobs.toml", JOBS);
    let words = ["copy", "--batch", "jobs.toml", "--jobs", "2", "--route", "host", "--json"];
    let output = peerlane(folder.path(), &words).exited(0);
    let record: CopyRecord = lab::schema::read(&output.stdout);
    assert_eq!(record.jobs.len(), 2);
    assert!(
        record.jobs.iter().zip([LENGTH as u64, 1_000_000]).all(|(job, read)| job.read.0 == read)
    );
    let lengths: Vec<u64> = (record.jobs.iter().flat_map(|job| &job.targets))
        .map(|target| target.copied.as_ref().expect("a completed copy").bytes.0)
        .collect();
    assert_eq!(lengths, [LENGTH as u64, 1_000_000, 1_000_000]);
    assert!(is_copy(folder.path(), "a"));
    // Nothing begins again over what is there, and nothing of the list begins at all.
    fs::remove_file(folder.at("a")).expect("a");
    let output =
        peerlane(folder.path(), &["copy", "--batch", "jobs.toml", "--route", "host"]).exited(2);
    output.says("copy 2: ");
    assert!(!folder.at("a").exists());
}

#[test]
fn limit_holds_for_whole_batch() {
    let folder = folder();
    let jobs = "[[copy]]\nsource='source'\ntarget='a'\n[[copy]]\nsource='source'\ntarget='b'\n";
    folder.write("jobs.toml", jobs);
    let start = std::time::Instant::now();
    let words =
        ["copy", "--batch", "jobs.toml", "--jobs", "2", "--route", "host", "--limit", "10M"];
    peerlane(folder.path(), &[&words[..], &["--block", "64K"]].concat()).exited(0);
    // Twice 5 MiB by 10 MB a second, less the burst of a tenth of a second and what is in flight.
    assert!(start.elapsed().as_secs_f64() > 0.9, "{:?}", start.elapsed());
}

#[test]
fn overlapping_batch_copies_are_refused() {
    let folder = folder();
    let jobs = "[[copy]]\nsource='source'\ntarget='a'\n[[copy]]\nsource='source'\ntarget='./a'\n";
    folder.write("jobs.toml", jobs);
    let output =
        peerlane(folder.path(), &["copy", "--batch", "jobs.toml", "--route", "host"]).exited(2);
    output.says("copies 1 and 2: two targets are one file");
    assert!(!folder.at("a").exists());
}

#[test]
fn unknown_batch_key_names_its_line() {
    let folder = folder();
    for (jobs, words) in [
        ("[[copy]]\nsource='source'\ntarget='a'\nblok='1M'\n", &["line 4", "`blok`"][..]),
        ("[[copy]]\nsource='source'\ntarget='a'\nblock='0'\n", &["line 4", "at least one byte"]),
        ("[[copy]]\nsource='source'\ntarget='a'\ndepth=5000\n", &["line 4", "1..=1024"]),
        ("[[copy]]\nsource='source'\ntarget='a'\nroute='fast'\n", &["line 4", "auto, p2p, host"]),
        ("[[copy]]\nsource='source'\n", &["copy 1", "no `target`"]),
        ("[[copy]]\nsource='source'\ntarget='a'\ntargets=['b']\n", &["`target` and `targets`"]),
        ("", &["no `[[copy]]`"]),
        ("jobs = 1\n", &["line 1", "unknown field"]),
    ] {
        folder.write("jobs.toml", jobs);
        let output = peerlane(folder.path(), &["copy", "--batch", "jobs.toml"]);
        assert_eq!(output.status.code(), Some(2), "{jobs}");
        let said = said(&output);
        assert!(words.iter().all(|word| said.contains(word)), "{jobs}: {said}");
    }
}

#[test]
fn batch_ranges_of_drive_take_turns() {
    let folder = folder();
    let image = folder.at("image");
    fs::File::create_new(&image).expect("an image").set_len(32 << 20).expect("room");
    let Some(device) = Loop::over(&image) else { return };
    let job = |offset: u32| {
        let (target, offset) = (device.typed(), format!("target-offset={offset}"));
        format!("[[copy]]\nsource='source'\ntarget='{target}'\n{offset}\n")
    };
    let starts = [0, 8 << 20, 16 << 20, 24 << 20];
    folder.write("jobs.toml", starts.map(job).concat());
    let words = ["copy", "--batch", "jobs.toml", "--jobs", "4", "--force"];
    peerlane(folder.path(), &words).exited(0);
    let (found, source) = (fs::read(&image), fs::read(folder.at("source")));
    let (found, source) = (found.expect("an image"), source.expect("a source"));
    for start in starts {
        let start = usize::try_from(start).expect("a place");
        assert!(found[start..].starts_with(&source), "at {start}");
    }
}

#[test]
fn irregular_batch_file_is_refused() {
    let folder = folder();
    let pipe = folder.at("pipe");
    let mode = rustix::fs::Mode::from_bits_truncate(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("room");
    for list in ["pipe", "/dev/zero", "."] {
        let output = peerlane(folder.path(), &["copy", "--batch", list]);
        assert_eq!(output.status.code(), Some(2), "{list}");
        output.says("it is not a regular file");
    }
    folder.write("long", vec![b'#'; (4 << 20) + 1]);
    let output = peerlane(folder.path(), &["copy", "--batch", "long"]);
    output.says("it is larger than 4 MiB");
}

#[test]
fn batch_is_not_resumed_as_one() {
    let folder = folder();
    peerlane(folder.path(), &["copy", "--batch", "jobs.toml", "--resume"])
        .exited(2)
        .says("cannot be used with");
}
