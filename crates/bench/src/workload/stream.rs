//! Drives against one memory, in either direction.

use peerlane_memory::provider::{PROVIDERS, ProviderKind};
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
    let memory = if is_memory(&targets[0]) { &targets[0] } else { &sources[0] };
    if !is_memory(memory) {
        let devices = PROVIDERS.usage(|kind| kind != ProviderKind::Host, "or");
        return Err(brief.missing(format!("a memory: `host`, `null`, {devices}")));
    }
    let paths = match memory.as_str() {
        _ if is_gpu(memory) && !brief.routes.is_empty() => brief.routes.clone(),
        _ if !brief.routes.is_empty() => return Err(brief.missing("a GPU for its routes")),
        "host" | "null" => vec![Path::HostPipelined],
        _ => vec![Path::P2p],
    };
    let jobs = u64::from(brief.jobs.unwrap_or(1).max(1));
    let mut cases = Vec::new();
    let each =
        brief.blocks().into_iter().flat_map(|block| paths.iter().map(move |path| (block, *path)));
    for (block, path) in each {
        let part = Bytes(brief.length().0 / jobs).round_down(block);
        let mut flows = Vec::new();
        for source in sources {
            for target in targets {
                let Some(whole) = brief.flow(source, target, path, block) else {
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
        let name = match (sources[0].as_str(), targets[0].as_str()) {
            ("host", "host") => format!("host to host {size}"),
            _ => format!("{drives} drive{plural} {way} {memory} {size}"),
        };
        // Any other memory has one way to it.
        let name = if is_gpu(memory) { format!("{name} {path}") } else { name };
        cases.push(brief.case(name, flows));
    }
    Ok((format!("{} -> {}", sources.join(" "), targets.join(" ")), cases))
}

/// Says whether a text names memory of a GPU.
pub fn is_gpu(typed: &str) -> bool {
    PROVIDERS.kind(typed) == Some(ProviderKind::Gpu)
}

/// Says whether a text names a memory and no drive.
pub fn is_memory(typed: &str) -> bool {
    typed == "null" || PROVIDERS.kind(typed).is_some()
}
