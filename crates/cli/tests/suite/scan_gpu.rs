//! `scan --on gpu` against a mock of CUDA, NVRTC and cuFile that the program opens as it would open theirs, and that
//! runs the kernels on the processor. No GPU has run these.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::mock::Mock;
use crate::program::{self, Exited, said};
use peerlane_testing::{Scratch, skip};

/// Shows the module `nvidia_fs` as loaded, which only the program sees: a direct path is asked for where the machine
/// shows that there can be one.
const MOUNT: &str = "mount -t tmpfs none /sys/module && mkdir /sys/module/nvidia_fs && exec \"$@\"";

/// Images with a picture in half of them, as `hay`.
fn hay(format: &str) -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let make = format!(
        "haystack make --seed 5 --images 4 --side 700 --per-mille 500 --format {format} -o hay -q"
    );
    peerlane(folder.path(), Path::new("/nowhere"), &make).exited(0);
    folder
}

fn peerlane(folder: &Path, libraries: &Path, words: &str) -> Output {
    let mut command = program::command(folder);
    command.args(words.split_whitespace()).env("LD_LIBRARY_PATH", libraries);
    command.output().expect("the program starts")
}

fn scan(mock: &Mock, folder: &Path, words: &str) -> Output {
    peerlane(folder, mock.folder(), &format!("scan hay/picture.png hay/images --json {words}"))
}

/// The same on a machine with nvidia-fs.
fn scan_with_module(mock: &Mock, folder: &Path, words: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT, "sh", env!("CARGO_BIN_EXE_peerlane")]);
    command.args("scan hay/picture.png hay/images --json".split(' ').chain(words.split(' ')));
    command.current_dir(folder).env("NO_COLOR", "1").env(program::COLUMNS.0, program::COLUMNS.1);
    command.env("LD_LIBRARY_PATH", mock.folder()).output().expect("unshare")
}

/// Whether mount namespaces can be made here; skips loudly where not.
fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["--mount", "sh", "-c", MOUNT, "sh", "true"]).output();
    let is_made = tried.as_ref().is_ok_and(|tried| tried.status.success());
    if !is_made {
        skip("mount-namespace", &format!("no mount namespace: {tried:?}"));
    }
    is_made
}

