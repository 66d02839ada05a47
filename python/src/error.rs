//! Errors of the library as exceptions of `peerlane.errors`.

use std::error::Error;
use std::io;

use peerlane::load::LoadError;
use peerlane::machines::MachineError;
use peerlane::read::ReadError;
use peerlane::{CopyError, EndError, PlanError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception that an error becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExceptionKind {
    /// Something failed.
    Failed,
    /// The request makes no sense.
    BadInput,
    /// Something blocks it, and nothing was changed.
    Refused,
    /// Not possible on this machine, and nothing was changed.
    NotPossible,
    /// CUDA memory, which is not here.
    CudaUnavailable,
    /// The system has no memory left.
    OutOfMemory,
    /// The content at the target is not that of the source.
    DataDiffers,
    /// A wish to stop came.
    Interrupted,
}

impl ExceptionKind {
    fn class(self) -> &'static str {
        match self {
            Self::Failed => "PeerlaneError",
            Self::BadInput => "BadInput",
            Self::Refused => "Refused",
            Self::NotPossible => "NotPossible",
            Self::CudaUnavailable => "CudaUnavailable",
            Self::OutOfMemory => "OutOfMemory",
            Self::DataDiffers => "DataDiffers",
            Self::Interrupted => "Interrupted",
        }
    }
}

/// An error with everything that a person or a program needs of it.
#[derive(Debug)]
pub(crate) struct ErrorDetails {
    pub(crate) kind: ExceptionKind,
    causes: Vec<String>,
    hint: Option<String>,
    journal: Option<String>,
    /// Bytes that are done, and bytes that were to be done.
    progress: Option<(u64, u64)>,
}

impl ErrorDetails {
    /// A problem in words alone.
    pub(crate) fn new(kind: ExceptionKind, words: impl Into<String>) -> Self {
        Self { kind, causes: vec![words.into()], hint: None, journal: None, progress: None }
    }

    /// The words of an error and of its causes; the kind is another where memory was what lacked.
    pub(crate) fn from_error(kind: ExceptionKind, error: &(dyn Error + 'static)) -> Self {
        let mut problem = Self::new(kind, error.to_string());
        let mut next = Some(error);
        while let Some(cause) = next {
            if is_out_of_memory(cause) {
                problem.kind = ExceptionKind::OutOfMemory;
            }
            next = cause.source();
            problem.causes.extend(next.map(ToString::to_string));
        }
        problem
    }

    /// The same, with the attempted action in front.
    pub(crate) fn tried(kind: ExceptionKind, what: &str, error: &(dyn Error + 'static)) -> Self {
        let mut problem = Self::from_error(kind, error);
        problem.causes.insert(0, format!("cannot {what}"));
        problem
    }

    pub(crate) fn hint(self, hint: Option<impl Into<String>>) -> Self {
        Self { hint: hint.map(Into::into), ..self }
    }

    /// All of it on one line, for a note.
    pub(crate) fn line(&self) -> String {
        let hint = self.hint.iter().map(|hint| format!("; {hint}"));
        self.causes.join(": ") + &hint.collect::<String>()
    }

    fn exception(&self, py: Python<'_>) -> PyResult<PyErr> {
        let more = PyDict::new(py);
        more.set_item("hint", &self.hint)?;
        more.set_item("journal", &self.journal)?;
        more.set_item("done", self.progress.map(|(done, _)| done))?;
        more.set_item("total", self.progress.map(|(_, total)| total))?;
        let class = py.import("peerlane.errors")?.getattr(self.kind.class())?;
        Ok(PyErr::from_value(class.call((self.causes.clone(),), Some(&more))?))
    }
}

fn is_out_of_memory(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

impl From<ErrorDetails> for PyErr {
    fn from(problem: ErrorDetails) -> Self {
        Python::attach(|py| problem.exception(py).unwrap_or_else(|error| error))
    }
}

impl From<MachineError> for ErrorDetails {
    fn from(error: MachineError) -> Self {
        let kind = match error {
            MachineError::Missing { .. } | MachineError::Content(_) => ExceptionKind::BadInput,
            _ => ExceptionKind::Failed,
        };
        Self::from_error(kind, &error).hint(error.hint())
    }
}

impl From<PlanError> for ErrorDetails {
    fn from(error: PlanError) -> Self {
        Self::from_error(ExceptionKind::BadInput, &error).hint(error.hint())
    }
}

impl From<CopyError> for ErrorDetails {
    fn from(error: CopyError) -> Self {
        let kind = match error.cause() {
            CopyError::NotPossible { .. } => ExceptionKind::NotPossible,
            CopyError::Differs { .. } => ExceptionKind::DataDiffers,
            CopyError::Interrupted { .. } => ExceptionKind::Interrupted,
            CopyError::Plan(_) => ExceptionKind::BadInput,
            CopyError::Refused(_) | CopyError::Changed { .. } => ExceptionKind::Refused,
            _ => ExceptionKind::Failed,
        };
        let progress = match &error {
            CopyError::Interrupted { done, total, .. } | CopyError::Kept { done, total, .. } => {
                Some((done.0, total.0))
            }
            _ => None,
        };
        let journal = error.journal().map(|path| path.display().to_string());
        let again = journal.as_ref().map(|_| "the same call with resume=True goes on".to_owned());
        let hints: Vec<String> = error.hint().into_iter().chain(again).collect();
        let hint = (!hints.is_empty()).then(|| hints.join("; "));
        Self { journal, progress, ..Self::from_error(kind, &error).hint(hint) }
    }
}

impl From<ReadError> for ErrorDetails {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::End(EndError::Notation { .. } | EndError::Endpoint { .. }) => {
                ExceptionKind::BadInput
            }
            ReadError::End(EndError::NotHere { .. }) => ExceptionKind::NotPossible,
            ReadError::Interrupted { .. } => ExceptionKind::Interrupted,
            ReadError::Load { source: LoadError::Cuda(source), .. } if source.is_missing() => {
                ExceptionKind::CudaUnavailable
            }
            _ => ExceptionKind::Failed,
        };
        let progress = match &error {
            ReadError::Interrupted { done, total } => Some((done.0, total.0)),
            _ => None,
        };
        Self { progress, ..Self::from_error(kind, &error).hint(error.hint()) }
    }
}
