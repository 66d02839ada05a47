//! Machine files: a fabric as TOML, written by hand or by discovery.
//!
//! One form serves both. Discovery's files are read back without loss. A person's files may use
//! short forms (`size`, `block_size`, `cmb`, `acs = "redirect"`) that are only read. An unknown key
//! is an error. The origin of a fabric is not kept: one from a file is a description.

mod outline;
mod read;
mod shape;
mod values;
mod write;

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::Fabric;

/// Longest outline of a machine, in bytes: several hundred functions.
pub const OUTLINE_MAX: usize = 256 << 10;
/// Values of `driver` that do not name a driver.
const NO_DRIVER: &str = "none";
const UNKNOWN_DRIVER: &str = "unknown";

/// The reason why a machine file is not a fabric.
#[derive(Debug, thiserror::Error)]
pub enum MachineFileError {
    /// The file could not be read.
    #[error("cannot read machine file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file that was read is not a machine.
    #[error("cannot use machine file {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The fault in its text.
        source: Box<MachineFileError>,
    },
    /// The text is not TOML of this shape; the message shows the line and names the key.
    #[error("cannot understand machine file: {}", .0.to_string().trim_end())]
    Syntax(Box<toml::de::Error>),
    /// More text than a machine can sensibly have.
    #[error("cannot use a machine file of {bytes} bytes: at most {} are read", read::LONGEST_TEXT)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// More functions than a machine can sensibly have.
    #[error(
        "cannot use a machine of {functions} functions: at most {} are read",
        read::MOST_FUNCTIONS
    )]
    TooLarge {
        /// Number of functions.
        functions: usize,
    },
    /// The text is well formed and describes no possible machine.
    #[error("cannot use `{key}` of {name} (line {line}): {problem}")]
    Meaning {
        /// Line of the name, from 1.
        line: usize,
        /// The function or host bridge.
        name: String,
        /// The key at fault.
        key: &'static str,
        /// The fault in it.
        problem: Problem,
    },
}

/// The fault in a well-formed value. The message of the error holds all of it, so it is not a
/// source, which would be printed once more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Two things have one name.
    #[error("the name is taken")]
    NameTaken,
    /// A name without a character.
    #[error("a name must not be empty")]
    NameEmpty,
    /// `under` names nothing.
    #[error("nothing is called `{0}`")]
    NoSuchParent(String),
    /// `nvlink` or `xgmi` names no function.
    #[error("no function has this name")]
    NoSuchFunction,
    /// `under` names something further down.
    #[error("`{0}` comes later; list what is above a function before it")]
    ParentComesLater(String),
    /// `under` names an endpoint.
    #[error("`{0}` is not a port or bridge, so nothing hangs from it")]
    ParentIsNoBridge(String),
    /// `under` is missing and there is more than one host bridge, or none.
    #[error("say which host bridge or port it hangs from; there are {0} host bridges")]
    ParentUnclear(usize),
    /// More ports in a row than there are buses.
    #[error("more than {} functions one below another; PCI has 256 buses", read::DEEPEST)]
    TooDeep,
    /// Two functions have one address.
    #[error("the address {0} is taken")]
    AddressTaken(crate::Bdf),
    /// A key that only drives have.
    #[error("only a function of kind `nvme` has this key")]
    NotADrive,
    /// A key for functions of no known kind.
    #[error("only a function of kind `other` has this key")]
    NotOther,
    /// A key for functions in front of an Ethernet.
    #[error("only a function of kind `nic` or `upstream-port` has this key")]
    NotOnEthernet,
    /// An impossible rate: mostly one that is unknown, or megabytes without their letter.
    #[error(
        "rates are {} at least, in bytes a second (`650MB/s`, `12.5GB/s`); leave out one that is unknown",
        read::SLOWEST
    )]
    TooSlow,
    /// A drive that moves nothing at all. QEMU gets the rate, and would let the drive move
    /// everything (`throttle_compute_wait` in its `util/throttle.c`: 0 is no limit).
    #[error(
        "a drive is held back to more than 0 bytes a second (`20M`); leave it out where nothing does"
    )]
    NoThrottle,
    /// An impossible Ethernet: mostly bits a second for bytes.
    #[error(
        "an Ethernet carries {} at most; rates are in bytes a second, so that 100 Gbit/s is `12.5GB/s`",
        read::FASTEST_ETHERNET
    )]
    Ethernet,
    /// A key that belongs to a bound controller.
    #[error("a drive with `bound = false` has no such key")]
    NotBound,
    /// Two keys that say the same.
    #[error("leave out either this or `{0}`")]
    SaidTwice(&'static str),
    /// A block size that no drive has.
    #[error("a block size is a power of two of at least 512 bytes")]
    BlockSize,
    /// Shares of both rates that no drive reaches.
    #[error("the shares of `read` and `write` that a drive reaches together add up to 0.1 to 2")]
    Mixed,
    /// `block_size` without `size`.
    #[error("give `{0}` as well")]
    Needs(&'static str),
}

// Not a source: the message above says it all, and would be shown twice.
impl From<toml::de::Error> for MachineFileError {
    fn from(error: toml::de::Error) -> Self {
        Self::Syntax(Box::new(error))
    }
}

impl Fabric {
    /// Reads a fabric from the text of a machine file.
    ///
    /// # Errors
    /// When the text is not TOML, has an unknown key, or describes no possible machine.
    pub fn from_toml(text: &str) -> Result<Self, MachineFileError> {
        read::fabric(text)
    }

    /// Reads a machine file.
    ///
    /// # Errors
    /// As [`Fabric::from_toml`], and when the file cannot be read.
    pub fn read_machine_file(path: &Path) -> Result<Self, MachineFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| MachineFileError::Read { path: path.to_owned(), source })?;
        Self::from_toml(&text).map_err(|source| MachineFileError::File {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// Writes the fabric as a machine file.
    ///
    /// [`Fabric::from_toml`] reads back the same fabric, except that its origin is then a
    /// description. Settings that only drives have are written for drives only.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| {
            unreachable!("strings, integers that fit and tables are always TOML: {error}")
        })
    }
}

/// The keys of a machine file, in any format. A fact that is unknown has none in TOML, and a null
/// elsewhere.
impl Serialize for Fabric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write::machine(self).serialize(serializer)
    }
}
