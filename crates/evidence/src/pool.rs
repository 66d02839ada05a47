//! Use of a pool of device memory while a case runs (`p2pmem/available` in sysfs; ABI:
//! `Documentation/ABI/testing/sysfs-bus-pci`).
//!
//! A pool in use shows that memory was taken, not that bytes went through it.

use peerlane_results::{BytesByRoute, RouteEvidence, RouteVerdict};
use peerlane_units::Bytes;

use super::{Pool, Root, Unread, says, unseen};

/// Size of one pool, and the fewest bytes that were free before and while the case ran.
#[derive(Debug)]
pub(super) struct PoolWatch {
    pool: Pool,
    size: Result<u64, Unread>,
    least: Result<u64, Unread>,
    /// Set once the pool was read while the case ran.
    was_looked_at: bool,
}

impl PoolWatch {
    pub(super) fn begin(root: &Root, pool: Pool) -> Self {
        let size = root.number(&file(&pool, "size"));
        let least = root.number(&file(&pool, "available"));
        Self { pool, size, least, was_looked_at: false }
    }

    pub(super) fn look(&mut self, root: &Root) {
        self.was_looked_at = true;
        let now: Result<u64, Unread> = root.number(&file(&self.pool, "available"));
        self.least = match (&self.least, now) {
            (Ok(least), Ok(now)) => Ok((*least).min(now)),
            (Err(_), Ok(now)) => Ok(now),
            (least, Err(_)) => least.clone(),
        };
    }

    /// Compares with the size of the pool, so memory taken by others counts as taken, too.
    pub(super) fn end(self, asked: BytesByRoute) -> RouteEvidence {
        let looked_at = format!("p2pmem/available of {}", self.pool.address);
        if !self.was_looked_at {
            return unseen(looked_at, "it was not read while the case ran");
        }
        let (size, least) = match (self.size, self.least) {
            (Ok(size), Ok(least)) => (size, least),
            (Err(unread), _) | (_, Err(unread)) => return unseen(looked_at, unread),
        };
        let used = size.saturating_sub(least);
        let wanted = self.pool.taken;
        let verdict = match asked.p2p {
            Bytes(0) => RouteVerdict::NotKnown,
            _ if used < wanted.0 => RouteVerdict::Contradicted,
            _ => RouteVerdict::Consistent,
        };
        let showed =
            format!("{used} of {size} bytes in use while it ran, and the case takes {}", wanted.0);
        says(verdict, looked_at, showed)
    }
}

fn file(pool: &Pool, name: &str) -> String {
    format!("sys/bus/pci/devices/{}/p2pmem/{name}", pool.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::p2p;
    use peerlane_testing::Scratch;

    fn watched(during: Option<&str>) -> RouteEvidence {
        let tree = Scratch::new();
        let pool = Pool { address: "0000:03:00.0".parse().unwrap(), taken: Bytes(4096) };
        let place = "sys/bus/pci/devices/0000:03:00.0/p2pmem";
        tree.write(format!("{place}/size"), "1048576\n");
        tree.write(format!("{place}/available"), "1048576\n");
        let mut watch = PoolWatch::begin(&Root::at(tree.path()), pool);
        if let Some(during) = during {
            tree.write(format!("{place}/available"), during);
            watch.look(&Root::at(tree.path()));
        }
        tree.write(format!("{place}/available"), "1048576\n");
        watch.end(p2p(1000))
    }

    #[test]
    fn untouched_pool_contradicts_route() {
        assert_eq!(watched(Some("1044480")).says, RouteVerdict::Consistent);
        assert_eq!(watched(Some("1048576")).says, RouteVerdict::Contradicted);
    }

    #[test]
    fn unread_pool_stays_unknown() {
        let found = watched(None);
        assert_eq!(found.says, RouteVerdict::NotKnown);
        assert!(found.evidence.showed.contains("was not read while"), "{found:?}");
        let tree = Scratch::new();
        let pool = Pool { address: "0000:03:00.0".parse().unwrap(), taken: Bytes(1) };
        let mut watch = PoolWatch::begin(&Root::at(tree.path()), pool);
        watch.look(&Root::at(tree.path()));
        let found = watch.end(p2p(1));
        assert_eq!(found.says, RouteVerdict::NotKnown);
        assert!(found.evidence.showed.contains("p2pmem/size"), "{found:?}");
    }
}
