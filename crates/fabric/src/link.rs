//! Link arithmetic: from transfers per second and lanes to bytes per second.
//!
//! Leaves out the share of traffic in the other direction, of credits and of outstanding requests.
//! No measurement of payload on a link may exceed its ceiling here.

use std::fmt;
use std::str::FromStr;

use peerlane_units::{ByteRate, Bytes};

use crate::{Link, LinkSpeed};

/// Bytes around the payload of a memory write with a 64-bit address: framing and sequence number
/// 4, header 16, LCRC 4 (PCIe base specification, transaction and data link layers).
const WRITE_OVERHEAD: u64 = 24;
/// Bytes around the payload of a completion; its header is four bytes shorter.
const COMPLETION_OVERHEAD: u64 = 20;

/// A text that is not a link speed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a link speed such as `16GT/s x4`")]
pub struct LinkSpeedError(pub String);

impl LinkSpeed {
    /// Bytes per second in one direction after line encoding, headers included.
    ///
    /// 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, and 236 of 256 bytes of a flit above
    /// (PCIe 6.0 section 4.2.3).
    pub fn raw_rate(self) -> ByteRate {
        let (numerator, denominator) = self.encoding();
        let bits = u128::from(self.megatransfers) * 1_000_000 * u128::from(self.width);
        rate(bits * numerator / (denominator * 8))
    }

    /// The most payload that memory writes of `max_payload` bytes each can carry, one way.
    pub fn write_ceiling(self, max_payload: Bytes) -> ByteRate {
        self.payload_ceiling(max_payload, WRITE_OVERHEAD)
    }

    /// The most payload that read completions of `completion` bytes each can carry, one way.
    pub fn read_ceiling(self, completion: Bytes) -> ByteRate {
        self.payload_ceiling(completion, COMPLETION_OVERHEAD)
    }

    /// Bytes per second in one direction that are left for packets: the raw rate less SKP ordered sets.
    pub fn usable_rate(self) -> ByteRate {
        let (numerator, denominator) = self.skip();
        rate(u128::from(self.raw_rate().0) * (denominator - numerator) / denominator)
    }

    fn payload_ceiling(self, payload: Bytes, overhead: u64) -> ByteRate {
        let payload = u128::from(payload.0);
        let usable = u128::from(self.usable_rate().0);
        rate(usable * payload / (payload + u128::from(overhead)))
    }

    fn encoding(self) -> (u128, u128) {
        match self.megatransfers {
            0..8_000 => (8, 10),
            8_000..64_000 => (128, 130),
            _ => (236, 256),
        }
    }

    /// Share of the wire that SKP ordered sets take: 4 of 1538 symbols with 8b/10b, about one of
    /// 376 blocks with 128b/130b (PCIe base specification, clock tolerance compensation).
    fn skip(self) -> (u128, u128) {
        if self.megatransfers < 8_000 { (4, 1538) } else { (1, 376) }
    }

    /// The lesser of two ends' speeds and widths, each compared by itself; the known end if one is
    /// unknown.
    pub(crate) fn lesser(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Self {
                megatransfers: one.megatransfers.min(other.megatransfers),
                width: one.width.min(other.width),
            }),
            (one, other) => one.or(other),
        }
    }

    /// Reads the two sysfs texts, `16.0 GT/s PCIe` and `4`; `None` for `Unknown` and for no lanes.
    pub(crate) fn from_sysfs(speed: &str, width: &str) -> Option<Self> {
        let width: u8 = width.trim().parse().ok().filter(|&width| width > 0)?;
        Some(Self { megatransfers: megatransfers(speed)?, width })
    }
}

impl Link {
    /// The working speed: as trained, else the most that the link supports.
    pub fn speed(&self) -> Option<LinkSpeed> {
        self.current.or(self.maximum)
    }
}

fn rate(bytes_per_second: u128) -> ByteRate {
    ByteRate(u64::try_from(bytes_per_second).unwrap_or(u64::MAX))
}

/// Reads `16.0 GT/s PCIe`, `16GT/s` and `2.5 GT/s` into megatransfers.
fn megatransfers(text: &str) -> Option<u32> {
    let text = text.trim();
    let text = text.strip_suffix("PCIe").unwrap_or(text).trim_end();
    let number = text.strip_suffix("GT/s")?.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let thousandths: u32 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(thousandths)
}

