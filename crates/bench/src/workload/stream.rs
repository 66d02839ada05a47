//! Drives against one memory, in either direction.

use peerlane_results::{CaseSpec, Flow, Path};
use peerlane_units::Bytes;

use super::{Brief, BriefError};

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let (sources, targets) = (brief.source.as_slice(), brief.target.as_slice());
    if sources.is_empty() || targets.is_empty() {
        return Err(brief.missing("source and target, one of them a memory"));
    }
    if sources.len() > 1 && targets.len() > 1 {
        return Err(brief.missing("one memory"));
    }
    let usual = |memory: &str| match memory {
        "host" | "null" => Path::HostPipelined,
        _ => Path::P2p,
    };
    let memory = if is_memory(&targets[0]) { &targets[0] } else { &sources[0] };
    if !is_memory(memory) {
        return Err(
            brief.missing("a memory: `host`, `null`, `cmb:NAME`, `p2pmem:NAME` or `fpga:ADDRESS`")
        );
    }
    let jobs = u64::from(brief.jobs.unwrap_or(1).max(1));
    let mut cases = Vec::new();
    for block in brief.blocks() {
        let part = Bytes(brief.length().0 / jobs).round_down(block);
        let mut flows = Vec::new();
        for source in sources {
            for target in targets {
                let Some(whole) = brief.flow(source, target, usual(memory), block) else {
                    continue;
                };
                for job in 0..jobs {
                    let shift = |offset: Bytes| Bytes(offset.0.saturating_add(part.0 * job));
                    let (offset, target_offset) = (shift(whole.offset), shift(whole.target_offset));
                    let via = None;
                    flows.push(Flow { offset, target_offset, bytes: part, via, ..whole.clone() });
                }
            }
        }
        if part == Bytes::ZERO || flows.is_empty() {
            continue;
        }
        let drives = sources.len().max(targets.len());
        let plural = if drives == 1 { "" } else { "s" };
        let size = super::sweep::short(block);
        let way = if is_memory(&targets[0]) { "to" } else { "from" };
        cases.push(brief.case(format!("{drives} drive{plural} {way} {memory} {size}"), flows));
    }
    Ok((format!("{} -> {}", sources.join(" "), targets.join(" ")), cases))
}

/// Says whether a text names a memory and no drive.
pub fn is_memory(typed: &str) -> bool {
    matches!(typed, "host" | "null")
        || ["cmb:", "p2pmem:", "gpu:", "fpga:"].iter().any(|prefix| typed.starts_with(prefix))
}
