//! Numbers in the names of folders, as the kernel reads them.

/// Parses a number like `kstrtouint(text, 0, ..)`: decimal, `0x10` or octal `010`.
///
/// The kernel takes one leading `+` and one trailing newline, too (lib/kstrtox.c).
pub(crate) fn parse(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_prefix('+').unwrap_or(text);
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    // `from_str_radix` takes a sign, the kernel takes no second one.
    digits.chars().all(|digit| digit.is_digit(base)).then_some(())?;
    u32::from_str_radix(digits, base).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn folder_numbers_follow_kernel_bases() {
        let numbers = [("1", 1), ("010", 8), ("0x1F", 31), ("0", 0), ("+7", 7), ("7\n", 7)];
        for (text, number) in numbers {
            assert_eq!(parse(text.as_bytes()), Some(number), "{text:?}");
        }
        for text in ["", "-1", "++1", "08", "0x", "1 ", "a", "4294967296", "\u{661}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
