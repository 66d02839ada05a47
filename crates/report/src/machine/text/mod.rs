//! A machine in words: the tree of ports and functions, and below it who reaches which memory.

mod device;
mod label;
mod lines;
mod matrix;
mod pairs;
mod rdma;
mod remote;
mod tree;

use peerlane_fabric::Fabric;

pub use device::device;
pub(crate) use label::{Labels, port_kind};
pub(crate) use lines::{heading, redirects, speed};
pub(crate) use matrix::{is_shown, reasons};
pub use pairs::pairs;
pub(crate) use tree::FunctionTree;

/// The machine as a tree, RDMA devices, drives of other machines, then the matrix of memories and initiators. A
/// pasted text has an account of the part that was read, below the first line.
pub fn topo(fabric: &Fabric) -> String {
    let labels = Labels::new(fabric);
    let tree = FunctionTree::new(fabric).text(&labels);
    let (rdma, remote) = (rdma::text(fabric), remote::text(fabric));
    let read = fabric.account.as_ref().map(|account| format!("{}\n", account.summary()));
    let read = read.unwrap_or_default();
    format!("{}\n{read}{tree}{rdma}{remote}\n{}", heading(fabric), matrix::text(fabric, &labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_alone_shows_every_function() {
        let picture = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0  Drive [144d:a80a]\n";
        let text = topo(&peerlane_fabric::lspci::read(picture).expect("a machine"));
        for line in ["|-- 0000:00:00.0 (class not shown)", "`-- 0000:01:00.0 (class not shown)"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("hint: add the output of"), "{text}");
        assert!(text.contains("Samsung") && !text.contains("not shown:"), "{text}");
    }

    #[test]
    fn a_name_forges_no_line() {
        const MACHINE: &str = "name = \"m\\nforged\"\n[[function]]\nname = \"a\\nforged\"\n\
            kind = 'nvme'\np2pmem = { size = '64M' }\n";
        let text = topo(&Fabric::from_toml(MACHINE).expect("a machine"));
        assert!(text.contains("forged"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    }
}
