//! Links: their trained speed and width, and the most that both their ends support.

use peerlane_fabric::{Fabric, FunctionId, LinkSpeed};

use super::device::DeviceLabels;
use super::gauge::Gauge;
use crate::machine::text::Labels;

/// Rates, lanes and downgrades of the links above the functions.
pub(super) fn families(fabric: &Fabric, words: &Labels, functions: &[FunctionId]) -> Vec<Gauge> {
    let mut rate = Gauge::new(
        "peerlane_link_bytes_per_second",
        "Rate of the link above the device as trained, in one direction, after line encoding.",
    );
    let mut max_rate = Gauge::new(
        "peerlane_link_max_bytes_per_second",
        "Highest rate that both ends of the link above the device support.",
    );
    let mut lanes =
        Gauge::new("peerlane_link_lanes", "Lanes of the link above the device as trained.");
    let mut max_lanes = Gauge::new(
        "peerlane_link_max_lanes",
        "Most lanes that both ends of the link above the device support.",
    );
    let mut downgraded = Gauge::new(
        "peerlane_link_downgraded",
        "1 if the link above the device trained to less than both its ends support.",
    );
    for &id in functions {
        let Some(link) = fabric.function(id).link else { continue };
        let device = DeviceLabels::new(fabric, words, id);
        let labels = device.labels();
        let maximum = fabric.trainable(id);
        rate.add(&labels, link.current.map(|speed| speed.raw_rate().0));
        max_rate.add(&labels, maximum.map(|speed| speed.raw_rate().0));
        lanes.add(&labels, link.current.map(width));
        max_lanes.add(&labels, maximum.map(width));
        downgraded.add(&labels, is_downgraded(fabric, id).map(u64::from));
    }
    vec![rate, max_rate, lanes, max_lanes, downgraded]
}

fn width(speed: LinkSpeed) -> u64 {
    speed.width.into()
}

/// Returns whether a link trained to less than its ends support; `None` where that is unknown, as of a slow link that
/// may only save power.
fn is_downgraded(fabric: &Fabric, id: FunctionId) -> Option<bool> {
    fabric.function(id).link?.current?;
    fabric.trainable(id)?;
    let is_downgraded = fabric.is_downgraded(id);
    (!is_downgraded || !fabric.may_save_power(id)).then_some(is_downgraded)
}