/// Lines of hits, in the order of their images.
fn hits(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let is_hit = |line: &&str| !line.contains(peerlane_results::ERROR_SCHEMA);
    let mut lines: Vec<String> = text.lines().filter(is_hit).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn gpu_hits_match_processor_hits() {
    if !has_namespaces() {
        return;
    }
    let folder = hay("pgm");
    for (conf, words, way) in [
        ("mode=p2pdma", "--on gpu --route p2p", "4 images, "),
        ("mode=p2pdma", "--on cuda", "direct by P2PDMA"),
        ("mode=p2pdma", "--on cuda:0", "gpu:0 (Mock GPU 0"),
        ("mode=nvfs", "--on gpu:0", "direct by nvidia-fs"),
        ("mode=p2pdma", "--on cuda --route host", "through pinned host memory"),
        ("mode=compat", "--on cuda --route auto", "through pinned host memory"),
    ] {
        let mock = Mock::new(conf);
        let processor = scan(&mock, folder.path(), "");
        assert_eq!(mock.log().len(), 0, "nothing is opened for a search by the processor");
        let gpu = scan_with_module(&mock, folder.path(), &format!("{words} --threads 2"));
        assert_eq!(gpu.status.code(), Some(0), "{words}: {}", said(&gpu));
        assert_eq!((hits(&gpu).len(), hits(&gpu)), (2, hits(&processor)), "{words}");
        assert!(said(&gpu).contains(way), "{words}: {}", said(&gpu));
        assert!(said(&gpu).contains("kernels: means"), "{words}: {}", said(&gpu));
        assert_eq!(mock.calls("cuFileRead") > 0, way != "through pinned host memory");
        mock.expect_all_undone();
    }
}

#[test]
fn non_images_are_skipped_without_decoding() {
    if !has_namespaces() {
        return;
    }
    let (mock, folder) = (Mock::new("mode=p2pdma"), hay("pgm"));
    folder.write("hay/images/notes.txt", "no image");
    scan_with_module(&mock, folder.path(), "--on cuda --route p2p")
        .exited(0)
        .says("1 file passed over, no image");
    mock.expect_all_undone();
}

#[test]
fn cufile_refusal_needs_allowed_fallback() {
    if !has_namespaces() {
        return;
    }
    let folder = hay("bmp");
    let mock = Mock::new("mode=compat");
    scan_with_module(&mock, folder.path(), "--on cuda")
        .exited(0)
        .says("not directly: cuFile, direct by P2PDMA");
    let strict = scan_with_module(&mock, folder.path(), "--on cuda --route p2p");
    assert_eq!((strict.status.code(), hits(&strict).len()), (Some(77), 0), "{}", said(&strict));
    strict.says("not possible without host memory");
    // One error, before any image is searched, and no table.
    assert_eq!(said(&strict).matches("error:").count(), 1, "{}", said(&strict));
    assert!(!said(&strict).contains("kernels:"), "{}", said(&strict));
    mock.expect_all_undone();
    let lies = Mock::new("mode=p2pdma\nlie=1");
    scan_with_module(&lies, folder.path(), "--on cuda --route p2p")
        .exited(2)
        .says("requests through host memory");
    lies.expect_no_violation();
}

#[test]
fn file_with_holes_is_refused_alone() {
    if !has_namespaces() {
        return;
    }
    let folder = hay("pgm");
    let path = folder.at("hay/images/000001.pgm");
    let bytes = fs::read(&path).expect("an image");
    let file = fs::File::options().write(true).truncate(true).open(&path).expect("the image");
    std::io::Write::write_all(&mut &file, &bytes[..4096]).expect("room");
    file.set_len(bytes.len() as u64).expect("a hole");
    // Holes go through host memory from 1.19 on.
    let mock = Mock::new("mode=p2pdma\nversion=1190");
    let output = scan_with_module(&mock, folder.path(), "--on gpu --route p2p").exited(2);
    let refused = said(&output).matches("the file has holes there").count();
    assert_eq!((refused, said(&output).matches("error:").count()), (1, 1), "{}", said(&output));
    output.says("in 3 images, 1 not searched");
    mock.expect_all_undone();
}

#[test]
fn decoding_is_refused_without_host_memory() {
    if !has_namespaces() {
        return;
    }
    let folder = hay("png");
    let mock = Mock::new("mode=p2pdma");
    let auto = scan_with_module(&mock, folder.path(), "--on cuda");
    assert_eq!((auto.status.code(), hits(&auto).len()), (Some(0), 2), "{}", said(&auto));
    auto.says("decoded and copied up");
    scan_with_module(&mock, folder.path(), "--on cuda --route p2p")
        .exited(77)
        .says("have to be decoded");
    mock.expect_all_undone();
}

#[test]
fn machine_without_direct_path_is_not_asked() {
    let folder = hay("pgm");
    let mock = Mock::new("mode=compat");
    let auto = scan(&mock, folder.path(), "--on gpu");
    assert_eq!((auto.status.code(), hits(&auto).len()), (Some(0), 2), "{}", said(&auto));
    assert!(!said(&auto).contains("not directly"), "{}", said(&auto));
    let strict = scan(&mock, folder.path(), "--on gpu --route p2p").exited(77);
    if !said(&strict).contains("nvidia-fs is not loaded") {
        skip("direct-path", "this machine may have a direct path");
        return;
    }
    assert_eq!(said(&strict).matches("error:").count(), 1, "{}", said(&strict));
    assert_eq!(mock.calls("cuFileDriverOpen"), 0, "{}", said(&strict));
    mock.expect_all_undone();
}

#[test]
fn missing_parts_never_fall_back() {
    let folder = hay("pgm");
    for (conf, words, code, says) in [
        ("devices=0", "--on cuda", 77, "cuInit failed: no device (100)"),
        ("", "--on gpu:7", 77, "there is no gpu:7: the driver shows 0000:c1:00.0"),
        ("late_code=1", "--on cuda", 2, "of a later CUDA than the driver (222)"),
        ("bad_kernels=1", "--on cuda", 2, "NVRTC refuses the kernels"),
        ("memory=100000", "--on cuda", 2, "out of memory"),
        ("", "--on cuda:7", 77, "there is no gpu:7"),
        ("", "--on vulkan", 2, "cpu, gpu, or a GPU"),
        ("", "--on cuda:x", 2, "cpu, gpu, or a GPU"),
        ("", "--route p2p", 2, "`--on cpu` has none"),
    ] {
        let mock = Mock::new(conf);
        let output = scan(&mock, folder.path(), words);
        assert_eq!(output.status.code(), Some(code), "{words}: {}", said(&output));
        assert!(said(&output).contains(says), "{words}: {}", said(&output));
        assert_eq!(hits(&output).len(), 0, "{words}");
        mock.expect_no_violation();
    }
    let mock = Mock::new("");
    let nvrtc = mock.folder().join("libnvrtc.so.12");
    fs::remove_file(&nvrtc).and_then(|()| fs::write(&nvrtc, "no library")).expect("written");
    scan(&mock, folder.path(), "--on cuda").exited(77).says("hint: install NVRTC");
}

#[test]
fn sheet_shows_gpu_hits() {
    let folder = hay("tiff");
    let mock = Mock::new("");
    scan(&mock, folder.path(), "--on cuda --route host --sheet gpu.html").exited(0);
    let page = folder.text("gpu.html");
    assert_eq!(page.matches("what is at the hit in").count(), 2, "{} bytes", page.len());
    mock.expect_all_undone();
}
