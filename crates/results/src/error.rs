//! Failure of a command, as `--json` prints it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`ErrorRecord`].
pub const ERROR_SCHEMA: &str = "peerlane.error/1";

/// Failure of a command: printed on standard output instead of its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    /// [`ERROR_SCHEMA`].
    pub schema: String,
    /// The operation that failed, and its object.
    pub what: String,
    /// Causes, outermost first.
    pub causes: Vec<String>,
    /// Advice, where a command helps.
    pub hint: Option<String>,
    /// Exit status of the program.
    pub status: u8,
}
