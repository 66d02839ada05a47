//! Settings of cuFile that its P2PDMA mode needs for an end that is not a single drive of this
//! machine.
//!
//! NVIDIA's "GDS Support for NVMe Drives Using Linux PCI P2PDMA" excludes RAID and NVMe-oF. The keys are in the
//! published libraries: `strings libcufile.so.0 | grep use_pci_p2pdma`, 1.16 and 1.19. No machine was there to try
//! them.

use crate::endpoints::{Endpoint, Layer};

/// First versions of cuFile with a key for RAID 0 and NVMe-oF, and with one for RAID 1 and RAID 10.
const FIRST_KEYS: &str = "1.16";
const MIRROR_KEYS: &str = "1.19";

/// True when an end is reached by the network card of this machine: its requests come from there.
pub(super) fn is_rdma(end: &Endpoint) -> bool {
    matches!(layer(end), Some(Layer::Nvme { network: Some(far) }) if far.transport == "rdma")
}

/// The setting that lets cuFile take an end by P2PDMA; `None` if it needs none.
pub(super) fn needed(end: &Endpoint) -> Option<String> {
    let layer = layer(end)?;
    let (key, since) = key(layer)?;
    Some(format!(
        "{} is {}, which cuFile takes by P2PDMA only from {since} on and where /etc/cufile.json has \
         {{\"block\": {{\"{key}\": {{\"use_pci_p2pdma\": true}}}}}}, which is off by default (key in the published \
         libraries; not tried)",
        end.facts.path,
        layer.describe()
    ))
}

fn layer(end: &Endpoint) -> Option<&Layer> {
    end.live.as_ref()?.layer.as_ref()
}

fn key(layer: &Layer) -> Option<(&'static str, &'static str)> {
    match layer {
        Layer::Nvme { network: Some(far) } if far.transport == "rdma" => {
            Some(("nvmeof", FIRST_KEYS))
        }
        Layer::Md { level, .. } => match level.as_str() {
            "raid0" => Some(("raid", FIRST_KEYS)),
            "raid1" => Some(("raid1", MIRROR_KEYS)),
            "raid10" => Some(("raid10", MIRROR_KEYS)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_rdma_have_keys() {
        let md = |level: &str| Layer::Md { level: level.to_owned(), members: Vec::new() };
        let nvme = |transport: &str| Layer::Nvme {
            network: (transport != "pcie").then(|| peerlane_results::NetworkFacts {
                transport: transport.to_owned(),
                address: None,
                subsystem: None,
            }),
        };
        for (layer, expected) in [
            (md("raid0"), Some(("raid", "1.16"))),
            (md("raid1"), Some(("raid1", "1.19"))),
            (md("raid10"), Some(("raid10", "1.19"))),
            (md("raid5"), None),
            (nvme("rdma"), Some(("nvmeof", "1.16"))),
            (nvme("tcp"), None),
            (nvme("pcie"), None),
        ] {
            assert_eq!(key(&layer), expected, "{layer:?}");
        }
    }
}
