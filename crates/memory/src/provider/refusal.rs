//! The answer of a provider that gives no memory.

use std::error::Error;
use std::fmt;

use crate::{MemoryError, P2pRefusal, XrtRefusal};

/// An error of a provider: the missing part, and advice.
pub trait Reason: Error + Send + Sync + 'static {
    /// Advice on how to fix it, with a command.
    fn hint(&self) -> Option<String>;

    /// True if less memory may be had where this much is not.
    fn is_for_want_of_room(&self) -> bool {
        false
    }
}

/// The reason why a provider gives no memory.
#[derive(Debug)]
pub struct ProviderRefusal(Box<dyn Reason>);

/// No provider knows a name.
#[derive(Debug, thiserror::Error)]
#[error("no provider of memory knows `{0}`")]
struct UnknownMemory(String);

impl Reason for UnknownMemory {
    fn hint(&self) -> Option<String> {
        None
    }
}

impl ProviderRefusal {
    pub(super) fn unknown(memory: &str) -> Self {
        UnknownMemory(memory.to_owned()).into()
    }

    /// Advice on how to fix it, with a command.
    pub fn hint(&self) -> Option<String> {
        self.0.hint()
    }

    /// True if less memory may be had where this much is not.
    pub fn is_for_want_of_room(&self) -> bool {
        self.0.is_for_want_of_room()
    }
}

impl<R: Reason> From<R> for ProviderRefusal {
    fn from(reason: R) -> Self {
        Self(Box::new(reason))
    }
}

impl fmt::Display for ProviderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for ProviderRefusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl Reason for MemoryError {
    fn hint(&self) -> Option<String> {
        self.hint().map(str::to_owned)
    }
}

impl Reason for P2pRefusal {
    fn hint(&self) -> Option<String> {
        self.hint()
    }

    fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::Exhausted { .. })
    }
}

impl Reason for XrtRefusal {
    fn hint(&self) -> Option<String> {
        self.hint()
    }

    fn is_for_want_of_room(&self) -> bool {
        self.is_for_want_of_room()
    }
}
