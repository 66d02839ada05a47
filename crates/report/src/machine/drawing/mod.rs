//! A machine as a drawing for a document: the tree from left to right, and next to each function
//! the memories that it reaches, or the load of its links and its role.
//!
//! One text without scripts, fonts or anything fetched; it follows the reader's choice of light or
//! dark. Leaves of the tree and rows of the matrix share their lines, so the eye goes straight from
//! a drive to its memories.

mod draw;
mod layout;
mod load;
mod matrix;
mod width;

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{Detail, Matrix};
use peerlane_results::LinkLoad;

use crate::ink::{self, Paper};
use draw::DrawingSheet;
use layout::{DrawingLayout, Purpose};
use load::Loads;

/// More functions than this are put together by their way up; a page has no more lines.
const MOST_ROWS: usize = 128;

/// Scope of the rules: drawings and the page around them do not style each other.
pub(crate) const SCOPE: &str = ".machine ";

/// The machine as SVG, a file of its own.
pub fn svg(fabric: &Fabric) -> String {
    Drawing { paper: Paper::Alone, ..Drawing::of_loads(fabric, &[]) }.svg()
}

/// The machine as SVG for a page that has the rules of [`rules_for_page`], and the colours in variables by their
/// names.
pub fn svg_for_page(fabric: &Fabric) -> String {
    Drawing::of_loads(fabric, &[]).svg()
}

/// The style sheet of [`svg_for_page`].
pub fn rules_for_page() -> String {
    style(Paper::Page)
}

/// A drawing of a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawing<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// Loads of its links; if this is empty, the memories that each function reaches are shown
    /// instead.
    pub loads: &'a [LinkLoad],
    /// Roles of functions, in a word or two, next to their loads.
    pub roles: &'a [(FunctionId, String)],
    /// A sentence below it; empty for none.
    pub note: &'a str,
    /// Surroundings of the drawing.
    pub paper: Paper,
}

impl<'a> Drawing<'a> {
    /// A machine with the loads of its links, for a page.
    pub(crate) fn of_loads(fabric: &'a Fabric, loads: &'a [LinkLoad]) -> Self {
        Self { fabric, loads, roles: &[], note: "", paper: Paper::Page }
    }

    /// The drawing as SVG.
    pub(crate) fn svg(&self) -> String {
        let fabric = self.fabric;
        let shown = fabric
            .iter()
            .filter(|(id, function)| fabric.moves_payload(*id) || function.p2pmem.is_some())
            .count();
        let detail = if shown > MOST_ROWS { Detail::Grouped } else { Detail::Each };
        let purpose = if self.loads.is_empty() { Purpose::Reach } else { Purpose::Loads };
        let layout = DrawingLayout::new(fabric, detail, purpose);
        let mut sheet = DrawingSheet::new(Loads::new(fabric, self.loads));
        draw::tree(fabric, &layout, &mut sheet);
        let mut width = layout.width;
        match purpose {
            Purpose::Reach => width = width.max(self.reach(detail, &layout, &mut sheet)),
            Purpose::Loads => draw::roles(&layout, self.roles, &mut sheet),
        }
        if !self.note.is_empty() {
            sheet.note(self.note);
        }
        sheet.finish(fabric, width, layout.bottom, self.paper)
    }

    /// Draws who reaches which memory, and returns where that ends.
    fn reach(&self, detail: Detail, layout: &DrawingLayout, sheet: &mut DrawingSheet) -> f64 {
        let fabric = self.fabric;
        // Memories with the same way up share a column before there are none.
        let columns =
            if fabric.memories().len() > matrix::MOST_COLUMNS { Detail::Grouped } else { detail };
        let reach = Matrix::new(fabric, columns);
        let table = matrix::MatrixColumns::new(fabric, &reach, layout);
        matrix::draw(fabric, &reach, layout, &table, (self.paper, sheet));
        table.right
    }
}

/// The rules of drawings in a page.
pub(crate) fn style(paper: Paper) -> String {
    ink::sheet(draw::RULES, SCOPE, paper)
}
