//! A family of gauges as text that OpenMetrics 1.0 and the Prometheus text format 0.0.4 both take.
//!
//! Leaves out features of only one of them: units, other types, exemplars.

use std::fmt::{self, Write as _};

use crate::plain::plain;

/// A family of gauges: its name, its help, and its samples.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    name: &'static str,
    help: &'static str,
    samples: String,
}

impl Gauge {
    /// A family without samples; `help` has no backslash, quote or line feed, which the two formats escape differently.
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        debug_assert!(!help.contains(['\\', '"', '\n']), "{help}");
        Self { name, help, samples: String::new() }
    }

    /// Adds a sample; an unknown value adds none.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: Option<u64>) {
        let Some(value) = value else { return };
        self.samples += self.name;
        for (index, (label, text)) in labels.iter().enumerate() {
            let opening = if index == 0 { '{' } else { ',' };
            // Writing to a String cannot fail.
            let _ = write!(self.samples, "{opening}{label}=\"{}\"", escape(text));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.samples, "{closing} {value}");
    }
}

impl fmt::Display for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, help, samples } = self;
        write!(f, "# HELP {name} {help}\n# TYPE {name} gauge\n{samples}")
    }
}

/// A label value (OpenMetrics 1.0, section 4.4; the same in the Prometheus text format).
fn escape(text: &str) -> String {
    // Line feeds are gone after `plain`.
    plain(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut gauge = Gauge::new("a", "A gauge.");
        gauge.add(&[("x", "q\"b\\"), ("y", "two\nlines")], Some(1));
        gauge.add(&[], Some(2));
        let expected = "# HELP a A gauge.\n# TYPE a gauge\n\
                        a{x=\"q\\\"b\\\\\",y=\"two\\\\u{a}lines\"} 1\na 2\n";
        assert_eq!(gauge.to_string(), expected);
    }

    #[test]
    fn unknown_values_have_no_sample() {
        let mut gauge = Gauge::new("a", "A gauge.");
        gauge.add(&[("x", "y")], None);
        assert_eq!(gauge.to_string(), "# HELP a A gauge.\n# TYPE a gauge\n");
    }
}
