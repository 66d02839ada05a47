//! A drive against device memory, out and back, with the drive alone for comparison.
//!
//! The CPU stores nothing in the memory that a drive lends, so that the way from host memory into it,
//! which the report that this test follows did by CPU stores and outside its timers, is not there.

use peerlane_results::{CaseSpec, Path};

use super::{Brief, BriefError};

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let [drive] = brief.drives.as_slice() else { return Err(brief.missing("one drive")) };
    let memory =
        brief.via.as_deref().ok_or_else(|| brief.missing("a memory (`--via cmb:NAME`)"))?;
    let is_gpu = super::is_gpu(memory);
    let paths = match brief.routes.as_slice() {
        [] => vec![Path::P2p],
        _ if !is_gpu => return Err(brief.missing("a GPU for its routes")),
        routes => routes.to_vec(),
    };
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
        all.extend([
            (format!("write {size} drive alone"), "host", drive.as_str(), Path::HostPipelined),
            (format!("read {size} drive alone"), drive.as_str(), "host", Path::HostPipelined),
        ]);
        for (name, source, target, path) in all {
            let Some(flow) = brief.flow(source, target, path, block) else { continue };
            cases.push(brief.case(name, vec![peerlane_results::Flow { via: None, ..flow }]));
        }
    }
    Ok((format!("{drive} {memory}"), cases))
}
