//! Requests of the page.

use serde::Deserialize;

use crate::machine::Given;

/// A machine, and what is asked about it.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// The machine.
    pub machine: Given,
    #[serde(flatten)]
    pub question: Question,
}

/// A question about a machine.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum Question {
    /// Uses, findings, plan and drawing.
    Examine {
        /// Steps of the plan taken as done.
        #[serde(default)]
        assume: Option<Assumption>,
    },
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
    /// A machine file.
    Toml,
    /// The text without what identifies its machine.
    Scrub,
}

/// Boot configuration taken as in force.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Assumption {
    /// Steps of the plan, by their position.
    #[serde(default)]
    pub steps: Vec<u32>,
    /// Further kernel parameters and module options, as a file would hold them.
    #[serde(default)]
    pub settings: String,
}
