//! What a person types for an end of a copy or for a memory.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use peerlane_fabric::Bdf;

/// An endpoint or a memory as typed, before anything is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notation {
    /// A path: `/data/set.bin`, `./x`, `/dev/nvme0n1`; also the PCI address of a drive.
    Path(PathBuf),
    /// `cmb:NAME`: memory that a drive offers to its peers. The name is a controller, a PCI address,
    /// a serial number or a device path.
    Cmb(String),
    /// `p2pmem:NAME`: memory that another device offers to its peers through its driver. The name is a
    /// PCI address, or a path that leads to the device's folder in sysfs.
    P2pmem(String),
    /// `host`: host memory.
    Host,
    /// `null`: nothing is read, or what is written is thrown away.
    Null,
    /// `gpu:N`: memory of a GPU, counted from 0 by PCI address, or `gpu:ADDRESS`.
    Gpu(GpuName),
    /// `fpga:ADDRESS`: memory of an FPGA card through XRT, by the address of the card's user function.
    Fpga(String),
}

/// Which GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuName {
    /// By its place in the order of PCI addresses, as `nvidia-smi` counts.
    Index(u32),
    /// By its PCI address.
    Address(Bdf),
}

impl fmt::Display for GpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// A text that names neither an endpoint nor a memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotationError {
    /// There is no text.
    #[error("an empty name is no endpoint")]
    Empty,
    /// What stands for a pipe elsewhere.
    #[error("`-` is no endpoint: data move between files and devices, never through a pipe")]
    Pipe,
    /// A prefix without a name behind it.
    #[error("`{0}` names no device")]
    NoName(String),
    /// A GPU is named by its number or its address.
    #[error("`{0}` is neither a GPU number such as gpu:0 nor an address such as gpu:0000:41:00.0")]
    NotAGpu(String),
}

impl NotationError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let is_pipe = matches!(self, Self::Pipe);
        is_pipe.then(|| "`./-` is a file of that name".to_owned())
    }
}

impl FromStr for Notation {
    type Err = NotationError;

    /// Reads an endpoint; a text without a known prefix is a path (`./cmb:x` for a file so named).
    fn from_str(text: &str) -> Result<Self, NotationError> {
        let named = |name: &str| {
            (!name.is_empty())
                .then(|| name.to_owned())
                .ok_or_else(|| NotationError::NoName(text.to_owned()))
        };
        match text.split_once(':') {
            _ if text.is_empty() => Err(NotationError::Empty),
            None if text == "-" => Err(NotationError::Pipe),
            None if text == "host" => Ok(Self::Host),
            None if text == "null" => Ok(Self::Null),
            Some(("cmb", name)) => named(name).map(Self::Cmb),
            Some(("p2pmem", name)) => named(name).map(Self::P2pmem),
            Some(("fpga", name)) => named(name).map(Self::Fpga),
            Some(("gpu", name)) => {
                let index = name.parse().map(GpuName::Index);
                let gpu = index.or_else(|_| name.parse().map(GpuName::Address));
                gpu.map(Self::Gpu).map_err(|_| NotationError::NotAGpu(text.to_owned()))
            }
            _ => Ok(Self::Path(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Notation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Cmb(name) => write!(f, "cmb:{name}"),
            Self::P2pmem(name) => write!(f, "p2pmem:{name}"),
            Self::Host => f.write_str("host"),
            Self::Null => f.write_str("null"),
            Self::Gpu(name) => write!(f, "gpu:{name}"),
            Self::Fpga(name) => write!(f, "fpga:{name}"),
        }
    }
}

/// The name of the function that lends a memory, out of the name of the memory.
pub fn lender(memory: &str) -> Option<&str> {
    ["cmb:", "p2pmem:", "fpga:"].iter().find_map(|prefix| memory.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_is_read_and_printed_back() {
        let path = |text: &str| Notation::Path(PathBuf::from(text));
        for (text, notation) in [
            ("/data/set.bin", path("/data/set.bin")),
            ("./x", path("./x")),
            ("/dev/nvme0n1", path("/dev/nvme0n1")),
            ("0000:41:00.0", path("0000:41:00.0")),
            ("./cmb:x", path("./cmb:x")),
            ("./-", path("./-")),
            ("cmb:nvme2", Notation::Cmb("nvme2".into())),
            ("cmb:0000:05:00.0", Notation::Cmb("0000:05:00.0".into())),
            ("cmb:/dev/lab/c", Notation::Cmb("/dev/lab/c".into())),
            ("p2pmem:0000:06:00.0", Notation::P2pmem("0000:06:00.0".into())),
            ("host", Notation::Host),
            ("null", Notation::Null),
            ("gpu:0", Notation::Gpu(GpuName::Index(0))),
            ("gpu:0000:41:00.0", Notation::Gpu(GpuName::Address("0000:41:00.0".parse().unwrap()))),
            ("fpga:0000:04:00.1", Notation::Fpga("0000:04:00.1".into())),
        ] {
            assert_eq!(text.parse(), Ok(notation.clone()), "{text}");
            assert_eq!(notation.to_string(), text);
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for text in ["", "-", "cmb:", "p2pmem:", "fpga:", "gpu:", "gpu:x", "gpu:-1"] {
            assert!(text.parse::<Notation>().is_err(), "{text}");
        }
    }
}
