//! Memories that each function reaches, as a table of short codes.

use std::fmt::Write as _;

use peerlane_fabric::{Fabric, MemoryKind};
use peerlane_reach::{Detail, MapType, Matrix, MatrixCell, Peers};

use super::Labels;
use super::lines::is_unclear;

/// Widest table with a column for every initiator.
const WIDEST: usize = 110;
/// Most rows with a row for every memory.
const MOST_ROWS: usize = 40;
/// Most columns of a grouped table; beyond it a row only counts.
const MOST_GROUPS: usize = 32;

const LEGEND: [(MapType, char, &str); 5] = [
    (MapType::BusAddress, 'B', "by bus address, below the host bridge"),
    (MapType::ThroughHostBridge, 'H', "through the host bridge"),
    (MapType::NotSupported, '-', "refused by the kernel"),
    (
        MapType::Conditional,
        'C',
        "through the host bridge if the CPU is an AMD Zen or later, else refused",
    ),
    (MapType::Unknown, '?', "unknown"),
];

/// The table of memories and initiators, and the reasons of refusals.
pub(super) fn text(fabric: &Fabric, labels: &Labels) -> String {
    let mut matrix = Matrix::new(fabric, Detail::Grouped);
    if fabric.functions.is_empty() {
        return "No PCI function is to be seen here: there is none, or the tree or description leaves them \
                out.\n"
            .to_owned();
    }
    if matrix.memories.is_empty() && fabric.iter().any(|(_, one)| is_unclear(fabric, one)) {
        return "Memory that others could read or write is unknown: the text shows no classes.\n\
                hint: add the output of `sudo lspci -Dvvvnn`\n"
            .to_owned();
    }
    if matrix.memories.is_empty() {
        return "No device here has memory that others could read or write: there is no CMB, GPU or \
                FPGA whose memory can be seen.\n"
            .to_owned();
    }
    let mut text = String::from(
        "What the kernel permits by P2PDMA; drivers may differ (`peerlane topo --matrix`).\n\
         Rows are memories, columns are devices that would read or write them:\n\n",
    );
    let members = |peers: &[Peers]| peers.iter().map(|peers| peers.members.len()).sum::<usize>();
    let mut grouped = members(&matrix.memories) > MOST_ROWS;
    if !grouped {
        let each = Matrix::new(fabric, Detail::Each);
        match TextMatrix::new(fabric, labels, &each).filter(|table| table.width() <= WIDEST) {
            Some(table) => text += &table.text(),
            None => grouped = true,
        }
        if !grouped {
            matrix = each;
        }
    }
    if grouped {
        text += &groups(fabric, labels, &matrix);
    }
    text.push('\n');
    for (map, sign, meaning) in LEGEND {
        if is_shown(&matrix, map) {
            let _ = writeln!(text, "{sign}  {meaning}");
        }
    }
    let has_distance = |cell: &MatrixCell| cell.distance.is_some() && cell.map != MapType::Unknown;
    if matrix.cells.iter().flatten().any(has_distance) {
        text += "The numbers are distances in hops.\n";
    }
    text + &reasons(fabric, &matrix)
}

/// Notes below the table: cases that it does not cover, and reasons. One pair is
/// explained for each code: refused, conditional, unknown.
pub(crate) fn reasons(fabric: &Fabric, matrix: &Matrix) -> String {
    let mut text = String::new();
    for note in peerlane_reach::environment_notes(fabric) {
        let _ = writeln!(text, "{note}.");
    }
    if fabric.kernel.has_p2pdma == Some(false) {
        text += "This kernel is built without P2PDMA and permits none of it; the table says what one \
                 with it would decide.\n";
    }
    if fabric.memories().iter().any(|memory| memory.kind != MemoryKind::P2pMem) {
        text += "Rows of gpu and fpga are for memory that the maker's driver hands to the kernel; \
                 the kernel does not decide what such a driver maps by itself.\n";
    }
    for (map, code) in
        [(MapType::NotSupported, '-'), (MapType::Conditional, 'C'), (MapType::Unknown, '?')]
    {
        let found = matrix.cells.iter().zip(&matrix.memories).find_map(|(row, memory)| {
            let column = row.iter().position(|cell| cell.map == map)?;
            let memory = memory.members[0];
            let members = &matrix.initiators[column].members;
            let initiator = members.iter().find(|&&id| id != memory).unwrap_or(&members[0]);
            Some(peerlane_reach::decide(fabric, memory, *initiator))
        });
        if let Some(found) = found {
            let _ = writeln!(text, "{code} for instance: {}.", found.summary());
        }
    }
    text
}

/// True when a cell of two different devices has this decision.
pub(crate) fn is_shown(matrix: &Matrix, map: MapType) -> bool {
    matrix.memories.iter().zip(&matrix.cells).any(|(memory, cells)| {
        cells.iter().zip(&matrix.initiators).any(|(cell, peers)| {
            let is_itself = peers.members.len() == 1 && peers.members == memory.members;
            cell.map == map && !is_itself
        })
    })
}

fn code(cell: MatrixCell) -> String {
    let letter = LEGEND.iter().find(|(map, ..)| *map == cell.map).map_or(' ', |(_, sign, _)| *sign);
    match cell.distance {
        Some(distance) if cell.map != MapType::Unknown => format!("{letter}{distance}"),
        _ => letter.to_string(),
    }
}

