//! Layout of the drawing: host bridges at the left, functions in lines at the right.

use std::collections::BTreeMap;

use peerlane_fabric::{BridgeId, Fabric, FunctionId, FunctionKind, Parent};
use peerlane_reach::Detail;

use super::matrix::MOST_COLUMNS;
use super::width::wide;
use crate::machine::text::{FunctionTree, Labels};

/// Left and right margin.
pub(super) const MARGIN: f64 = 24.0;
/// Top of the tree; above it stand facts of the machine.
const TOP: f64 = 96.0;
/// Most room for the names of memories, which stand on end.
const HEAD: f64 = 96.0;
/// Sine of their angle.
const STEEP: f64 = 0.82;
/// Width of the box of a host bridge, and of a switch.
pub(super) const BRIDGE_WIDTH: f64 = 116.0;
pub(super) const SWITCH_WIDTH: f64 = 58.0;
/// Width that names and models of functions take.
pub(super) const LABEL_WIDTH: f64 = 290.0;
/// Up to this many lines have room for two rows of text.
const ROOMY: usize = 24;

/// Room for the roles of functions, next to their names.
pub(super) const ROLE_WIDTH: f64 = 190.0;

/// Purposes of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Functions and the memories that they reach.
    Reach,
    /// Loads of links.
    Loads,
}

impl Purpose {
    /// Room to the left of a child: a function needs it for the words above its link, and a switch
    /// for those of its load; inside a processor or a switch there are none.
    fn step(self, fabric: &Fabric, above: &NodeContent, child: &NodeContent) -> f64 {
        match (self, above, child) {
            (Self::Reach, _, NodeContent::Leaves(..)) => 110.0,
            (Self::Reach, ..) => 76.0,
            (Self::Loads, _, NodeContent::Leaves(..)) => 112.0,
            (Self::Loads, _, NodeContent::Port(id)) if is_switch(fabric, *id) => 100.0,
            (Self::Loads, NodeContent::Bridge(_), _) => 44.0,
            (Self::Loads, ..) => 76.0,
        }
    }
}

/// A port, a host bridge, or functions in one line.
#[derive(Debug)]
pub(super) struct DrawnNode {
    pub(super) what: NodeContent,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) children: Vec<DrawnNode>,
}

#[derive(Debug)]
pub(super) enum NodeContent {
    Bridge(BridgeId),
    Port(FunctionId),
    /// Functions in one line, one of them unless they are put together, and the line's number.
    Leaves(Vec<FunctionId>, usize),
}

/// Positions of all nodes and lines.
#[derive(Debug)]
pub(super) struct DrawingLayout {
    pub(super) labels: Labels,
    pub(super) roots: Vec<DrawnNode>,
    /// Functions by line.
    pub(super) rows: Vec<Vec<FunctionId>>,
    /// Height of a line.
    pub(super) row_height: f64,
    /// Left edge of the names of functions.
    pub(super) leaf_x: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) width: f64,
}

impl DrawingLayout {
    pub(super) fn new(fabric: &Fabric, detail: Detail, purpose: Purpose) -> Self {
        let (tree, labels) = (FunctionTree::new(fabric), Labels::new(fabric));
        let mut rows = Vec::new();
        let mut roots = Vec::new();
        for index in 0..fabric.bridges.len() {
            let below = tree.below_bridge(BridgeId(index));
            if below.is_empty() {
                continue;
            }
            let children = nodes(&tree, &below, detail, &mut rows);
            roots.push(DrawnNode {
                what: NodeContent::Bridge(BridgeId(index)),
                x: 0.0,
                y: 0.0,
                children,
            });
        }
        let row_height = if rows.len() <= ROOMY { 40.0 } else { 22.0 };
        let has_columns = purpose == Purpose::Reach && !fabric.memories().is_empty();
        let top = TOP + if has_columns { head(fabric, &labels) } else { 0.0 };
        let mut leaf_x: f64 = MARGIN + BRIDGE_WIDTH + 120.0;
        let grid = NodeGrid { fabric, purpose, top, row_height };
        for root in &mut roots {
            place(&grid, root, MARGIN, &mut leaf_x);
        }
        for root in &mut roots {
            align(root, leaf_x);
        }
        let bottom = top + row_height * rows.len().max(1) as f64;
        let roles = if purpose == Purpose::Loads { ROLE_WIDTH } else { 0.0 };
        let width = leaf_x + LABEL_WIDTH + roles + MARGIN;
        Self { labels, roots, rows, row_height, leaf_x, top, bottom, width }
    }

