//! Evidence of the route that bytes took, and its verdict.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that was looked at to know the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The source of evidence.
    pub looked_at: String,
    /// Its observation.
    pub showed: String,
}

impl Evidence {
    /// The same with its verdict on the route.
    #[must_use]
    pub fn says(self, says: RouteVerdict) -> RouteEvidence {
        RouteEvidence { evidence: self, says }
    }
}

/// One source of evidence on the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteEvidence {
    /// The source and its observation, or the reason why it could not be read.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Verdict of this source on the route.
    pub says: RouteVerdict,
}

/// Verdict of evidence on the route that bytes took.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RouteVerdict {
    /// The source could not be looked at, or says nothing of routes.
    #[default]
    NotKnown,
    /// The observation fits the route, and would fit another.
    Consistent,
    /// The observation fits this route only.
    Shown,
    /// The observation does not fit the route: the result is an error.
    Contradicted,
}

impl fmt::Display for RouteVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotKnown => "unknown",
            Self::Consistent => "consistent",
            Self::Shown => "shown",
            Self::Contradicted => "contradicted",
        })
    }
}
