//! A machine as a tree in words, as a drawing with the load of its links, and as gauges for Prometheus.

mod drawing;
mod metrics;
mod text;

pub(crate) use drawing::Drawing;
pub(crate) use drawing::style;
pub use drawing::{rules_for_page, svg, svg_for_page};
pub use metrics::{GAUGES_MARK, openmetrics};
pub use text::{device, pairs, topo};
