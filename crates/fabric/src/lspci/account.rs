//! An account of a text: every key that facts are read from is attached to a function, or set aside with a
//! reason.
//!
//! Keys are counted line by line, apart from how the text is parsed: a line that the parser drops
//! is still counted. A lost register is then a warning and not an absent one.

use std::collections::HashMap;

use super::blocks::Statement;
use super::clean::CleanLine;
use super::heading;
use crate::model::account::{Key, KeyCount, SetAside, SetAsideReason, TextAccount};

/// The fate of each line with a key, noted while the text is parsed.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    fates: HashMap<(u32, Key), Result<(), SetAsideReason>>,
    dropped: HashMap<u32, SetAsideReason>,
}

impl Ledger {
    /// Notes that a function has a key of a statement.
    pub(super) fn attach(&mut self, statement: &Statement, key: Key) {
        self.note(statement, key, Ok(()));
    }

    /// Notes whether a function has a key of a statement: it has if its value was understood.
    pub(super) fn attach_if(&mut self, is_understood: bool, statement: &Statement, key: Key) {
        self.note(statement, key, if is_understood { Ok(()) } else { Err(SetAsideReason::Value) });
    }

    /// Notes the fate of a key of a statement.
    pub(super) fn note(
        &mut self,
        statement: &Statement,
        key: Key,
        fate: Result<(), SetAsideReason>,
    ) {
        for line in statement.line..=statement.last_line {
            self.fates.insert((line, key), fate);
        }
    }

    /// Notes that a line is a heading.
    pub(super) fn heading(&mut self, line: u32) {
        self.fates.insert((line, Key::Heading), Ok(()));
    }

    /// Notes that a line belongs to no function.
    pub(super) fn drop_line(&mut self, line: u32, reason: SetAsideReason) {
        self.dropped.insert(line, reason);
    }

    fn fate(&self, line: u32, key: Key) -> Result<(), SetAsideReason> {
        let dropped =
            || Err(self.dropped.get(&line).copied().unwrap_or(SetAsideReason::InsideLine));
        self.fates.get(&(line, key)).copied().unwrap_or_else(dropped)
    }
}

/// Makes the account of a text.
pub(super) fn account(lines: &[CleanLine<'_>], ledger: &Ledger, functions: usize) -> TextAccount {
    let mut account = TextAccount { functions, ..TextAccount::default() };
    account.keys = Key::ALL.map(|key| KeyCount { key, in_text: 0, attached: 0 }).to_vec();
    for line in lines {
        for (at, key) in Key::ALL.into_iter().enumerate() {
            let occurrences = occurrences(&line.text, key);
            if occurrences == 0 {
                continue;
            }
            account.keys[at].in_text += occurrences;
            let mut rest = occurrences;
            let reason = match ledger.fate(line.number, key) {
                Ok(()) => {
                    account.keys[at].attached += 1;
                    rest -= 1;
                    SetAsideReason::InsideLine
                }
                Err(reason) => reason,
            };
            if rest > 0 {
                set_aside(&mut account, line, (key, rest), reason);
            }
        }
    }
    account
}

fn set_aside(
    account: &mut TextAccount,
    line: &CleanLine<'_>,
    (key, times): (Key, usize),
    reason: SetAsideReason,
) {
    /// Characters of a line that are shown.
    const SHOWN: usize = 120;
    if reason.is_loss() {
        *account.lost.entry(key).or_default() += times;
    }
    if account.set_aside.len() < TextAccount::MOST_LISTED {
        let text: String = line.text.trim().chars().take(SHOWN).collect();
        account.set_aside.push(SetAside { line: line.number, key, text, reason });
    }
}

/// Texts that begin an occurrence of a key; a heading is told by its form.
fn beginnings(key: Key) -> &'static [&'static str] {
    match key {
        Key::Heading => &[],
        Key::Buses => &["Bus: primary="],
        Key::Express => &["] Express ("],
        Key::LinkCapability => &["LnkCap:"],
        Key::LinkState => &["LnkSta:"],
        Key::AcsCapability => &["ACSCap:"],
        Key::AcsControl => &["ACSCtl:"],
        Key::Window => &["Memory at "],
        Key::ResizableBar => &["current size:"],
        Key::VirtualFunctions => &["Initial VFs:"],
        Key::Driver => &["Kernel driver in use:"],
        Key::IommuGroup => &["IOMMU group:", "IOMMU group "],
        Key::NumaNode => &["NUMA node:", "NUMA node "],
    }
}

