//! Requests of the page.

use serde::Deserialize;

use crate::assumed::Assumption;
use crate::machine::Given;

/// A machine, and what is asked about it.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// The machine; absent for that of the last request.
    pub machine: Option<Given>,
    /// Settings taken as in force.
    pub assume: Option<Assumption>,
    #[serde(flatten)]
    pub question: Question,
}

/// A question about a machine.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum Question {
    /// Uses, findings, plan and drawing.
    Examine,
    /// Two devices.
    Pair {
        /// Their words in commands, or their addresses.
        ends: [String; 2],
        /// Both passed to one virtual machine.
        #[serde(default)]
        guest: bool,
    },
    /// Changes between the machine and another.
    Diff {
        /// The machine after the change.
        other: Given,
    },
    /// The plan as files.
    Fix,
    /// A topology file for NCCL.
    Nccl,
    /// The drawing as a file of its own.
    Svg,
    /// The text without what identifies its machine.
    Scrub,
}
