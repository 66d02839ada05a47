//! Shapes and words of the tree.

use std::collections::HashMap;
use std::fmt::Write as _;

use peerlane_fabric::{BridgeId, Fabric, FunctionId, FunctionKind, Link, LinkSpeed, pci_names};

use super::layout::{
    BRIDGE_WIDTH, DrawingLayout, DrawnNode, LABEL_WIDTH, MARGIN, NodeContent, ROLE_WIDTH,
    SWITCH_WIDTH, is_switch,
};
use super::load::{CarriedLoad, LoadScale, Loads};
use super::width::{cut, wide, wrapped};
use crate::ink::{Paper, Rules};
use crate::machine::text::{heading, port_kind, redirects, speed};
use crate::plain::escape;

/// Widest line of a link, and most width for a GB/s.
const WIDEST: f64 = 14.0;
const PER_GB: f64 = 0.8;
const PER_GB_LOADED: f64 = 2.4;
/// Links between sockets that are told of.
const BETWEEN_SOCKETS_MAX: usize = 4;

/// Looks by the kind of function; words tell each kind too.
pub(super) const RULES: Rules = &[
    (".bg", "fill:$paper"),
    (".t", "fill:$ink"),
    (".q", "fill:$quiet"),
    (".w", "fill:$bad;font-weight:600"),
    ("text", "font:11px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"),
    (".n", "font-weight:600"),
    (".h", "font-size:17px;font-weight:600"),
    (".s", "font-size:9.5px"),
    (".e", "fill:none;stroke:$edge"),
    (".u", "stroke-dasharray:2 3"),
    (".y", "stroke:$rule"),
    (".d", "fill:none;stroke:$alarm"),
    (".g", "fill:none;stroke:$pale"),
    (".b", "fill:$box;stroke:$edge"),
    (".p,.other", "fill:$quiet"),
    (".a", "fill:$alarm"),
    (".nvme", "fill:$nvme"),
    (".gpu", "fill:$good"),
    (".fpga", "fill:$fpga"),
    (".nic", "fill:$caution"),
    (".m", "fill:$nvme;fill-opacity:.14;stroke:$nvme"),
    (".r", "stroke:$rule"),
    (".B", "fill:$good"),
    (".H", "fill:none;stroke:$caution;stroke-width:2.5"),
    (".N", "stroke:$alarm;stroke-width:2.2"),
    (".C", "fill:$quiet;font:600 11px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"),
    (".Q", "fill:$quiet;font:600 11px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"),
    (".l0", "fill:none;stroke:$low"),
    (".l1", "fill:none;stroke:$middle"),
    (".l2", "fill:none;stroke:$high"),
    (".l3", "fill:none;stroke:$full"),
];

/// A drawing in the making.
#[derive(Debug, Default)]
pub(super) struct DrawingSheet {
    /// Loads of links.
    loads: Loads,
    body: String,
    notes: Vec<String>,
    legend: Vec<(&'static str, &'static str)>,
    /// Width of a line for a GB/s.
    per_gb: f64,
    /// True when a port sends traffic between peers up.
    has_redirect: bool,
    /// True when a link is downgraded.
    is_downgraded: bool,
    /// True when a device has memory for peers.
    has_memory: bool,
    /// A link of the drawing, to show the scale by.
    sample: Option<LinkSpeed>,
}

impl DrawingSheet {
    pub(super) fn new(loads: Loads) -> Self {
        Self { loads, ..Self::default() }
    }

