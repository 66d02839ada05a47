//! Reliability of a topology inside a virtual machine, a container, or a confidential guest.

use peerlane_fabric::{Fabric, gpu};

/// Name of a hypervisor or container runtime that is known only by a sign of it.
const UNNAMED: &str = "unknown";

/// Returns the layers between the description and the hardware, one sentence each.
pub fn environment_notes(fabric: &Fabric) -> Vec<String> {
    let environment = &fabric.environment;
    let named = |name: &str| match name {
        UNNAMED => String::new(),
        name => format!(" ({name})"),
    };
    let hypervisor = environment.hypervisor.as_deref().map(|name| {
        format!(
            "this is the hypervisor's topology{}: the switches, links and ACS bits of the hardware \
             are not seen, so distances and rates may differ; run it on the host",
            named(name)
        )
    });
    let container = environment.container.as_deref().map(|name| {
        format!(
            "this is a container{}: the devices are those of the host, and device nodes, modules and \
             libraries may be missing here",
            named(name)
        )
    });
    let confidential = environment.confidential.as_deref().map(|name| {
        format!(
            "this is a confidential virtual machine ({name}): devices reach only memory that it \
             shares, so the kernel copies DMA through bounce buffers (swiotlb), and mapping peer \
             memory through the host bridge fails (Linux 7.2, kernel/dma/direct.h)"
        )
    });
    [hypervisor, container, confidential].into_iter().flatten().collect()
}

/// Host bridges that QEMU emulates, by device number: q35 and i440FX.
const EMULATED: [(u16, &str); 2] =
    [(0x29c0, "8086:29c0, QEMU's q35"), (0x1237, "8086:1237, QEMU's i440FX")];

/// The chipset that a virtual machine is given, by its host bridge at 00:00.0.
pub(super) fn emulated_chipset(fabric: &Fabric) -> Option<&'static str> {
    let is_first = |at: peerlane_fabric::Bdf| (at.domain(), at.bus(), at.devfn()) == (0, 0, 0);
    let bridge = fabric.functions.iter().find(|one| one.address.is_some_and(is_first))?;
    let device = bridge.device.filter(|_| bridge.vendor == Some(gpu::VENDOR_INTEL))?;
    EMULATED.iter().find(|(emulated, _)| *emulated == device).map(|(_, name)| *name)
}
