//! Presence of the libraries that programs load to reach the memory of GPUs and FPGA cards.
//!
//! Only a name is looked for, in the folders where distributions and makers put such libraries.
//! Others that the dynamic linker would find (`ld.so.cache`, `LD_LIBRARY_PATH`, a Python wheel) are
//! unknown.

use std::path::{Path, PathBuf};

use super::tree::Tree;

/// Shared objects by the names that programs load them by.
pub(crate) const LIBRARIES: [&str; 3] = ["libcuda.so.1", CUFILE, "libxrt_coreutil.so.2"];
/// The library whose version shows in the name of the file that it points to,
/// `libcufile.so.1.16.0`.
pub(crate) const CUFILE: &str = "libcufile.so.0";

/// Folders of libraries, with `*` for any characters within a name.
pub const FOLDERS: [&str; 8] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/lib64",
    "usr/local/cuda*/targets/*/lib",
    "opt/xilinx/xrt/lib",
];

/// The folder without which nothing is known of libraries, as in a tree that holds none.
pub(crate) const MAIN: &str = "usr/lib";

/// The installed ones of [`LIBRARIES`]; `None` where the main folder is not there.
pub(super) fn installed(tree: &Tree) -> Option<Vec<String>> {
    let main = Path::new(MAIN);
    if !tree.is_directory(main) {
        return None;
    }
    tree.watch_folder(main);
    let folders: Vec<PathBuf> = FOLDERS.iter().flat_map(|glob| matching(tree, glob)).collect();
    let version = folders.iter().find_map(|folder| {
        let name = tree.link_name(&folder.join(CUFILE))?;
        crate::cufile::version(&name).map(|_| name)
    });
    let is_there = |name: &&str| folders.iter().any(|folder| tree.is_there(&folder.join(name)));
    let names = LIBRARIES.into_iter().filter(is_there).map(str::to_owned);
    Some(names.chain(version).collect())
}

/// The real folders of a pattern; one without `*` may not be there.
fn matching(tree: &Tree, glob: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in glob.split('/') {
        found = match part.split_once('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some((front, _)) => found
                .into_iter()
                .flat_map(|folder| {
                    let names = tree.directories(&folder);
                    let fitting = names.into_iter().filter(move |name| name.starts_with(front));
                    fitting.map(move |name| folder.join(name)).collect::<Vec<_>>()
                })
                .collect(),
        };
    }
    found
}
