//! Use of an export: bytes of its drive and of P2P memory.

use std::path::Path;

use peerlane_results::{EXPORT_STATUS_SCHEMA, ExportStatus, MemoryKind, PoolUse};
use peerlane_units::Bytes;

use crate::io::system::System;

/// Bytes of a sector in `stat` (Linux 7.2 `Documentation/block/stat.rst`).
const SECTOR_BYTES: u64 = 512;

/// Samples of an export since it began. The drive is held, so its requests are those of hosts.
#[derive(Debug)]
pub struct ExportMeter {
    system: System,
    disk: String,
    began: (u64, u64),
    status: ExportStatus,
}

impl ExportMeter {
    /// Begins to count. `node` is the path of the drive, `pools` the PCI addresses of the functions
    /// whose P2P memory may hold payload.
    pub fn new(
        root: &Path,
        node: &Path,
        (subsystem, uuid): (&str, &str),
        memory: MemoryKind,
        pools: Vec<String>,
    ) -> Self {
        let system = System::at(root);
        let disk = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let began = sectors(&system, &disk).unwrap_or_default();
        let pools = pools.into_iter().map(|address| PoolUse {
            size: pool_bytes(&system, &address, "size").unwrap_or_default(),
            most_used: Bytes::ZERO,
            samples_in_use: 0,
            address,
        });
        let status = ExportStatus {
            schema: EXPORT_STATUS_SCHEMA.to_owned(),
            subsystem: subsystem.to_owned(),
            uuid: uuid.to_owned(),
            memory,
            pools: pools.collect(),
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            has_ended: false,
        };
        Self { system, disk, began, status }
    }

    /// Counts again. A drive that is gone keeps its last counts.
    pub fn sample(&mut self) -> &ExportStatus {
        if let Some((read, written)) = sectors(&self.system, &self.disk) {
            let bytes = |now: u64, began: u64| Bytes(now.saturating_sub(began) * SECTOR_BYTES);
            self.status.read = bytes(read, self.began.0);
            self.status.written = bytes(written, self.began.1);
        }
        for pool in &mut self.status.pools {
            let available = pool_bytes(&self.system, &pool.address, "available");
            let used = available.map_or(0, |available| pool.size.0.saturating_sub(available.0));
            pool.most_used = pool.most_used.max(Bytes(used));
            pool.samples_in_use += u64::from(used > 0);
        }
        &self.status
    }

    /// The last counts of an export that has ended.
    pub fn finish(mut self) -> ExportStatus {
        self.sample();
        self.status.has_ended = true;
        self.status
    }
}

/// Sectors read and written.
fn sectors(system: &System, disk: &str) -> Option<(u64, u64)> {
    let line = system.line(&format!("sys/class/block/{disk}/stat"))?;
    let mut fields = line.split_whitespace().map(|field| field.parse().ok());
    Some((fields.nth(2)??, fields.nth(3)??))
}

fn pool_bytes(system: &System, address: &str, file: &str) -> Option<Bytes> {
    let line = system.line(&format!("sys/bus/pci/devices/{address}/p2pmem/{file}"))?;
    line.parse().ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::guard::tests::DeviceTree;

    #[test]
    fn counts_begin_with_the_export() {
        let tree = DeviceTree::new();
        let pool = "sys/bus/pci/devices/0000:05:00.0/p2pmem";
        tree.write("sys/class/block/nvme1n1/stat", "9 0 100 0 9 0 200 0 0 0 0\n");
        tree.write(&format!("{pool}/size"), "1048576\n");
        tree.write(&format!("{pool}/available"), "1048576\n");
        let root = tree.system().root().to_owned();
        let names = ("lab", "1b4e28ba");
        let pools = vec!["0000:05:00.0".to_owned()];
        let node = Path::new("/dev/nvme1n1");
        let mut meter = ExportMeter::new(&root, node, names, MemoryKind::P2pmem, pools);
        assert_eq!(meter.sample().read, Bytes::ZERO);
        tree.write("sys/class/block/nvme1n1/stat", "9 0 108 0 9 0 202 0 0 0 0\n");
        tree.write(&format!("{pool}/available"), "1044480\n");
        meter.sample();
        tree.write(&format!("{pool}/available"), "1048576\n");
        let status = meter.finish();
        assert_eq!((status.read, status.written), (Bytes(4096), Bytes(1024)));
        let [pool] = &status.pools[..] else { panic!("{status:?}") };
        assert_eq!((pool.most_used, pool.samples_in_use), (Bytes(4096), 1));
        assert!(status.has_ended);
    }
}
