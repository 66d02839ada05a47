//! Progress of a benchmark: a bar with the time left on a terminal, a line every few seconds in a
//! log.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::Printer;
use super::progress::bar;

/// Time between two lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Progress of a benchmark, in runs.
pub(crate) struct BenchProgress {
    form: Form,
    start: Instant,
    shown: Instant,
}

enum Form {
    Nothing,
    Bar(ProgressBar),
    Lines(Printer),
}

impl BenchProgress {
    /// Shows nothing before the first run.
    pub(crate) fn new(printer: Printer) -> Self {
        let form = match () {
            () if printer.is_quiet() => Form::Nothing,
            () if io::stderr().is_terminal() => Form::Bar(bar("{pos} of {len} runs, {msg}")),
            () => Form::Lines(printer),
        };
        Self { form, start: Instant::now(), shown: Instant::now() }
    }

    /// Shows that `done` of at most `most` runs are done, and which case is next.
    pub(crate) fn next(&mut self, done: u32, most: u32, case: &str) {
        let left = left(self.start.elapsed(), done, most);
        match &self.form {
            Form::Nothing => {}
            Form::Bar(bar) => {
                bar.set_length(most.into());
                bar.set_position(done.into());
                bar.set_message(match left {
                    Some(left) => format!("{case}, {left}"),
                    None => case.to_owned(),
                });
            }
            Form::Lines(printer) if self.shown.elapsed() >= LOG_INTERVAL => {
                self.shown = Instant::now();
                let left = left.map(|left| format!(", {left}")).unwrap_or_default();
                printer.note(&format!("{done} of {most} runs{left}; next {case}"));
            }
            Form::Lines(_) => {}
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

/// The time left where every run takes as long as those before; `None` before the first.
fn left(elapsed: Duration, done: u32, most: u32) -> Option<String> {
    let seconds = elapsed.checked_div(done)?.saturating_mul(most.saturating_sub(done)).as_secs();
    Some(match seconds {
        0..60 => format!("{seconds} s left at most"),
        60..3600 => format!("{} min left at most", seconds.div_ceil(60)),
        _ => format!("{} h {} min left at most", seconds / 3600, seconds % 3600 / 60),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_earlier_runs() {
        assert_eq!(left(Duration::from_secs(4), 0, 9), None);
        let said = |seconds, done, most| left(Duration::from_secs(seconds), done, most).unwrap();
        assert_eq!(said(10, 2, 9), "35 s left at most");
        assert_eq!(said(10, 1, 62), "11 min left at most");
        assert_eq!(said(3600, 1, 3), "2 h 0 min left at most");
    }
}
