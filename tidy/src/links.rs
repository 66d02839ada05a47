//! Links between pages: a relative link in Markdown leads to a file of the repository.

use std::path::{Component, Path, PathBuf};

use crate::Violation;
use crate::files::SourceFile;

/// Finds relative links in Markdown that lead to no file and no folder.
#[must_use]
pub fn check(files: &[SourceFile]) -> Vec<Violation> {
    let exists = |path: &Path| {
        files.iter().any(|file| {
            let known = Path::new(&file.path);
            known == path || known.starts_with(path)
        })
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_one_of(&["md"])) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        let mut in_block = false;
        for (index, line) in file.text().lines().enumerate() {
            in_block ^= line.trim_start().starts_with("```");
            for link in links(line).into_iter().filter(|_| !in_block) {
                let path = normal(&folder.join(link));
                if !path.as_os_str().is_empty() && !exists(&path) {
                    let what = format!("link to `{link}`, which is not there");
                    findings.push(Violation::new(&file.path, index + 1, what));
                }
            }
        }
    }
    findings
}

/// Returns the relative paths that `line` links to, without their fragments.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        let Some(end) = rest.find(')') else { continue };
        let path = rest[..end].split('#').next().unwrap_or_default();
        if !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:") {
            found.push(path);
        }
    }
    found
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn count(line: &str) -> usize {
        let page = SourceFile::planted("docs/a.md", line);
        check(&[page, SourceFile::planted("README.md", ""), SourceFile::planted("docs/b/c.md", "")])
            .len()
    }

    #[test]
    fn refuses_links_that_lead_nowhere() {
        assert_eq!(count("[x](gone.md) and [y](../gone)"), 2);
    }

    #[test]
    fn accepts_files_fragments_and_web() {
        assert_eq!(count("[x](../README.md#top) [y](b/) [z](https://host/page) [w](#here)"), 0);
        assert_eq!(count("```\n[x](gone.md)\n```"), 0);
    }
}
