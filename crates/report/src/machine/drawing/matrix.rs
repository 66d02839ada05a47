//! Memories that each function reaches: a column for each memory, on the lines of the tree.

use std::collections::{BTreeMap, HashMap};

use peerlane_fabric::{Fabric, FunctionId, MemoryKind};
use peerlane_reach::{MapType, Matrix, MatrixCell, Peers};

use super::draw::DrawingSheet;
use super::layout::{DrawingLayout, LABEL_WIDTH, MARGIN};
use super::width::cut;
use crate::ink::Paper;
use crate::machine::text::{is_shown, reasons};
use crate::plain::escape;

/// Width of a column, and where there are many.
const COLUMN: f64 = 24.0;
const NARROW: f64 = 13.0;
/// Beyond so many memories columns are narrow, and refused pairs have no sign.
pub(super) const MOST_COLUMNS: usize = 80;
/// Beyond so many, there are no columns.
const MOST_NARROW_COLUMNS: usize = 240;
/// Names on end take this much to the right.
const SLANT: f64 = 70.0;

/// Position of the columns.
#[derive(Debug)]
pub(super) struct MatrixColumns {
    left: f64,
    column: f64,
    pub(super) right: f64,
    names: Vec<String>,
}

impl MatrixColumns {
    pub(super) fn new(fabric: &Fabric, matrix: &Matrix, layout: &DrawingLayout) -> Self {
        let kinds: HashMap<FunctionId, MemoryKind> =
            fabric.memories().into_iter().map(|memory| (memory.function, memory.kind)).collect();
        let names: Vec<String> = matrix
            .memories
            .iter()
            .map(|peers| {
                let first = peers.members[0];
                let name = layout.labels.memory(fabric, first, kinds[&first]);
                match peers.members.as_slice() {
                    [_] => name,
                    [.., last] => {
                        let last = layout.labels.memory(fabric, *last, kinds[last]);
                        format!("{name} .. {}", last.split_once(':').map_or("", |(_, last)| last))
                    }
                    [] => name,
                }
            })
            .collect();
        let names = if names.len() > MOST_NARROW_COLUMNS { Vec::new() } else { names };
        let column = if names.len() > MOST_COLUMNS { NARROW } else { COLUMN };
        let left = layout.leaf_x + LABEL_WIDTH + 10.0;
        let right = if names.is_empty() {
            0.0
        } else {
            left + column * names.len() as f64 + SLANT + MARGIN
        };
        Self { left, column, right, names }
    }

    /// The middle of a column.
    fn at(&self, index: usize) -> f64 {
        self.left + self.column * (index as f64 + 0.5)
    }

    fn is_narrow(&self) -> bool {
        self.names.len() > MOST_COLUMNS
    }
}

/// Draws the columns.
pub(super) fn draw(
    fabric: &Fabric,
    matrix: &Matrix,
    layout: &DrawingLayout,
    table: &MatrixColumns,
    (paper, sheet): (Paper, &mut DrawingSheet),
) {
    if table.names.is_empty() {
        if !matrix.memories.is_empty() {
            sheet.note("Too many memories for columns; `peerlane topo` says who reaches them.");
        } else if !layout.rows.is_empty() {
            sheet.note("No device here has memory that others could read or write.");
        }
        return;
    }
    for (index, name) in table.names.iter().enumerate() {
        let x = table.at(index);
        let y = layout.top - 8.0;
        sheet.add(format_args!(
            r#"<text class="t" transform="translate({:.1} {y:.1})rotate(-55)">{}</text>"#,
            x + 3.0,
            escape(&cut(name, 100.0))
        ));
        sheet.add(format_args!(
            r#"<path class="r" d="M{x:.1} {:.1}V{:.1}"/>"#,
            layout.top, layout.bottom
        ));
    }
    signs(matrix, layout, table, (paper, &mut *sheet));
    for map in [
        MapType::BusAddress,
        MapType::ThroughHostBridge,
        MapType::NotSupported,
        MapType::Conditional,
        MapType::Unknown,
    ] {
        let has_sign = !table.is_narrow() || map != MapType::NotSupported;
        if has_sign && is_shown(matrix, map) {
            sheet.explain(sign(map), words(map));
        }
    }
    if table.is_narrow() {
        sheet.note("Where there is no sign, the kernel refuses.");
    }
    for reason in reasons(fabric, matrix).lines() {
        // The sign of the drawing in place of that of the table.
        match reason.strip_prefix("- ") {
            Some(rest) => sheet.note(&format!("\u{d7} {rest}")),
            None => sheet.note(reason),
        }
    }
}

