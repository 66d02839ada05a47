//! `/etc/cufile.json` below the root, by the links that Debian's alternatives make of it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::list::{CaptureRule, item_of};
use super::tree::Tree;
use crate::{CufileConfiguration, cufile};

/// The file that cuFile reads when the environment names no other.
pub(crate) const CONFIGURATION: &str = "etc/cufile.json";
/// Links one after the other: the name, the alternative, the file of one version.
const MOST_LINKS: usize = 2;

/// The configuration; `None` where it is not there, or not shown.
pub(super) fn configuration(tree: &Tree) -> Option<CufileConfiguration> {
    let problem = |what: String| {
        Some(CufileConfiguration { problem: Some(what), ..CufileConfiguration::default() })
    };
    let Some(place) = place(tree) else {
        return problem("it is a link to a place that is not read".to_owned());
    };
    match tree.text(&place) {
        Ok(text) => Some(cufile::read(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => problem(format!("cannot be read: {error}")),
    }
}

/// The path of the file itself; `None` where links lead to one that is not on the list.
fn place(tree: &Tree) -> Option<PathBuf> {
    let mut at = PathBuf::from(CONFIGURATION);
    for _ in 0..MOST_LINKS {
        match tree.target(&at) {
            Ok(target) => at = followed(&at, &target)?,
            Err(_) => break,
        }
    }
    Some(at)
}

/// The target of a link, below the root; `None` where that is not on the list.
pub(crate) fn followed(link: &Path, target: &Path) -> Option<PathBuf> {
    let below = match target.strip_prefix("/") {
        Ok(below) => below.to_owned(),
        Err(_) => link.parent()?.join(target),
    };
    item_of(&below).is_some_and(|item| item.kept == CaptureRule::Cufile).then_some(below)
}
