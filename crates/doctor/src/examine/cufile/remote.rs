//! Keys of storage that is reached by RDMA.

use peerlane_fabric::CufileValue;

use super::{Audit, BY_1_14, CuFileEffect, CufileNote, EARLY};

impl Audit<'_> {
    pub(super) fn remote(&self) -> Vec<CufileNote> {
        let writes = [
            ("properties.gds_rdma_write_support", "storage by RDMA"),
            ("fs.gpfs.gds_write_support", "GPFS"),
        ];
        let writes = writes.into_iter().filter_map(|(key, what)| {
            self.flagged(key, false, EARLY, || {
                CuFileEffect::new(
                    format!("writes to {what} go through host memory; reads do not"),
                    "set it to true where the file system takes such writes",
                )
            })
        });
        let others =
            [self.weka(), self.gpfs_streams(), self.peer_type(), self.routing(), self.topology()];
        writes.chain(others.into_iter().flatten()).collect()
    }

    fn weka(&self) -> Option<CufileNote> {
        self.flagged("fs.weka.rdma_write_support", true, EARLY, || {
            CuFileEffect::new(
                "writes to WekaFS go by RDMA, where they would go through host memory by default",
                "leave it on only where WekaFS takes such writes",
            )
        })
    }

    fn gpfs_streams(&self) -> Option<CufileNote> {
        self.flagged("fs.gpfs.gds_async_support", false, BY_1_14, || {
            CuFileEffect::new(
                "requests on a stream to GPFS go through host memory",
                "set it to true",
            )
        })
    }

    /// Checks how WekaFS and GPFS register memory of a GPU with a network controller.
    fn peer_type(&self) -> Option<CufileNote> {
        let key = "properties.rdma_peer_type";
        let Some(CufileValue::Text(value)) = self.found.settings.get(key) else { return None };
        let is_open = self.fabric.nvidia.as_ref().and_then(|driver| driver.is_open);
        let effect = match value.as_str() {
            "dmabuf" if is_open == Some(false) => CuFileEffect::new(
                "dma-bufs of a GPU need NVIDIA's open kernel modules, and its proprietary ones are loaded: WekaFS and \
                 GPFS get no memory of a GPU",
                "install the open modules, or set it to \"peer_mem\"",
            ),
            "peer_mem" if self.fabric.kernel.has_module("nvidia_peermem") == Some(false) => {
                CuFileEffect::new(
                    "nvidia_peermem, by which WekaFS and GPFS get memory of a GPU, is not loaded",
                    "`sudo modprobe nvidia-peermem`, or set it to \"dmabuf\"",
                )
            }
            "dmabuf" | "peer_mem" => return None,
            _ => CuFileEffect::new(
                "only \"peer_mem\" and \"dmabuf\" are documented",
                "set it to \"dmabuf\" with NVIDIA's open kernel modules, else to \"peer_mem\"",
            ),
        };
        Some(self.note(key, EARLY, effect))
    }

    fn routing(&self) -> Option<CufileNote> {
        let order = self.found.list("properties.rdma_dynamic_routing_order").join(", ");
        let order = if order.is_empty() { "the default order".to_owned() } else { order };
        let has_addresses =
            self.found.number("properties.rdma_dev_addr_list").is_some_and(|count| count > 0);
        let without = if has_addresses {
            ""
        } else {
            "; no addresses are set for all file systems, without which controllers must be named for each"
        };
        self.flagged("properties.rdma_dynamic_routing", true, EARLY, || {
            CuFileEffect::new(
                format!(
                    "where a GPU and a controller share no root port, payload goes by {order}, of which SYS_MEM is \
                     host memory{without}"
                ),
                "leave SYS_MEM out of rdma_dynamic_routing_order to keep payload out of host memory",
            )
        })
    }

    fn topology(&self) -> Option<CufileNote> {
        self.flagged("miscellaneous.enable_static_routing", true, super::FALLBACKS, || {
            CuFileEffect::new(
                "cuFile takes the topology, and from 1.20 on whether P2PDMA is possible, from a file that was saved \
                 before",
                "save it again after each change: `gdscheck -e sysfs -o FILE`",
            )
        })
    }
}
