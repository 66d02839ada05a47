//! Modules of a crate that use each other in a circle, by the paths `crate::` in its files.
//!
//! A module is a file or folder next to the root of the crate, or of a part of it (`engine/io`); a
//! name that the root re-exports counts as the module that it comes from. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::SourceFile;
use crate::rust::code_only;
use crate::{Violation, markdown};

/// Heading of the list in `ARCHITECTURE.md` of crates without circles.
pub const SECTION: &str = "Modules";

/// Pairs of modules, the first with a path to the second, and the files of those paths.
type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// Finds circles of modules in the crates that the page says have none.
///
/// # Errors
/// When the page has no such section or block.
pub fn check(architecture: &str, files: &[SourceFile]) -> Result<Vec<Violation>, Violation> {
    let fault = || Violation::new("ARCHITECTURE.md", 0, format!("no crates below `{SECTION}`"));
    let section = markdown::section(architecture, SECTION).ok_or_else(fault)?;
    let names = markdown::fenced_block(section).ok_or_else(fault)?;
    let crates = names.iter().flat_map(|line| line.split_whitespace());
    Ok(crates.flat_map(|name| check_part(name, files)).collect())
}

/// Checks a crate, or the part of one that a module of it is.
fn check_part(name: &str, files: &[SourceFile]) -> Vec<Violation> {
    let (folder, path) = match name.split_once('/') {
        Some((crate_name, part)) => {
            (format!("crates/{crate_name}/src/{part}/"), format!("crate::{part}::"))
        }
        None => (format!("crates/{name}/src/"), "crate::".to_owned()),
    };
    let folder = folder.as_str();
    let below = |file: &SourceFile| file.path.strip_prefix(folder).map(str::to_owned);
    let sources: Vec<(String, String)> = files
        .iter()
        .filter_map(|file| Some((below(file)?, file)))
        .filter(|(path, file)| file.is_one_of(&["rs"]) && !path.contains("test"))
        .map(|(path, file)| (path, without_tests(&code_only(file.text())).to_owned()))
        .collect();
    if sources.is_empty() {
        return vec![Violation::new(folder, 0, "no source is there")];
    }
    let edges = circles(edges(&sources, &path));
    let finding = |((from, to), files): ((String, String), BTreeSet<String>)| {
        let files: Vec<String> = files.into_iter().collect();
        let what = format!("`{from}` uses `{to}`, in a circle: {}", files.join(", "));
        Violation::new(folder, 0, what)
    };
    edges.into_iter().map(finding).collect()
}

fn module(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn without_tests(code: &str) -> &str {
    code.find("#[cfg(test)]\nmod tests {").map_or(code, |at| &code[..at])
}

/// The edges between modules whose paths in code begin with `prefix`.
fn edges(sources: &[(String, String)], prefix: &str) -> Edges {
    let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs" | "mod.rs");
    let modules: BTreeSet<&str> =
        sources.iter().filter(|(path, _)| !is_root(path)).map(|(path, _)| module(path)).collect();
    let roots = sources.iter().filter(|(path, _)| is_root(path));
    let passed_on: BTreeMap<String, String> = roots.flat_map(|(_, code)| passed_on(code)).collect();
    let mut edges = Edges::new();
    for (path, code) in sources.iter().filter(|(path, _)| !is_root(path)) {
        for name in names(code, prefix) {
            let to = passed_on.get(&name).unwrap_or(&name);
            if modules.contains(to.as_str()) && to != module(path) {
                let edge = (module(path).to_owned(), to.clone());
                edges.entry(edge).or_default().insert(path.clone());
            }
        }
    }
    edges
}

/// Names that the root takes from its modules, with the module of each.
fn passed_on(code: &str) -> Vec<(String, String)> {
    let uses = code.split(';').filter_map(|item| item.split_once("use "));
    let paths = uses.filter_map(|(_, path)| path.split_once("::"));
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned).collect()
    };
    paths
        .flat_map(|(module, names)| words(names).into_iter().map(move |n| (n, module.to_owned())))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// The first name after `prefix` in each path that begins so, in braces or without.
fn names(code: &str, prefix: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        let text = text.trim_start();
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let Some(inside) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (position, character) in inside.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    names.push(word(&inside[start..position]));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.push(word(&inside[start..position]));
                    start = position + 1;
                }
                _ => {}
            }
        }
    }
    names
}

/// Edges between modules that lead to a circle and come from one.
fn circles(mut edges: Edges) -> Edges {
    loop {
        let sources: BTreeSet<String> = edges.keys().map(|(from, _)| from.clone()).collect();
        let targets: BTreeSet<String> = edges.keys().map(|(_, to)| to.clone()).collect();
        let count = edges.len();
        edges.retain(|(from, to), _| targets.contains(from) && sources.contains(to));
        if edges.len() == count {
            return edges;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "## Modules\n\n```text\na\n```\n";

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| {
            SourceFile::planted(&format!("crates/a/src/{path}"), text)
        };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        check(PAGE, &files).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_direction_is_allowed() {
        let found = faults(&[
            ("lib.rs", "mod low;\nmod high;\npub use low::Low;"),
            ("high/mod.rs", "use crate::Low;\nuse crate::high::deep::Deep;"),
            ("high/deep.rs", "use crate::{low::{self, Other}, high::Up};"),
            ("low.rs", "// crate::high\n#[cfg(test)]\nmod tests {\nuse crate::high::Up;\n}"),
            ("low/tests.rs", "use crate::high::Up;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn circles_are_refused_with_their_files() {
        let found = faults(&[
            ("lib.rs", "pub use one::One;\npub use three::{Three as Last, Other};"),
            ("one.rs", "use crate::{Clock, two::Two};"),
            ("two/mod.rs", "fn f() { crate::Other::new() }"),
            ("three.rs", "use crate::One;"),
            ("apart.rs", "use crate::one::One;"),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[2], "crates/a/src/: `two` uses `three`, in a circle: two/mod.rs");
    }

    #[test]
    fn missing_crate_is_a_fault() {
        assert_eq!(faults(&[]), ["crates/a/src/: no source is there"]);
        assert!(check("## Other\n", &[]).is_err());
    }
}
