//! Files that commands write under a person's name for them: whole or not at all, never over foreign files.
//!
//! The rules have their own tests (`src/output_file/tests.rs`); here is that every option follows them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{self, Exited, names, said};
use peerlane_testing::{Scratch, Tmpfs};

const PEERLANE: &str = env!("CARGO_BIN_EXE_peerlane");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
/// User and group `nobody`, by the number that Linux takes for unknown ones.
const NOBODY: u32 = 65534;

/// Commands with an option for a file, and the name that they are given for it: `OUT`.
fn commands() -> Vec<(&'static str, String)> {
    let run = format!("{FIXTURES}/results/bench-sweep-emulated.json");
    let stream = "bench stream --source source --target host --repeats 1";
    vec![
        ("report", format!("report {run} -o OUT --format html")),
        ("prediction", "bench sweep a b --via cmb:c --on model --machine pair -o OUT".to_owned()),
        ("record", format!("{stream} -o OUT")),
        ("trace", format!("{stream} --trace OUT")),
        ("job", format!("{stream} --fio OUT")),
        ("capture.tar.zst", "capture -o OUT".to_owned()),
        ("capture", "capture -o OUT".to_owned()),
    ]
}

/// Runs a command in a folder with a file `source`.
fn peerlane(folder: &Path, words: &str, out: &str) -> Output {
    let words = words.replace("OUT", out);
    program::typed(folder, &words)
}

fn folder() -> Scratch {
    with_source(Scratch::below(env!("CARGO_TARGET_TMPDIR")))
}

fn with_source(folder: Scratch) -> Scratch {
    folder.write("source", vec![7; 1 << 20]);
    folder
}

/// Names in a folder, in order.
#[test]
fn output_options_keep_foreign_files() {
    for (name, words) in commands() {
        let folder = folder();
        let output = peerlane(folder.path(), &words, name);
        assert_eq!(output.status.code(), Some(0), "{words}: {}", said(&output));
        assert_eq!(names(folder.path()).len(), 2, "{words}: {:?}", names(folder.path()));
        let found = fs::metadata(folder.at(name)).expect("it");
        let mode = found.permissions().mode() & 0o777;
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode & 0o700, expected, "{words}: {mode:o}");

        let theirs = format!("theirs-{name}");
        folder.write(&theirs, "dear diary");
        std::os::unix::fs::symlink(name, folder.at(format!("link-{name}"))).expect("a link");
        folder.folder(format!("folder-{name}"));
        let content = || {
            fs::read(folder.at(name))
                .or_else(|_| Ok::<_, std::io::Error>(names(&folder.at(name)).concat().into()))
        };
        let before = (names(folder.path()), content().expect("it"));
        for place in [&theirs, &format!("link-{name}"), &format!("folder-{name}")] {
            let output = peerlane(folder.path(), &words, place);
            assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
            output.says(&format!("cannot write {place}"));
            assert!(said(&output).contains("hint: "), "{words}: {}", said(&output));
        }
        assert_eq!((names(folder.path()), content().expect("it")), before, "{words}");
        assert_eq!(folder.read(&theirs), b"dear diary", "{words}");
    }
}

#[test]
fn figure_replaces_only_a_figure() {
    let folder = folder();
    let run = format!("{FIXTURES}/results/bench-sweep-emulated.json");
    let words = format!("report {run} -o OUT --svg figures");
    peerlane(folder.path(), &words, "page.html").exited(0);
    let figures = names(&folder.at("figures"));
    let at = |name: &String| folder.at("figures").join(name);
    let drawn = fs::read(at(&figures[0])).expect("a figure");
    let output = peerlane(folder.path(), &words, "page.html");
    assert_eq!(output.status.code(), Some(0), "a second time: {}", said(&output));

    // A picture of somebody else's under the name of the last one: not even the first is written.
    let last = at(figures.last().expect("a figure"));
    let theirs = include_bytes!("../../../../docs/examples/topo-r7515.svg");
    fs::write(&last, theirs).expect("room");
    fs::remove_file(at(&figures[0])).expect("it");
    peerlane(folder.path(), &words, "other.html").exited(2).says("is not a report");
    assert!(fs::read(&last).expect("it") == theirs, "theirs is gone");
    assert_eq!(names(&folder.at("figures")), figures[1..]);
    assert!(!folder.at("other.html").exists());

    fs::remove_file(&last).expect("it");
    peerlane(folder.path(), &words, "page.html").exited(0);
    assert!(fs::read(at(&figures[0])).expect("a figure") == drawn, "it is as it was");
}