    /// Adds an element.
    pub(super) fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// Adds words in the style `class`.
    pub(super) fn words(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{}</text>"#,
            escape(text)
        ));
    }

    /// Adds a sentence below the drawing.
    pub(super) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Adds a sign and its meaning below the drawing.
    pub(super) fn explain(&mut self, sign: &'static str, text: &'static str) {
        self.legend.push((sign, text));
    }

    /// The whole drawing.
    pub(super) fn finish(
        mut self,
        fabric: &Fabric,
        width: f64,
        bottom: f64,
        paper: Paper,
    ) -> String {
        let mut head = Self::default();
        let title = heading(fabric);
        let (name, rest) = title.split_once("): ").map_or((title.as_str(), ""), |(name, rest)| {
            (name.split(" (").next().unwrap_or(name), rest)
        });
        head.words(MARGIN, 36.0, "t h", name);
        let width = width.max(720.0);
        let lines = wrapped(rest, width - 2.0 * MARGIN);
        for (line, y) in lines.iter().zip([58.0, 73.0]) {
            head.words(MARGIN, y, "q", line);
        }
        let mut y = bottom + 30.0;
        let mut x = self.scale(y);
        let signs = std::mem::take(&mut self.legend);
        for (sign, text) in signs {
            let length = 24.0 + wide(text);
            if x + length > width {
                (x, y) = (MARGIN, y + 20.0);
            }
            self.add(format_args!(
                r##"<use href="#{sign}" class="{sign}" x="{x:.1}" y="{:.1}"/>"##,
                y - 4.0
            ));
            self.words(x + 12.0, y, "q", text);
            x += length;
        }
        if !self.loads.is_empty() {
            y += 20.0;
            self.load_scale(y);
        }
        y += 8.0;
        for note in std::mem::take(&mut self.notes) {
            for line in wrapped(&note, width - 2.0 * MARGIN) {
                y += 17.0;
                self.words(MARGIN, y, "q", &line);
            }
        }
        let height = y + 24.0;
        let style = match paper {
            Paper::Page => String::new(),
            _ => format!("<style>{}</style>\n", super::style(paper)),
        };
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" role="img" class="machine">
<title>{}</title>
{style}<defs><circle id="B" r="5"/><circle id="H" r="4.5"/><path id="N" d="M-4-4L4 4M-4 4L4-4"/><text id="C" y="4" text-anchor="middle">C</text><text id="Q" y="4" text-anchor="middle">?</text></defs>
<rect width="100%" height="100%" class="bg"/>
{}{}</svg>
"##,
            escape(&title),
            head.body,
            self.body
        )
    }

    /// The scale of the lines and the meaning of colours; returns its right end.
    fn scale(&mut self, y: f64) -> f64 {
        let Some(sample) = self.sample else { return MARGIN };
        let stroke = self.stroke(Some(sample));
        let middle = y - 4.0;
        let class = if self.loads.is_empty() { "e" } else { "e y" };
        self.add(format_args!(
            r#"<path class="{class}" stroke-width="{stroke:.1}" d="M{MARGIN} {middle:.1}h40"/>"#
        ));
        let text = format!(
            "{}, {} in each direction; width as the rate",
            speed(sample),
            sample.raw_rate()
        );
        self.words(MARGIN + 48.0, y, "q", &text);
        let mut end = MARGIN + 48.0 + wide(&text) + 24.0;
        if self.is_downgraded {
            let text = "slower than both ends support";
            self.add(format_args!(
                r#"<path class="d" stroke-width="2" d="M{end:.1} {middle:.1}h24"/>"#
            ));
            self.words(end + 32.0, y, "q", text);
            end += 32.0 + wide(text) + 24.0;
        }
        if self.has_redirect {
            let text = "port that redirects peers (ACS)";
            self.add(format_args!(
                r#"<rect class="a" x="{end:.1}" y="{:.1}" width="8" height="8"/>"#,
                middle - 4.0
            ));
            self.words(end + 14.0, y, "q", text);
            end += 14.0 + wide(text) + 24.0;
        }
        if self.has_memory {
            let text = "memory that peers may reach";
            self.add(format_args!(
                r#"<rect class="m" x="{end:.1}" y="{:.1}" width="28" height="12" rx="6"/>"#,
                middle - 6.0
            ));
            self.words(end + 34.0, y, "q", text);
            end += 34.0 + wide(text) + 24.0;
        }
        end
    }

    /// Draws the legend of the colours of loads.
    fn load_scale(&mut self, y: f64) {
        let mut x = MARGIN;
        for (class, text) in self.loads.classes() {
            let middle = y - 4.0;
            self.add(format_args!(
                r#"<path class="{class}" stroke-width="4" d="M{x:.1} {middle:.1}h24"/>"#
            ));
            self.words(x + 32.0, y, "q", text);
            x += 32.0 + wide(text) + 20.0;
        }
        let mut text = format!(
            "Payload in {} next to each link: \u{2191} towards the root complex, \u{2193} away from it.",
            self.loads.unit()
        );
        if self.loads.scale == LoadScale::Ceilings {
            text += &format!(
                " The busiest link carries {:.0} % of what it can.",
                self.loads.most() * 100.0
            );
        }
        self.note(&text);
        if !self.loads.between_sockets.is_empty() {
            let some = self.loads.between_sockets.iter().take(BETWEEN_SOCKETS_MAX).cloned();
            let some = some.collect::<Vec<_>>().join(", ");
            self.note(&format!("Not drawn, between sockets: {some}."));
        }
        match self.loads.strange {
            0 => {}
            1 => self.note("One load is of a link that this machine does not have."),
            count => {
                self.note(&format!("{count} loads are of links that this machine does not have."));
            }
        }
    }

    /// Tests whether the speeds of links mean anything.
    fn has_speeds(&self) -> bool {
        self.loads.is_empty() || self.loads.scale != LoadScale::Speedless
    }

    fn stroke(&self, speed: Option<LinkSpeed>) -> f64 {
        speed.map_or(1.2, |speed| (gigabytes(speed) * self.per_gb).max(1.0))
    }
}

