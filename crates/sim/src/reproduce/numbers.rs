//! The numbers of a run: parameters as they stand, or drawn, with the fits made on them.

use std::collections::BTreeSet;

use super::fit::{Search, least_squares, standard_errors};
use super::metric::{Answer, answer};
use super::scenario::Evaluator;
use super::{Study, StudyError};
use crate::parameters::{Draw, Provenance, Values, View, fnv1a};

/// Parameters that are fitted together: those with the same rows.
pub(super) struct Group {
    pub(super) parameters: Vec<usize>,
    pub(super) rows: Vec<usize>,
}

impl Study {
    /// What the model says of a figure with these numbers, and the parameters it asked for.
    pub(super) fn answer(
        &self,
        index: usize,
        numbers: &[f64],
        view: View,
    ) -> Result<(Option<Answer>, BTreeSet<usize>), StudyError> {
        let (source, figure) = &self.figures[index];
        let values = Values::new(&self.parameters, numbers, view);
        let evaluator =
            Evaluator { machines: &self.machines, source: &self.sources[*source], values: &values };
        let found = figure.metric.as_ref().map(|metric| answer(&evaluator, metric)).transpose()?;
        Ok((found, values.used()))
    }

    /// The same, where it is a finite number.
    pub(super) fn number(&self, index: usize, numbers: &[f64], view: View) -> Option<f64> {
        match self.answer(index, numbers, view).ok()?.0 {
            Some(Answer::Number(number)) if number.is_finite() => Some(number),
            _ => None,
        }
    }

    /// Fits by their rows, in the order of the files.
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (position, parameter) in self.parameters.iter().enumerate() {
            if parameter.from != Provenance::Fitted {
                continue;
            }
            let rows: Vec<usize> =
                parameter.rows.iter().filter_map(|row| self.position(row)).collect();
            match groups.iter_mut().find(|group| group.rows == rows) {
                Some(group) => group.parameters.push(position),
                None => groups.push(Group { parameters: vec![position], rows }),
            }
        }
        groups
    }

    /// The numbers with all fits made, from the files' values.
    pub(super) fn fitted(&self) -> Result<Vec<f64>, StudyError> {
        let stated: Vec<f64> = (0..self.figures.len()).map(|row| self.stated(row)).collect();
        self.fit(self.parameters.values(), &stated, Search::Wide)
    }

    /// The numbers of a draw, with all fits made on it and on stated values drawn within what is printed.
    pub(super) fn drawn(
        &self,
        fitted: &[f64],
        draw: Draw,
        index: u64,
    ) -> Result<Vec<f64>, StudyError> {
        let mut numbers = draw.numbers(&self.parameters, index);
        for (at, parameter) in self.parameters.iter().enumerate() {
            if parameter.from == Provenance::Fitted {
                numbers[at] = fitted[at];
            }
        }
        let other = Draw::new(draw_of_rows(index));
        let stated: Vec<f64> = (0..self.figures.len())
            .map(|row| {
                let (lo, _, hi) = self.stated_range_at(row).unwrap_or((0.0, 0.0, 0.0));
                lo + (hi - lo) * other.unit(index, fnv1a(&self.name(row)))
            })
            .collect();
        self.fit(numbers, &stated, Search::Near)
    }

    /// Stated value of a figure in base units; zero for a word.
    pub(super) fn stated(&self, row: usize) -> f64 {
        let (_, figure) = &self.figures[row];
        figure.stated.unwrap_or(0.0) * figure.unit.map_or(1.0, crate::parameters::Unit::scale)
    }

    /// Twice when far, since a fit may use what another one gave.
    fn fit(
        &self,
        mut numbers: Vec<f64>,
        stated: &[f64],
        search: Search,
    ) -> Result<Vec<f64>, StudyError> {
        let groups = self.groups();
        let passes = if search == Search::Wide { 2 } else { 1 };
        for _ in 0..passes {
            for group in &groups {
                let start: Vec<f64> = group.parameters.iter().map(|&at| numbers[at]).collect();
                let residuals = |values: &[f64]| self.residuals(group, &numbers, values, stated);
                let found = least_squares(&start, &residuals, search)
                    .ok_or_else(|| StudyError::Fit(self.name(group.rows[0])))?;
                for (&at, value) in group.parameters.iter().zip(found) {
                    numbers[at] = value;
                }
            }
        }
        Ok(numbers)
    }

    /// Logarithms of predicted over stated for the rows of a group.
    fn residuals(
        &self,
        group: &Group,
        numbers: &[f64],
        values: &[f64],
        stated: &[f64],
    ) -> Option<Vec<f64>> {
        let mut numbers = numbers.to_vec();
        for (&at, &value) in group.parameters.iter().zip(values) {
            numbers[at] = value;
        }
        let log = |&row: &usize| {
            let predicted = self.number(row, &numbers, View::Model)?;
            Some((predicted / stated[row]).ln()).filter(|log| log.is_finite())
        };
        group.rows.iter().map(log).collect()
    }

    /// Residuals of a group at its fit, and standard errors of the logarithms.
    pub(super) fn quality(&self, group: &Group, numbers: &[f64]) -> (Vec<f64>, Option<Vec<f64>>) {
        let stated: Vec<f64> = (0..self.figures.len()).map(|row| self.stated(row)).collect();
        let residuals = |values: &[f64]| self.residuals(group, numbers, values, &stated);
        let found: Vec<f64> = group.parameters.iter().map(|&at| numbers[at]).collect();
        (residuals(&found).unwrap_or_default(), standard_errors(&found, &residuals))
    }
}

/// A seed for rows that is none of the parameters'.
fn draw_of_rows(index: u64) -> u64 {
    index ^ 0x5eed_0f20_75a7_ed00
}
