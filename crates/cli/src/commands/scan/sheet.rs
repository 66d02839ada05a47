//! The contact sheet: one HTML page with a crop of each hit, which needs no other file.

use std::fmt::Write as _;
use std::path::Path;

use peerlane_scan::formats::{Encoding, encode};
use peerlane_scan::{Gray, Hit, Pose};

use crate::error::Failure;
use crate::output_file::{OutputFile, OutputKind};

/// Hits that a page shows at most; a browser takes no more.
const MOST: usize = 2000;

/// Most pixels a side of a crop.
const SIDE: usize = 240;

const PAGE: &str = include_str!("sheet.html");
const STYLE: &str = include_str!("sheet.css");

/// A page, which begins as the template does.
pub(super) const SHEET: OutputKind =
    OutputKind::Marked { name: "sheet of hits", most: 1024, is_ours: is_sheet };

fn is_sheet(beginning: &[u8]) -> bool {
    PAGE.split_once("{title}").is_some_and(|(head, _)| beginning.starts_with(head.as_bytes()))
}

/// A page in the making.
#[derive(Debug)]
pub(super) struct HitSheet {
    /// Name of the picture that is looked for, and the picture.
    name: String,
    picture: String,
    shown: Vec<ShownHit>,
    hits: usize,
}

/// A hit with its sort key: threads find them in any order.
#[derive(Debug)]
struct ShownHit {
    image: String,
    page: Option<u32>,
    top: usize,
    left: usize,
    item: String,
}

impl HitSheet {
    /// A page of the hits of a picture.
    pub(super) fn new(path: &Path, picture: &Gray) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let drawn = drawing(picture, &format!("the picture {name}")).unwrap_or_default();
        let picture =
            format!("<figure>{drawn}<figcaption>{}</figcaption></figure>", escaped(&name));
        Self { name, picture, shown: Vec::new(), hits: 0 }
    }

    /// Adds the hits in one image, and the crops of the first of them.
    pub(super) fn add(&mut self, image: &str, hits: &[Hit], crops: &[Gray]) {
        self.hits += hits.len();
        for (hit, crop) in hits.iter().zip(crops).take(MOST - self.shown.len()) {
            let Some(drawn) = drawing(crop, &format!("what is at the hit in {image}")) else {
                continue;
            };
            let (folder, file) = image.rsplit_once('/').unwrap_or(("", image));
            let item = format!(
                "<li>{drawn}<p class=\"name\"><b>{}</b> <span>{}</span></p>\
                 <p class=\"facts\"><b>score&nbsp;{:.3}</b> &middot; at&nbsp;{},&nbsp;{} &middot; {}&nbsp;&times;&nbsp;{}{}</p></li>\n",
                escaped(file),
                escaped(folder),
                hit.score,
                hit.x,
                hit.y,
                hit.width,
                hit.height,
                page(hit.page) + &pose(hit.pose),
            );
            let (top, left) = (hit.y, hit.x);
            self.shown.push(ShownHit { image: image.to_owned(), page: hit.page, top, left, item });
        }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(mut self, output: OutputFile, summary: &str) -> Result<(), Failure> {
        output.write(self.page(summary).as_bytes())
    }

    fn page(&mut self, summary: &str) -> String {
        self.shown.sort_by(|a, b| {
            (&a.image, a.page, a.top, a.left).cmp(&(&b.image, b.page, b.top, b.left))
        });
        let left_out = match self.hits - self.shown.len() {
            0 => String::new(),
            left_out => format!(" {left_out} more are not shown."),
        };
        let hits = if self.shown.is_empty() {
            "<p class=\"none\">The picture is in none of the images.</p>\n".to_owned()
        } else {
            let items: String = self.shown.iter().map(|one| one.item.as_str()).collect();
            format!("<ol>\n{items}</ol>\n")
        };
        let parts = [
            ("{title}", escaped(&format!("Hits of {}", self.name))),
            ("{style}", STYLE.to_owned()),
            ("{title}", escaped(&format!("Hits of {}", self.name))),
            ("{summary}", escaped(&format!("{summary}.{left_out}"))),
            ("{picture}", std::mem::take(&mut self.picture)),
            ("{hits}", hits),
        ];
        // Each part stands in its place once, in this order, so that what one brings is not looked at again.
        let (mut out, mut rest) = (String::new(), PAGE);
        for (place, text) in parts {
            let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
            out += before;
            out += &text;
            rest = after;
        }
        out + rest
    }
}

