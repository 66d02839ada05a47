//! Drawings in a browser: headless Chromium opens them and shows more than an empty page.
//!
//! Skipped without Chromium; `PEERLANE_REQUIRE=chromium` makes that a failure, and
//! `PEERLANE_SHOTS=FOLDER` keeps the screenshots.

use std::path::Path;
use std::process::Command;

use crate::chromium::{self, browser, run};
use peerlane_testing::Scratch;

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

/// Left to `./test full`, which installs the browser.
mod full {
    use super::*;

    #[test]
    fn drawings_render_in_light_and_dark() {
        let Some(browser) = browser() else { return };
        let folder = Scratch::new();
        for name in ["sr635", "r7515", "cloud-vm"] {
            let svg = drawing(&["--machine", &format!("fixtures/sysfs/{name}/tree.tar.zst")]);
            let page = folder.at(format!("{name}.svg"));
            std::fs::write(&page, &svg).expect("a file");
            let number = |key: &str| {
                let rest = svg.split_once(&format!("{key}=\"")).expect(key).1;
                rest.split('"').next().expect("a number").parse::<u32>().expect("a number")
            };
            let (width, height) = (number("width"), number("height"));
            let dom = run(&browser, folder.path(), &page, &["--dump-dom"]);
            assert!(dom.contains("<svg") && !dom.contains("parsererror"), "{dom}");
            let shot = |page: &Path, picture: &str, scheme: &str| {
                let picture = folder.at(picture);
                let words = [
                    format!("--window-size={width},{height}"),
                    format!("--screenshot={}", picture.display()),
                    format!("--blink-settings=preferredColorScheme={scheme}"),
                ];
                run(&browser, folder.path(), page, &words.each_ref().map(String::as_str));
                std::fs::read(&picture).expect("a picture")
            };
            let blank = folder.at("blank.svg");
            let empty = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"/>"
            );
            std::fs::write(&blank, empty).expect("a file");
            let nothing = shot(&blank, "blank.png", "1");
            let (light, dark) = (shot(&page, "light.png", "1"), shot(&page, "dark.png", "0"));
            for (picture, what) in [(&light, "light"), (&dark, "dark")] {
                assert_eq!(chromium::size_of(picture), (width, height), "{name} {what}");
                assert!(picture.len() > 2 * nothing.len(), "{name} {what} shows nothing");
                if let Some(keep) = std::env::var_os("PEERLANE_SHOTS") {
                    std::fs::write(Path::new(&keep).join(format!("{name}-{what}.png")), picture)
                        .expect("a picture");
                }
            }
            assert_ne!(light, dark, "{name} follows the reader's choice");
        }
    }
}
