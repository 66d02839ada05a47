//! Roles as computed, from the parameters that a figure depends on and the figures behind those, and
//! the count of figures by role.

use std::collections::BTreeSet;

use super::{FigureRole, FigureRow, SourceReport, Study};
use crate::parameters::Provenance;

/// A prediction within this share of the stated figure counts as near.
const NEAR: f64 = 0.07;

impl Study {
    /// The role that a figure is shown with: the declared one, unless a parameter that it or a
    /// figure behind it depends on was fitted on it, chosen with it in view, or is it.
    pub(super) fn shown_role(&self, index: usize) -> FigureRole {
        let (mut seen, mut open) = (BTreeSet::from([index]), vec![index]);
        let mut decided = Vec::new();
        while let Some(figure) = open.pop() {
            for parameter in self.uses[figure].iter().filter_map(|&at| self.parameters.at(at)) {
                for row in parameter.rows.iter().filter_map(|row| self.position(row)) {
                    if row == index {
                        decided.push(parameter.from);
                    }
                    if seen.insert(row) {
                        open.push(row);
                    }
                }
            }
        }
        let has = |kind| decided.contains(&kind);
        match self.figures[index].1.role {
            _ if has(Provenance::Fitted) || has(Provenance::Chosen) => FigureRole::Fitted,
            _ if has(Provenance::Input) => FigureRole::Input,
            // Decides nothing, whatever is declared: a comparison like any other.
            FigureRole::Fitted | FigureRole::Input => FigureRole::Predicted,
            other => other,
        }
    }
}

/// A number of things, and the kind that they are: "1 is fitted", "2 are inputs".
fn are(number: usize, one: &str, several: &str) -> String {
    if number == 1 { format!("1 is {one}") } else { format!("{number} are {several}") }
}

/// Counts the figures of documents, then those held out.
pub(super) fn summary(sources: &[SourceReport], rows: &[FigureRow]) -> String {
    let mut text = Vec::new();
    let is_held_out = |row: &&FigureRow| {
        sources.iter().any(|source| source.held_out && source.source == row.source)
    };
    let (held_out, stated): (Vec<&FigureRow>, Vec<&FigureRow>) = rows.iter().partition(is_held_out);
    if !stated.is_empty() {
        let count = |role| stated.iter().filter(|row| row.role == role).count();
        let is_met = |row: &&&FigureRow| row.within.is_some();
        let met = |role| stated.iter().filter(is_met).filter(|row| row.role == role).count();
        text.push(match predictions(&stated) {
            [0, ..] => format!("Of {} stated figures none is predicted.", stated.len()),
            [predicted, near, inside, closer] => format!(
                "Of {} stated figures {predicted} are predicted: {near} within 7 % or within what \
                 is printed, {inside} inside their 80 % interval, {closer} closer than both the \
                 datasheets and the nearest measurement.",
                stated.len()
            ),
        });
        text.push(format!(
            "{} and {}, which proves nothing; {} of {} bounds and {} of {} \
             structural statements hold; {}, with reasons.",
            are(count(FigureRole::Fitted), "fitted", "fitted"),
            are(count(FigureRole::Input), "an input", "inputs"),
            met(FigureRole::Bound),
            count(FigureRole::Bound),
            met(FigureRole::Structural),
            count(FigureRole::Structural),
            are(count(FigureRole::Excluded), "excluded", "excluded"),
        ));
    }
    if !held_out.is_empty() {
        let [predicted, near, _, closer] = predictions(&held_out);
        text.push(format!(
            "Of figures held out from elsewhere {predicted} are predicted: {near} within 7 % or \
             within what is printed, {closer} closer than both others."
        ));
    }
    text.join(" ")
}

/// Predictions among rows: all of them, near ones, those inside their interval, and those closer
/// than both baselines.
fn predictions(rows: &[&FigureRow]) -> [usize; 4] {
    let predicted = || rows.iter().filter(|row| row.role == FigureRole::Predicted);
    let is_near = |row: &&&FigureRow| {
        row.within.is_some() || row.error.is_some_and(|error| error.abs() <= NEAR)
    };
    [
        predicted().count(),
        predicted().filter(is_near).count(),
        predicted().filter(|row| row.inside == Some(true)).count(),
        predicted().filter(|row| row.beats_both == Some(true)).count(),
    ]
}
