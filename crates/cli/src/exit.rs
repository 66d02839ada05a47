//! The exit status.

use std::process::ExitCode;

/// Exit status of the program.
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
    /// The status of several things that were done: that of the worst. An impossible one changed
    /// nothing, and says so only where nothing else was done.
    pub(crate) fn worst(all: &[Self]) -> Self {
        let is_there = |one: Self| all.contains(&one);
        match all {
            [first, rest @ ..] if rest.iter().all(|one| one == first) => *first,
            _ if is_there(Self::Interrupted) => Self::Interrupted,
            _ if is_there(Self::Failed) || is_there(Self::NotPossible) => Self::Failed,
            _ if is_there(Self::Negative) => Self::Negative,
            _ => Self::Done,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::Exit::{Done, Failed, Interrupted, Negative, NotPossible};
    use super::*;

    #[test]
    fn worst_status_wins_over_77() {
        for (all, worst) in [
            (&[][..], Done),
            (&[Done, Done], Done),
            (&[Done, Negative], Negative),
            (&[Negative, Failed, Done], Failed),
            (&[Failed, Interrupted], Interrupted),
            (&[NotPossible, NotPossible], NotPossible),
            (&[NotPossible, Done], Failed),
        ] {
            assert_eq!(Exit::worst(all), worst, "{all:?}");
        }
    }
}
