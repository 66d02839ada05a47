//! A folder as the target: as with `cp`, it stands for the source's name in it.

use std::path::Path;

use peerlane_results::Asked;

/// Copies on this machine, each target that is a folder with the source's name in it.
pub(super) fn here(asked: Vec<Asked>) -> Vec<Asked> {
    let resolved = |asked: Asked| Asked { target: resolved(&asked.source, &asked.target), ..asked };
    asked.into_iter().map(resolved).collect()
}

/// The target of a source, as typed, unless it is a folder and the source a file or device of this
/// machine: then the file in it.
pub(super) fn resolved(source: &str, target: &str) -> String {
    let (from, to) = (Path::new(source), Path::new(target));
    let name = from.file_name().filter(|_| to.is_dir() && from.exists() && !from.is_dir());
    name.and_then(|name| to.join(name).into_os_string().into_string().ok())
        .unwrap_or_else(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_takes_name_of_source() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("set.bin"), "").unwrap();
        std::fs::create_dir(at("backup")).unwrap();
        let source = at("set.bin");
        assert_eq!(resolved(&source, &at("backup")), at("backup/set.bin"));
        assert_eq!(resolved(&source, &at("backup/")), at("backup/set.bin"));
        for target in [at("other"), at("other/"), source.clone(), "host".into()] {
            assert_eq!(resolved(&source, &target), target);
        }
        assert_eq!(resolved(&at("missing"), &at("backup")), at("backup"));
        assert_eq!(resolved(&at("backup"), &at("backup")), at("backup"));
    }
}
