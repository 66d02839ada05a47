//! The window of a prediction in words.

use std::borrow::Cow;

use peerlane_results::{Span, TraceWindow};
use peerlane_units::Nanos;

use super::wire::Value;

/// What is said of each track.
pub(super) const PREDICTED: &str = "Predicted by the model, not measured.";

/// What a window is called: how long it is, and of what.
pub(super) fn name(window: &TraceWindow, span: Span) -> String {
    let length = Nanos(span.end.0 - span.begin.0);
    if length > window.out_of {
        // Blocks of a short transfer go on, so that there are enough of them.
        return format!(
            "{}: a window of {length}, of transfers that end after {}",
            window.case, window.out_of
        );
    }
    format!("{}: a window of {length} out of {}", window.case, window.out_of)
}

/// What a reader has to know of a window.
pub(super) fn notes<'a>(window: &'a TraceWindow, slots: u32) -> Vec<(&'static str, Value<'a>)> {
    let text = |nanos: Nanos| Value::Text(Cow::Owned(nanos.to_string()));
    let mut notes = vec![
        ("case", Value::Text(Cow::Borrowed(window.case.as_str()))),
        ("together since, from the start of the case", text(window.from)),
        ("together for", text(window.out_of)),
        ("simulated before the window", text(window.warm_up)),
        ("blocks in flight", Value::Number(slots.into())),
        ("packets that move as one", Value::Number(window.train.into())),
    ];
    if window.depth != slots {
        notes.push(("blocks in flight asked for", Value::Number(window.depth.into())));
    }
    if !window.is_settled {
        notes.push(("rates", Value::Text(Cow::Borrowed("still changed when the window began"))));
    }
    notes
}
