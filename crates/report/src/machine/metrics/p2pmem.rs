//! The kernel's P2PDMA layer, and the memory that drivers registered with it.

use peerlane_fabric::Fabric;

use super::device::DeviceLabels;
use super::gauge::Gauge;
use crate::machine::text::Labels;

/// Presence of the layer; size, free bytes and publication of each pool.
pub(super) fn families(fabric: &Fabric, words: &Labels) -> Vec<Gauge> {
    let mut layer = Gauge::new("peerlane_kernel_p2pdma", "1 if the kernel is built with P2PDMA.");
    layer.add(&[], fabric.kernel.has_p2pdma.map(u64::from));
    let mut size = Gauge::new(
        "peerlane_p2pmem_size_bytes",
        "Memory of the device that its driver registered with P2PDMA.",
    );
    let mut free =
        Gauge::new("peerlane_p2pmem_free_bytes", "Registered memory that is not allocated.");
    let mut published = Gauge::new(
        "peerlane_p2pmem_published",
        "1 if the driver offers its registered memory to peers.",
    );
    for (id, function) in fabric.iter() {
        let Some(pool) = function.p2pmem else { continue };
        let device = DeviceLabels::new(fabric, words, id);
        let labels = device.labels();
        size.add(&labels, Some(pool.size.0));
        free.add(&labels, Some(pool.available.0));
        published.add(&labels, Some(pool.published.into()));
    }
    vec![layer, size, free, published]
}
