//! Results as lines of text, for a terminal or a file.

use std::fmt::Write as _;

use peerlane_results::{Limit, Warning};

/// Begins a line that is not wrapped. [`one_line`] takes it out of names.
pub const VERBATIM: char = '\u{fffe}';

/// Lines of `label  value`, aligned.
#[derive(Debug, Default)]
pub struct LabelSheet(pub String);

impl LabelSheet {
    /// Width of labels; the longest is `comparing`.
    const LABEL: usize = 9;

    /// A line with a label.
    pub fn row(&mut self, label: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let value = one_line(&value.to_string());
        let _ = writeln!(self.0, "  {label:width$} {value}", width = Self::LABEL);
    }

    /// A line below a row, aligned with its value.
    pub fn more(&mut self, value: impl std::fmt::Display) {
        self.row("", value);
    }

    /// A line of its own.
    pub fn line(&mut self, text: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{}", one_line(&text.to_string()));
    }

    /// A command for a shell, whole.
    pub fn command(&mut self, indent: &str, command: &str) {
        self.0.push(VERBATIM);
        self.line(format_args!("{indent}{command}"));
    }

    /// Lines that another sheet has, and an empty one after them.
    pub fn block(&mut self, lines: &str) {
        self.0.push_str(lines.trim_end());
        self.0.push_str("\n\n");
    }

    /// The warnings, each with its advice.
    pub fn warnings<'a>(&mut self, warnings: impl IntoIterator<Item = &'a Warning>) {
        for warning in warnings {
            self.line(format_args!("warning: {warning}; {}", warning.advice()));
        }
    }

    /// The ceilings on the way.
    pub fn limits(&mut self, limits: &[Limit]) {
        for (index, limit) in limits.iter().enumerate() {
            let label = if index == 0 { "limits" } else { "" };
            self.row(label, format_args!("{}: {}", limit.object, limit.bytes_per_second));
        }
    }
}

/// Text in one line: names may have line ends in them, and could forge lines or commands.
pub fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace(VERBATIM, "\\u{fffe}")
}

/// Text for a file: without the marks of commands.
pub fn without_marks(text: &str) -> String {
    let line = |line: &str| line.strip_prefix(VERBATIM).unwrap_or(line).to_owned();
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_newline_forges_no_line() {
        let mut sheet = LabelSheet::default();
        sheet.line("a\nb would be replaced:");
        sheet.row("source", "c\n  route     p2p");
        assert_eq!(sheet.0, "a\\nb would be replaced:\n  source    c\\n  route     p2p\n");
    }

    #[test]
    fn name_forges_no_command() {
        let mut sheet = LabelSheet::default();
        sheet.line(format_args!("{VERBATIM}sudo rm"));
        sheet.command("  ", "true");
        assert_eq!(sheet.0, format!("\\u{{fffe}}sudo rm\n{VERBATIM}  true\n"));
    }

    #[test]
    fn file_has_no_marks() {
        let mut sheet = LabelSheet::default();
        sheet.line("to do:");
        sheet.command("  ", "true");
        assert_eq!(without_marks(&sheet.0), "to do:\n  true\n");
    }
}
