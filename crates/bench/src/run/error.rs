//! Reasons why a workload did not finish.

use crate::guards::Nonsense;
use crate::workload::BriefError;
use peerlane_engine::measure::MeasureError;
use peerlane_results::{BenchRecord, CaseRecord};

/// Reasons why a workload did not finish; the record that was saved last has the earlier runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A workload that cannot be run on any machine.
    #[error("cannot run this workload")]
    Workload(#[from] BriefError),
    /// A run that moved no byte: there is no rate.
    #[error("{case}: nothing was moved")]
    Nothing {
        /// The case.
        case: String,
    },
    /// A transfer that cannot be measured.
    #[error("cannot run {case}")]
    Flow {
        /// The case.
        case: String,
        /// Cause.
        #[source]
        source: Box<MeasureError>,
    },
    /// Transfers of a case that cannot run at the same time.
    #[error("cannot run {case}: {reason}")]
    Conflict {
        /// The case.
        case: String,
        /// Cause.
        reason: String,
    },
    /// A run with impossible claims; its figures are no result.
    #[error("this is not a result")]
    Nonsense {
        /// The run.
        case: Box<CaseRecord>,
        /// Cause.
        #[source]
        source: Nonsense,
    },
    /// An earlier record is of another workload or machine.
    #[error("cannot go on with this record: {what}")]
    Other {
        /// The difference.
        what: String,
    },
    /// A wish to stop came from outside.
    #[error("interrupted after {} runs", .0.cases.len())]
    Interrupted(Box<BenchRecord>),
    /// The record could not be saved.
    #[error("cannot save the record")]
    Save(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl RunError {
    /// Returns advice for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Flow { source, .. } => source.hint(),
            Self::Nonsense { source, .. } => Some(source.hint().to_owned()),
            _ => None,
        }
    }

    /// Returns true when nothing was changed and this machine cannot do it.
    pub fn is_not_possible(&self) -> bool {
        matches!(self, Self::Flow { source, .. } if source.is_not_possible())
    }

    /// Returns whether something stands against a transfer; nothing was changed.
    pub fn is_refused(&self) -> bool {
        let Self::Flow { source, .. } = self else { return false };
        matches!(**source, MeasureError::Refused(_) | MeasureError::NotScratch { .. })
    }

    /// Returns true when the content of a target differs from the written content.
    pub fn is_difference(&self) -> bool {
        match self {
            Self::Flow { source, .. } => {
                matches!(
                    **source,
                    MeasureError::Differs { .. } | MeasureError::MemoryDiffers { .. }
                )
            }
            Self::Nonsense { source, .. } => matches!(source, Nonsense::ContentDiffers { .. }),
            _ => false,
        }
    }
}
