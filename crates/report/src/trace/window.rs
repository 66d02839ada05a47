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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_longer_than_its_transfers_is_not_out_of_them() {
        let window = |out_of| TraceWindow {
            case: "one".to_owned(),
            from: Nanos(0),
            out_of: Nanos(out_of),
            warm_up: Nanos(0),
            train: 1,
            depth: 1,
            is_settled: true,
        };
        let span = Span { begin: Nanos(5_000), end: Nanos(25_000) };
        assert_eq!(name(&window(40_000), span), "one: a window of 20.0 us out of 40.0 us");
        let longer = "one: a window of 20.0 us, of transfers that end after 10.0 us";
        assert_eq!(name(&window(10_000), span), longer);
    }
}
