//! Searches for a picture by either method, from the command line.

use std::fs;
use std::process::Output;

use crate::program::{self, Exited, peerlane, said, typed};
use peerlane_results::{HIT_SCHEMA, HitRecord, ScanMethod};
use peerlane_testing::Scratch;

/// Six images, with the picture in all of them.
fn haystack() -> Scratch {
    let folder = Scratch::new();
    typed(folder.path(), "haystack make --seed 3 --images 6 --side 700 --per-mille 1000 -o hay -q")
        .exited(0);
    folder
}

fn hits(output: &Output) -> Vec<HitRecord> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut hits: Vec<HitRecord> =
        text.lines().map(|line| serde_json::from_str(line).expect("a hit")).collect();
    hits.sort_by(|a, b| a.image.cmp(&b.image));
    hits
}

#[test]
fn both_methods_find_same_places() {
    let hay = haystack();
    let find = |method: &str| {
        let words = format!("scan hay/picture.png hay/images --json --threads 2 {method}");
        let output = typed(hay.path(), &words).exited(0);
        (hits(&output), said(&output))
    };
    let (ours, _) = find("");
    let (donards, told) = find("--method donard --threshold 60");
    let place = |hit: &HitRecord| (hit.image.clone(), hit.x, hit.y);
    assert_eq!(ours.len(), 6);
    assert_eq!(
        ours.iter().map(place).collect::<Vec<_>>(),
        donards.iter().map(place).collect::<Vec<_>>()
    );
    assert!(ours.iter().all(|hit| hit.method == ScanMethod::Ncc && hit.score <= 1.0));
    assert!(donards.iter().all(|hit| hit.method == ScanMethod::Donard && hit.score > 60.0));
    assert!(donards.iter().all(|hit| hit.schema == HIT_SCHEMA));
    assert!(told.contains("the picture itself scores"), "{told}");
}

