//! Progress of a copy or a comparison: a bar on a terminal, a line every few seconds in a log, a
//! line of JSON every half second where that is asked for, nothing with `-q`.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use peerlane_engine::Phase;
use peerlane_results::Route;
use peerlane_units::Bytes;

use super::Printer;
use super::meter::Meter;
use super::progress_writer::ProgressWriter;
use crate::args::ProgressFor;

/// Time between two lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);
/// Least time between two lines of JSON.
const JSON_INTERVAL: Duration = Duration::from_millis(500);
/// Least time between two changes of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Progress of a copy or a comparison, on standard error.
pub(crate) struct ProgressPrinter {
    form: ProgressForm,
    meter: Meter,
    /// Meter of the last phase that moved or compared something, since the present one may not.
    before: Option<Meter>,
    /// `None` where nothing is moved.
    route: Option<Route>,
    start: Instant,
    /// Time of the last output.
    shown: Option<Instant>,
}

enum ProgressForm {
    Nothing,
    Bar(ProgressBar),
    Lines(Printer),
    Json(ProgressWriter),
}

impl ProgressPrinter {
    /// Progress of a copy by `route`, or of a comparison; shows nothing before the first byte.
    pub(crate) fn new(printer: Printer, route: Option<Route>, readers: ProgressFor) -> Self {
        let form = match readers {
            ProgressFor::Programs => ProgressWriter::start(move |line| printer.line(line))
                .map_or(ProgressForm::Nothing, ProgressForm::Json),
            ProgressFor::People if printer.is_quiet() => ProgressForm::Nothing,
            ProgressFor::People if io::stderr().is_terminal() => ProgressForm::Bar(bar("{msg}")),
            ProgressFor::People => ProgressForm::Lines(printer),
        };
        let start = Instant::now();
        let shown = matches!(form, ProgressForm::Lines(_)).then_some(start);
        Self { form, meter: Meter::new(Phase::Check), before: None, route, start, shown }
    }

    /// Begins another phase: rates are counted anew.
    pub(crate) fn begin(&mut self, phase: Phase) {
        let before = std::mem::replace(&mut self.meter, Meter::new(phase));
        if before.total() > Bytes::ZERO {
            self.before = Some(before);
        }
    }

    /// Shows that `done` of `total` are moved or compared.
    pub(crate) fn set(&mut self, done: Bytes, total: Bytes) {
        let interval = match self.form {
            ProgressForm::Nothing => return,
            ProgressForm::Bar(_) => BAR_INTERVAL,
            ProgressForm::Lines(_) => LOG_INTERVAL,
            ProgressForm::Json(_) => JSON_INTERVAL,
        };
        self.meter.set(done, total, self.start.elapsed().into());
        if total == Bytes::ZERO && !matches!(self.form, ProgressForm::Json(_)) {
            return;
        }
        if self.shown.is_none_or(|shown| shown.elapsed() >= interval) {
            self.shown = Some(Instant::now());
            self.show();
        }
    }

    fn show(&self) {
        let meter = &self.meter;
        match &self.form {
            ProgressForm::Nothing => {}
            ProgressForm::Bar(bar) => {
                // Each of these may draw; the words come first.
                bar.set_message(self.words());
                bar.set_length(meter.total().0);
                bar.set_position(meter.done().0);
            }
            ProgressForm::Lines(printer) => printer.note(&self.words()),
            ProgressForm::Json(latest) => latest.set(self.json(meter)),
        }
    }

    fn words(&self) -> String {
        let (done, total) = (self.meter.done(), self.meter.total());
        format!("{done} of {total} {}, {}", self.what(), self.meter.speed())
    }

    /// Verb and route for the bytes so far.
    fn what(&self) -> String {
        match (self.meter.phase(), self.route) {
            (Phase::Verify, _) | (_, None) => "compared".to_owned(),
            (_, Some(route)) => format!("by route {route}"),
        }
    }

    /// Meter of the last line: a phase that ends before it moves anything shows the one before.
    fn last(&self) -> &Meter {
        let is_told = self.meter.total() > Bytes::ZERO;
        self.before.as_ref().filter(|_| !is_told).unwrap_or(&self.meter)
    }

    fn json(&self, meter: &Meter) -> String {
        // Numbers and fixed words always have a form.
        serde_json::to_string(&meter.line(self.route)).unwrap_or_default()
    }

    /// Shows another route from now on.
    pub(crate) fn set_route(&mut self, new: Route) {
        self.route = Some(new);
    }

    /// Writes something else to the terminal without tearing the bar.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        match &self.form {
            // A bar without a length yet would be drawn empty.
            ProgressForm::Bar(bar) if bar.length().is_some() => bar.suspend(write),
            _ => write(),
        }
    }

    /// Takes the bar away, or writes the last line of JSON.
    pub(crate) fn finish(&self) {
        match &self.form {
            ProgressForm::Bar(bar) => bar.finish_and_clear(),
            ProgressForm::Json(latest) => latest.close(self.json(self.last())),
            ProgressForm::Nothing | ProgressForm::Lines(_) => {}
        }
    }
}

/// A bar on standard error, with words behind it by a template.
pub(super) fn bar(words: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("[{{bar:30}}] {words}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_idle_phase_shows_previous() {
        let start = Instant::now();
        let (form, meter) = (
            ProgressForm::Lines(Printer::plain(crate::args::ColorChoice::Never)),
            Meter::new(Phase::Check),
        );
        let mut progress =
            ProgressPrinter { form, meter, before: None, route: None, start, shown: Some(start) };
        let told =
            |progress: &ProgressPrinter| (progress.last().done().0, progress.last().total().0);
        assert_eq!(told(&progress), (0, 0));
        progress.begin(Phase::Move);
        progress.set(Bytes(5), Bytes(9));
        progress.begin(Phase::Check);
        progress.begin(Phase::Check);
        assert_eq!(told(&progress), (5, 9));
        progress.begin(Phase::Verify);
        progress.set(Bytes(2), Bytes(3));
        assert_eq!(told(&progress), (2, 3));
    }
}
