//! Link registers in the text of `lspci`.

use crate::LinkSpeed;

/// Reads `Speed 16GT/s (downgraded), Width x4 (ok)`; `None` where either is unknown or zero.
pub(super) fn speed(text: &str) -> Option<LinkSpeed> {
    let value = |key: &str| {
        let (_, rest) = text.split_once(key)?;
        rest.split([',', ' ', '(']).next()
    };
    LinkSpeed::from_sysfs(value("Speed ")?, value("Width x")?)
}

/// Returns whether nothing was cut off behind the speed and the width.
pub(super) fn is_whole(text: &str) -> bool {
    let width = text.split_once("Speed ").and_then(|(_, rest)| rest.split_once("Width x"));
    width.is_some_and(|(_, width)| width.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_of_every_version_are_read() {
        let gen4 = "16GT/s x4".parse().ok();
        for text in [
            "Port #0, Speed 16GT/s, Width x4, ASPM L1, Exit Latency L1 <64us",
            "Speed 16GT/s (downgraded), Width x4 (ok)",
            "Speed 16GT/s, Width x4, TrErr- Train- SlotClk+ DLActive-",
            "Speed 16GT/s(ok), Width x4(downgraded)",
        ] {
            assert_eq!(speed(text), gen4, "{text}");
        }
        assert_eq!(speed("Speed 2.5GT/s, Width x1"), "2.5GT/s x1".parse().ok());
    }

    #[test]
    fn links_without_partner_are_unknown() {
        for text in [
            "Speed unknown (downgraded), Width x0 (downgraded)",
            "Speed 2.5GT/s, Width x0",
            "Speed 16GT/s, Wid",
            "",
        ] {
            assert_eq!(speed(text), None, "{text}");
        }
    }
}
