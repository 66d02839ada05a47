//! Drawings in a browser: headless Chromium opens them and shows more than an empty page.
//!
//! Skipped where there is no Chromium; `PEERLANE_REQUIRE=chromium` makes that a failure, and
//! `PEERLANE_SHOTS=FOLDER` keeps what it showed, to be looked at.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest that a browser may take for one page on a machine that does much else.
const DEADLINE: Duration = Duration::from_secs(120);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser, or the reason in the skip log.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var("PEERLANE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "chromium"), "there is no Chromium");
        let name = std::thread::current().name().unwrap_or("browser").to_owned();
        if let Some(log) = std::env::var_os("PEERLANE_SKIP_LOG") {
            let mut log = std::fs::File::options()
                .create(true)
                .append(true)
                .open(log)
                .expect("PEERLANE_SKIP_LOG");
            writeln!(log, "{name}: there is no Chromium").expect("PEERLANE_SKIP_LOG");
        }
    }
    found
}

/// Runs the browser on a page and returns what it prints.
fn run(browser: &Path, folder: &Path, page: &Path, words: &[&str]) -> String {
    let child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(words)
        .arg(format!("file://{}", page.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let id = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match ended.recv_timeout(DEADLINE) {
        Ok(output) => {
            let output = output.expect("the browser");
            assert!(output.status.success(), "{}", output.status);
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        Err(_) => {
            let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
            let killed =
                id.map(|id| rustix::process::kill_process(id, rustix::process::Signal::KILL));
            panic!("the browser did not end within {DEADLINE:?}; killed: {killed:?}");
        }
    }
}

/// The drawing of a machine.
fn drawing(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["topo", "--format", "svg"])
        .args(words)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The size of a picture, from its head (PNG, section 11.2.2).
fn size_of(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

#[test]
fn drawings_open_in_a_browser_in_light_and_dark() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["sr635", "r7515", "cloud-vm"] {
        let svg = drawing(&["--root", &format!("fixtures/sysfs/{name}/tree.tar.zst")]);
        let page = folder.path().join(format!("{name}.svg"));
        std::fs::write(&page, &svg).expect("a file");
        let number = |key: &str| {
            let rest = svg.split_once(&format!("{key}=\"")).expect(key).1;
            rest.split('"').next().expect("a number").parse::<u32>().expect("a number")
        };
        let (width, height) = (number("width"), number("height"));
        let dom = run(&browser, folder.path(), &page, &["--dump-dom"]);
        assert!(dom.contains("<svg") && !dom.contains("parsererror"), "{dom}");
        let shot = |page: &Path, picture: &str, scheme: &str| {
            let picture = folder.path().join(picture);
            let words = [
                format!("--window-size={width},{height}"),
                format!("--screenshot={}", picture.display()),
                format!("--blink-settings=preferredColorScheme={scheme}"),
            ];
            run(&browser, folder.path(), page, &words.each_ref().map(String::as_str));
            std::fs::read(&picture).expect("a picture")
        };
        let blank = folder.path().join("blank.svg");
        let empty = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"/>"
        );
        std::fs::write(&blank, empty).expect("a file");
        let nothing = shot(&blank, "blank.png", "1");
        let (light, dark) = (shot(&page, "light.png", "1"), shot(&page, "dark.png", "0"));
        for (picture, what) in [(&light, "light"), (&dark, "dark")] {
            assert_eq!(size_of(picture), (width, height), "{name} {what}");
            assert!(picture.len() > 2 * nothing.len(), "{name} {what} shows nothing");
            if let Some(keep) = std::env::var_os("PEERLANE_SHOTS") {
                std::fs::write(Path::new(&keep).join(format!("{name}-{what}.png")), picture)
                    .expect("a picture");
            }
        }
        assert_ne!(light, dark, "{name} follows the reader's choice");
    }
}