/// Counts how often a key stands in a line.
fn occurrences(line: &str, key: Key) -> usize {
    match key {
        Key::Heading => usize::from(has_heading(line)),
        // An offset stands before it.
        Key::Express => line.matches(beginnings(Key::Express)[0]).count(),
        Key::IommuGroup | Key::NumaNode => {
            let is_value = |rest: &str| rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
            beginnings(key)
                .iter()
                .map(|front| fronts(line, front).filter(|rest| is_value(rest)).count())
                .sum()
        }
        _ => beginnings(key).iter().map(|front| fronts(line, front).count()).sum(),
    }
}

/// The texts behind each place where a word begins with a front.
fn fronts<'a>(line: &'a str, front: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(front).filter_map(move |(at, _)| {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let before = at.checked_sub(1).and_then(|before| line.as_bytes().get(before));
        let begins = !before.is_some_and(is_word);
        begins.then(|| &line[at + front.len()..])
    })
}

/// Returns whether an address with a class stands somewhere in a line.
fn has_heading(line: &str) -> bool {
    /// `00:00.0`.
    const SHORT: usize = 7;
    let is_in_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    line.match_indices('.').any(|(at, _)| {
        let bytes = line.as_bytes();
        let is_function = bytes.get(at + 1).is_some_and(|byte| (b'0'..=b'7').contains(byte))
            && bytes.get(at + 2).is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        if !is_function || at + 2 < SHORT || bytes[at - 3] != b':' {
            return false;
        }
        let start =
            bytes[..at].iter().rposition(|byte| !is_in_address(byte)).map_or(0, |it| it + 1);
        let found = line.get(start..).and_then(heading::split);
        found.is_some_and(|(_, rest)| heading::read(rest).class.is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_where_words_begin() {
        let count = |line: &str, key: Key| occurrences(line, key);
        assert_eq!(count("\t\tLnkSta:\tSpeed 8GT/s, Width x4", Key::LinkState), 1);
        assert_eq!(count("\t\tLnkSta2: Current De-emphasis", Key::LinkState), 0);
        assert_eq!(count("xLnkSta: x ACSCtl: y ACSCtl:", Key::LinkState), 0);
        assert_eq!(count("xLnkSta: x ACSCtl: y ACSCtl:", Key::AcsControl), 2);
        assert_eq!(count("Flags: fast devsel, NUMA node 0, IOMMU group 4", Key::NumaNode), 1);
        assert_eq!(count("\tCapabilities: [44] Express (v2) Endpoint, MSI 00", Key::Express), 1);
        assert_eq!(count("NUMA node(s):       2", Key::NumaNode), 0);
        assert_eq!(count("NUMA node0 CPU(s):  0-15", Key::NumaNode), 0);
    }

    #[test]
    fn headings_are_found_anywhere_in_lines() {
        for line in [
            "00:00.0 Host bridge: Intel Corporation Device 1234",
            "<pre>0000:00:00.0 Host bridge [0600]: Intel [8086:1234]",
            "log 17: 10000:e0:06.0 0604: 8086:9a09",
        ] {
            assert!(has_heading(line), "{line}");
        }
        for line in
            ["", "pci 0000:00:01.0: [8086:1901] type 01", "GPU 00000000:07:00.0", "1.0 a: b"]
        {
            assert!(!has_heading(line), "{line}");
        }
    }
}
