//! Every ordered pair of drives, one at a time.

use peerlane_results::{CaseSpec, Path};

use super::{Brief, BriefError};

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    if brief.drives.len() < 2 {
        return Err(brief.missing("two drives at least"));
    }
    let routes = brief.routes(&[Path::P2p]);
    let mut cases = Vec::new();
    for (block, path) in pairs(&brief.blocks(), &routes) {
        for (row, source) in brief.drives.iter().enumerate() {
            for (column, target) in brief.drives.iter().enumerate() {
                if row == column {
                    continue;
                }
                let Some(flow) = brief.flow(source, target, path, block) else { continue };
                let flow = peerlane_results::Flow { target_offset: brief.behind(0), ..flow };
                let size = super::sweep::short(block);
                cases.push(brief.case(format!("{source} -> {target} {size} {path}"), vec![flow]));
            }
        }
    }
    Ok((brief.drives.join(" "), cases))
}

/// Each of one with each of the other.
pub(super) fn pairs<A: Copy, B: Copy>(one: &[A], other: &[B]) -> Vec<(A, B)> {
    one.iter().flat_map(|&a| other.iter().map(move |&b| (a, b))).collect()
}
