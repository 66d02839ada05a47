//! A pasted text as blocks, one a function, and its other lines.
//!
//! A block begins at a heading. Its statements begin with a key (`LnkSta:`); a line without one goes on
//! with the statement before it, as in mail that was wrapped.

use super::SetAsideReason;
use super::account::Ledger;
use super::clean::{self, CleanLine};
use super::{acs, cuts, gdscheck, heading, nvidia_proc, nvlink, picture, smi, surroundings};
use crate::Bdf;

/// A statement of a block: `LnkSta: Speed 16GT/s, Width x4`.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) line: u32,
    /// The last of the lines that it was wrapped to.
    pub(super) last_line: u32,
    pub(super) text: String,
}

/// One heading and the lines behind it.
#[derive(Debug, Clone)]
pub(super) struct FunctionBlock {
    pub(super) address: Bdf,
    /// The addresses from the root bus down to it, with `-PP`; its own alone otherwise.
    pub(super) path: Vec<Bdf>,
    pub(super) line: u32,
    /// The heading without the address.
    pub(super) heading: String,
    pub(super) statements: Vec<Statement>,
    /// An empty line, or the driver, shows that nothing was cut off at the end.
    pub(super) has_end: bool,
    /// Lines about drivers, the last ones of a block, are there.
    pub(super) has_driver: bool,
    /// An empty line, or a sign of a cut, stands between its statements.
    pub(super) has_gap: bool,
    /// Column of its first statement: that of all statements of the first level.
    first_level: usize,
    /// A capability was printed: its registers may follow.
    has_capability: bool,
}

/// A matrix of GPUs.
#[derive(Debug, Default)]
pub(super) struct Matrix<'a> {
    /// The command before it, if the text shows one.
    pub(super) command: Option<String>,
    pub(super) lines: Vec<CleanLine<'a>>,
}

/// A text, sorted.
#[derive(Debug, Default)]
pub(super) struct SortedText<'a> {
    pub(super) lines: Vec<CleanLine<'a>>,
    pub(super) blocks: Vec<FunctionBlock>,
    /// Fates of lines that belong to no block.
    pub(super) ledger: Ledger,
    /// Lines of `lspci -t`.
    pub(super) picture: Vec<CleanLine<'a>>,
    /// Matrices of `nvidia-smi topo -m` and `-p2p`.
    pub(super) matrices: Vec<Matrix<'a>>,
    /// Lines of `nvidia-smi -q`.
    pub(super) smi: Vec<CleanLine<'a>>,
    /// Lines of `/proc/driver/nvidia`.
    pub(super) nvidia_proc: Vec<CleanLine<'a>>,
    /// Lines of `gdscheck -p`.
    pub(super) gdscheck: Vec<CleanLine<'a>>,
    /// Lines about kernel and processor.
    pub(super) surroundings: Vec<CleanLine<'a>>,
    /// The first ACS register that has no heading above it.
    pub(super) bare_acs: Option<u32>,
    /// The first line of the form that is for programs, `Slot:`.
    pub(super) machine_readable: Option<u32>,
    /// Something shows that functions were left out.
    pub(super) has_cuts: bool,
}

/// Sorts the lines of a text.
pub(super) fn split(text: &str) -> SortedText<'_> {
    let mut splitter = Splitter::default();
    let lines: Vec<CleanLine<'_>> = clean::lines(text).collect();
    let is_spaced = is_double_spaced(&lines);
    let mut spare = false;
    for line in &lines {
        let is_empty = line.text.trim().is_empty();
        if !(is_spaced && is_empty && spare) {
            splitter.line(line);
        }
        spare = !is_empty;
    }
    SortedText { lines, ..splitter.text }
}

/// Returns whether an empty line stands behind every other one.
fn is_double_spaced(lines: &[CleanLine<'_>]) -> bool {
    /// Fewer lines say nothing.
    const LEAST: usize = 8;
    let is_empty = |line: &CleanLine<'_>| line.text.trim().is_empty();
    let full = lines.iter().filter(|line| !is_empty(line)).count();
    let adjacent =
        lines.windows(2).filter(|pair| !is_empty(&pair[0]) && !is_empty(&pair[1])).count();
    full >= LEAST && adjacent * 20 < full
}

#[derive(Default)]
struct Splitter<'a> {
    text: SortedText<'a>,
    /// Lines belong to the last block.
    is_open: bool,
    /// The line before was empty.
    after_empty: bool,
    is_picture: bool,
    is_matrix: bool,
    is_smi: bool,
    /// The last command that prints a matrix.
    matrix_command: Option<String>,
    /// The heading may go on.
    is_heading: bool,
}

