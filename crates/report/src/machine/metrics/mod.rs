//! A machine as gauges for Prometheus: links, redirection, lent memory, the kernel's verdicts, and unknown facts.
//!
//! An unknown value has no sample and is never 0; [`unknown`] counts the missing ones. Samples
//! carry no time: a collector has the age of their file. Every family is described in
//! `docs/monitoring.md`, which a test compares.

mod acs;
mod device;
mod gauge;
mod links;
mod p2pmem;
mod pairs;
mod remote;
mod unknown;
mod uses;

use std::fmt::Write as _;

use peerlane_fabric::{Fabric, FunctionId};

use super::text::Labels;

/// Beginning of every text of gauges: the first family always has its lines.
pub const GAUGES_MARK: &str = "# HELP peerlane_";

/// The machine as text that OpenMetrics 1.0 and the Prometheus text format 0.0.4 both take.
pub fn openmetrics(fabric: &Fabric) -> String {
    let (functions, labels) = (on_payload_paths(fabric), Labels::new(fabric));
    let families = [
        links::families(fabric, &labels, &functions),
        acs::families(fabric, &labels, &functions),
        p2pmem::families(fabric, &labels),
        pairs::families(fabric),
        remote::families(fabric),
        uses::families(fabric),
        unknown::families(fabric, &functions),
    ];
    let mut text = String::new();
    for family in families.iter().flatten() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{family}");
    }
    text + "# EOF\n"
}

/// The functions that move payload or lend memory, and the ports above them, in the order of the fabric.
fn on_payload_paths(fabric: &Fabric) -> Vec<FunctionId> {
    let mut is_on_path = vec![false; fabric.functions.len()];
    for (id, function) in fabric.iter() {
        if function.p2pmem.is_some() || fabric.moves_payload(id) {
            fabric.upward(id).for_each(|above| is_on_path[above.0] = true);
        }
    }
    fabric.iter().map(|(id, _)| id).filter(|id| is_on_path[id.0]).collect()
}
