//! Suggestions for names that do not exist: near names, or the devices of the kind that was meant.

use std::path::Path;

use peerlane_fabric::{Fabric, FunctionKind};

/// Longest list of names in a suggestion.
const LIST_MAX: usize = 8;
/// Entries of a folder that are compared with a name.
const ENTRIES_MAX: usize = 10_000;

/// First letters of kernel names of network controllers.
const NIC_PREFIXES: [&str; 12] =
    ["mlx", "bnxt", "irdma", "efa", "rocep", "ibp", "ib", "eth", "ens", "enp", "eno", "nic"];

/// Returns the known name that is nearest to a typed one, if it is near: the same except for signs
/// and case, or few letters away.
pub fn nearest(typed: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let wanted = letters(typed);
    // In a short name a changed letter is another name.
    let most = wanted.chars().count() / 3;
    let near = known.into_iter().filter(|name| name != typed).filter_map(|name| {
        let distance = strsim::levenshtein(&wanted, &letters(&name));
        (distance <= most.min(2)).then_some((distance, name))
    });
    near.min().map(|(_, name)| name)
}

/// Letters and digits of a name, without case: `gpu0` is `gpu:0`.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Advice about a name that no device of the machine has.
pub fn hint_of_device(fabric: &Fabric, typed: &str) -> String {
    let typed = typed.strip_prefix("/dev/").unwrap_or(typed);
    let gpus: Vec<String> =
        (0..fabric.gpus().len()).map(|number| format!("gpu:{number}")).collect();
    let named = |kind: FunctionKind| -> Vec<String> {
        let all = fabric.functions.iter().filter(|function| function.kind == kind);
        // The first name is the one that the machine uses itself.
        all.map(|function| function.kernel_names.first().unwrap_or(&function.name).clone())
            .collect()
    };
    let (nics, drives) = (named(FunctionKind::Nic), named(FunctionKind::Nvme));
    let all = || gpus.iter().chain(&nics).chain(&drives).cloned();
    if let Some(same) = all().find(|name| letters(name) == letters(typed)) {
        return format!("did you mean {same}?");
    }
    let is = |prefixes: &[&str]| {
        let typed = typed.to_lowercase();
        prefixes.iter().any(|prefix| typed.starts_with(prefix))
    };
    let kind = match () {
        () if is(&["gpu", "nvidia", "cuda"]) => Some(("GPUs", &gpus)),
        () if is(&["nvme", "drive", "ssd"]) => Some(("drives", &drives)),
        () if is(&NIC_PREFIXES) => Some(("NICs", &nics)),
        () => None,
    };
    match kind {
        Some((kind, names)) if names.is_empty() => {
            format!("the machine has no {kind}; `peerlane topo` shows its devices")
        }
        Some((kind, names)) => format!("its {kind} are {}", list(names)),
        None => match nearest(typed, all()) {
            Some(near) => format!("did you mean {near}?"),
            None if (1..=LIST_MAX).contains(&all().count()) => {
                let kind = if all().count() == drives.len() { "drives" } else { "devices" };
                format!("its {kind} are {}", list(&all().collect::<Vec<_>>()))
            }
            None => "`peerlane topo` shows the names of its devices".to_owned(),
        },
    }
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(LIST_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LIST_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Advice about a path that does not exist, if a similar name does.
pub fn hint_of_path(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let is_bare = path.components().count() == 1;
    let node = |name: String| Path::new("/dev").join(name);
    let mut nodes = [node(name.to_owned()), node(format!("{name}n1"))].into_iter();
    if let Some(found) = nodes.find(|node| is_bare && node.exists()) {
        return Some(format!("did you mean {}?", found.display()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = folder.unwrap_or_else(|| Path::new(".")).read_dir().ok()?.take(ENTRIES_MAX);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let near = nearest(name, names)?;
    Some(format!("did you mean {}?", path.with_file_name(near).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let known = || ["pair", "split", "acs", "gpu:0"].map(str::to_owned);
        for (typed, near) in [
            ("par", Some("pair")),
            ("Pair", Some("pair")),
            ("splitt", Some("split")),
            ("gpu0", Some("gpu:0")),
            ("x", None),
            ("nowhere", None),
        ] {
            assert_eq!(nearest(typed, known()).as_deref(), near, "{typed}");
        }
    }

    #[test]
    fn unknown_devices_list_their_kind() {
        let text = "
name = 'm'
[[function]]
name = 'a'
kind = 'nvme'
[[function]]
name = 'n'
kind = 'nic'
";
        let fabric = Fabric::from_toml(text).expect("a machine");
        assert_eq!(hint_of_device(&fabric, "mlx5_0"), "its NICs are n");
        assert_eq!(hint_of_device(&fabric, "/dev/nvme3"), "its drives are a");
        assert_eq!(hint_of_device(&fabric, "A"), "did you mean a?");
        let none = "the machine has no GPUs; `peerlane topo` shows its devices";
        assert_eq!(hint_of_device(&fabric, "gpu0"), none);
        assert_eq!(hint_of_device(&fabric, "zebra"), "its devices are n, a");
    }

    #[test]
    fn missing_paths_name_a_neighbour() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("set.bin"), "").unwrap();
        let near = format!("did you mean {}?", folder.path().join("set.bin").display());
        assert_eq!(hint_of_path(&folder.path().join("set.bni")), Some(near));
        assert_eq!(hint_of_path(&folder.path().join("other")), None);
        assert_eq!(hint_of_path(&folder.path().join("missing/set.bin")), None);
    }
}