struct TextMatrix {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl TextMatrix {
    fn new(fabric: &Fabric, labels: &Labels, matrix: &Matrix) -> Option<Self> {
        let memories = fabric.memories();
        let columns: Vec<String> =
            matrix.initiators.iter().map(|peers| labels.of(peers.members[0])).collect();
        let rows = memories
            .iter()
            .zip(&matrix.cells)
            .map(|(memory, cells)| {
                let size = memory.size.map(|size| format!(" {size}")).unwrap_or_default();
                let name = labels.memory(fabric, memory.function, memory.kind) + &size;
                let codes = cells.iter().zip(&matrix.initiators).map(|(&cell, peers)| {
                    if peers.members == [memory.function] { String::new() } else { code(cell) }
                });
                (name, codes.collect())
            })
            .collect();
        (!columns.is_empty()).then_some(Self { columns, rows })
    }

    fn width(&self) -> usize {
        self.head() + self.columns.iter().map(|name| name.chars().count().max(3) + 2).sum::<usize>()
    }

    fn head(&self) -> usize {
        self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 2
    }

    fn text(&self) -> String {
        let head = self.head();
        let mut text = format!("  {:head$}", "");
        let widths: Vec<usize> =
            self.columns.iter().map(|name| name.chars().count().max(3)).collect();
        for (name, width) in self.columns.iter().zip(&widths) {
            let _ = write!(text, "  {name:>width$}");
        }
        for (name, codes) in &self.rows {
            let _ = write!(text, "\n  {name:head$}");
            for (code, width) in codes.iter().zip(&widths) {
                let _ = write!(text, "  {code:>width$}");
            }
        }
        text.push('\n');
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// A table of groups with their members.
fn groups(fabric: &Fabric, labels: &Labels, matrix: &Matrix) -> String {
    let mut text = String::new();
    let kinds: std::collections::HashMap<_, _> =
        fabric.memories().into_iter().map(|memory| (memory.function, memory.kind)).collect();
    let memories = matrix.memories.iter().map(|peers| {
        names(peers.members.iter().map(|&id| labels.memory(fabric, id, kinds[&id])).collect())
    });
    let initiators = matrix
        .initiators
        .iter()
        .map(|peers| names(peers.members.iter().map(|&id| labels.of(id)).collect()));
    let (memories, initiators): (Vec<_>, Vec<_>) = (memories.collect(), initiators.collect());
    if matrix.initiators.len() > MOST_GROUPS {
        for (name, row) in memories.iter().zip(&matrix.cells) {
            let _ = writeln!(text, "  {name}: {}", counts(matrix, row));
        }
        return text;
    }
    let table = TextMatrix {
        columns: (0..initiators.len()).map(letter).collect(),
        rows: (1..)
            .zip(&matrix.cells)
            .map(|(number, row): (usize, _)| {
                (number.to_string(), row.iter().map(|&cell| code(cell)).collect())
            })
            .collect(),
    };
    text += &table.text();
    text +=
        "\n  Devices of one group have the same path up; a cell is for two different devices:\n";
    for (number, name) in (1..).zip(&memories) {
        let number: usize = number;
        let _ = writeln!(text, "  {number:>3}  {name}");
    }
    for (index, name) in initiators.iter().enumerate() {
        let _ = writeln!(text, "  {:>3}  {name}", letter(index));
    }
    text
}

/// Numbers of initiators of a memory by the kernel's decision, in words.
fn counts(matrix: &Matrix, row: &[MatrixCell]) -> String {
    let of = |map: MapType| {
        let columns = row.iter().zip(&matrix.initiators).filter(|(cell, _)| cell.map == map);
        columns.map(|(_, peers)| peers.members.len()).sum::<usize>()
    };
    [
        (MapType::BusAddress, "by bus address"),
        (MapType::ThroughHostBridge, "through the host bridge"),
        (MapType::NotSupported, "refused"),
        (MapType::Conditional, "through the host bridge if the CPU is an AMD Zen or later"),
        (MapType::Unknown, "unknown"),
    ]
    .into_iter()
    .map(|(map, words)| (of(map), words))
    .filter(|(count, _)| *count > 0)
    .map(|(count, words)| format!("{count} {words}"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// A, B, .., Z, AA, AB, ..
fn letter(index: usize) -> String {
    let last = char::from(b'A' + u8::try_from(index % 26).unwrap_or(0));
    if index < 26 { last.to_string() } else { format!("{}{last}", letter(index / 26 - 1)) }
}

/// Names in a row, runs of numbers put together: `nvme0 to nvme7, nvme9`.
fn names(names: Vec<String>) -> String {
    const MOST: usize = 12;
    let mut runs: Vec<(String, String, usize)> = Vec::new();
    for name in names {
        match runs.last_mut().filter(|(_, last, _)| follows(last, &name)) {
            Some(run) => (run.1, run.2) = (name, run.2 + 1),
            None => runs.push((name.clone(), name, 1)),
        }
    }
    let count: usize = runs.iter().map(|run| run.2).sum();
    let mut parts: Vec<String> = runs
        .iter()
        .take(MOST)
        .map(|(first, last, count)| match count {
            1 => first.clone(),
            2 => format!("{first}, {last}"),
            _ => format!("{first} to {last}"),
        })
        .collect();
    if runs.len() > MOST {
        parts.push("...".to_owned());
    }
    let text = parts.join(", ");
    if count > 2 { format!("{text} ({count})") } else { text }
}

/// Tests whether a name is the one before with a number that is one more.
fn follows(last: &str, name: &str) -> bool {
    let split = |text: &str| {
        let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (front, number) = text.split_at(text.len() - digits);
        Some((front.to_owned(), number.parse::<u64>().ok()?))
    };
    match (split(last), split(name)) {
        (Some((one, last)), Some((other, next))) => {
            one == other && last.checked_add(1) == Some(next)
        }
        _ => false,
    }
}
