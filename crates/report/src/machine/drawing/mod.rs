//! A machine as a drawing for a document: the tree from left to right, and beside each function which
//! memories it reaches.
//!
//! One text without scripts, fonts or anything fetched; it follows the reader's choice of light or
//! dark. Leaves of the tree and rows of the matrix share their lines, so that the eye goes straight
//! from a drive to what it reaches.

mod draw;
mod layout;
mod load;
mod matrix;

use peerlane_fabric::{Detail, Fabric, Matrix};
use peerlane_results::LinkLoad;

use crate::ink::{self, Paper};
use draw::Sheet;
use layout::Layout;
use load::Loads;

/// More functions than this are put together by their way up; a page has no more lines.
const MOST_ROWS: usize = 128;

/// Rules are within this, so that drawings and a page around them keep to themselves.
pub(crate) const SCOPE: &str = ".machine ";

/// The machine as SVG, a file of its own.
pub fn svg(fabric: &Fabric) -> String {
    Drawing { fabric, loads: &[], note: "", paper: Paper::Alone }.svg()
}

/// A drawing of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Drawing<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// What its links carry, where that is to be shown.
    pub loads: &'a [LinkLoad],
    /// A sentence below it; empty for none.
    pub note: &'a str,
    /// Where it is shown.
    pub paper: Paper,
}

impl Drawing<'_> {
    /// The drawing as SVG.
    pub fn svg(&self) -> String {
        let fabric = self.fabric;
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
        let mut sheet = Sheet::new(Loads::new(fabric, self.loads));
        let table = matrix::Table::new(fabric, &reach, &layout);
        draw::tree(fabric, &layout, &mut sheet);
        matrix::draw(fabric, &reach, &layout, &table, &mut sheet);
        if !self.note.is_empty() {
            sheet.note(self.note);
        }
        sheet.finish(fabric, layout.width.max(table.right), layout.bottom, self.paper)
    }
}

/// The rules of drawings in a page.
pub(crate) fn style(paper: Paper) -> String {
    ink::sheet(draw::RULES, SCOPE, paper)
}
