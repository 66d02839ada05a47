//! The exit status.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The answer is negative: data differ, a route is not possible.
    Negative,
    /// Bad usage, or failure.
    Failed,
    /// The power of a machine of the lab was cut, as asked.
    PowerCut,
    /// Not possible on this machine; nothing was changed.
    NotPossible,
    /// Interrupted.
    Interrupted,
    /// The status of a command that ran in the lab.
    Command(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Failed => 2,
            Self::PowerCut => 3,
            Self::NotPossible => 77,
            Self::Interrupted => 130,
            Self::Command(status) => status,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}