#[test]
fn page_named_like_figure_is_refused() {
    let folder = folder();
    let run = format!("{FIXTURES}/results/bench-sweep-emulated.json");
    peerlane(folder.path(), &format!("report {run} --svg OUT"), "first").exited(0);
    let figures = names(&folder.at("first"));
    let last = figures.last().expect("a figure");
    folder.folder("second");
    let words = format!("report {run} -o OUT --format html --svg ./second");
    let output = peerlane(folder.path(), &words, &format!("second/{last}")).exited(2);
    output.says("two files of this command would be there");
    output.says("hint: choose another name");
    assert!(names(&folder.at("second")).is_empty());
}

#[test]
fn dma_report_replaces_only_its_like() {
    let folder = folder();
    let kernel = folder.at("kernel");
    fs::write(&kernel, "none").expect("room");
    let words = format!("lab run --kernel {} --dma OUT -- true", kernel.display());
    peerlane(folder.path(), &words, "source").exited(2).says("is not a report of the recorder");
    assert!(folder.read("source") == [7; 1 << 20]);
}

#[test]
fn console_replaces_nothing() {
    let folder = folder();
    let kernel = folder.at("kernel");
    fs::write(&kernel, "none").expect("room");
    std::os::unix::fs::symlink("nowhere", folder.at("link")).expect("a link");
    let before = names(folder.path());
    for place in ["source", "link", ".", "gone/console"] {
        let words = format!("lab run --kernel {} --console OUT -- true", kernel.display());
        peerlane(folder.path(), &words, place).exited(2).says(&format!("cannot write {place}"));
    }
    assert!(folder.read("source") == [7; 1 << 20]);
    assert_eq!(names(folder.path()), before);
}

