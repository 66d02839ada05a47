//! Many transfers at once, in rising numbers.

use std::collections::HashMap;

use peerlane_results::{CaseSpec, Flow, Path};
use peerlane_units::Named as _;

use super::matrix::pairs;
use super::{Brief, BriefError, Pattern};

pub(super) fn cases(brief: &Brief) -> Result<(String, Vec<CaseSpec>), BriefError> {
    let drives = brief.drives.len();
    if drives < 2 {
        return Err(brief.missing("two drives at least"));
    }
    let pattern = brief.pattern.unwrap_or(Pattern::Pairs);
    let name = pattern.name();
    let routes = brief.routes(&[Path::P2p, Path::HostPipelined]);
    let mut cases = Vec::new();
    for (block, path) in pairs(&brief.blocks(), &routes) {
        for all in steps(pattern, drives) {
            let mut written: HashMap<usize, u64> = HashMap::new();
            let flows: Option<Vec<Flow>> = all
                .iter()
                .map(|&(source, target)| {
                    let flow =
                        brief.flow(&brief.drives[source], &brief.drives[target], path, block)?;
                    let index = written.entry(target).or_default();
                    let target_offset = brief.behind(*index);
                    *index += 1;
                    Some(Flow { target_offset, ..flow })
                })
                .collect();
            let Some(flows) = flows else { continue };
            let size = super::sweep::short(block);
            cases.push(brief.case(format!("{name} x{} {size} {path}", flows.len()), flows));
        }
    }
    Ok((format!("{name} {}", brief.drives.join(" ")), cases))
}

/// Returns the pairs of sender and receiver, step by step: one transfer more, or one drive more,
/// each time.
fn steps(pattern: Pattern, drives: usize) -> Vec<Vec<(usize, usize)>> {
    let rising = |all: Vec<(usize, usize)>| (1..=all.len()).map(|n| all[..n].to_vec()).collect();
    match pattern {
        Pattern::Pairs => rising((0..drives / 2).map(|n| (2 * n, 2 * n + 1)).collect()),
        Pattern::Permutation => rising((0..drives).map(|n| (n, (n + 1) % drives)).collect()),
        Pattern::Incast => rising((1..drives).map(|n| (n, 0)).collect()),
        Pattern::AllToAll => (2..=drives)
            .map(|some| {
                let each = |from| (0..some).filter(move |&to| to != from).map(move |to| (from, to));
                (0..some).flat_map(each).collect()
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_grows_stepwise_to_full() {
        for (pattern, sizes, last) in [
            (Pattern::Pairs, vec![1, 2], vec![(0, 1), (2, 3)]),
            (Pattern::Permutation, vec![1, 2, 3, 4], vec![(0, 1), (1, 2), (2, 3), (3, 0)]),
            (Pattern::Incast, vec![1, 2, 3], vec![(1, 0), (2, 0), (3, 0)]),
        ] {
            let steps = steps(pattern, 4);
            assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
            assert_eq!(steps.last(), Some(&last));
        }
        let sizes: Vec<usize> = steps(Pattern::AllToAll, 4).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 6, 12]);
    }
}
