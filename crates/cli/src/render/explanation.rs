//! The kernel's decision in words, step by step.

use peerlane_results::{Explanation, ExplanationStep};

use super::LabelSheet;

/// Each question with its steps, numbered, and an empty line after it.
pub(crate) fn explanation(explanations: &[Explanation]) -> String {
    let mut sheet = LabelSheet::default();
    for Explanation { question, steps } in explanations {
        sheet.line(question);
        let mut asked = "";
        for (index, ExplanationStep { finding, source }) in steps.iter().enumerate() {
            if source != asked && !source.is_empty() {
                sheet.line(format_args!("     {source}"));
            }
            asked = source;
            sheet.line(format_args!("{:>3}. {finding}", index + 1));
        }
        sheet.line("");
    }
    sheet.0
}
