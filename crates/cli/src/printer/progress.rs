//! How far a copy is: a bar on a terminal, a line every few seconds in a log, nothing with `-q`.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use peerlane_results::Route;
use peerlane_units::{ByteRate, Bytes};

use super::Printer;

/// Time between two lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// How far a copy is, on standard error.
pub(crate) struct Progress {
    form: Form,
}

enum Form {
    Nothing,
    Bar(ProgressBar),
    Lines { printer: Printer, route: Route, start: Instant, last: Instant },
}

impl Progress {
    /// Progress of a copy by `route`; shows nothing before the first byte.
    pub(crate) fn new(printer: Printer, route: Route) -> Self {
        let form = if printer.is_quiet() {
            Form::Nothing
        } else if io::stderr().is_terminal() {
            Form::Bar(bar(route))
        } else {
            let now = Instant::now();
            Form::Lines { printer, route, start: now, last: now }
        };
        Self { form }
    }

    /// Shows that `done` of `total` are at the target.
    pub(crate) fn set(&mut self, done: Bytes, total: Bytes) {
        match &mut self.form {
            Form::Nothing => {}
            Form::Bar(bar) => {
                bar.set_length(total.0);
                bar.set_position(done.0);
            }
            Form::Lines { printer, route, start, last } => {
                if last.elapsed() >= LOG_INTERVAL {
                    *last = Instant::now();
                    let rate = ByteRate::mean(done, start.elapsed().into()).unwrap_or_default();
                    printer.note(&format!("{done} of {total} by route {route}, {rate}"));
                }
            }
        }
    }

    /// Shows another route from now on.
    pub(crate) fn set_route(&mut self, new: Route) {
        match &mut self.form {
            Form::Nothing => {}
            Form::Bar(bar) => bar.set_prefix(new.to_string()),
            Form::Lines { route, .. } => *route = new,
        }
    }

    /// Writes something else to the terminal without tearing the bar.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        match &self.form {
            Form::Bar(bar) => bar.suspend(write),
            _ => write(),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

fn bar(route: Route) -> ProgressBar {
    let template = "{prefix:>5} [{bar:30}] {binary_bytes} of {binary_total_bytes}, \
                    {decimal_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        .with_style(style)
        .with_prefix(route.to_string())
}
