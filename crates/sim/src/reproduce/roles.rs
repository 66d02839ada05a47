//! Roles as computed: from the parameters that a figure depends on, and the figures behind those.

use std::collections::BTreeSet;

use super::{Role, Study};
use crate::parameters::Provenance;

impl Study {
    /// The role that a figure is shown with: the declared one, unless a parameter behind it was
    /// fitted on it, chosen with it in view, or is it.
    pub(super) fn shown_role(&self, index: usize) -> Role {
        if self.decides(index, Provenance::Fitted) || self.decides(index, Provenance::Chosen) {
            return Role::Fitted;
        }
        if self.decides(index, Provenance::Input) {
            return Role::Input;
        }
        match self.figures[index].1.role {
            // Decides nothing, whatever is declared: a comparison like any other.
            Role::Fitted | Role::Input => Role::Predicted,
            other => other,
        }
    }

    /// True if the figure is a row of a parameter of this kind that it, or a figure behind one of
    /// its parameters, depends on.
    fn decides(&self, index: usize, kind: Provenance) -> bool {
        let mut seen = BTreeSet::from([index]);
        let mut open = vec![index];
        while let Some(figure) = open.pop() {
            for parameter in self.uses[figure].iter().filter_map(|&at| self.parameters.at(at)) {
                for row in parameter.rows.iter().filter_map(|row| self.position(row)) {
                    if row == index && parameter.from == kind {
                        return true;
                    }
                    if seen.insert(row) {
                        open.push(row);
                    }
                }
            }
        }
        false
    }
}