#[test]
fn meaningless_method_options_are_refused() {
    let hay = haystack();
    for (words, says, hint) in [
        ("--method donard --scales 0.5,1", "in no other size or rotation", "--scales"),
        ("--method donard --rotations 90", "in no other size or rotation", "--rotations"),
        ("--method donard --threshold 1e6", "no image scores more than", "--threshold"),
        ("--method donard --on cuda", "searched by the processor only", "--on"),
        ("--threshold 250", "not a correlation from 0.3 to 1", "--method donard"),
        ("--threshold 0", "above 0", ""),
        ("--method other", "donard", ""),
    ] {
        let output = typed(hay.path(), &format!("scan hay/picture.png hay/images {words}"));
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(says), "{words}: {}", said(&output));
        let told = said(&output);
        let told = told.split_once("hint: ").map_or("", |(_, told)| told);
        assert!(told.contains(hint), "{words}: {}", said(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn sheet_replaces_only_a_sheet() {
    let hay = haystack();
    let of = |name: &str| hay.at(name);
    let picture = std::fs::read(of("hay/picture.png")).expect("it");
    let pipe = rustix::fs::mknodat(
        rustix::fs::CWD,
        of("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    );
    pipe.expect("a pipe");
    for (words, reason) in [
        ("scan hay/picture.png hay/images --sheet hay/picture.png", "is not a sheet of hits"),
        ("scan hay/picture.png hay/images --sheet pipe", "not a regular file"),
        ("scan pipe hay/images", "not a regular file"),
    ] {
        let output = typed(hay.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(reason), "{words}: {}", said(&output));
        assert!(output.stdout.is_empty(), "refused before anything is searched");
    }
    assert!(std::fs::read(of("hay/picture.png")).expect("it") == picture);
    for _ in 0..2 {
        typed(hay.path(), "scan hay/picture.png hay/images --sheet hits.html").exited(0);
    }
}

#[test]
fn unsearched_images_are_no_answer() {
    let hay = haystack();
    hay.folder("empty");
    hay.write("text.png", "no image");
    for images in ["empty", "gone", "text.png", "'*.nothing'"] {
        let output = typed(hay.path(), &format!("scan hay/picture.png {images}"));
        assert_eq!(output.status.code(), Some(2), "{images}: {}", said(&output));
    }
}

#[test]
fn only_named_non_images_fail() {
    let hay = haystack();
    let at = |name: &str| hay.at("hay/images").join(name);
    fs::write(at("notes.txt"), "no image").expect("room");
    fs::write(at("table.csv"), "1,2").expect("room");
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
    let scan = |images: &str| typed(hay.path(), &format!("scan hay/picture.png {images}"));
    let output = scan("hay/images").exited(0);
    let told = said(&output);
    assert!(told.contains("6 hits in 6 images, 2 files passed over, no image;"), "{told}");
    assert!(!told.contains("error:") && !told.contains("warning:"), "{told}");
    drop(socket);

    let image = "hay/images/000000.pgm";
    let output = scan(image);
    output.says("1 hit in 1 image;");
    // What is found elsewhere makes nothing of an image that was not searched.
    for unread in ["hay/images/notes.txt", "gone.png"] {
        let output = scan(&format!("{image} {unread}"));
        assert_eq!(output.status.code(), Some(2), "{unread}: {}", said(&output));
        output.says("1 hit in 1 image, 1 not searched;");
        assert!(said(&output).contains(&format!("error: cannot search {unread}")), "{unread}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "{unread}");
    }
    // An image of another kind is not a file to pass over.
    fs::write(at("moving.gif"), "GIF89a, which is not read here").expect("room");
    scan("hay/images").exited(2).says("GIF is not read here");
    fs::write(at("broken.png"), b"\x89PNG\r\n\x1a\n").expect("room");
    scan("hay/images").exited(2).says("broken.png");
}

/// A name may hold a line that looks like a hit.
#[test]
fn a_name_forges_no_hit() {
    let hay = haystack();
    let first = std::fs::read_dir(hay.at("hay/images")).expect("images").next();
    let image = first.expect("an image").expect("an image").path();
    let forged = hay.at("a\nb  1,1  2 x 3  score 1.000.tiff");
    std::fs::copy(image, forged).expect("room");
    let words = ["scan", "hay/picture.png", "a\nb  1,1  2 x 3  score 1.000.tiff"];
    let output = peerlane(hay.path(), &words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), text.lines().count()), (Some(0), 1), "{text}");
}

#[test]
fn repeated_sizes_are_searched_once() {
    let hay = haystack();
    let scales = vec!["1"; 5000].join(",");
    for method in ["ncc", "donard --threshold 60"] {
        let output = typed(
            hay.path(),
            &format!("scan hay/picture.png hay/images --json --method {method} --scales {scales}"),
        )
        .exited(0);
        assert_eq!(hits(&output).len(), 6, "{method}");
    }
}

#[test]
fn haystack_reports_picture_too_large() {
    let folder = Scratch::new();
    let make = |options: &str| {
        let output = typed(
            folder.path(),
            &format!("haystack make --images 2 --side 640 --format bmp {options}"),
        )
        .exited(0);
        said(&output)
    };
    let warning = "warning: no image is large enough for the picture";
    let small = make("-o small --scales 20");
    assert!(small.contains(warning) && small.contains("the picture in 0"), "{small}");
    assert!(make("-o few").contains("the picture in 1"));
    assert!(!make("-o none --per-mille 0").contains(warning));
}

/// A page with the picture at every other place: all are scored, which takes minutes.
fn endless(folder: &std::path::Path) {
    let columns = |side: usize| {
        let mut pgm = format!("P5 {side} {side} 255\n").into_bytes();
        pgm.extend((0..side * side).map(|at| if at % side % 2 == 0 { 0 } else { 255 }));
        pgm
    };
    fs::write(folder.join("picture.pgm"), columns(1000)).expect("room");
    fs::write(folder.join("page.pgm"), columns(3000)).expect("room");
}

#[test]
fn signals_end_scan_within_image() {
    let folder = Scratch::new();
    endless(folder.path());
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut scan = program::command(folder.path())
            .args(["scan", "picture.pgm", "page.pgm", "--threads", "1"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        let pid = rustix::process::Pid::from_child(&scan);
        // Signals are heeded once they are caught, and the scan begins after that.
        let status = format!("/proc/{}/status", scan.id());
        let is_caught = |status: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            mask.is_some_and(|mask| {
                u64::from_str_radix(mask.trim(), 16).unwrap_or(0) >> 14 & 1 == 1
            })
        };
        while !is_caught(&fs::read_to_string(&status).expect("it runs")) {
            std::thread::yield_now();
        }
        rustix::process::kill_process(pid, signal).expect("it runs");
        let asked = std::time::Instant::now();
        let ended = scan.wait().expect("it ends");
        assert_eq!(ended.code(), Some(130), "{ended}");
        // A second is what people are promised; machines of tests are busy.
        assert!(asked.elapsed().as_secs() < 5, "{:?}", asked.elapsed());
    }
}