fn gigabytes(speed: LinkSpeed) -> f64 {
    speed.raw_rate().0 as f64 / 1e9
}

/// Draws the tree, lines below boxes.
pub(super) fn tree(fabric: &Fabric, layout: &DrawingLayout, sheet: &mut DrawingSheet) {
    let rates = fabric.functions.iter().filter_map(|function| function.link?.speed());
    sheet.sample = rates.max_by_key(|speed| speed.raw_rate().0).filter(|_| sheet.has_speeds());
    // Loads are told by width inside the link, which takes room.
    let per_gb = if sheet.loads.is_empty() { PER_GB } else { PER_GB_LOADED };
    sheet.per_gb = sheet.sample.map_or(per_gb, |most| (WIDEST / gigabytes(most)).min(per_gb));
    for root in &layout.roots {
        lines(fabric, layout, root, sheet);
    }
    for root in &layout.roots {
        boxes(fabric, layout, root, sheet);
    }
    if layout.roots.is_empty() {
        sheet.words(
            MARGIN,
            layout.top + 14.0,
            "q",
            "No GPUs, NVMe drives, RDMA NICs or FPGA cards found.",
        );
    }
}

fn right_edge(fabric: &Fabric, node: &DrawnNode) -> f64 {
    match node.what {
        NodeContent::Bridge(_) => node.x + BRIDGE_WIDTH,
        NodeContent::Port(id) if is_switch(fabric, id) => node.x + SWITCH_WIDTH,
        _ => node.x + 8.0,
    }
}

