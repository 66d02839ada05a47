//! Line numbers that programs put before each line: `cat -n`, `grep -n`, listings of web pages.

/// The number in front of a line.
pub(super) fn number(line: &str) -> Option<u32> {
    split(line).map(|(number, _)| number)
}

/// The line without its number; the whole line where it has none.
pub(super) fn without(line: &str) -> &str {
    split(line).map_or(line, |(_, rest)| rest)
}

/// Reads `    12\t`, `12:`, `12-` and `12 | `; grep also puts the name of the file before the number.
fn split(line: &str) -> Option<(u32, &str)> {
    plain(line).or_else(|| {
        let (name, _) = line.split_once([':', '-'])?;
        // A name with a dash of its own is cut too early; the next cut is tried.
        let is_name = |name: &str| !name.is_empty() && !name.contains([' ', '\t']);
        let mut ends = line.match_indices([':', '-']).map(|(at, _)| at);
        let behind = |at: usize| plain(&line[at + 1..]).filter(|_| is_name(&line[..at]));
        is_name(name).then(|| ends.find_map(behind))?
    })
}

fn plain(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start_matches(' ');
    let end = line.find(|c: char| !c.is_ascii_digit())?;
    let number = line[..end].parse().ok()?;
    let rest = &line[end..];
    let listing = || rest.trim_start_matches(' ').strip_prefix('|');
    let rest = rest
        .strip_prefix(['\t', ':', '-'])
        .or_else(|| listing().map(|rest| rest.strip_prefix(' ').unwrap_or(rest)))?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_program_are_split_off() {
        for (line, expected) in [
            ("     2\t\tSubsystem: x", (2, "\tSubsystem: x")),
            ("2:0000:00:00.0 Host", (2, "0000:00:00.0 Host")),
            ("13-\tFlags: x", (13, "\tFlags: x")),
            ("my-text.txt:7:\tBus: x", (7, "\tBus: x")),
            ("lspci.txt-8-\tLnkSta: x", (8, "\tLnkSta: x")),
            (" 12 | \tKernel modules: x", (12, "\tKernel modules: x")),
        ] {
            assert_eq!(split(line), Some(expected));
        }
        for line in ["", "\tStatus: Cap+", "Kernel modules: nvme", "12"] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
