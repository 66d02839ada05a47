//! UUIDs derived from a text.

use twox_hash::XxHash3_64;

/// Returns a UUID of version 8 (RFC 9562, section 5.8): the hash of a text.
pub(crate) fn from_text(text: &str) -> String {
    let half = |seed| u128::from(XxHash3_64::oneshot_with_seed(seed, text.as_bytes()));
    let number = half(0) << 64 | half(1);
    let marked = number & !(0xf << 76) & !(0b11 << 62) | 8 << 76 | 0b10 << 62;
    let digits = format!("{marked:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_has_version_8() {
        let uuid = from_text("7");
        let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "8");
        assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        assert_ne!(uuid, from_text("8"));
    }
}
