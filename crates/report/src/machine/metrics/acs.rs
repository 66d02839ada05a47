//! ACS redirection of ports, and of devices that have ACS themselves.

use peerlane_fabric::{Fabric, FunctionId};

use super::device::DeviceLabels;
use super::gauge::Gauge;
use crate::machine::text::Labels;

/// Redirection by each of the functions.
pub(super) fn families(fabric: &Fabric, words: &Labels, functions: &[FunctionId]) -> Vec<Gauge> {
    let mut redirects = Gauge::new(
        "peerlane_acs_redirects",
        "1 if the port or device redirects peer requests to the root complex (ACS).",
    );
    for &id in functions {
        let device = DeviceLabels::new(fabric, words, id);
        redirects.add(&device.labels(), fabric.function(id).acs.redirects().map(u64::from));
    }
    vec![redirects]
}
