//! A machine as a drawing for a document: the tree from left to right, and beside each function which
//! memories it reaches.
//!
//! One text without scripts, fonts or anything fetched; it follows the reader's choice of light or
//! dark. Leaves of the tree and rows of the matrix share their lines, so that the eye goes straight
//! from a drive to what it reaches.

mod draw;
mod layout;
mod matrix;

use peerlane_fabric::{Detail, Fabric, Matrix};

use draw::Sheet;
use layout::Layout;

/// More functions than this are put together by their way up; a page has no more lines.
const MOST_ROWS: usize = 128;

/// The machine as SVG.
pub(crate) fn svg(fabric: &Fabric) -> String {
    let shown = fabric
        .iter()
        .filter(|(id, function)| fabric.moves_payload(*id) || function.p2pmem.is_some())
        .count();
    let detail = if shown > MOST_ROWS { Detail::Grouped } else { Detail::Each };
    // Memories with the same way up share a column before there are none.
    let columns =
        if fabric.memories().len() > matrix::MOST_COLUMNS { Detail::Grouped } else { detail };
    let reach = Matrix::new(fabric, columns);
    let layout = Layout::new(fabric, detail);
    let mut sheet = Sheet::default();
    let table = matrix::Table::new(fabric, &reach, &layout);
    draw::tree(fabric, &layout, &mut sheet);
    matrix::draw(fabric, &reach, &layout, &table, &mut sheet);
    sheet.finish(fabric, layout.width.max(table.right), layout.bottom)
}
