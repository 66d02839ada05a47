//! Passthrough nodes of NVMe namespaces, `/dev/ng0n1`, as ends of a copy.
//!
//! The node shows the bytes of the namespace's block device, and the kernel guards neither against
//! the other. So its block device is part of the endpoint: it tells sizes and limits, everything that
//! protects it protects the node, and it is held open while the copy runs. A namespace without one is
//! refused: the kernel makes one for every namespace of the NVM command set, and the meaning of
//! reads and writes in another command set is unknown here.

use std::path::{Path, PathBuf};

use peerlane_fabric::{Fabric, PassthroughNode};
use peerlane_reach::kernel_refusal;
use peerlane_results::{EndpointFacts, EndpointKind};
use peerlane_units::Bytes;

use super::live::initiator;
use super::obstacles;
use super::{Endpoint, EndpointError, Live, PathNode, drive_name, request_p2p};
use crate::io::ring::PassthroughNamespace;
use crate::io::system::System;

/// Additions of a passthrough node to a device.
#[derive(Debug, Clone)]
pub(crate) struct Passthrough {
    /// The block device of the same namespace.
    pub(crate) block: PathBuf,
    /// Facts that commands are made from.
    pub(crate) namespace: PassthroughNamespace,
}

/// Assumed largest request of a drive that does not say: the limit of a translating IOMMU (Linux
/// 7.2 `drivers/iommu/dma-iommu.c`), which is below that of any drive met with.
const REQUEST_UNKNOWN: Bytes = Bytes::kib(128);

/// Looks at the character device `number` at `path`; `None` if it is not a passthrough node.
pub(super) fn inspect(
    system: &System,
    fabric: &Fabric,
    path: &Path,
    number: u64,
) -> Result<Option<Endpoint>, EndpointError> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = |source| EndpointError::Device { path: path.to_owned(), source };
    let Some(node) = PassthroughNode::read(system.root(), major, minor).map_err(device)? else {
        return Ok(None);
    };
    let block = path.with_file_name(&node.block.name);
    let namespace = namespace(&node, path)?;
    let initiator = initiator(fabric, &node.block);
    let refusal =
        kernel_refusal(&fabric.kernel).or_else(|| obstacles::passthrough_refusal(&node.block));
    let request = Bytes(namespace.request_max);
    let facts = EndpointFacts {
        path: path.display().to_string(),
        kind: EndpointKind::Passthrough,
        size: node.block.size,
        block: node.block.limits.logical_block,
        request_host: request,
        request_p2p: refusal.is_none().then_some(request),
        device: Some(node.block.name.clone()),
        address: node.block.function.map(|address| address.to_string()),
        drive: initiator.and_then(|id| drive_name(fabric, id)),
        file_system: None,
        refusal,
        way_out: None,
        network: None,
    };
    let live = Live {
        path: path.to_owned(),
        node: PathNode::Block,
        device: Some(node.block),
        layer: None,
        is_direct: true,
        passthrough: Some(Passthrough { block, namespace }),
    };
    Ok(Some(Endpoint { facts, initiator, further: Vec::new(), live: Some(live) }))
}

/// Returns the facts for commands, of a namespace that understands them.
fn namespace(node: &PassthroughNode, path: &Path) -> Result<PassthroughNamespace, EndpointError> {
    let refuse = |what: String| EndpointError::Namespace {
        path: path.to_owned(),
        block: node.block.name.clone(),
        what,
    };
    if let Some(set) = node.command_set.filter(|set| *set != 0) {
        return Err(refuse(format!("has command set {set}, not that of blocks")));
    }
    match node.metadata {
        Some(0) => {}
        Some(bytes) => {
            return Err(refuse(format!("has {bytes} bytes of metadata next to each block")));
        }
        // Before Linux 6.8 only the block layer says so.
        None if node.block.integrity.is_some() => {
            return Err(refuse("has metadata next to its blocks".to_owned()));
        }
        None => {}
    }
    if node.block.size == Bytes::ZERO {
        return Err(refuse("is of a format that the kernel does not use".to_owned()));
    }
    let nsid = node.nsid.ok_or_else(|| refuse("does not tell its number".to_owned()))?;
    let mut limits = node.block.limits;
    limits.max_request = limits.max_request.or(Some(REQUEST_UNKNOWN));
    let block = limits.logical_block;
    let request = request_p2p(limits).round_down(block);
    if request == Bytes::ZERO {
        return Err(refuse(format!("takes no request of a whole block of {} bytes", block.0)));
    }
    Ok(PassthroughNamespace {
        nsid,
        block: block.0,
        request_max: request.0,
        pages_max: u64::from(limits.max_segments.unwrap_or(1).max(1)),
        zeroes_max: node.zeroes_max / block.0 * block.0,
    })
}

