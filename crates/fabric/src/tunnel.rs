//! Links inside PCIe tunnels of USB4 and Thunderbolt.
//!
//! The registers of a tunnelled link state 2.5 GT/s whatever the tunnel carries (USB4 version 2.0, section 11.2.1),
//! so the rate of such a link is unknown. The link from a port of a dock to the device in it is an ordinary one.

use crate::{Function, FunctionKind, Parent, pci_names};

/// Identifier of Intel's vendor-specific capability for Thunderbolt (`PCI_VSEC_ID_INTEL_TBT` in
/// include/linux/pci_ids.h).
pub(crate) const THUNDERBOLT_VSEC: u16 = 0x1234;

/// Takes the stated rates from links whose two ports carry a tunnel; `is_marked` tells a port whose registers say
/// that it is one, by its position.
pub(crate) fn forget_rates(functions: &mut [Function], is_marked: impl Fn(usize) -> bool) {
    let carries: Vec<bool> = functions
        .iter()
        .enumerate()
        .map(|(at, one)| one.kind.is_bridge() && (is_marked(at) || is_by_name(one)))
        .collect();
    let mut has_child = vec![false; functions.len()];
    let mut tunnelled = Vec::new();
    for (at, one) in functions.iter().enumerate() {
        let Parent::Function(above) = one.parent else { continue };
        has_child[above.0] = true;
        if carries[at] && carries[above.0] && one.kind == FunctionKind::UpstreamPort {
            tunnelled.push((at, above.0));
        }
    }
    for (below, above) in tunnelled {
        functions[below].link = None;
        functions[above].link_below = None;
    }
    for (at, one) in functions.iter_mut().enumerate() {
        let faces_down = matches!(one.kind, FunctionKind::RootPort | FunctionKind::DownstreamPort);
        if carries[at] && faces_down && !has_child[at] {
            one.link_below = None;
        }
    }
}

/// Returns whether the PCI ID repository names a port as one of USB4 or Thunderbolt.
fn is_by_name(function: &Function) -> bool {
    let name = function.vendor.zip(function.device);
    let name = name.and_then(|(vendor, device)| pci_names::device(vendor, device));
    name.is_some_and(|name| name.contains("Thunderbolt") || name.contains("USB4"))
}

#[cfg(test)]
mod tests {
    use crate::Fabric;

    /// A root port for tunnels, the two ports of a dock, and a GPU in it.
    const DOCK: &str = "\
00:00.0 Host bridge [0600]: Intel Corporation Device [8086:9a14]

00:07.0 PCI bridge [0604]: Intel Corporation Tiger Lake-LP Thunderbolt 4 PCI Express Root Port #0 [8086:9a23]
\tBus: primary=00, secondary=01, subordinate=05, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #4, Speed 2.5GT/s, Width x4, ASPM L1
\t\tLnkSta:\tSpeed 2.5GT/s, Width x4

01:00.0 PCI bridge [0604]: Intel Corporation Device [8086:ffff]
\tBus: primary=01, secondary=02, subordinate=05, sec-latency=0
\tCapabilities: [c0] Express (v2) Upstream Port, MSI 00
\t\tLnkCap:\tPort #0, Speed 2.5GT/s, Width x4, ASPM L1
\t\tLnkSta:\tSpeed 2.5GT/s, Width x4
\tCapabilities: [500 v1] Vendor Specific Information: ID=1234 Rev=1 Len=0d8 <?>

02:01.0 PCI bridge [0604]: Intel Corporation Device [8086:ffff]
\tBus: primary=02, secondary=03, subordinate=05, sec-latency=0
\tCapabilities: [c0] Express (v2) Downstream Port (Slot+), MSI 00
\t\tLnkCap:\tPort #1, Speed 8GT/s, Width x4, ASPM L1
\t\tLnkSta:\tSpeed 8GT/s, Width x4
\tCapabilities: [500 v1] Vendor Specific Information: ID=1234 Rev=1 Len=0d8 <?>

03:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA106 [10de:2503]
\tCapabilities: [78] Express (v2) Legacy Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x4 (downgraded)
";

    #[test]
    fn tunnelled_link_has_no_rate() {
        let fabric = crate::lspci::read(DOCK).expect("a machine");
        let of = |name: &str| fabric.functions.iter().find(|one| one.name == name).expect(name);
        assert_eq!((of("0000:00:07.0").link_below, of("0000:01:00.0").link), (None, None));
        assert_eq!(of("0000:02:01.0").link_below, "8GT/s x4".parse().ok());
        let gpu = of("0000:03:00.0").link.expect("a link");
        assert_eq!(gpu.current, "8GT/s x4".parse().ok());
        let account = fabric.account.as_ref().expect("an account");
        assert!(account.is_complete(), "{account:?}");
    }

    #[test]
    fn ports_of_other_makers_keep_rates() {
        let text = DOCK.replace("ID=1234", "ID=1235");
        let fabric: Fabric = crate::lspci::read(&text).expect("a machine");
        assert!(
            fabric.functions.iter().any(|one| one.name == "0000:01:00.0" && one.link.is_some())
        );
    }
}
