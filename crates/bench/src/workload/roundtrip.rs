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
    let routes = brief.routes(&[Path::P2p, Path::HostPipelined]);
    if routes.iter().any(|route| !matches!(route, Path::P2p | Path::HostPipelined)) {
        return Err(brief.missing("routes out of `p2p` and `host`"));
    }
    let mut cases = Vec::new();
    for block in brief.blocks() {
        let size = super::sweep::short(block);
        for (name, source, target, path) in [
            (format!("write {size} {memory} -> drive"), memory, drive.as_str(), Path::P2p),
            (format!("read {size} drive -> {memory}"), drive.as_str(), memory, Path::P2p),
            (format!("write {size} drive alone"), "host", drive.as_str(), Path::HostPipelined),
            (format!("read {size} drive alone"), drive.as_str(), "host", Path::HostPipelined),
        ] {
            if !routes.contains(&path) {
                continue;
            }
            let Some(flow) = brief.flow(source, target, path, block) else { continue };
            cases.push(brief.case(name, vec![peerlane_results::Flow { via: None, ..flow }]));
        }
    }
    Ok((format!("{drive} {memory}"), cases))
}
