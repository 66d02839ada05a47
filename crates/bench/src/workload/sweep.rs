//! Block sizes by routes, from one drive to another.

use peerlane_results::{CaseSpec, Path};
use peerlane_units::Bytes;

use super::{Brief, BriefError, is_gpu, is_memory};

/// Block sizes where none are named: powers of two from 4 KiB to 128 MiB.
const SMALLEST: u32 = 12;
const LARGEST: u32 = 27;
/// Most blocks that a run moves: small ones do not take all the time.
const BLOCKS_MAX: u64 = 4096;

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let [source] = brief.source.as_slice() else { return Err(brief.missing("one source")) };
    let [target] = brief.target.as_slice() else { return Err(brief.missing("one target")) };
    let blocks = if brief.blocks.is_empty() {
        (SMALLEST..=LARGEST).map(|power| Bytes(1 << power)).collect()
    } else {
        brief.blocks.clone()
    };
    let routes = brief.routes(usual(source, target));
    let mut cases = Vec::new();
    for block in blocks {
        for &path in &routes {
            let Some(mut flow) = brief.flow(source, target, path, block) else { continue };
            flow.bytes = flow.bytes.min(Bytes(block.0.saturating_mul(BLOCKS_MAX)));
            cases.push(brief.case(format!("{} {path}", short(block)), vec![flow]));
        }
    }
    Ok((format!("{source} {target}"), cases))
}

/// Routes where none are named: memory at one end decides which there are.
fn usual(source: &str, target: &str) -> &'static [Path] {
    let is_host = |end| matches!(end, "host" | "null");
    let is_memory = |end| is_memory(end) && !is_gpu(end);
    match [source, target] {
        ends if ends.into_iter().any(is_host) => &[Path::HostPipelined],
        ends if ends.into_iter().any(is_memory) => &[Path::P2p],
        _ => &[Path::P2p, Path::HostPipelined],
    }
}

/// A size as it is typed: `64K`.
pub(super) fn short(size: Bytes) -> String {
    for (power, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if size.0 > 0 && size.0 % (1 << power) == 0 {
            return format!("{}{unit}", size.0 >> power);
        }
    }
    size.0.to_string()
}
