//! Sectors that the block layer counted for each drive (`Documentation/block/stat.rst`).
//!
//! It counts requests of every process to a drive, by either route. Fewer sectors than payload mean
//! that bytes came from, or stayed in, the page cache, or were never asked for. The block layer
//! does not read holes of a file from the drive, so payload is counted here without them.

use peerlane_results::{RouteEvidence, RouteVerdict};
use peerlane_units::Bytes;

use super::{CaseDrive, Requests, Root, Unread, says, unseen};

/// Bytes read from and written to a drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriveBytes {
    /// Read.
    pub read: Bytes,
    /// Written.
    pub written: Bytes,
}

/// The counters of one drive, read before payload moves.
#[derive(Debug)]
pub struct BlockCounters {
    drive: CaseDrive,
    before: Result<DriveBytes, Unread>,
}

impl BlockCounters {
    /// Reads them.
    pub fn begin(root: &Root, drive: CaseDrive) -> Self {
        let before = count(root, &drive);
        Self { drive, before }
    }

    /// Reads them again, and judges them by the payload that was asked of the drive, without the bytes
    /// of `holes`. They are `None` where their share is unknown, and `claimed` holds them then.
    pub fn end(
        self,
        root: &Root,
        claimed: DriveBytes,
        holes: Option<Bytes>,
    ) -> (Option<DriveBytes>, RouteEvidence) {
        let looked_at = format!("block layer counters of {}", self.drive.name);
        let counted = self.before.and_then(|before| {
            let after = count(root, &self.drive)?;
            let since = |later: Bytes, earlier: Bytes| Bytes(later.0.wrapping_sub(earlier.0));
            let read = since(after.read, before.read);
            Ok(DriveBytes { read, written: since(after.written, before.written) })
        });
        let counted = match counted {
            Ok(counted) => counted,
            Err(unread) => return (None, unseen(looked_at, unread)),
        };
        let of_holes = match holes {
            Some(Bytes(0)) => String::new(),
            Some(Bytes(holes)) => format!("; {holes} bytes of holes were not read"),
            None => "; its share of holes, which are not read, is unknown".to_owned(),
        };
        let showed = format!(
            "{} bytes read and {} written, where payload was {} and {}{of_holes}",
            counted.read.0, counted.written.0, claimed.read.0, claimed.written.0
        );
        let is_short = counted.read < claimed.read || counted.written < claimed.written;
        let verdict = match self.drive.requests {
            _ if claimed == DriveBytes::default() || holes.is_none() => RouteVerdict::NotKnown,
            Requests::PageCache => RouteVerdict::NotKnown,
            _ if is_short => RouteVerdict::Contradicted,
            _ => RouteVerdict::Consistent,
        };
        (Some(counted), says(verdict, looked_at, showed))
    }
}

fn count(root: &Root, drive: &CaseDrive) -> Result<DriveBytes, Unread> {
    let path = format!("sys/class/block/{}/stat", drive.name);
    if drive.requests == Requests::Passthrough {
        return Err(Unread::new(&path, "the block layer does not count passthrough commands"));
    }
    let switch = format!("sys/class/block/{}/queue/iostats", root.disk_of(&drive.name));
    if root.text(&switch).is_ok_and(|text| text == "0") {
        return Err(Unread::new(&path, "the drive is set to count nothing (`queue/iostats`)"));
    }
    parse(&root.text(&path)?).ok_or_else(|| Unread::new(&path, "it has not the known form"))
}

