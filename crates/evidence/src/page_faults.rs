//! Page faults of the process, which Donard counted as a measure of host memory use.
//!
//! Donard's "DRAM utilisation" is the kernel's count of page faults, about one for each 4 KiB of a
//! mapped file; the kernel now maps many pages at a fault, so the count follows the kernel's version
//! more than it follows memory traffic. It is recorded under its own name and says nothing of routes.

use peerlane_results::{PageFaults, RouteEvidence, RouteVerdict};

use super::{Root, Unread, says, unseen};

const LOOKED_AT: &str = "page faults of the process (Donard's measure of memory use)";

pub(super) fn count(root: &Root) -> Result<PageFaults, Unread> {
    let path = "proc/self/stat";
    parse(&root.text(path)?).ok_or_else(|| Unread::new(path, "it has not the known form"))
}

/// Fields 10 and 12 (`Documentation/filesystems/proc.rst`), behind a name that may hold anything.
fn parse(stat: &str) -> Option<PageFaults> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let minor = fields.nth(7)?.parse().ok()?;
    Some(PageFaults { minor, major: fields.nth(1)?.parse().ok()? })
}

pub(super) fn end(
    before: Result<PageFaults, Unread>,
    root: &Root,
) -> (Option<PageFaults>, RouteEvidence) {
    let counted = before.and_then(|before| {
        let after = count(root)?;
        let minor = after.minor.saturating_sub(before.minor);
        Ok(PageFaults { minor, major: after.major.saturating_sub(before.major) })
    });
    match counted {
        Ok(faults) => {
            let showed = format!("{} without I/O, {} with I/O", faults.minor, faults.major);
            (Some(faults), says(RouteVerdict::NotKnown, LOOKED_AT, showed))
        }
        Err(unread) => (None, unseen(LOOKED_AT, unread)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use peerlane_testing::Scratch;

    #[test]
    fn faults_are_counted_behind_any_name() {
        let tree = Scratch::new();
        tree.write("proc/self/stat", "42 (a) b (c) R 1 2 3 4 5 6 100 8 7 10 110 22 0 0\n");
        let before = count(&Root::at(tree.path()));
        assert_eq!(before, Ok(PageFaults { minor: 100, major: 7 }));
        tree.write("proc/self/stat", "42 (a) b (c) R 1 2 3 4 5 6 140 8 7 10 110 22 0 0\n");
        let (counted, found) = end(before, &Root::at(tree.path()));
        assert_eq!(counted, Some(PageFaults { minor: 40, major: 0 }));
        assert_eq!(found.says, RouteVerdict::NotKnown);
    }

    #[test]
    fn missing_file_is_a_reason() {
        let tree = Scratch::new();
        let (counted, found) = end(count(&Root::at(tree.path())), &Root::at(tree.path()));
        assert_eq!(counted, None);
        assert!(found.evidence.showed.contains("proc/self/stat"), "{found:?}");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
