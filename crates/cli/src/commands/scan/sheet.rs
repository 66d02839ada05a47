//! The contact sheet: one HTML page with what is at each hit, which needs nothing beside itself.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use peerlane_scan::formats::{Encoding, encode};
use peerlane_scan::{Gray, Hit};

use crate::error::{Failure, Tried};

/// Hits that a page shows at most; a browser takes no more.
const MOST: usize = 2000;

/// Pixels a side of what is shown, at most.
const SIDE: usize = 240;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Hits</title>\n<style>\n\
    body { font: 14px system-ui, sans-serif; margin: 2em; }\n\
    main { display: flex; flex-wrap: wrap; gap: 1em; }\n\
    figure { margin: 0; width: 250px; overflow-wrap: anywhere; }\n\
    object { max-width: 240px; border: 1px solid #888; }\n\
    </style>\n";

/// A page in the making.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    figures: String,
    shown: usize,
    hits: usize,
}

impl Sheet {
    /// Adds the hits in one image, and what is at the first of them.
    pub(super) fn add(&mut self, image: &str, hits: &[Hit], crops: &[Gray]) {
        self.hits += hits.len();
        for (hit, crop) in hits.iter().zip(crops).take(MOST - self.shown) {
            // An image that small has a form.
            let Ok(bytes) = encode(&small(crop), Encoding::Png) else { continue };
            self.shown += 1;
            // Writing to a String cannot fail.
            let _ = writeln!(
                self.figures,
                "<figure><object type=\"image/png\" data=\"data:image/png;base64,{}\"></object><figcaption>{}<br>{},{} &middot; {} x {} \
                 &middot; scale {} &middot; {}&deg; &middot; score {:.3}</figcaption></figure>",
                base64(&bytes),
                escaped(image),
                hit.x,
                hit.y,
                hit.width,
                hit.height,
                hit.pose.scale,
                hit.pose.degrees,
                hit.score,
            );
        }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&self, path: &Path, summary: &str) -> Result<(), Failure> {
        let left_out = match self.hits - self.shown {
            0 => String::new(),
            left_out => format!(" {left_out} more are not shown."),
        };
        let summary = escaped(summary);
        let figures = &self.figures;
        let page =
            format!("{HEAD}<h1>Hits</h1>\n<p>{summary}.{left_out}</p>\n<main>\n{figures}</main>\n");
        fs::write(path, page).map_err(Tried::to(format!("write {}", path.display())))
    }
}

/// Every n-th pixel of every n-th row, so that it is small enough.
fn small(crop: &Gray) -> Gray {
    let step = crop.width().max(crop.height()).div_ceil(SIDE).max(1);
    let rows = (0..crop.height()).step_by(step);
    let pixels = rows.flat_map(|y| crop.row(y).iter().step_by(step).copied()).collect();
    let (width, height) = (crop.width().div_ceil(step), crop.height().div_ceil(step));
    Gray::new(width, height, pixels).unwrap_or_else(|_| Gray::filled(1, 1, 0))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let byte = |at: usize| u32::from(*three.get(at).unwrap_or(&0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
        let is_there = three.len() + 1;
        [0, 1, 2, 3].map(|at| if at < is_there { digit(at) } else { '=' })
    };
    bytes.chunks(3).flat_map(group).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use peerlane_scan::Pose;

    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let known =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in known {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_name_cannot_become_part_of_the_page() {
        let pose = Pose::default();
        let hit = Hit { x: 1, y: 2, width: 600, height: 3, pose, score: 0.95 };
        let mut sheet = Sheet::default();
        sheet.add("<script>\"x'&\u{1b}", &[hit], &[Gray::filled(600, 3, 9)]);
        assert!(sheet.figures.contains("&lt;script&gt;&quot;x&#39;&amp;\u{fffd}<br>1,2"));
    }
}