/// The disk whose partition is looked for among passthrough nodes: `nvme0n1` for `ng0n1p2`.
pub(super) fn of_a_partition(typed: &Path) -> Option<String> {
    let name = typed.file_name()?.to_str()?;
    let (node, partition) = name.rsplit_once('p')?;
    let is_number = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_digit());
    peerlane_fabric::block_name(node).filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_a_passthrough_node_is_recognised() {
        let disk = |name: &str| of_a_partition(Path::new(name));
        assert_eq!(disk("/dev/ng0n1p2").as_deref(), Some("nvme0n1"));
        for name in ["/dev/ng0n1", "/dev/ng0n1p", "/dev/nvme0n1p2", "ng0n1px", "/"] {
            assert_eq!(disk(name), None, "{name}");
        }
    }

    fn node() -> PassthroughNode {
        let block = peerlane_fabric::BlockDevice {
            name: "nvme0n1".to_owned(),
            size: Bytes::mib(64),
            limits: peerlane_fabric::QueueLimits {
                max_request: Some(Bytes::kib(512)),
                max_segments: Some(65),
                ..peerlane_fabric::QueueLimits::default()
            },
            ..peerlane_fabric::BlockDevice::default()
        };
        PassthroughNode {
            name: "ng0n1".to_owned(),
            nsid: Some(3),
            metadata: Some(0),
            command_set: Some(0),
            zeroes_max: 1 << 20,
            block,
        }
    }

    fn found(node: &PassthroughNode) -> Result<PassthroughNamespace, EndpointError> {
        namespace(node, Path::new("/dev/ng0n1"))
    }

    #[test]
    fn a_command_is_bounded_by_bytes_and_by_segments() {
        let segments = found(&node()).unwrap();
        assert_eq!((segments.nsid, segments.block), (3, 512));
        assert_eq!((segments.request_max, segments.pages_max), (65 * 4096, 65));
        let mut roomy = node();
        roomy.block.limits.max_segments = Some(256);
        assert_eq!(found(&roomy).unwrap().request_max, 512 << 10);
        roomy.block.limits.max_request = None;
        assert_eq!(found(&roomy).unwrap().request_max, 128 << 10, "a drive that does not say");
    }

    #[test]
    fn unserved_namespaces_are_refused_by_name() {
        let refusal = |change: &dyn Fn(&mut PassthroughNode)| {
            let mut node = node();
            change(&mut node);
            let error = found(&node).expect_err("refused");
            assert_eq!(error.hint().as_deref(), Some("copy /dev/nvme0n1 instead"));
            error.to_string()
        };
        let integrity =
            Some(peerlane_fabric::Integrity { write_generate: true, read_verify: true });
        for (words, error) in [
            ("8 bytes of metadata", refusal(&|node| node.metadata = Some(8))),
            ("command set 2", refusal(&|node| node.command_set = Some(2))),
            ("does not tell its number", refusal(&|node| node.nsid = None)),
            ("format that the kernel does not use", refusal(&|node| node.block.size = Bytes::ZERO)),
            (
                "metadata next to its blocks",
                refusal(&|node| {
                    node.metadata = None;
                    node.block.integrity = integrity;
                }),
            ),
        ] {
            assert!(error.contains(words), "{error}");
        }
    }
}