/// The page, of a file with several.
fn page(page: Option<u32>) -> String {
    page.map_or_else(String::new, |page| format!(" &middot; page&nbsp;{page}"))
}

/// Size and rotation, if they are not the picture's own.
fn pose(pose: Pose) -> String {
    let mut words = String::new();
    // Writing to a String cannot fail.
    if pose.scale != 1.0 {
        let _ = write!(words, " &middot; scale&nbsp;{}", pose.scale);
    }
    if pose.degrees != 0.0 {
        let _ = write!(words, " &middot; {}&deg;", pose.degrees);
    }
    words
}

/// An image as part of a page, with words for those who do not see it.
fn drawing(image: &Gray, words: &str) -> Option<String> {
    let image = small(image);
    let (width, height) = (image.width(), image.height());
    // An image that small has a form.
    let bytes = encode(&image, Encoding::Png).ok()?;
    Some(format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"><image width=\"{width}\" height=\"{height}\" \
         href=\"data:image/png;base64,{}\"/></svg>",
        escaped(words),
        base64(&bytes),
    ))
}

/// Means of squares of pixels, so large that the image is small enough.
fn small(image: &Gray) -> Gray {
    let side = image.width().max(image.height()).div_ceil(SIDE).max(1);
    let (width, height) = (image.width().div_ceil(side), image.height().div_ceil(side));
    let mean = |index: usize| {
        let (x, y) = (index % width * side, index / width * side);
        let columns = x..(x + side).min(image.width());
        let rows = y..(y + side).min(image.height());
        let count = u64::try_from(columns.len() * rows.len()).unwrap_or(u64::MAX).max(1);
        let row = |y: usize| image.row(y)[columns.clone()].iter().map(|pixel| u64::from(*pixel));
        u8::try_from(rows.flat_map(row).sum::<u64>() / count).unwrap_or(u8::MAX)
    };
    let pixels = (0..width * height).map(mean).collect();
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
    fn names_are_escaped_in_page() {
        let pose = Pose::default();
        let hit = Hit { x: 1, y: 2, width: 600, height: 3, pose, score: 0.95, page: None };
        let name = "<script>\"x'&\u{1b}";
        let mut sheet = HitSheet::new(Path::new(&format!("{name}.png")), &Gray::filled(3, 3, 9));
        sheet.add(&format!("a/{name}{{hits}}"), &[hit], &[Gray::filled(600, 3, 9)]);
        let page = sheet.page("1 hit {picture}");
        assert!(
            page.contains("&lt;script&gt;&quot;x&#39;&amp;\u{fffd}{hits}</b> <span>a</span>"),
            "{page}"
        );
        assert!(page.contains("1 hit {picture}.") && !page.contains("<script"), "{page}");
        assert!(page.ends_with("</html>\n"), "{page}");
    }

    #[test]
    fn hits_follow_images_and_omissions_are_counted() {
        let pose = Pose { scale: 0.5, degrees: -15.0 };
        let hit = |x| Hit { x, y: 2, width: 6, height: 3, pose, score: 0.95, page: None };
        let mut sheet = HitSheet::new(Path::new("logo.png"), &Gray::filled(3, 3, 9));
        let crop = Gray::filled(6, 3, 9);
        sheet.add("b.png", &[hit(7)], std::slice::from_ref(&crop));
        sheet.add("a.png", &[hit(9), hit(5), hit(1)], &[crop.clone(), crop]);
        let page = sheet.page("4 hits");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("5,&nbsp;2") < at("9,&nbsp;2") && at("9,&nbsp;2") < at("7,&nbsp;2"));
        assert!(page.contains("4 hits. 1 more are not shown."));
        assert!(page.contains("scale&nbsp;0.5 &middot; -15&deg;"));
        let nothing = HitSheet::new(Path::new("logo.png"), &Gray::filled(3, 3, 9)).page("0 hits");
        assert!(nothing.contains("in none of the images"));
    }

    #[test]
    fn large_images_shrink_to_means() {
        let mut image = Gray::filled(481, 2, 0);
        image.pixels_mut()[0] = 90;
        image.pixels_mut()[480] = 255;
        let small = small(&image);
        assert_eq!((small.width(), small.height()), (161, 1));
        assert_eq!((small.row(0)[0], small.row(0)[160]), (15, 127));
    }
}
