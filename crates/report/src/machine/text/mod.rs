//! A machine in words: the tree of ports and functions, and below it who reaches which memory.

mod label;
mod lines;
mod matrix;
mod tree;

use peerlane_fabric::Fabric;

pub(crate) use label::{label, memory_label, port_kind};
pub(crate) use lines::{heading, redirects, speed};
pub(crate) use matrix::reasons;
pub(crate) use tree::Tree;

/// The machine as a tree, then the matrix of memories and initiators.
pub fn topo(fabric: &Fabric) -> String {
    format!("{}\n{}\n{}", heading(fabric), Tree::new(fabric).text(), matrix::text(fabric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_forges_no_line() {
        const MACHINE: &str = "name = \"m\\nforged\"\n[[function]]\nname = \"a\\nforged\"\n\
            kind = 'nvme'\np2pmem = { size = '64M' }\n";
        let text = topo(&Fabric::from_toml(MACHINE).expect("a machine"));
        assert!(text.contains("forged"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    }
}