    pub(super) fn is_roomy(&self) -> bool {
        self.row_height > 30.0
    }

    /// The middle of a line.
    pub(super) fn line(&self, row: usize) -> f64 {
        self.top + self.row_height * (row as f64 + 0.5)
    }
}

/// Room for the names of memories; a column of several has two names.
fn head(fabric: &Fabric, labels: &Labels) -> f64 {
    let memories = fabric.memories();
    let names = memories.iter().map(|one| wide(&labels.memory(fabric, one.function, one.kind)));
    let longest = names.fold(0.0, f64::max);
    let count = if memories.len() > MOST_COLUMNS { 2.0 } else { 1.0 };
    (longest * count * STEEP + 16.0).min(HEAD)
}

/// The nodes of functions that hang from one place.
fn nodes(
    tree: &FunctionTree<'_>,
    below: &[FunctionId],
    detail: Detail,
    rows: &mut Vec<Vec<FunctionId>>,
) -> Vec<DrawnNode> {
    let mut found = Vec::new();
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for &id in below {
        let deeper = tree.below(id);
        let leaf = match (detail, deeper.as_slice()) {
            (_, []) => Some(id),
            // A port with one function: many such are one line.
            (Detail::Grouped, [only]) if tree.below(*only).is_empty() => Some(*only),
            _ => None,
        };
        let Some(leaf) = leaf else {
            let children = nodes(tree, &deeper, detail, rows);
            found.push(DrawnNode { what: NodeContent::Port(id), x: 0.0, y: 0.0, children });
            continue;
        };
        if detail == Detail::Grouped {
            let key = likeness(tree.fabric, leaf);
            if let Some(&row) = alike.get(&key) {
                rows[row].push(leaf);
                continue;
            }
            alike.insert(key, rows.len());
        }
        let what = NodeContent::Leaves(vec![leaf], rows.len());
        found.push(DrawnNode { what, x: 0.0, y: 0.0, children: Vec::new() });
        rows.push(vec![leaf]);
    }
    found
}

/// Properties that functions of one line share: kind, link, memory, their own ACS and that of the
/// port above.
fn likeness(fabric: &Fabric, id: FunctionId) -> String {
    let function = fabric.function(id);
    let above = match function.parent {
        Parent::Function(port) => Some(fabric.function(port).acs),
        Parent::Bridge(_) => None,
    };
    let memory = function.p2pmem.map(|pool| pool.size);
    format!(
        "{:?} {:?} {:?} {:?} {:?} {memory:?}",
        function.kind,
        function.link.map(|link| link.current),
        fabric.is_downgraded(id),
        function.acs,
        above
    )
}

/// Grid for the places of nodes.
struct NodeGrid<'a> {
    fabric: &'a Fabric,
    purpose: Purpose,
    top: f64,
    row_height: f64,
}

/// Places a node and its children, except for the left edge of leaves.
fn place(grid: &NodeGrid<'_>, node: &mut DrawnNode, x: f64, leaf_x: &mut f64) {
    node.x = x;
    if let NodeContent::Leaves(_, row) = node.what {
        node.y = grid.top + grid.row_height * (row as f64 + 0.5);
        *leaf_x = leaf_x.max(x);
        return;
    }
    let right = match node.what {
        NodeContent::Bridge(_) => x + BRIDGE_WIDTH,
        _ => x + 8.0,
    };
    for child in &mut node.children {
        let step = grid.purpose.step(grid.fabric, &node.what, &child.what);
        place(grid, child, right + step, leaf_x);
    }
    let first = node.children.first().map_or(grid.top, |child| child.y);
    let last = node.children.last().map_or(first, |child| child.y);
    node.y = f64::midpoint(first, last);
}

fn align(node: &mut DrawnNode, leaf_x: f64) {
    if matches!(node.what, NodeContent::Leaves(..)) {
        node.x = leaf_x;
    }
    for child in &mut node.children {
        align(child, leaf_x);
    }
}

/// Tests whether a function is the upper end of a switch.
pub(super) fn is_switch(fabric: &Fabric, id: FunctionId) -> bool {
    fabric.function(id).kind == FunctionKind::UpstreamPort
}
