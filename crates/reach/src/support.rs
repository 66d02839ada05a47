//! Support of the kernel for peer-to-peer memory in programs.

use peerlane_fabric::Kernel;

/// First kernel whose `p2pmem/allocate` can be mapped (`Documentation/ABI/testing/sysfs-bus-pci`).
const ALLOCATE_SINCE: (u32, u32) = (6, 2);

/// Returns the reason why a kernel gives programs no peer-to-peer memory at all; `None` where it does, or
/// where that is unknown.
pub fn kernel_refusal(kernel: &Kernel) -> Option<String> {
    let release = kernel.release.as_deref().unwrap_or("unknown");
    if kernel.has_p2pdma == Some(false) {
        return Some(format!("kernel {release} is built without CONFIG_PCI_P2PDMA"));
    }
    (kernel.version()? < ALLOCATE_SINCE).then(|| {
        format!("kernel {release} is older than 6.2, the first with mappable peer-to-peer memory")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_without_mappable_memory_are_refused() {
        let kernel =
            |release: &str| Kernel { release: Some(release.to_owned()), ..Kernel::default() };
        assert!(kernel_refusal(&kernel("6.1.0-30-amd64")).is_some());
        assert_eq!(kernel_refusal(&kernel("6.8.0-149-generic")), None);
        let without = Kernel { has_p2pdma: Some(false), ..kernel("6.12.0") };
        assert!(kernel_refusal(&without).is_some_and(|why| why.contains("CONFIG_PCI_P2PDMA")));
        assert_eq!(kernel_refusal(&Kernel::default()), None, "unknown is not refused");
    }
}