fn lines(fabric: &Fabric, layout: &DrawingLayout, node: &DrawnNode, sheet: &mut DrawingSheet) {
    let from = right_edge(fabric, node);
    for child in &node.children {
        let id = match &child.what {
            NodeContent::Port(id) => Some(*id),
            NodeContent::Leaves(members, row) => {
                let members = layout.rows.get(*row).unwrap_or(members);
                members.iter().copied().find(|&id| is_slow(fabric, id)).or(members.first().copied())
            }
            NodeContent::Bridge(_) => None,
        };
        // A port has no link above it inside a switch or processor.
        let link = id.and_then(|id| fabric.function(id).link);
        let speed_now = link.and_then(|link| link.speed()).filter(|_| sheet.has_speeds());
        let bend = from + 16.0;
        let path = format!("M{from:.1} {:.1}H{bend:.1}V{:.1}H{:.1}", node.y, child.y, child.x);
        let is_downgraded = sheet.has_speeds() && id.is_some_and(|id| is_slow(fabric, id));
        let stroke = sheet.stroke(speed_now);
        let below = functions(&match &child.what {
            NodeContent::Port(id) => vec![*id],
            NodeContent::Leaves(members, row) => layout.rows.get(*row).unwrap_or(members).clone(),
            NodeContent::Bridge(_) => Vec::new(),
        });
        if let Some(id) = id.filter(|_| is_downgraded) {
            sheet.is_downgraded = true;
            let most = sheet.stroke(fabric.trainable(id));
            sheet.add(format_args!(r#"<path class="g" stroke-width="{most:.1}" d="{path}"/>"#));
        }
        let class = match (link, is_downgraded) {
            (_, true) => "d",
            // Pale, so that what it carries stands out in it.
            (Some(_), _) if !sheet.loads.is_empty() => "e y",
            (Some(_), _) => "e",
            (None, _) => "e u",
        };
        sheet.add(format_args!(
            r#"<path class="{class}" {below} stroke-width="{stroke:.1}" d="{path}"/>"#
        ));
        if let Some(load) = id.and_then(|id| sheet.loads.get(id)) {
            carried(load, (&path, stroke), (bend + 4.0, child.y), sheet);
        } else if let (Some(id), Some(link), true) = (id, link, sheet.has_speeds()) {
            rate(fabric, layout, id, &link, (bend + 4.0, child.y, stroke / 2.0), sheet);
        }
        lines(fabric, layout, child, sheet);
    }
}

/// Draws the load of a link over the link, and words above it.
fn carried(
    load: CarriedLoad,
    (path, stroke): (&str, f64),
    (x, y): (f64, f64),
    sheet: &mut DrawingSheet,
) {
    let wide = match sheet.loads.scale {
        LoadScale::Ceilings => (load.gigabytes() * sheet.per_gb).clamp(1.5, stroke.max(1.5)),
        _ => load.width(),
    };
    sheet.add(format_args!(
        r#"<g><title>{}</title><path class="{}" stroke-width="{wide:.1}" d="{path}"/></g>"#,
        escape(&sheet.loads.title(load)),
        load.class()
    ));
    let words = sheet.loads.words(load);
    sheet.words(x, y - stroke.max(wide) / 2.0 - 3.0, "t s", &words);
}

/// Tests whether a link is slower than it could be, and not to save power.
fn is_slow(fabric: &Fabric, id: FunctionId) -> bool {
    fabric.is_downgraded(id) && !fabric.may_save_power(id)
}

/// Words above a link; where lines are close together, only where it could be faster.
fn rate(
    fabric: &Fabric,
    layout: &DrawingLayout,
    id: FunctionId,
    link: &Link,
    (x, y, half): (f64, f64, f64),
    sheet: &mut DrawingSheet,
) {
    let short = |speed: LinkSpeed| {
        let whole = f64::from(speed.megatransfers) / 1000.0;
        format!("{whole}G x{}", speed.width)
    };
    let Some(now) = link.speed().map(short) else { return };
    if is_slow(fabric, id) {
        let most = fabric.trainable(id).map(short).unwrap_or_default();
        sheet.words(x, y - half - 3.0, "w s", &now);
        sheet.words(x, y + half.max(2.0) + 9.0, "w s", &format!("not {most}"));
    } else if layout.is_roomy() {
        sheet.words(x, y - half - 3.0, "q s", &now);
    }
}

/// The attribute that names functions to a page.
fn functions(ids: &[FunctionId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
    format!(r#"data-f="{}""#, ids.join(" "))
}

fn boxes(fabric: &Fabric, layout: &DrawingLayout, node: &DrawnNode, sheet: &mut DrawingSheet) {
    let (x, y) = (node.x, node.y);
    match &node.what {
        NodeContent::Bridge(BridgeId(index)) => {
            let bridge = &fabric.bridges[*index];
            sheet.add(format_args!(
                r#"<rect class="b" data-b="{index}" x="{x:.1}" y="{:.1}" width="{BRIDGE_WIDTH}" height="34" rx="4"/>"#,
                y - 17.0
            ));
            sheet.words(x + 8.0, y - 3.0, "t n", &cut(&bridge.name, BRIDGE_WIDTH - 12.0));
            let node = bridge.numa_node.map(|node| format!(", node {node}")).unwrap_or_default();
            sheet.words(x + 8.0, y + 10.0, "q s", &format!("host bridge{node}"));
        }
        NodeContent::Port(id) if is_switch(fabric, *id) => {
            let (title, id) = (title(fabric, *id), functions(&[*id]));
            sheet.add(format_args!(
                r#"<g {id}><title>{title}</title><rect class="b" x="{x:.1}" y="{:.1}" width="{SWITCH_WIDTH}" height="24" rx="4"/></g>"#,
                y - 12.0
            ));
            sheet.words(x + 9.0, y + 4.0, "t", "switch");
        }
        NodeContent::Port(id) => {
            let title = title(fabric, *id);
            let class = if redirects(fabric.function(*id)) {
                sheet.has_redirect = true;
                "a"
            } else {
                "p"
            };
            let id = functions(&[*id]);
            sheet.add(format_args!(
                r#"<g {id}><title>{title}</title><rect class="{class}" x="{x:.1}" y="{:.1}" width="8" height="8"/></g>"#,
                y - 4.0
            ));
        }
        NodeContent::Leaves(members, row) => {
            leaves(fabric, layout, layout.rows.get(*row).unwrap_or(members), x, y, sheet);
        }
    }
    for child in &node.children {
        boxes(fabric, layout, child, sheet);
    }
}

/// Functions of one line: a mark of their kind, name, model, memory.
fn leaves(
    fabric: &Fabric,
    layout: &DrawingLayout,
    members: &[FunctionId],
    x: f64,
    y: f64,
    sheet: &mut DrawingSheet,
) {
    let Some(&id) = members.first() else { return };
    let function = fabric.function(id);
    let class = match function.kind {
        FunctionKind::Nvme => "nvme",
        FunctionKind::Gpu => "gpu",
        FunctionKind::Fpga => "fpga",
        FunctionKind::Nic => "nic",
        _ => "other",
    };
    let half = if layout.is_roomy() { 14.0 } else { 8.0 };
    sheet.add(format_args!(
        r#"<g class="leaf" {}><title>{}</title><rect class="{class}" x="{x:.1}" y="{:.1}" width="6" height="{:.1}" rx="2"/>"#,
        functions(members),
        title(fabric, id),
        y - half,
        half * 2.0
    ));
    let name = match members {
        [_] => layout.labels.of(id),
        [.., last] => {
            format!("{} .. {} ({})", layout.labels.of(id), layout.labels.of(*last), members.len())
        }
        [] => String::new(),
    };
    let what = format!("{} {name}", port_kind(function.kind));
    let model = function
        .nvme
        .as_ref()
        .and_then(|nvme| nvme.model.clone())
        .or_else(|| pci_names::look_up(function));
    let model = model.unwrap_or_default();
    let memory = fabric.memory(id);
    let badge =
        memory.map(|memory| memory.size.map_or("memory".to_owned(), |size| size.to_string()));
    let badge_width = badge.as_ref().map_or(0.0, |text| wide(text) * 1.1 + 12.0);
    let room = LABEL_WIDTH - badge_width - 24.0;
    if layout.is_roomy() {
        sheet.words(x + 12.0, y - 2.0, "t n", &cut(&what, room));
        sheet.words(x + 12.0, y + 11.0, "q s", &cut(&model, room));
    } else {
        sheet.words(x + 12.0, y + 4.0, "t n", &cut(&what, room));
        let used = wide(&what) * 1.08 + 20.0;
        if used < room {
            sheet.words(x + 12.0 + used, y + 4.0, "q s", &cut(&model, room - used));
        }
    }
    if let Some(text) = badge {
        let left = x + LABEL_WIDTH - badge_width - 6.0;
        sheet.has_memory = true;
        sheet.add(format_args!(
            r#"<rect class="m" x="{left:.1}" y="{:.1}" width="{badge_width:.1}" height="16" rx="8"/>"#,
            y - 8.0
        ));
        sheet.words(left + 6.0, y + 4.0, "t", &text);
    }
    sheet.add(format_args!("</g>"));
}

/// Draws roles of functions next to their names.
pub(super) fn roles(
    layout: &DrawingLayout,
    roles: &[(FunctionId, String)],
    sheet: &mut DrawingSheet,
) {
    let said: HashMap<FunctionId, &str> =
        roles.iter().map(|(id, words)| (*id, words.as_str())).collect();
    for (row, members) in layout.rows.iter().enumerate() {
        let words: Option<&&str> = members.iter().find_map(|id| said.get(id));
        if let Some(words) = words {
            let (x, y) = (layout.leaf_x + LABEL_WIDTH + 8.0, layout.line(row) + 4.0);
            sheet.words(x, y, "t n", &cut(words, ROLE_WIDTH));
        }
    }
}

/// Returns the text shown when a pointer rests on a function.
fn title(fabric: &Fabric, id: FunctionId) -> String {
    let function = fabric.function(id);
    let address = function.address.map(|address| format!(" {address}")).unwrap_or_default();
    let name =
        if address.trim() == function.name { String::new() } else { format!(" {}", function.name) };
    let model = pci_names::look_up(function).map(|name| format!(", {name}")).unwrap_or_default();
    let link =
        function.link_below.map(|most| format!(", up to {}", speed(most))).unwrap_or_default();
    escape(&format!("{}{name}{address}{link}{model}", port_kind(function.kind)))
}
