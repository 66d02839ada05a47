//! A machine as a tree.

use std::fmt::Write as _;

use peerlane_fabric::{
    BridgeId, Fabric, Function, FunctionId, IommuMode, Kind, Link, LinkSpeed, Origin, Parent,
};

/// The machine as a tree: host bridges, ports, functions, links trained and maximal, memories.
pub(crate) fn topo(fabric: &Fabric) -> String {
    let tree = Tree::new(fabric);
    let mut text = format!("{}\n", heading(fabric));
    let roots = fabric.bridges.len();
    for (index, bridge) in fabric.bridges.iter().enumerate() {
        let node = bridge.numa_node.map(|node| format!(", node {node}")).unwrap_or_default();
        let last = index + 1 == roots;
        let _ = writeln!(text, "{} {} (host bridge{node})", branch(last), bridge.name);
        tree.children(&tree.below_bridges[index], stem(last), &mut text);
    }
    let hidden = tree.matters.iter().filter(|&&matters| !matters).count();
    if hidden > 0 {
        let _ = writeln!(text, "not shown: functions that move no payload: {hidden}");
    }
    text
}

/// What hangs from what, and which of it is shown; found in one pass over the functions.
struct Tree<'a> {
    fabric: &'a Fabric,
    below_bridges: Vec<Vec<FunctionId>>,
    below: Vec<Vec<FunctionId>>,
    /// Whether a function moves payload, offers memory, or is a port or above one that does.
    matters: Vec<bool>,
}

impl<'a> Tree<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let mut tree = Self {
            fabric,
            below_bridges: vec![Vec::new(); fabric.bridges.len()],
            below: vec![Vec::new(); fabric.functions.len()],
            matters: fabric.functions.iter().map(matters_itself).collect(),
        };
        for (id, function) in fabric.iter() {
            match function.parent {
                Parent::Bridge(BridgeId(bridge)) => tree.below_bridges[bridge].push(id),
                Parent::Function(FunctionId(parent)) => tree.below[parent].push(id),
            }
        }
        // Parents precede children, so from the end on each is known before what it hangs from.
        for (index, function) in fabric.functions.iter().enumerate().rev() {
            if let Parent::Function(FunctionId(parent)) = function.parent {
                tree.matters[parent] |= tree.matters[index];
            }
        }
        tree
    }

    fn children(&self, all: &[FunctionId], indent: &str, text: &mut String) {
        let below: Vec<_> = all.iter().filter(|id| self.matters[id.0]).collect();
        let count = below.len();
        for (index, id) in below.into_iter().enumerate() {
            let last = index + 1 == count;
            let function = self.fabric.function(*id);
            let _ = writeln!(text, "{indent}{} {}", branch(last), line(function));
            for detail in details(function) {
                let _ = writeln!(text, "{indent}{}   {detail}", stem(last));
            }
            let deeper = format!("{indent}{}", stem(last));
            self.children(&self.below[id.0], &deeper, text);
        }
    }
}

fn heading(fabric: &Fabric) -> String {
    let origin = match &fabric.origin {
        Origin::ThisMachine => "this machine".to_owned(),
        Origin::Tree(path) => format!("tree below {}", path.display()),
        Origin::Description => "description".to_owned(),
    };
    let iommu = match fabric.iommu {
        IommuMode::Off => "IOMMU off",
        IommuMode::Passthrough => "IOMMU passes addresses through",
        IommuMode::Translating => "IOMMU translates",
        IommuMode::Unknown => "IOMMU not to be seen from here",
    };
    let kernel = match (&fabric.kernel.release, fabric.kernel.has_p2pdma) {
        (Some(release), Some(true)) => format!("Linux {release} with P2PDMA"),
        (Some(release), Some(false)) => format!("Linux {release} without P2PDMA"),
        (Some(release), None) => format!("Linux {release}"),
        (None, _) => "kernel not stated".to_owned(),
    };
    let cpu =
        fabric.cpu.model.as_deref().or(fabric.cpu.vendor.as_deref()).unwrap_or("CPU not stated");
    format!("{} ({origin}): {cpu}, {kernel}, {iommu}", fabric.name)
}

fn line(function: &Function) -> String {
    let mut text = function.name.clone();
    if let Some(address) = function.address.map(|address| address.to_string()) {
        if address != function.name {
            let _ = write!(text, " {address}");
        }
    }
    let _ = write!(text, " ({})", kind(function.kind));
    if let Some(link) = &function.link {
        let _ = write!(text, " {}", trained(link));
    }
    if let Some(driver) = &function.driver {
        let _ = write!(text, ", driver {driver}");
    }
    text
}

fn details(function: &Function) -> Vec<String> {
    let mut details = Vec::new();
    if let Some(nvme) = &function.nvme {
        let drive: Vec<&str> =
            [&nvme.model, &nvme.serial].into_iter().flatten().map(String::as_str).collect();
        if !drive.is_empty() {
            details.push(format!("drive: {}", drive.join(", ")));
        }
        for namespace in &nvme.namespaces {
            let name = namespace.name.as_deref().unwrap_or("namespace");
            let block = namespace.limits.logical_block;
            details.push(format!("{name}: {}, blocks of {block}", namespace.size));
        }
    }
    if let Some(memory) = &function.p2pmem {
        let published = if memory.published { "offered to peers" } else { "not offered to peers" };
        details.push(format!(
            "p2pmem: {} of which {} free, {published}",
            memory.size, memory.available
        ));
    }
    details
}

fn trained(link: &Link) -> String {
    match (link.current, link.maximum) {
        (Some(current), Some(maximum)) if current == maximum => speed(current),
        (Some(current), Some(maximum)) => {
            format!("{} of at most {}", speed(current), speed(maximum))
        }
        (Some(current), None) => speed(current),
        (None, Some(maximum)) => format!("at most {}", speed(maximum)),
        (None, None) => String::new(),
    }
}

fn speed(speed: LinkSpeed) -> String {
    let (whole, rest) = (speed.megatransfers / 1000, speed.megatransfers % 1000 / 100);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest}") };
    format!("{whole}{fraction} GT/s x{}", speed.width)
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::RootPort => "root port",
        Kind::UpstreamPort => "upstream port",
        Kind::DownstreamPort => "downstream port",
        Kind::OtherBridge => "bridge",
        Kind::Nvme => "NVMe",
        Kind::Gpu => "GPU",
        Kind::Fpga => "FPGA",
        Kind::Nic => "NIC",
        Kind::Other => "other",
    }
}

fn matters_itself(function: &Function) -> bool {
    function.p2pmem.is_some() || !matches!(function.kind, Kind::OtherBridge | Kind::Other)
}

fn branch(last: bool) -> &'static str {
    if last { "`--" } else { "|--" }
}

fn stem(last: bool) -> &'static str {
    if last { "    " } else { "|   " }
}
