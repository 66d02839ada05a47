//! What a figure depends on, through parameters that were fitted on figures, chosen by them, or taken from them.

use std::collections::BTreeSet;

use super::{Role, Study, StudyError};
use crate::parameters::{Provenance, View};

impl Study {
    /// What a figure is shown as: its declared role, unless a parameter behind it was fitted on it, chosen
    /// with it in view, or is it.
    ///
    /// # Errors
    /// When a figure cannot be evaluated.
    pub(super) fn shown_role(&self, index: usize, numbers: &[f64]) -> Result<Role, StudyError> {
        let declared = self.figures[index].1.role;
        let by = |kind: Provenance| self.depends_on_itself(index, kind, numbers);
        if by(Provenance::Fitted)? || by(Provenance::Chosen)? {
            return Ok(Role::Fitted);
        }
        if by(Provenance::Input)? {
            return Ok(Role::Input);
        }
        Ok(match declared {
            // Declared so and not so: it is then a comparison like any other.
            Role::Fitted | Role::Input => Role::Predicted,
            other => other,
        })
    }

    /// Whether the figure is among the rows of a parameter of this kind that it, or a figure behind one of its
    /// parameters, asks for.
    fn depends_on_itself(
        &self,
        index: usize,
        kind: Provenance,
        numbers: &[f64],
    ) -> Result<bool, StudyError> {
        let mut seen = BTreeSet::from([index]);
        let mut open = vec![index];
        while let Some(figure) = open.pop() {
            for position in self.answer(figure, numbers, View::Model)?.1 {
                let Some(parameter) = self.parameters.at(position) else { continue };
                for row in parameter.rows.iter().filter_map(|row| self.position(row)) {
                    if row == index && parameter.from == kind {
                        return Ok(true);
                    }
                    if seen.insert(row) {
                        open.push(row);
                    }
                }
            }
        }
        Ok(false)
    }
}
