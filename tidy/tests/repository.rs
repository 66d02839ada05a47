//! The rules of `peerlane-tidy`, applied to this repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use peerlane_tidy::{
    Violation, dependencies, edges, fence, files, glossary, links, markdown, modules, phrases,
    portable, reliability, rust, style, text,
};

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().expect("tidy/ lies in the repository").canonicalize().expect("it is there")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn all_files() -> Vec<files::SourceFile> {
    let files = files::read_all(&root()).expect("the repository can be read");
    assert!(files.iter().any(|file| file.path == "tidy/tests/repository.rs"), "files are missing");
    files
}

#[track_caller]
fn expect_none(findings: &[Violation]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}\n", lines.len(), lines.join("\n"));
}

#[test]
fn crates_depend_only_downwards() {
    let table =
        edges::read_table(&page("ARCHITECTURE.md")).unwrap_or_else(|fault| panic!("{fault}"));
    let packages = all_packages();
    assert!(packages.iter().any(|package| !package.uses.is_empty()), "no edge was read");
    expect_none(&edges::check(&table, &packages));
}

#[test]
fn modules_have_no_circles() {
    let findings = modules::check(&page("ARCHITECTURE.md"), &all_files());
    expect_none(&findings.unwrap_or_else(|fault| panic!("{fault}")));
}

#[test]
fn users_read_no_banned_phrase() {
    expect_none(&phrases::check(&all_files()));
}

#[test]
fn planted_bugs_fit_the_sources() {
    let patches = |folder: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "patch")).collect()
    };
    let (copies, texts) = (patches("tools/planted"), patches("tools/planted/lspci"));
    assert!(copies.len() >= 10 && texts.len() >= 10, "{} and {}", copies.len(), texts.len());
    for patch in copies.into_iter().chain(texts) {
        let output = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            .output()
            .expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", patch.display());
    }
}

/// The packages of the workspace.
fn all_packages() -> Vec<edges::Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    edges::read_packages(&metadata, &root()).expect("cargo prints packages")
}

#[test]
fn unsafe_stays_inside_its_fence() {
    expect_none(&fence::check(&all_files()));
}

#[test]
fn crates_of_the_page_open_no_files() {
    expect_none(&portable::check(&all_files()));
}

#[test]
fn code_suits_oldest_rust() {
    expect_none(&rust::check_oldest(&all_files()));
}

#[test]
fn files_are_of_readable_size() {
    expect_none(&text::check_sizes(&all_files()));
}

#[test]
fn lines_end_cleanly() {
    expect_none(&text::check_whitespace(&all_files()));
}

#[test]
fn no_leftovers_are_left() {
    expect_none(&text::check_leftovers(&all_files()));
}

#[test]
fn no_registry_host_is_named() {
    expect_none(&text::check_hosts(&all_files()));
}

#[test]
fn words_are_those_of_the_glossary() {
    let refused = glossary::read_table(&page("GLOSSARY.md"));
    assert!(!refused.is_empty(), "GLOSSARY.md has no table `{}`", glossary::SECTION);
    expect_none(&glossary::check(&refused, &all_files()));
}

#[test]
fn every_dependency_has_a_reason() {
    expect_none(&dependencies::check_reasons(&page("Cargo.toml"), &page("CONTRIBUTING.md")));
}

#[test]
fn dependency_versions_are_inherited() {
    expect_none(&dependencies::check_inherited(&all_files()));
}

#[test]
fn dependencies_are_used() {
    expect_none(&dependencies::check_used(&all_files()));
}

#[test]
fn the_glossary_explains_each_word_once() {
    expect_none(&glossary::check_once(&page("GLOSSARY.md")));
}

#[test]
fn pages_link_to_what_is_there() {
    expect_none(&links::check(&all_files()));
}

#[test]
fn prose_is_narrow() {
    expect_none(&markdown::check_width(&all_files()));
}

#[test]
fn counts_of_style_keep_limits() {
    expect_none(&style::check(&page("CONTRIBUTING.md"), &style::count(&all_files())));
}

#[test]
fn changelog_is_short_and_of_this_version() {
    let changelog = page("CHANGELOG.md");
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.contains(&format!("## [{version}]")), "no section of {version}");
    let lines = changelog.lines().count();
    assert!(lines <= 60, "{lines} lines, more than 60");
}

#[test]
fn reliability_page_matches_results() {
    let assembled = reliability::assemble(&root()).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(
        page(reliability::PAGE) == assembled,
        "write it anew: cargo run -p peerlane-tidy --example reliability"
    );
}