#[test]
fn console_goes_to_streams_only() {
    let folder = folder();
    let kernel = folder.at("kernel");
    fs::write(&kernel, "none").expect("room");
    let pipe = folder.at("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    std::os::unix::fs::symlink("pipe", folder.at("link")).expect("a link");
    let words = format!("lab run --kernel {} --console OUT -- true", kernel.display());
    let said = |place: &str| {
        let output = peerlane(folder.path(), &words, place).exited(2);
        said(&output)
    };
    let refused = |place: &str| said(place).contains(&format!("cannot write {place}"));
    // Nobody reads it, and nobody waits for that.
    let alone = said("pipe");
    assert!(alone.contains("cannot write pipe"), "{alone}");
    assert!(alone.contains("hint: the pipe has no reader"), "{alone}");
    let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("a reader");
    // These get as far as the kernel, which is none.
    for place in ["pipe", "/dev/stderr", "/dev/stdout", "/dev/fd/2", "/dev/null"] {
        assert!(!refused(place), "{place}: {}", said(place));
    }
    for place in ["link", "/dev/zero", "/dev/random", "/dev/fd/../null", "/dev/fd"] {
        assert!(refused(place), "{place}: {}", said(place));
    }
    drop(reader);
}

#[test]
fn reference_pages_replace_their_like_only() {
    let folder = folder();
    let write = || peerlane(folder.path(), "reference --write OUT", "pages");
    assert_eq!(write().status.code(), Some(0));
    assert_eq!(write().status.code(), Some(0), "a second time");
    for theirs in ["cli.md", "schema/copy-1.json"] {
        let place = folder.at("pages").join(theirs);
        let page = fs::read(&place).expect("a page");
        fs::write(&place, "dear diary").expect("room");
        write().exited(2).says("is not a page of the reference");
        assert_eq!(fs::read(&place).expect("it"), b"dear diary");
        fs::write(&place, page).expect("room");
    }
    // Somebody else's page among them, and none is written.
    fs::remove_dir_all(folder.at("pages")).expect("pages");
    folder.folder("pages/schema");
    let last = folder.at("pages/schema/workload-1.json");
    fs::write(&last, "dear diary").expect("room");
    assert_eq!(write().status.code(), Some(2));
    assert_eq!(names(&folder.at("pages")), ["schema"]);
    assert_eq!(names(&folder.at("pages/schema")), ["workload-1.json"]);
    assert_eq!(fs::read(&last).expect("it"), b"dear diary");
}

#[test]
fn grouped_files_are_named_when_whole() {
    let folder = folder();
    let place = folder.at("small");
    let Some(mounted) = Tmpfs::on(&place, "size=64k") else { return };
    let output = peerlane(folder.path(), "reference --write OUT", "small");
    let found = (names(&place), names(&place.join("schema")));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    output.says("No space left");
    assert_eq!(found, (vec!["schema".to_owned()], Vec::new()));
    drop(mounted);
}

#[test]
fn full_disk_leaves_old_output() {
    let folder = folder();
    let place = folder.at("small");
    let Some(mounted) = Tmpfs::on(&place, "size=16k") else { return };
    let run = format!("{FIXTURES}/results/bench-sweep-emulated.json");
    let words = format!("report {run} -o OUT");
    fs::write(place.join("page.html"), "<!doctype html>\n<!-- written by peerlane report -->\n")
        .expect("room");
    let before = fs::read(place.join("page.html")).expect("it");
    let output = peerlane(folder.path(), &words, "small/page.html");
    let found = (names(&place), fs::read(place.join("page.html")).expect("it"));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    output.says("No space left");
    output.says("hint: make room there");
    assert_eq!(found, (vec!["page.html".to_owned()], before));
    let output = peerlane(folder.path(), "haystack make --images 2 -o OUT", "small/hay").exited(2);
    output.says("No space left");
    output.says("hint: name a folder");
    drop(mounted);
}

#[test]
fn output_without_room_is_named() {
    let folder = folder();
    let place = folder.at("small");
    let Some(mounted) = Tmpfs::on(&place, "size=4k") else { return };
    let many = "bench stream --source source --target host --block 4K --repeats 1";
    for (name, words) in [
        ("record", format!("{many} -o OUT")),
        ("trace", format!("{many} --trace OUT")),
        ("trace", "copy source copied --force --route host --trace OUT".to_owned()),
        ("capture", "capture -o OUT".to_owned()),
    ] {
        let out = format!("small/{name}");
        let output = peerlane(folder.path(), &words, &out);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        let expected = format!(
            "error: cannot write {out}\ncaused by: No space left on device (os error 28)\n\n\
             hint: make room there, or name a file elsewhere\n"
        );
        assert!(said(&output).contains(&expected), "{words}: {}", said(&output));
        assert_eq!(names(&place), [""; 0], "{words}");
    }
    drop(mounted);
}

#[test]
fn failed_run_outranks_failed_trace() {
    let folder = folder();
    let place = folder.at("small");
    let Some(mounted) = Tmpfs::on(&place, "size=4k") else { return };
    let words = "bench stream --source source --target host --block 4K --repeats 1 -o OUT/record --trace OUT/trace";
    let output = peerlane(folder.path(), words, "small").exited(2);
    for name in ["record", "trace"] {
        let expected = format!("error: cannot write small/{name}");
        output.says(&expected);
    }
    drop(mounted);
}

#[test]
fn read_only_place_is_refused() {
    let folder = folder();
    let place = folder.at("small");
    let Some(mounted) = Tmpfs::on(&place, "ro") else { return };
    for (name, words) in commands() {
        let output = peerlane(folder.path(), &words, &format!("small/{name}"));
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        output.says("hint: name a file elsewhere");
    }
    drop(mounted);
}

#[test]
fn foreign_place_is_refused_first() {
    // Others than root may not come to what is built below root's home.
    let folder = with_source(Scratch::new());
    let set_mode = |name: &str, mode: u32| {
        fs::set_permissions(folder.at(name), Permissions::from_mode(mode)).expect("a mode");
    };
    peerlane_testing::copy_program(PEERLANE.as_ref(), folder.path());
    folder.folder("closed");
    for (name, mode) in [(".", 0o755), ("source", 0o644), ("closed", 0o555)] {
        set_mode(name, mode);
    }
    for (name, words) in commands().into_iter().filter(|(name, _)| !name.starts_with("capture")) {
        let words = words.replace("OUT", &format!("closed/{name}"));
        let words =
            words.replace(&format!("{FIXTURES}/results/bench-sweep-emulated.json"), "source");
        let mut command = Command::new("./peerlane");
        command.args(words.split_whitespace()).current_dir(folder.path());
        if rustix::process::getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output();
        let output = output.unwrap_or_else(|error| panic!("{words}: {error}"));
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        output.says("Permission denied (os error 13)\n");
        assert!(said(&output).contains("hint: name a file where you may write"), "{words}");
        assert!(said(&output).contains(&format!("cannot write closed/{name}")), "{words}");
    }
    set_mode("closed", 0o755);
    assert!(names(&folder.at("closed")).is_empty());
}

#[test]
fn file_size_limit_names_the_file() {
    for (words, file) in [
        ("copy source OUT", "copied"),
        ("copy source OUT --journal journal", "copied"),
        ("bench stream --source source --target host --repeats 1 -o OUT", "record"),
        ("sim tree:64 random:100 --engine flow -o OUT", "record"),
    ] {
        let folder = folder();
        let words = words.replace("OUT", file);
        let output = Command::new("sh")
            .args(["-c", "ulimit -f 8; exec \"$@\"", "sh", PEERLANE])
            .args(words.split(' '))
            .current_dir(folder.path())
            .output()
            .expect("the program starts");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        for part in [file, "File too large", "hint: `ulimit -f` shows"] {
            assert!(said.contains(part), "{words}: {said}");
        }
        assert!(!folder.at(file).exists(), "{words}: {:?}", names(folder.path()));
    }
}