impl<'a> Splitter<'a> {
    fn line(&mut self, line: &CleanLine<'a>) {
        let trimmed = line.text.trim();
        if trimmed.is_empty() {
            return self.empty();
        }
        let was_open = self.is_open;
        if let Some((path, rest)) = heading::split_path(trimmed) {
            let Some(&address) = path.last() else { return };
            (self.is_picture, self.is_matrix, self.is_smi) = (false, false, false);
            self.text.blocks.push(FunctionBlock {
                address,
                path,
                line: line.number,
                heading: rest.to_owned(),
                statements: Vec::new(),
                has_end: false,
                has_driver: false,
                has_gap: false,
                first_level: 0,
                has_capability: false,
            });
            self.text.ledger.heading(line.number);
            (self.is_open, self.is_heading) = (true, true);
        } else if cuts::is_sign(trimmed) {
            self.text.has_cuts = true;
            self.gap();
        } else if self.apart(line) {
            self.is_open = false;
        } else if self.is_open {
            self.statement(line);
        } else if acs::is_control(trimmed) {
            self.text.bare_acs.get_or_insert(line.number);
            self.text.has_cuts = true;
        } else if has_lost_heading(trimmed) {
            self.text.has_cuts = true;
        } else if trimmed.starts_with("Slot:") {
            self.text.machine_readable.get_or_insert(line.number);
        }
        if !self.is_open {
            let has_block = was_open || self.text.blocks.last().is_some_and(|last| last.has_gap);
            let reason =
                if has_block { SetAsideReason::AfterGap } else { SetAsideReason::NoHeading };
            self.text.ledger.drop_line(line.number, reason);
        }
        self.after_empty = false;
    }

    /// Closes the block: later lines may be of another function.
    fn gap(&mut self) {
        if let Some(block) = self.text.blocks.last_mut().filter(|_| self.is_open) {
            block.has_gap = true;
        }
        self.is_open = false;
    }

    fn empty(&mut self) {
        if let Some(block) = self.text.blocks.last_mut().filter(|_| self.is_open) {
            block.has_end = true;
        }
        self.is_matrix = false;
        self.is_picture = false;
        self.is_heading = false;
        self.after_empty = true;
    }

    /// Takes a line that belongs to no function.
    fn apart(&mut self, line: &CleanLine<'a>) -> bool {
        let trimmed = line.text.trim();
        if picture::is_root(trimmed) || (self.is_picture && picture::is_branch(trimmed)) {
            self.is_picture = true;
            self.text.picture.push(line.clone());
            return true;
        }
        if nvlink::is_header(trimmed) {
            (self.is_matrix, self.is_smi) = (true, false);
            let command = self.matrix_command.take();
            self.text.matrices.push(Matrix { command, lines: vec![line.clone()] });
            return true;
        }
        if self.is_matrix && nvlink::is_row(trimmed) {
            let last = self.text.matrices.last_mut();
            last.into_iter().for_each(|matrix| matrix.lines.push(line.clone()));
            return true;
        }
        if trimmed.contains("nvidia-smi topo ") {
            self.matrix_command = Some(trimmed.to_owned());
        }
        if nvidia_proc::is_line(trimmed) {
            self.text.nvidia_proc.push(line.clone());
            return true;
        }
        if gdscheck::is_line(trimmed) {
            self.text.gdscheck.push(line.clone());
            return true;
        }
        if surroundings::is_line(trimmed) {
            self.text.has_cuts |= surroundings::selects(trimmed);
            self.text.surroundings.push(line.clone());
            return true;
        }
        if smi::is_header(trimmed) || self.is_smi {
            self.is_smi = true;
            self.text.smi.push(line.clone());
            return true;
        }
        trimmed.starts_with("```") || trimmed.starts_with("~~~")
    }

    fn statement(&mut self, line: &CleanLine<'a>) {
        let trimmed = line.text.trim();
        let Some(block) = self.text.blocks.last_mut() else { return };
        let begins = is_key(trimmed);
        if self.after_empty && !block.goes_on_after_empty_line(trimmed) {
            // The rest of this block, or of one that lost its heading.
            block.has_gap |= clean::indentation(&line.text) > 0 || is_of_a_block(trimmed);
            self.text.has_cuts |= has_lost_heading(trimmed);
            self.is_open = false;
            return;
        }
        if is_hex_dump(trimmed) {
            block.has_end = true;
        } else if block.begins_another(line) {
            block.has_gap = true;
            self.text.has_cuts = true;
            self.is_open = false;
        } else if begins {
            self.is_heading = false;
            block.push(line);
        } else if self.is_heading {
            block.heading.push(' ');
            block.heading.push_str(trimmed);
        } else if let Some(last) = block.statements.last_mut() {
            last.last_line = line.number;
            last.text.push(' ');
            last.text.push_str(trimmed);
        }
    }
}

