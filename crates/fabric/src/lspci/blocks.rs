//! A pasted text as blocks, one a function, and what else stands in it.
//!
//! A block begins at a heading. Its statements begin with a key (`LnkSta:`); a line without one goes on
//! with the statement before it, as in mail that was wrapped.

use super::clean::{self, CleanLine};
use super::{acs, cuts, gdscheck, heading, nvlink, picture, surroundings};
use crate::Bdf;

/// A statement of a block: `LnkSta: Speed 16GT/s, Width x4`.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) line: u32,
    pub(super) text: String,
}

/// One heading and the lines behind it.
#[derive(Debug, Clone)]
pub(super) struct FunctionBlock {
    pub(super) address: Bdf,
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
}

/// A text, sorted.
#[derive(Debug, Default)]
pub(super) struct SortedText<'a> {
    pub(super) blocks: Vec<FunctionBlock>,
    /// Lines of `lspci -t`.
    pub(super) picture: Vec<CleanLine<'a>>,
    /// Lines of `nvidia-smi topo -m`.
    pub(super) matrix: Vec<CleanLine<'a>>,
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
    for line in lines {
        let is_empty = line.text.trim().is_empty();
        if !(is_spaced && is_empty && spare) {
            splitter.line(line);
        }
        spare = !is_empty;
    }
    splitter.text
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
    /// The heading may go on.
    is_heading: bool,
}

impl<'a> Splitter<'a> {
    fn line(&mut self, line: CleanLine<'a>) {
        let trimmed = line.text.trim();
        if trimmed.is_empty() {
            return self.empty();
        }
        if let Some((address, rest)) = heading::split(trimmed) {
            self.is_picture = false;
            self.is_matrix = false;
            self.text.blocks.push(FunctionBlock {
                address,
                line: line.number,
                heading: rest.to_owned(),
                statements: Vec::new(),
                has_end: false,
                has_driver: false,
                has_gap: false,
            });
            (self.is_open, self.is_heading) = (true, true);
        } else if cuts::is_sign(trimmed) {
            self.text.has_cuts = true;
            self.gap();
        } else if self.apart(&line) {
            self.is_open = false;
        } else if self.is_open {
            self.statement(&line);
        } else if acs::is_control(trimmed) {
            self.text.bare_acs.get_or_insert(line.number);
            self.text.has_cuts = true;
        } else if has_lost_heading(trimmed) {
            self.text.has_cuts = true;
        } else if trimmed.starts_with("Slot:") {
            self.text.machine_readable.get_or_insert(line.number);
        }
        self.after_empty = false;
    }

    /// Closes the block: what follows may be of another function.
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
        self.is_matrix &= self.text.matrix.is_empty();
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
        if nvlink::is_header(trimmed) || (self.is_matrix && nvlink::is_row(trimmed)) {
            self.is_matrix = true;
            self.text.matrix.push(line.clone());
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
        trimmed.starts_with("```") || trimmed.starts_with("~~~")
    }

    fn statement(&mut self, line: &CleanLine<'a>) {
        let trimmed = line.text.trim();
        let Some(block) = self.text.blocks.last_mut() else { return };
        let begins = is_key(trimmed);
        if self.after_empty {
            // The rest of this block, or of one that lost its heading.
            block.has_gap |= clean::indentation(&line.text) > 0 || is_of_a_block(trimmed);
            self.text.has_cuts |= has_lost_heading(trimmed);
            self.is_open = false;
            return;
        }
        if HEADER.iter().any(|key| trimmed.starts_with(key) && block.has(key)) {
            block.has_gap = true;
            self.text.has_cuts = true;
            self.is_open = false;
        } else if begins {
            self.is_heading = false;
            block.has_driver = is_about_drivers(trimmed);
            block.has_end = block.has_driver;
            block.statements.push(Statement { line: line.number, text: trimmed.to_owned() });
        } else if self.is_heading {
            block.heading.push(' ');
            block.heading.push_str(trimmed);
        } else if let Some(last) = block.statements.last_mut() {
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

    /// Returns whether a statement with a key is in it.
    fn has(&self, key: &str) -> bool {
        self.statements.iter().take(FIRST_STATEMENTS).any(|one| one.text.starts_with(key))
    }
}

/// Keys that stand once in a block, near its beginning.
const HEADER: [&str; 3] = ["Control:", "Status:", "Flags:"];
/// Statements among which those of [`HEADER`] are.
const FIRST_STATEMENTS: usize = 6;

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
