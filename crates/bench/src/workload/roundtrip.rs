//! A drive against device memory, out and back, with the drive alone for comparison.
//!
//! The CPU stores nothing in the memory that a drive lends, so that the way from host memory into it,
//! which the report that this test follows did by CPU stores and outside its timers, is not there. Times
//! are those of requests as the host sees them, from hand-over to completion: nothing reads a clock on a
//! device.

use peerlane_results::{CaseSpec, Path};

use super::{Brief, BriefError};

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let [drive] = brief.drives.as_slice() else { return Err(brief.missing("one drive")) };
    let memory =
        brief.via.as_deref().ok_or_else(|| brief.missing("a memory (`--via cmb:NAME`)"))?;
    let is_gpu = super::is_gpu(memory);
    let usual: &[Path] = if is_gpu { &[Path::P2p] } else { &[Path::P2p, Path::HostPipelined] };
    let routes = brief.routes(usual);
    let is_plain = |route: &Path| matches!(route, Path::P2p | Path::HostPipelined);
    if !is_gpu && !routes.iter().all(is_plain) {
        return Err(brief.missing("routes out of `p2p` and `host`"));
    }
    // A GPU is reached in several ways, and the drive alone stands beside them all; any other memory in one.
    let has_alone = is_gpu || routes.contains(&Path::HostPipelined);
    let paths: Vec<Path> =
        routes.into_iter().filter(|route| is_gpu || *route == Path::P2p).collect();
    let mut cases = Vec::new();
    for block in brief.blocks() {
        let size = super::sweep::short(block);
        let mut all = Vec::new();
        for &path in &paths {
            // Any other memory has one way to it.
            let by = if is_gpu { format!(" {path}") } else { String::new() };
            let (write, read) = (
                format!("write {size} {memory} -> drive{by}"),
                format!("read {size} drive -> {memory}{by}"),
            );
            all.extend([
                (write, memory, drive.as_str(), path),
                (read, drive.as_str(), memory, path),
            ]);
        }
        if has_alone {
            all.extend([
                (format!("write {size} drive alone"), "host", drive.as_str(), Path::HostPipelined),
                (format!("read {size} drive alone"), drive.as_str(), "host", Path::HostPipelined),
            ]);
        }
        for (name, source, target, path) in all {
            let Some(flow) = brief.flow(source, target, path, block) else { continue };
            cases.push(brief.case(name, vec![peerlane_results::Flow { via: None, ..flow }]));
        }
    }
    Ok((format!("{drive} {memory}"), cases))
}
