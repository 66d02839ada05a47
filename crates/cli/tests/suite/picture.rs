//! The picture of the README: a doctor's answer as a terminal shows it, drawn from the program.

use std::fmt::Write as _;
use std::path::Path;

use crate::program::{Exited, command};

const ARGUMENTS: [&str; 3] = ["doctor", "--machine", "fixtures/lspci/eight-gpus.txt"];
/// Columns of the terminal.
const COLUMNS: usize = 116;
/// Lines that are drawn; the README names the command for the rest.
const LINES: usize = 34;
/// Pixels from line to line, and of a character.
const LINE: usize = 19;
const COLUMN: f64 = 8.0;

/// Breaks a command, which the program leaves whole, at spaces.
fn wrapped(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let mut out = vec![String::new()];
    for word in line.trim_start().split(' ') {
        let last = out.last_mut().expect("a line");
        if last.is_empty() {
            *last = " ".repeat(indent) + word;
        } else if last.chars().count() + 1 + word.chars().count() <= COLUMNS {
            *last += " ";
            *last += word;
        } else {
            out.push(" ".repeat(indent + 2) + word);
        }
    }
    out
}

/// Keeps runs of spaces, which SVG would join.
fn escaped(text: &str) -> String {
    text.replace("  ", "\u{a0}\u{a0}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn svg(text: &str) -> String {
    let prompt = format!("$ peerlane {}", ARGUMENTS.join(" "));
    let mut lines: Vec<String> =
        std::iter::once(prompt.as_str()).chain(text.lines()).flat_map(wrapped).collect();
    lines.truncate(LINES);
    lines.push("...".to_owned());
    let (width, height) = (COLUMNS as f64 * COLUMN + 32.0, lines.len() * LINE + 28);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>peerlane doctor on a server with eight GPUs</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13.3\" fill=\"#d7dae0\">\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let y = 26 + index * LINE;
        let fill = match index {
            0 => " fill=\"#8bd49c\"",
            1 | 2 => " font-weight=\"bold\" fill=\"#ffffff\"",
            _ => "",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "<text x=\"16\" y=\"{y}\"{fill}>{}</text>", escaped(line));
    }
    out + "</g>\n</svg>\n"
}

#[test]
fn picture_of_the_doctor_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = command(&root)
        .args(ARGUMENTS)
        .env("COLUMNS", COLUMNS.to_string())
        .output()
        .expect("the program starts")
        .text();
    assert!(text.contains("; 1 fix, 1 reboot\n"), "{text}");
    peerlane_testing::check_file(root.join("docs/pictures/doctor.svg"), &svg(&text));
}
