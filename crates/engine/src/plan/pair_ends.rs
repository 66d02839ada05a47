//! The functions that two typed words name, and whether files can be copied between them.

use std::path::Path;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_memory::provider::PROVIDERS;
use peerlane_results::Plan;

/// The functions that two words name; `None` if one of them names none.
///
/// If there is a plan, its ends are taken: a file stands for the drive below it.
pub fn pair_ends(
    fabric: &Fabric,
    plan: Option<&Plan>,
    words: (&str, &str),
) -> Option<(FunctionId, FunctionId)> {
    let end =
        |facts: Option<FunctionId>, word: &str| facts.or_else(|| PROVIDERS.find(fabric, word));
    let first = end(plan.and_then(|plan| plan.source.function(fabric)), words.0)?;
    let second = end(plan.and_then(|plan| plan.target.function(fabric)), words.1)?;
    Some((first, second))
}

/// Returns whether two words name devices without a copy between them: one is neither a drive nor a
/// GPU, or both are GPUs.
pub fn is_no_copy(fabric: &Fabric, words: (&str, &str)) -> bool {
    let kind = |word: &str| {
        let is_file = fabric.is_this_machine() && Path::new(word).exists();
        let id = PROVIDERS.find(fabric, word).filter(|_| !is_file)?;
        Some(fabric.function(id).kind)
    };
    match (kind(words.0), kind(words.1)) {
        (Some(FunctionKind::Gpu), Some(FunctionKind::Gpu)) => true,
        (one, other) => {
            let is_copied = |kind: Option<FunctionKind>| {
                matches!(kind, None | Some(FunctionKind::Nvme | FunctionKind::Gpu))
            };
            !is_copied(one) || !is_copied(other)
        }
    }
}