impl fmt::Display for LinkSpeed {
    /// Prints `16GT/s x4`, `2.5GT/s x1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.megatransfers / 1000, self.megatransfers % 1000);
        let fraction = format!(".{fraction:03}");
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        f.pad(&format!("{whole}{fraction}GT/s x{}", self.width))
    }
}

impl FromStr for LinkSpeed {
    type Err = LinkSpeedError;

    /// Reads `16GT/s x4`, and `16.0 GT/s PCIe x4`.
    fn from_str(text: &str) -> Result<Self, LinkSpeedError> {
        let parse = || {
            let (speed, width) = text.rsplit_once('x')?;
            Self::from_sysfs(speed, width)
        };
        parse().ok_or_else(|| LinkSpeedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn speed(text: &str) -> LinkSpeed {
        text.parse().expect("a link speed")
    }

    /// Compares with a published figure in GB/s to its last printed digit.
    fn assert_close(rate: ByteRate, expected: f64, what: &str) {
        #[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
        let found = rate.0 as f64 / 1e9;
        assert!((found - expected).abs() / expected < 0.005, "{what}: {found} is not {expected}");
    }

    /// One-way payload ceilings by PCIe overheads, as published comparisons have them: writes of
    /// 128, 256, 512 and 64 bytes, completions of 64, 128 and 256 bytes.
    #[test]
    fn ceilings_are_those_of_the_table() {
        for (link, writes, reads) in [
            ("2.5GT/s x1", [0.210, 0.228, 0.238, 0.181], [0.190, 0.216, 0.231]),
            ("5GT/s x16", [6.72, 7.30, 7.62, 5.80], [6.08, 6.90, 7.40]),
            ("8GT/s x4", [3.31, 3.59, 3.75, 2.86], [2.99, 3.40, 3.64]),
            ("16GT/s x4", [6.62, 7.18, 7.50, 5.71], [5.99, 6.79, 7.29]),
            ("16GT/s x16", [26.5, 28.7, 30.0, 22.9], [23.9, 27.2, 29.1]),
            ("32GT/s x16", [52.9, 57.5, 60.0, 45.7], [47.9, 54.4, 58.3]),
        ] {
            for (payload, expected) in [128, 256, 512, 64].into_iter().zip(writes) {
                let found = speed(link).write_ceiling(Bytes(payload));
                assert_close(found, expected, &format!("{link} writes of {payload}"));
            }
            for (payload, expected) in [64, 128, 256].into_iter().zip(reads) {
                let found = speed(link).read_ceiling(Bytes(payload));
                assert_close(found, expected, &format!("{link} completions of {payload}"));
            }
        }
    }

    #[test]
    fn raw_rate_is_transfers_times_encoding() {
        assert_eq!(speed("2.5GT/s x1").raw_rate(), ByteRate(250_000_000));
        assert_eq!(speed("5GT/s x16").raw_rate(), ByteRate(8_000_000_000));
        assert_eq!(speed("8GT/s x4").raw_rate(), ByteRate(3_938_461_538));
        assert_eq!(speed("64GT/s x1").raw_rate(), ByteRate(7_375_000_000));
    }

    #[test]
    fn sysfs_texts_are_read() {
        let gen4 = Some(LinkSpeed { megatransfers: 16_000, width: 4 });
        assert_eq!(LinkSpeed::from_sysfs("16.0 GT/s PCIe\n", "4\n"), gen4);
        assert_eq!(LinkSpeed::from_sysfs("16 GT/s", "4"), gen4);
        assert_eq!(LinkSpeed::from_sysfs("Unknown", "4"), None);
        assert_eq!(LinkSpeed::from_sysfs("2.5 GT/s PCIe", "0"), None);
    }

    proptest! {
        #[test]
        fn printing_is_read_back(megatransfers: u32, width in 1u8..) {
            let link = LinkSpeed { megatransfers, width };
            prop_assert_eq!(link.to_string().parse(), Ok(link));
        }

        #[test]
        fn payload_stays_below_the_raw_rate(megatransfers: u32, width: u8, payload: u64) {
            let link = LinkSpeed { megatransfers, width };
            prop_assert!(link.write_ceiling(Bytes(payload)) <= link.raw_rate());
            prop_assert!(link.read_ceiling(Bytes(payload)) <= link.raw_rate());
        }

        #[test]
        fn reading_never_panics(text in ".*") {
            let _ = text.parse::<LinkSpeed>();
        }
    }
}
