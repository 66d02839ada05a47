//! Errors of topologies that cannot be read or written, with advice.

/// The command whose output can be read; any program that uses NCCL writes it.
const COMMAND: &str = "NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g $(nvidia-smi -L | wc -l)";
/// The same of RCCL.
const COMMAND_OF_AMD: &str = "NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 8";

/// A text that is not the topology of one machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NcclError {
    /// The root element is another one, or there is none.
    #[error("cannot find the element <system> of an NCCL topology in the text")]
    NoTopology,
    /// The document is cut, damaged, or declares a document type.
    #[error("cannot read the topology XML: line {line}: {reason}")]
    Xml {
        /// Line of the text, counted from 1.
        line: u32,
        /// The parser's message.
        reason: String,
    },
    /// No element `<pci>`, as in a topology that was written by hand.
    #[error("cannot find a PCI function in the topology")]
    NoFunction,
    /// A text that is not a PCI address.
    #[error("cannot use the PCI address in line {line}: `{text}` is not one such as 0000:41:00.0")]
    Address {
        /// Line of the text, counted from 1.
        line: u32,
        /// The attribute `busid`, shortened.
        text: String,
    },
    /// Processors of several hosts.
    #[error("cannot read one machine from the topology: it is of {hosts} hosts")]
    SeveralHosts {
        /// The number of them.
        hosts: usize,
    },
    /// More parts than a machine can sensibly have.
    #[error("cannot use a topology of more than {most} {what}")]
    TooLarge {
        /// The most that are read.
        most: usize,
        /// The kind of the parts.
        what: &'static str,
    },
}

impl NcclError {
    /// The error of the parser, with a line of the whole text.
    pub(super) fn of_parser(error: &roxmltree::Error, before: u32) -> Self {
        let reason = error.to_string();
        // The line that the parser names is one of the document.
        let reason = reason.rsplit_once(" at ").map_or(reason.as_str(), |(reason, _)| reason);
        Self::Xml { line: error.pos().row.saturating_add(before), reason: reason.to_owned() }
    }

    /// The command to give.
    pub fn hint(&self) -> String {
        match self {
            Self::SeveralHosts { .. } => {
                format!("run `NCCL_MNNVL_ENABLE=0 {COMMAND}` on each host")
            }
            _ => format!("run `{COMMAND}`, with RCCL `{COMMAND_OF_AMD}`"),
        }
    }
}

/// A machine that NCCL's form cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NcclWriteError {
    /// Nothing to list.
    #[error(
        "cannot write a topology for NCCL: no GPU, network controller, drive or FPGA card has a PCI address"
    )]
    NoFunction,
    /// A chain of bridges that no machine has.
    #[error("cannot write a topology for NCCL of more than {most} switches one below another")]
    TooDeep {
        /// The most that are written.
        most: usize,
    },
}

impl NcclWriteError {
    /// Advice on how to fix it.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Self::NoFunction => Some(
                "in a machine file, give these functions and the switches above them \
                 `address = \"0000:41:00.0\"`",
            ),
            Self::TooDeep { .. } => None,
        }
    }
}
