//! Errors of texts that cannot be read, with advice.

use super::blocks::SortedText;
use crate::Bdf;

/// The command whose output can be read in full.
const COMMAND: &str = "sudo lspci -Dvvvnn > lspci.txt";

/// A text that is not that of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LspciError {
    /// No line is a heading of `lspci`.
    #[error("cannot find a PCI function in the text")]
    NoFunction,
    /// ACS registers without the functions that they belong to.
    #[error("cannot tell which function the ACS register in line {line} belongs to")]
    BareAcs {
        /// The first such line.
        line: u32,
    },
    /// Text of another program alone.
    #[error("cannot read a machine from the output of `{program}` alone")]
    OtherProgram {
        /// The program.
        program: &'static str,
    },
    /// The same address with two identities.
    #[error(
        "cannot read one machine from the text: {address} is two different devices in lines {} and {}",
        lines.0, lines.1
    )]
    TwoMachines {
        /// The address.
        address: Bdf,
        /// Headings of the two.
        lines: (u32, u32),
    },
}

impl LspciError {
    /// The command to give.
    pub fn hint(&self) -> String {
        match self {
            Self::NoFunction | Self::BareAcs { .. } => format!("run `{COMMAND}`"),
            Self::OtherProgram { program: "lspci -vmm" } => format!("run `{COMMAND}`"),
            Self::OtherProgram { program } => {
                format!("run `{COMMAND}`, then `{program} >> lspci.txt` if it says more")
            }
            Self::TwoMachines { .. } => format!("run `{COMMAND}` on each machine"),
        }
    }
}

/// The reason to refuse a text without functions.
pub(super) fn refusal(text: &SortedText<'_>) -> LspciError {
    if let Some(line) = text.bare_acs {
        LspciError::BareAcs { line }
    } else if !text.matrices.is_empty() {
        LspciError::OtherProgram { program: "nvidia-smi topo -m" }
    } else if !text.smi.is_empty() {
        LspciError::OtherProgram { program: "nvidia-smi -q" }
    } else if !text.gdscheck.is_empty() {
        LspciError::OtherProgram { program: "gdscheck -p" }
    } else if text.machine_readable.is_some() {
        LspciError::OtherProgram { program: "lspci -vmm" }
    } else {
        LspciError::NoFunction
    }
}
