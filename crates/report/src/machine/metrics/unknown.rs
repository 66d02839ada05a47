//! The facts that could not be read: without their count, missing samples would look healthy.

use peerlane_fabric::{Acs, Fabric, FunctionId, FunctionKind, Origin, Parent, RootBus};

use super::gauge::Gauge;

/// The number of unknown facts by name, those of nothing unknown included.
pub(super) fn families(fabric: &Fabric, functions: &[FunctionId]) -> Vec<Gauge> {
    let mut unknown = Gauge::new(
        "peerlane_unknown_facts",
        "Facts that could not be read, and without which samples are missing.",
    );
    let count = |is_unknown: &dyn Fn(FunctionId) -> bool| {
        functions.iter().filter(|&&id| is_unknown(id)).map(|_| 1).sum()
    };
    let has_unclear_class = |id| {
        let function = fabric.function(id);
        function.kind == FunctionKind::Other
            && function.class.is_none()
            && fabric.origin == Origin::Text
    };
    let partial_buses =
        fabric.bridges.iter().filter(|bridge| bridge.root_bus != RootBus::Whole).map(|_| 1).sum();
    for (fact, number) in [
        ("acs", count(&|id| fabric.function(id).acs == Acs::Unknown)),
        ("class", fabric.iter().filter(|(id, _)| has_unclear_class(*id)).map(|_| 1).sum()),
        ("cpu", u64::from(!is_cpu_known(fabric))),
        ("link", count(&|id| has_unknown_link(fabric, id))),
        ("p2pdma", u64::from(fabric.kernel.has_p2pdma.is_none())),
        ("root-bus", partial_buses),
    ] {
        unknown.add(&[("fact", fact)], Some(number));
    }
    vec![unknown]
}

/// Returns whether vendor and family of the CPU are known, as far as the kernel looks at them
/// (`cpu_supports_p2pdma` in drivers/pci/p2pdma.c).
fn is_cpu_known(fabric: &Fabric) -> bool {
    match fabric.cpu.vendor.as_deref() {
        Some("AuthenticAMD") => fabric.cpu.family.is_some(),
        vendor => vendor.is_some(),
    }
}

/// Returns whether a function has a link above it whose state is unknown; a virtual function has none of its own.
fn has_unknown_link(fabric: &Fabric, id: FunctionId) -> bool {
    let function = fabric.function(id);
    let is_below_port = match function.parent {
        Parent::Function(port) => is_port(fabric.function(port).kind),
        Parent::Bridge(_) => false,
    };
    let has_link = is_below_port && !is_port(function.kind) && function.physical_function.is_none();
    has_link && function.link.is_none_or(|link| link.current.is_none())
}

/// Returns whether a port has a link below it.
fn is_port(kind: FunctionKind) -> bool {
    matches!(kind, FunctionKind::RootPort | FunctionKind::DownstreamPort)
}