impl FunctionBlock {
    /// Returns whether a driver of this name holds the function.
    pub(super) fn is_held_by(&self, driver: &str) -> bool {
        let name = |one: &Statement| {
            let rest = one.text.strip_prefix("Kernel driver in use:");
            rest.is_some_and(|name| name.trim() == driver)
        };
        self.has_driver && self.statements.iter().rev().take(2).any(name)
    }

    /// Adds a line that begins a statement.
    fn push(&mut self, line: &CleanLine<'_>) {
        let text = line.text.trim();
        if self.statements.is_empty() {
            self.first_level = clean::indentation(&line.text);
        }
        self.has_capability |= text.starts_with("Capabilities:");
        self.has_driver = is_about_drivers(text);
        self.has_end = self.has_driver;
        let (line, last_line) = (line.number, line.number);
        self.statements.push(Statement { line, last_line, text: text.to_owned() });
    }

    /// Returns whether a line belongs to the block although an empty line stands before it: `lspci` 3.5 ends
    /// `L1SubCtl1:` of substates without times with two line ends.
    fn goes_on_after_empty_line(&self, text: &str) -> bool {
        let last = self.statements.last().is_some_and(|last| last.text.starts_with("L1SubCtl1:"));
        last && text.starts_with("L1SubCtl2:")
    }

    /// Returns whether a statement can only be of another function, whose heading is missing.
    ///
    /// Capabilities have registers of the same names (Power Management and slots a `Status:`, Virtual Channel
    /// a `Control:`), so only the first level before the first capability tells. Drivers end a block.
    fn begins_another(&self, line: &CleanLine<'_>) -> bool {
        let text = line.text.trim();
        let is_repeated = |key: &str| {
            text.starts_with(key) && self.statements.iter().any(|one| one.text.starts_with(key))
        };
        let is_in_header =
            !self.has_capability && clean::indentation(&line.text) == self.first_level;
        let is_after_end = self.has_driver && is_of_a_block(text) && !is_about_drivers(text);
        is_after_end || (is_in_header && HEADER.into_iter().any(is_repeated))
    }
}

/// Keys that stand once in the header of a block.
const HEADER: [&str; 3] = ["Control:", "Status:", "Flags:"];

/// Returns whether a line is of the configuration space that `-x` prints: `40: 10 00 42 01`.
fn is_hex_dump(line: &str) -> bool {
    let Some((offset, bytes)) = line.split_once(": ") else { return false };
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(offset.len(), 2 | 3)
        && is_hex(offset)
        && bytes.split(' ').all(|byte| byte.len() == 2 && is_hex(byte))
}

/// Returns whether a line is one of the last of a block.
fn is_about_drivers(line: &str) -> bool {
    line.starts_with("Kernel driver in use:") || line.starts_with("Kernel modules:")
}

/// Returns whether a line without indentation can only be of a block.
fn is_of_a_block(line: &str) -> bool {
    const FRONTS: [&str; 16] = [
        "Capabilities",
        "Kernel ",
        "Subsystem:",
        "Control:",
        "Status:",
        "Latency:",
        "Interrupt:",
        "NUMA node:",
        "IOMMU group:",
        "Region ",
        "Bus:",
        "Lnk",
        "Dev",
        "ACS",
        "Memory behind",
        "BridgeCtl:",
    ];
    FRONTS.iter().any(|front| line.starts_with(front))
}

/// Returns whether a trimmed line that no block is open for is a statement of one that lost its heading.
fn has_lost_heading(line: &str) -> bool {
    is_key(line) && is_of_a_block(line)
}

/// Returns whether a trimmed line begins a statement: a key with a colon, or a window.
fn is_key(line: &str) -> bool {
    /// Longest key: `Prefetchable memory behind bridge`.
    const LONGEST: usize = 36;
    const WITHOUT_COLON: [&str; 5] =
        ["Memory at ", "I/O ports at ", "Expansion ROM at ", "[virtual]", "!!!"];
    if WITHOUT_COLON.iter().any(|front| line.starts_with(front)) {
        return true;
    }
    let Some(colon) = line.bytes().take(LONGEST).position(|byte| byte == b':') else {
        return false;
    };
    let (key, rest) = line.split_at(colon);
    let is_word =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'/' | b'_' | b'-' | b'#');
    key.starts_with(|c: char| c.is_ascii_uppercase())
        && key.bytes().all(is_word)
        && rest[1..].chars().next().is_none_or(char::is_whitespace)
}
