//! The contact sheet of `scan --sheet` in a browser: at the widths of a phone, a laptop and a sheet of paper
//! nothing is said on the console and nothing is wider than the page, in light, in dark, and printed.
//!
//! Skipped without Chromium, as `browser.rs` says; `PEERLANE_SHOTS=FOLDER` keeps the screenshots.

use std::path::{Path, PathBuf};

use crate::chromium::{self, WIDTHS, browser, in_frames, run};
use crate::program;
use crate::program::Exited;
use peerlane_testing::Scratch;

fn peerlane(folder: &Path, words: &[&str]) {
    program::peerlane(folder, words).exited(0);
}

/// A sheet of hits in images with long names, in several sizes and rotations; and how many hits it has.
fn sheet(folder: &Path) -> (PathBuf, usize) {
    let make = "haystack make --seed 11 --images 14 --side 700 --per-mille 800 --scales 0.7,1 \
                --rotations 0,90 -o hay -q";
    peerlane(folder, &make.split_whitespace().collect::<Vec<_>>());
    let long = format!("a-folder-{}", "with-a-name-that-does-not-end-".repeat(4));
    std::fs::rename(folder.join("hay/images"), folder.join(&long)).expect("renamed");
    let (scales, rotations) = (["--scales", "0.7,1"], ["--rotations", "0,90"]);
    let mut words = vec!["scan", "hay/picture.png", &long, "--sheet", "hits.html", "-q"];
    words.extend(scales.into_iter().chain(rotations));
    peerlane(folder, &words);
    let page = folder.join("hits.html");
    let hits = std::fs::read_to_string(&page).expect("a page").matches("<li>").count();
    assert!(hits > 8, "{hits} hits");
    (page, hits)
}

/// Left to `./test full`, which installs the browser.
mod full {
    use super::*;

    #[test]
    fn sheet_fits_screens_and_paper() {
        let Some(browser) = browser() else { return };
        let folder = Scratch::new();
        let (sheet, hits) = sheet(folder.path());
        // The page itself first: whatever it says on the console fails this.
        run(&browser, folder.path(), &sheet, &["--dump-dom"]);
        let text = std::fs::read_to_string(&sheet).expect("a sheet");
        let count = "const box = (item, what) => item.querySelector(what).getBoundingClientRect();
            const shown = [...inner.querySelectorAll('li')];
            const drawn = shown.filter((item) => box(item, 'image').height > 20
                && box(item, 'svg').bottom <= box(item, '.name').top
                && box(item, '.facts').bottom <= item.getBoundingClientRect().bottom + 1).length;
            return shown.length + ':' + drawn;";
        let found = in_frames((&browser, folder.path()), &text, count);
        let expected = WIDTHS.map(|width| format!("{width}:{width}:{hits}:{hits}")).join(" ");
        assert_eq!(
            found, expected,
            "inner width, width of the content, hits, and those that are whole"
        );
    }

    #[test]
    fn sheet_renders_in_every_medium() {
        let Some(browser) = browser() else { return };
        let folder = Scratch::new();
        let (sheet, _) = sheet(folder.path());
        chromium::look_at(
            (&browser, folder.path()),
            ("sheet", &sheet),
            [(390, 2400), (1440, 1400)],
            (30_000, 20_000),
        );
    }
}
