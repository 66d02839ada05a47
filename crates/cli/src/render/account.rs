//! The account of a text in words: lines whose facts were lost, and all that were set aside.

use peerlane_fabric::lspci::{Key, TextAccount};

/// A warning about facts of a text that no function has; `None` where every fact has its function.
pub(crate) fn lost_lines(account: &TextAccount) -> Option<String> {
    /// Line numbers that are named.
    const NAMED: usize = 5;
    if account.is_complete() {
        return None;
    }
    let count = |key: Key| {
        let lost = account.lost(key);
        (lost > 0).then(|| format!("{lost} of {} {}", account.count(key).in_text, key.name()))
    };
    let counts: Vec<String> = Key::ALL.into_iter().filter_map(count).collect();
    let mut lines: Vec<u32> =
        account.set_aside.iter().filter(|one| one.reason.is_loss()).map(|one| one.line).collect();
    lines.dedup();
    let named: Vec<String> = lines.iter().take(NAMED).map(u32::to_string).collect();
    let more = if lines.len() > NAMED { ", ..." } else { "" };
    let plural = if lines.len() == 1 { "" } else { "s" };
    Some(format!(
        "not read: {} (line{plural} {}{more}); verdicts that depend on them are unknown: give the whole output of \
         `sudo lspci -Dvvvnn`, or add -v for each line with its reason",
        counts.join(", "),
        named.join(", ")
    ))
}

/// Each line that was set aside, with its reason.
pub(crate) fn set_aside(account: &TextAccount) -> Vec<String> {
    let line = |one: &peerlane_fabric::lspci::SetAside| {
        format!("line {}: {}: {}: {}", one.line, one.key.name(), one.reason, one.text)
    };
    account.set_aside.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: &str = "00:00.0 Host bridge: Intel Corporation Device 1234\n\n\
        \t\tACSCtl:\tSrcValid+ ReqRedir+\n\t\tLnkSta:\tSpeed 8GT/s, Width x4\n";

    #[test]
    fn lost_registers_are_counted_with_lines() {
        let fabric = peerlane_fabric::lspci::read(CUT).expect("a machine");
        let account = fabric.account.expect("an account");
        let warning = lost_lines(&account).expect("a warning");
        assert!(
            warning.starts_with("not read: 1 of 1 LnkSta, 1 of 1 ACSCtl (lines 3, 4)"),
            "{warning}"
        );
        let listed = set_aside(&account);
        assert_eq!(listed.len(), 2);
        assert!(listed[0].starts_with("line 3: ACSCtl: an empty line or a cut"), "{}", listed[0]);
    }
}