/// Draws the rows, and the place where a page looks for the pair at a point.
fn signs(
    matrix: &Matrix,
    layout: &DrawingLayout,
    table: &MatrixColumns,
    (paper, sheet): (Paper, &mut DrawingSheet),
) {
    let columns: HashMap<FunctionId, usize> = matrix
        .initiators
        .iter()
        .enumerate()
        .flat_map(|(column, peers)| peers.members.iter().map(move |&id| (id, column)))
        .collect();
    let end = table.left + table.column * table.names.len() as f64;
    for (row, members) in layout.rows.iter().enumerate() {
        let Some(&column) = members.first().and_then(|id| columns.get(id)) else { continue };
        let y = layout.line(row);
        sheet.add(format_args!(r#"<path class="r" d="M{:.1} {y:.1}H{end:.1}"/>"#, table.left));
        let of_row = matrix.cells.iter().enumerate().filter_map(|(index, cells)| {
            let memory = &matrix.memories[index].members;
            let is_own = memory.len() == 1 && memory == members;
            cells.get(column).filter(|_| !is_own).map(|cell| (index, cell))
        });
        if table.is_narrow() || paper == Paper::Page {
            together(of_row, table, y, sheet);
            continue;
        }
        for (index, cell) in of_row {
            let x = table.at(index);
            let sign = sign(cell.map);
            let hops = cell.distance.map(|hops| format!(", {hops} hops")).unwrap_or_default();
            sheet.add(format_args!(
                r##"<g><title>{}</title><use href="#{sign}" class="{sign}" x="{x:.1}" y="{y:.1}"/></g>"##,
                escape(&format!(
                    "{} and {}: {}{hops}",
                    layout.labels.of(members[0]),
                    table.names[index],
                    words(cell.map)
                ))
            ));
        }
    }
    if paper == Paper::Page {
        let initiators = layout.rows.iter().map(|members| {
            let column = members.first().and_then(|id| columns.get(id));
            column.map_or(String::new(), |&column| ends(&matrix.initiators[column]))
        });
        let initiators: Vec<String> = initiators.collect();
        let memories: Vec<String> = matrix.memories.iter().map(ends).collect();
        sheet.add(format_args!(
            r#"<rect class="grid" data-initiators="{}" data-memories="{}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/><rect class="cell" width="{:.1}" height="{:.1}"/>"#,
            initiators.join(" "),
            memories.join(" "),
            table.left,
            layout.top,
            end - table.left,
            layout.bottom - layout.top,
            table.column,
            layout.row_height
        ));
    }
}

/// Draws the signs of a row, one element for those that are alike.
fn together<'a>(
    cells: impl Iterator<Item = (usize, &'a MatrixCell)>,
    table: &MatrixColumns,
    y: f64,
    sheet: &mut DrawingSheet,
) {
    let mut alike: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let is_shown = |map| !table.is_narrow() || map != MapType::NotSupported;
    for (index, cell) in cells.filter(|(_, cell)| is_shown(cell.map)) {
        alike.entry(sign(cell.map)).or_default().push(table.at(index));
    }
    for (sign, places) in alike {
        let each = |shape: &str, left: f64, top: f64| {
            let shapes = places.iter().map(|x| format!("M{:.1} {:.1}{shape}", x + left, y + top));
            shapes.collect::<String>()
        };
        let path = match sign {
            "B" => each("a5 5 0 1 0 10 0a5 5 0 1 0-10 0", -5.0, 0.0),
            "H" => each("a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0", -4.5, 0.0),
            "N" => each("l8 8m0-8l-8 8", -4.0, -4.0),
            letter => {
                let letter = if letter == "Q" { "?" } else { letter };
                let x: Vec<String> = places.iter().map(|x| format!("{x:.1}")).collect();
                sheet.add(format_args!(
                    r#"<text class="{sign}" text-anchor="middle" x="{}" y="{:.1}">{}</text>"#,
                    x.join(" "),
                    y + 4.0,
                    letter.repeat(places.len())
                ));
                continue;
            }
        };
        sheet.add(format_args!(r#"<path class="{sign}" d="{path}"/>"#));
    }
}

/// The first two of peers, of which one differs from any other function.
fn ends(peers: &Peers) -> String {
    let ids: Vec<String> = peers.members.iter().take(2).map(|id| id.0.to_string()).collect();
    ids.join("/")
}

/// The shape that stands for a decision.
fn sign(map: MapType) -> &'static str {
    match map {
        MapType::BusAddress => "B",
        MapType::ThroughHostBridge => "H",
        MapType::NotSupported => "N",
        MapType::Conditional => "C",
        MapType::Unknown => "Q",
    }
}

fn words(map: MapType) -> &'static str {
    match map {
        MapType::BusAddress => "below the host bridge",
        MapType::ThroughHostBridge => "through the host bridge",
        MapType::NotSupported => "refused by the kernel",
        MapType::Conditional => "depends on the CPU",
        MapType::Unknown => "unknown",
    }
}
