//! Roles as computed: from the parameters that a figure depends on, and the figures behind those.

use std::collections::BTreeSet;

use super::{Role, Study};
use crate::parameters::Provenance;

impl Study {
    /// The role that a figure is shown with: the declared one, unless a parameter that it or a
    /// figure behind it depends on was fitted on it, chosen with it in view, or is it.
    pub(super) fn shown_role(&self, index: usize) -> Role {
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
            _ if has(Provenance::Fitted) || has(Provenance::Chosen) => Role::Fitted,
            _ if has(Provenance::Input) => Role::Input,
            // Decides nothing, whatever is declared: a comparison like any other.
            Role::Fitted | Role::Input => Role::Predicted,
            other => other,
        }
    }
}
