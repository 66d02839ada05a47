//! A drive against device memory, out and back, with the drive alone for comparison.
//!
//! The CPU stores nothing in the memory that a drive lends. So the way from host memory into it is
//! absent; the report behind this test took that way by CPU stores, outside its timers. Times are
//! those of requests as the host sees them, from hand-over to completion: nothing reads a clock on
//! a device.

use peerlane_results::{CaseSpec, Path};

use super::{Brief, BriefError};

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let RoundtripEnds { read, written, memory } = ends(brief)?;
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
        routes.iter().copied().filter(|route| is_gpu || *route == Path::P2p).collect();
    let mut cases = Vec::new();
    for block in brief.blocks() {
        let size = super::sweep::short(block);
        let mut all = Vec::new();
        for &path in &paths {
            // Any other memory has one way to it.
            let by = |path| if is_gpu { format!(" {path}") } else { String::new() };
            let out = way_out(path);
            // What has no way out of its own may stand there by itself.
            let is_own = out == path || !routes.contains(&out);
            if let Some(drive) = written.filter(|_| is_own) {
                let name = format!("write {size} {memory} -> drive{}", by(out));
                all.push((name, memory, drive, out));
            }
            all.push((format!("read {size} drive -> {memory}{}", by(path)), read, memory, path));
        }
        if has_alone {
            let path = Path::HostPipelined;
            if let Some(drive) = written {
                all.push((format!("write {size} drive alone"), "host", drive, path));
            }
            all.push((format!("read {size} drive alone"), read, "host", path));
        }
        for (name, source, target, path) in all {
            let Some(flow) = brief.flow(source, target, path, block) else { continue };
            // The drive alone is what the way with the memory and its stage is compared with.
            let is_alone = source == "host" || target == "host";
            let stage = flow.stage.clone().filter(|_| !is_alone);
            let flow = peerlane_results::Flow { via: None, stage, ..flow };
            cases.push(brief.case(name, vec![flow]));
        }
    }
    Ok((format!("{read} {memory}"), cases))
}

/// The transfers.
struct RoundtripEnds<'a> {
    /// Transfer into the memory.
    read: &'a str,
    /// Transfer out of the memory.
    written: Option<&'a str>,
    memory: &'a str,
}

/// One drive for both directions and a memory; or a source, a memory as its target, and optionally
/// a drive to write.
fn ends(brief: &Brief) -> Result<RoundtripEnds<'_>, BriefError> {
    let memory = brief.via.as_deref();
    match (brief.source.as_slice(), brief.target.as_slice(), brief.drives.as_slice()) {
        ([], [], [drive]) => {
            let memory = memory.ok_or_else(|| brief.missing("a memory (`--via cmb:NAME`)"))?;
            Ok(RoundtripEnds { read: drive, written: Some(drive), memory })
        }
        ([read], [memory], written) if brief.via.is_none() && written.len() < 2 => {
            if !super::is_memory(memory) || matches!(memory.as_str(), "host" | "null") {
                return Err(brief.missing("a device's memory as its target (`--target gpu:N`)"));
            }
            Ok(RoundtripEnds { read, written: written.first().map(String::as_str), memory })
        }
        _ => Err(brief.missing("one drive, or one source and one memory as its target")),
    }
}

/// Out of a memory there is nothing to map: the other half of a mapped source is the page cache.
fn way_out(path: Path) -> Path {
    match path {
        Path::HostMapped => Path::HostPageCache,
        path => path,
    }
}
