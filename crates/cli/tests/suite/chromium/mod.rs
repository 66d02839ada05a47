//! Headless Chromium, for pages and drawings.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest that a browser may take for one page on a machine that does much else.
const DEADLINE: Duration = Duration::from_secs(120);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser, or the reason in the skip log.
pub(crate) fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        peerlane_testing::skip("chromium", "there is no Chromium");
    }
    found
}

/// Runs the browser on a page; fails when the page has anything to say on the console, and returns
/// the output of the browser.
pub(crate) fn run(browser: &Path, folder: &Path, page: &Path, words: &[&str]) -> String {
    let child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg("--enable-logging=stderr")
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(words)
        .arg(format!("file://{}", page.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the browser starts");
    let id = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match ended.recv_timeout(DEADLINE) {
        Ok(output) => {
            let output = output.expect("the browser");
            assert!(output.status.success(), "{}", output.status);
            let log = String::from_utf8_lossy(&output.stderr);
            let console: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
            assert!(console.is_empty(), "{}: {console:?}", page.display());
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

/// Widths of a phone, a laptop, and a sheet of A4 between its margins, in CSS pixels.
pub(crate) const WIDTHS: [u32; 3] = [390, 1440, 688];

/// Shows a page in frames of these widths. Returns for each a line `CLIENT-WIDTH:CONTENT-WIDTH:`
/// and the script's result on the frame's document, `inner`.
pub(crate) fn in_frames((browser, folder): (&Path, &Path), text: &str, script: &str) -> String {
    let quoted = text.replace('&', "&amp;").replace('"', "&quot;");
    let frames = WIDTHS.map(|width| {
        format!(
            "<iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{quoted}\"></iframe>"
        )
    });
    let page = format!(
        "<!doctype html><body>{}<script>onload = () => {{
            const look = (inner) => {{ {script} }};
            const wide = [...document.querySelectorAll('iframe')].map((frame) => {{
                const inner = frame.contentDocument;
                const said = look(inner);
                const root = inner.documentElement;
                return root.clientWidth + ':' + root.scrollWidth + ':' + said;
            }});
            document.body.textContent = 'widths ' + wide.join(' ') + ' end';
        }}</script>",
        frames.concat()
    );
    let file = folder.join("frames.html");
    std::fs::write(&file, page).expect("a file");
    let dom = run(browser, folder, &file, &["--window-size=1600,1000", "--dump-dom"]);
    let found = dom.split_once("widths ").and_then(|(_, rest)| rest.split_once(" end"));
    found.map(|(found, _)| found.to_owned()).unwrap_or_else(|| panic!("{dom:.2000}"))
}

/// The size of a picture, from its head (PNG, section 11.2.2).
pub(crate) fn size_of(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

/// A page in light and dark at two window sizes, and on paper: something is seen on each, of `least` bytes as a
/// picture and as a document, and light and dark differ. `PEERLANE_SHOTS=FOLDER` keeps them by `name`.
pub(crate) fn look_at(
    (browser, folder): (&Path, &Path),
    (name, page): (&str, &Path),
    sizes: [(u32, u32); 2],
    (least_picture, least_document): (usize, usize),
) {
    let keep = std::env::var_os("PEERLANE_SHOTS").map(PathBuf::from);
    let kept = |file: &Path| {
        if let Some(keep) = &keep {
            std::fs::copy(file, keep.join(file.file_name().expect("a name"))).expect("a copy");
        }
    };
    for (width, height) in sizes {
        let shots = [("light", "1"), ("dark", "0")].map(|(scheme, number)| {
            let picture = folder.join(format!("{name}-{width}-{scheme}.png"));
            let words = [
                format!("--window-size={width},{height}"),
                format!("--screenshot={}", picture.display()),
                format!("--blink-settings=preferredColorScheme={number}"),
            ];
            run(browser, folder, page, &words.each_ref().map(String::as_str));
            let bytes = std::fs::read(&picture).expect("a picture");
            assert_eq!(size_of(&bytes), (width, height));
            kept(&picture);
            bytes
        });
        assert_ne!(shots[0], shots[1], "it follows the reader's choice");
        assert!(shots.iter().all(|shot| shot.len() > least_picture), "an empty page");
    }
    let paper = folder.join(format!("{name}.pdf"));
    let words =
        ["--no-pdf-header-footer".to_owned(), format!("--print-to-pdf={}", paper.display())];
    run(browser, folder, page, &words.each_ref().map(String::as_str));
    let bytes = std::fs::read(&paper).expect("a file");
    let is_document = bytes.starts_with(b"%PDF-") && bytes.len() > least_document;
    assert!(is_document, "{} bytes", bytes.len());
    kept(&paper);
}
