//! Reasons why a request has no answer.

use std::error::Error;

use serde::Serialize;

/// A failure in words.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// An error with its sources.
    pub(crate) fn new(error: &dyn Error, hint: Option<String>) -> Self {
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        Self { message: error.to_string(), causes: causes.map(ToString::to_string).collect(), hint }
    }

    /// A question without a machine.
    pub(crate) fn no_machine() -> Self {
        Self::in_words("no machine was given".to_owned(), None)
    }

    /// A sentence.
    pub(crate) fn in_words(message: String, hint: Option<String>) -> Self {
        Self { message, causes: Vec::new(), hint }
    }
}
