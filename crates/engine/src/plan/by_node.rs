//! The same copy by passthrough nodes, as a command line: one way round multipath heads that take no
//! peer-to-peer pages.

use peerlane_fabric::passthrough_name;
use peerlane_results::{Asked, EndpointKind, RouteChoice, VerifyMode};
use peerlane_units::Bytes;

use super::shape::PlanEnds;
use crate::endpoints::Endpoint;

/// The program's default of `--block`.
const BLOCK: Bytes = Bytes::mib(1);

/// The program's default of `--depth`.
const DEPTH: u32 = 16;

/// The command; `None` if no end is a whole multipath head.
pub(super) fn command(asked: &Asked, ends: PlanEnds<'_>) -> Option<String> {
    let (source, target) = (node_of(ends.source), node_of(ends.target));
    if source.is_none() && target.is_none() {
        return None;
    }
    let source = source.unwrap_or_else(|| ends.source.facts.path.clone());
    let target = target.unwrap_or_else(|| ends.target.facts.path.clone());
    let mut words = vec![format!("peerlane copy {} {}", word(&source), word(&target))];
    let mut option = |is_said: bool, text: String| words.extend(is_said.then_some(text));
    option(asked.route != RouteChoice::Auto, format!("--route {}", asked.route));
    if let Some(via) = &asked.via {
        option(true, format!("--via {}", word(via)));
    }
    option(asked.block != BLOCK, format!("--block {}", asked.block.0));
    option(asked.depth != DEPTH, format!("--depth {}", asked.depth));
    option(asked.offset != Bytes::ZERO, format!("--offset {}", asked.offset.0));
    option(asked.length.is_some(), format!("--length {}", asked.length.unwrap_or_default().0));
    option(
        asked.target_offset != Bytes::ZERO,
        format!("--target-offset {}", asked.target_offset.0),
    );
    let verify = match asked.verify {
        VerifyMode::Sample => None,
        VerifyMode::Full => Some("full"),
        VerifyMode::None => Some("none"),
    };
    option(verify.is_some(), format!("--verify {}", verify.unwrap_or_default()));
    option(asked.force, "--force".to_owned());
    Some(words.join(" "))
}

/// The passthrough node of an end that is a multipath head and not one of its partitions.
fn node_of(end: &Endpoint) -> Option<String> {
    let device = end.live.as_ref()?.device.as_ref()?;
    let is_head = device.is_multipath_head && end.facts.kind == EndpointKind::BlockDevice;
    let name = passthrough_name(&device.name).filter(|_| is_head)?;
    Some(format!("/dev/{name}"))
}

/// One word of a shell.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use peerlane_fabric::BlockDevice;

    use super::*;
    use crate::endpoints::PathNode;
    use crate::endpoints::guard::{self, tests::block_device};

    fn end(path: &str, kind: EndpointKind, device: &str, is_multipath_head: bool) -> Endpoint {
        let device = BlockDevice { is_multipath_head, ..block_device(device) };
        guard::tests::end(Path::new(path), kind, PathNode::Block, device)
    }

    fn asked() -> Asked {
        Asked {
            route: RouteChoice::P2p,
            block: BLOCK,
            depth: DEPTH,
            offset: Bytes(512),
            length: Some(Bytes::mib(1)),
            verify: VerifyMode::Full,
            force: true,
            ..Asked::between("", "")
        }
    }

    #[test]
    fn heads_become_nodes_other_ends_stay() {
        let head = end("/dev/nvme0n1", EndpointKind::BlockDevice, "nvme0n1", true);
        let plain = end("/dev/nvme1n1", EndpointKind::BlockDevice, "nvme1n1", false);
        let file = end("/data/it's a set", EndpointKind::File, "nvme2n1", true);
        let part = end("/dev/nvme2n1p1", EndpointKind::BlockDevice, "nvme2n1p1", true);
        let of = |source, target| command(&asked(), PlanEnds { source, target });
        let options = "--route p2p --offset 512 --length 1048576 --verify full --force";
        assert_eq!(
            of(&head, &plain),
            Some(format!("peerlane copy /dev/ng0n1 /dev/nvme1n1 {options}"))
        );
        assert_eq!(
            of(&file, &head),
            Some(format!("peerlane copy '/data/it'\\''s a set' /dev/ng0n1 {options}"))
        );
        assert_eq!(of(&file, &plain), None);
        assert_eq!(of(&part, &plain), None, "a partition has no node");
    }
}
