//! Colours of charts and drawings, once for light and once for dark.
//!
//! Series take those of Okabe and Ito, "Color Universal Design" (2008), which people with any of the
//! common kinds of colour blindness tell apart, made lighter for dark paper. Nothing is said by colour
//! alone: lines have words at their ends and marks of different shape.

use std::fmt::Write as _;

/// A colour: its name in rules, on light paper, on dark paper.
type Colour = (&'static str, &'static str, &'static str);

/// Every colour.
pub(crate) const COLOURS: [Colour; 32] = [
    ("paper", "#ffffff", "#0d1117"),
    ("panel", "#f6f8fa", "#161b22"),
    ("ink", "#1b1f24", "#e6edf3"),
    ("quiet", "#57606a", "#9198a1"),
    ("rule", "#d0d7de", "#30363d"),
    ("edge", "#8c959f", "#6e7681"),
    ("box", "#eaeef2", "#21262d"),
    ("bad", "#b42318", "#ff7b72"),
    ("alarm", "#d1242f", "#ff7b72"),
    ("pale", "#f3c6c8", "#5a2a2e"),
    ("good", "#1a7f37", "#3fb950"),
    ("caution", "#9a6700", "#d29922"),
    ("nvme", "#0969da", "#58a6ff"),
    ("fpga", "#8250df", "#bc8cff"),
    ("link", "#0550ae", "#79c0ff"),
    ("s0", "#0072b2", "#56aee4"),
    ("s1", "#d55e00", "#f58a3c"),
    ("s2", "#00805e", "#2ec498"),
    ("s3", "#b0558b", "#e59bc4"),
    ("s4", "#a87400", "#eebd4a"),
    ("s5", "#4a6f8a", "#a9c7dd"),
    ("h0", "#eef5fb", "#10263b"),
    ("h1", "#d3e6f4", "#123a5c"),
    ("h2", "#a9cfe9", "#14517f"),
    ("h3", "#74b0d9", "#1f6ea8"),
    ("h4", "#3f8cc2", "#3f90cc"),
    ("h5", "#1b689f", "#7ab8e6"),
    ("h6", "#0a4372", "#bfe0f7"),
    ("low", "#74b0d9", "#1f6ea8"),
    ("middle", "#00805e", "#2ec498"),
    ("high", "#e69f00", "#eebd4a"),
    ("full", "#d55e00", "#f58a3c"),
];

/// Number of colours for series.
pub(crate) const SERIES: usize = 6;
/// Number of colour steps in a heat matrix.
pub(crate) const HEATS: usize = 7;

/// Surroundings of a picture, which decide how its rules name colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paper {
    /// In a page, which has the colours as variables.
    Page,
    /// As a file of its own, which follows the reader's choice of light or dark.
    Alone,
}

/// Rules of a style sheet; `$name` stands for a colour.
pub(crate) type Rules = &'static [(&'static str, &'static str)];

/// Rules as a style sheet, each selector within `scope`.
pub(crate) fn sheet(rules: Rules, scope: &str, paper: Paper) -> String {
    match paper {
        Paper::Page => filled(rules, scope, |(name, ..)| format!("var(--{name})")),
        Paper::Alone => format!(
            "{}@media(prefers-color-scheme:dark){{{}}}",
            filled(rules, scope, |(_, light, _)| (*light).to_owned()),
            filled(rules, scope, |(_, _, dark)| (*dark).to_owned())
        ),
    }
}

/// The colours as variables of a page.
pub(crate) fn variables() -> String {
    let list = |dark: bool| {
        COLOURS.iter().fold(String::new(), |mut text, (name, on_light, on_dark)| {
            // Writing to a String cannot fail.
            let _ = write!(text, "--{name}:{};", if dark { on_dark } else { on_light });
            text
        })
    };
    let (light, dark) = (list(false), list(true));
    format!(
        ":root{{color-scheme:light;{light}}}\
         @media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\
         :root[data-theme=dark]{{color-scheme:dark;{dark}}}\
         @media print{{:root,:root[data-theme=dark],:root:not([data-theme=light]){{color-scheme:light;{light}}}}}"
    )
}

fn filled(rules: Rules, scope: &str, colour: impl Fn(&Colour) -> String) -> String {
    let mut text = String::new();
    for (selectors, declarations) in rules {
        let scoped: Vec<String> =
            selectors.split(',').map(|selector| format!("{scope}{selector}")).collect();
        let mut parts = declarations.split('$');
        let mut body = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            let found = COLOURS.iter().find(|(known, ..)| *known == name);
            body += &found.map_or_else(|| "currentColor".to_owned(), &colour);
            body += rest;
        }
        let _ = write!(text, "{}{{{body}}}", scoped.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = &[(".a,.b", "fill:$paper;stroke:$s1"), (".c", "x:1")];

    #[test]
    fn every_paper_names_its_colours() {
        for (paper, expected) in [
            (Paper::Page, "m .a,m .b{fill:var(--paper);stroke:var(--s1)}m .c{x:1}"),
            (
                Paper::Alone,
                "m .a,m .b{fill:#ffffff;stroke:#d55e00}m .c{x:1}\
                 @media(prefers-color-scheme:dark){m .a,m .b{fill:#0d1117;stroke:#f58a3c}m .c{x:1}}",
            ),
        ] {
            assert_eq!(sheet(RULES, "m ", paper), expected);
        }
        assert!(sheet(RULES, "", Paper::Alone).contains("@media"));
    }

    #[test]
    fn text_stands_out_from_its_paper() {
        // Contrast as WCAG 2.2 defines it; 4.5 is level AA for text of this size.
        let luminance = |hex: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let of = |name: &str| COLOURS.iter().find(|(known, ..)| *known == name).unwrap();
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(a), luminance(b));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        let paper = of("paper");
        for name in ["ink", "quiet", "bad", "s0", "s2", "s3", "s5"] {
            let (_, light, dark) = of(name);
            assert!(contrast(light, paper.1) >= 4.5, "{name} on light");
            assert!(contrast(dark, paper.2) >= 4.5, "{name} on dark");
        }
    }
}