/// Sectors read and written are fields 3 and 7, of 512 bytes whatever the drive.
fn parse(stat: &str) -> Option<DriveBytes> {
    let mut fields = stat.split_ascii_whitespace().map(|field| {
        let sectors: u64 = field.parse().ok()?;
        Some(Bytes(sectors.wrapping_mul(512)))
    });
    let read = fields.nth(2)??;
    let written = fields.nth(3)??;
    Some(DriveBytes { read, written })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use peerlane_testing::Scratch;

    const BEFORE: &str = "  10 0 100 5 20 0 200 5 0 10 10 0 0 0 0 0 0\n";

    fn watched(after: &str, requests: Requests) -> (Option<DriveBytes>, RouteEvidence) {
        watched_with(after, requests, Some(Bytes(0)))
    }

    /// Judges 4096 bytes of payload with these holes.
    fn watched_with(
        after: &str,
        requests: Requests,
        holes: Option<Bytes>,
    ) -> (Option<DriveBytes>, RouteEvidence) {
        let tree = Scratch::new();
        let path = "sys/class/block/nvme0n1/stat";
        tree.write(path, BEFORE);
        let drive = CaseDrive { name: "nvme0n1".to_owned(), address: None, requests };
        let watch = BlockCounters::begin(&Root::at(tree.path()), drive);
        tree.write(path, after);
        watch.end(
            &Root::at(tree.path()),
            DriveBytes { read: Bytes(4096), written: Bytes(0) },
            holes,
        )
    }

    #[test]
    fn holes_are_told_and_excuse_nothing() {
        let (all, fewer) = ("11 0 108 5 20 0 200 5 0 10 10", "11 0 107 5 20 0 200 5 0 10 10");
        let found = |after, holes| watched_with(after, Requests::Direct, holes).1;
        let known = found(all, Some(Bytes(6144)));
        assert_eq!(known.says, RouteVerdict::Consistent);
        let showed = known.evidence.showed;
        assert!(showed.ends_with("4096 and 0; 6144 bytes of holes were not read"), "{showed}");
        assert_eq!(found(fewer, Some(Bytes(6144))).says, RouteVerdict::Contradicted);
        for after in [all, fewer] {
            assert_eq!(found(after, None).says, RouteVerdict::NotKnown, "neither of both by luck");
        }
    }

    #[test]
    fn missing_drive_bytes_contradict() {
        let (counted, found) = watched("11 0 108 5 20 0 200 5 0 10 10", Requests::Direct);
        assert_eq!(counted, Some(DriveBytes { read: Bytes(4096), written: Bytes(0) }));
        assert_eq!(found.says, RouteVerdict::Consistent);
        let (_, found) = watched("11 0 107 5 20 0 200 5 0 10 10", Requests::Direct);
        assert_eq!(found.says, RouteVerdict::Contradicted);
    }

    #[test]
    fn page_cache_and_passthrough_stay_unknown() {
        assert_eq!(watched(BEFORE, Requests::PageCache).1.says, RouteVerdict::NotKnown);
        let (counted, found) = watched(BEFORE, Requests::Passthrough);
        assert_eq!((counted, found.says), (None, RouteVerdict::NotKnown));
        assert!(found.evidence.showed.contains("passthrough"), "{found:?}");
    }

    #[test]
    fn disabled_counters_do_not_contradict() {
        let tree = Scratch::new();
        tree.write("sys/class/block/nvme0n1/stat", BEFORE);
        tree.write("sys/class/block/nvme0n1/queue/iostats", "0\n");
        let name = "nvme0n1".to_owned();
        let drive = CaseDrive { name, address: None, requests: Requests::Direct };
        let claimed = DriveBytes { read: Bytes(4096), written: Bytes(0) };
        let watch = BlockCounters::begin(&Root::at(tree.path()), drive);
        let (counted, found) = watch.end(&Root::at(tree.path()), claimed, Some(Bytes(0)));
        assert_eq!((counted, found.says), (None, RouteVerdict::NotKnown));
        assert!(found.evidence.showed.contains("queue/iostats"), "{found:?}");
    }

    #[test]
    fn partition_uses_switch_of_disk() {
        let tree = Scratch::new();
        tree.write("sys/devices/nvme0n1/nvme0n1p1/partition", "1\n");
        tree.write("sys/devices/nvme0n1/nvme0n1p1/stat", BEFORE);
        tree.write("sys/class/block/other", "");
        let link = tree.path().join("sys/class/block/nvme0n1p1");
        std::os::unix::fs::symlink("../../devices/nvme0n1/nvme0n1p1", link).unwrap();
        assert_eq!(Root::at(tree.path()).disk_of("nvme0n1p1"), "nvme0n1");
        assert_eq!(Root::at(tree.path()).disk_of("nvme0n1"), "nvme0n1");
    }

    #[test]
    fn malformed_counter_is_a_reason() {
        let (counted, found) = watched("1 2 three", Requests::Direct);
        assert_eq!(counted, None);
        assert!(found.evidence.showed.contains("known form"), "{found:?}");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
