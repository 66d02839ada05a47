//! Builds the machine descriptions of `machines/` into the program, for use anywhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR");
    let manifest = manifest.ok_or_else(|| io::Error::other("CARGO_MANIFEST_DIR is not set"))?;
    let folder = Path::new(&manifest).join("../../machines");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path.canonicalize()?);
            }
        }
    }
    files.sort();
    let mut code = String::from("pub(super) const BUILT_IN: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        // Writing to a String cannot fail.
        let _ = writeln!(code, "    ({name:?}, include_str!({file:?})),");
    }
    code.push_str("];\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("built_in.rs"), code)
}
