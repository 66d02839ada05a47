//! Growth of the page cache (`/proc/meminfo`).
//!
//! The figures are the machine's. A cache that stays as it was fits a route that avoids it. Growth
//! may come from any process, so it never contradicts a route by itself.

use peerlane_results::{BytesByRoute, RouteEvidence, RouteVerdict};
use peerlane_units::Bytes;

use super::{Root, Unread, says, unseen};

const LOOKED_AT: &str = "growth of the page cache (Cached, Buffers and Dirty in /proc/meminfo)";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageCache {
    cached: Bytes,
    dirty: Bytes,
}

pub(super) fn read(root: &Root) -> Result<PageCache, Unread> {
    let path = "proc/meminfo";
    parse(&root.text(path)?).ok_or_else(|| Unread::new(path, "it has not the known form"))
}

/// Lines such as `Cached:  1234 kB`, in KiB whatever they say.
fn parse(text: &str) -> Option<PageCache> {
    let line = |name: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?.strip_prefix(':')?;
        let kib: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    // A block device's own pages are counted as buffers.
    let cached = line("Cached")?.checked_add(line("Buffers")?)?;
    Some(PageCache { cached: Bytes(cached), dirty: Bytes(line("Dirty")?) })
}

pub(super) fn end(
    before: Result<PageCache, Unread>,
    root: &Root,
    asked: BytesByRoute,
) -> RouteEvidence {
    let pair = before.and_then(|before| Ok((before, read(root)?)));
    let (before, after) = match pair {
        Ok(pair) => pair,
        Err(unread) => return unseen(LOOKED_AT, unread),
    };
    let grown = after.cached.0.saturating_sub(before.cached.0);
    let dirty = after.dirty.0.saturating_sub(before.dirty.0);
    let showed = format!("{grown} bytes more in the cache, {dirty} more to be written");
    // A tenth of the payload is told from what a machine does by itself where there is much of it.
    let says_much = asked.host == Bytes::ZERO && asked.p2p >= Bytes::mib(64);
    let is_flat = grown < asked.p2p.0 / 10;
    let verdict =
        if says_much && is_flat { RouteVerdict::Consistent } else { RouteVerdict::NotKnown };
    says(verdict, LOOKED_AT, showed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::p2p;
    use peerlane_testing::Scratch;

    fn text(cached: u64) -> String {
        format!("MemTotal: 8 kB\nBuffers:  100 kB\nCached:  {cached} kB\nDirty:  4 kB\n")
    }

    fn watched(payload: u64, growth: u64) -> RouteVerdict {
        let tree = Scratch::new();
        tree.write("proc/meminfo", text(1000));
        let before = read(&Root::at(tree.path()));
        tree.write("proc/meminfo", text(1000 + growth));
        end(before, &Root::at(tree.path()), p2p(payload)).says
    }

    #[test]
    fn flat_cache_fits_peer_route() {
        assert_eq!(watched(128 << 20, 100), RouteVerdict::Consistent);
        assert_eq!(
            watched(128 << 20, 128 << 10),
            RouteVerdict::NotKnown,
            "it may be a neighbour's"
        );
        assert_eq!(watched(1 << 20, 0), RouteVerdict::NotKnown, "too little payload to tell");
    }

    #[test]
    fn missing_file_is_a_reason() {
        let tree = Scratch::new();
        let found = end(read(&Root::at(tree.path())), &Root::at(tree.path()), p2p(1 << 30));
        assert!(found.evidence.showed.contains("proc/meminfo"), "{found:?}");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "(Cached|Buffers|Dirty|:| |[0-9]{0,25}|kB|\n)*") {
            let _ = parse(&text);
        }
    }
}
