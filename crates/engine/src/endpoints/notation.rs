//! Notation for an end of a copy or a memory, as a person types it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use peerlane_fabric::Bdf;
use peerlane_memory::provider::{PROVIDERS, ProviderKind};

/// An endpoint or a memory as typed, before anything is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notation {
    /// A path: `/data/set.bin`, `./x`, `/dev/nvme0n1`; also the PCI address of a drive, and
    /// `nvme://HOST/NQN` for one of another machine.
    Path(PathBuf),
    /// Memory that a device lends to its peers, by the whole name: `cmb:NAME`, `p2pmem:NAME`, `fpga:ADDRESS`.
    /// Behind the colon is a controller, a PCI address, a serial number, or a path to the device.
    Device(String),
    /// `host`: host memory.
    Host,
    /// `null`: reads give nothing, and written bytes are thrown away.
    Null,
    /// `gpu:N`: memory of a GPU, counted from 0 by PCI address, or `gpu:ADDRESS`.
    Gpu(GpuName),
}

/// Name of a GPU.
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
    #[error("an empty name is not an endpoint")]
    Empty,
    /// The usual sign for a pipe.
    #[error("`-` is not an endpoint: data move between files and devices, never through a pipe")]
    Pipe,
    /// A prefix without a name behind it.
    #[error("`{0}` names no device")]
    NoName(String),
    /// A GPU is named by its number or its address.
    #[error("`{0}` is neither a GPU number such as gpu:0 nor an address such as gpu:0000:41:00.0")]
    NotAGpu(String),
}

impl NotationError {
    /// Returns advice.
    pub fn hint(&self) -> Option<String> {
        let is_pipe = matches!(self, Self::Pipe);
        is_pipe.then(|| "`./-` is a file of that name".to_owned())
    }
}

impl FromStr for Notation {
    type Err = NotationError;

    /// Reads an endpoint; a text without a known prefix is a path (`./cmb:x` for a file so named).
    fn from_str(text: &str) -> Result<Self, NotationError> {
        let memory = PROVIDERS.split(text).map(|(provider, name)| (provider.kind(), name));
        match memory {
            None if text.is_empty() => Err(NotationError::Empty),
            None if text == "-" => Err(NotationError::Pipe),
            None if text == "null" => Ok(Self::Null),
            None => Ok(Self::Path(PathBuf::from(text))),
            Some((ProviderKind::Host, _)) => Ok(Self::Host),
            Some((ProviderKind::Gpu, name)) => {
                let index = name.parse().map(GpuName::Index);
                let gpu = index.or_else(|_| name.parse().map(GpuName::Address));
                gpu.map(Self::Gpu).map_err(|_| NotationError::NotAGpu(text.to_owned()))
            }
            Some((_, "")) => Err(NotationError::NoName(text.to_owned())),
            Some(_) => Ok(Self::Device(text.to_owned())),
        }
    }
}

impl fmt::Display for Notation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Device(name) => f.write_str(name),
            Self::Host => f.write_str("host"),
            Self::Null => f.write_str("null"),
            Self::Gpu(name) => write!(f, "gpu:{name}"),
        }
    }
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
            ("cmb:nvme2", Notation::Device("cmb:nvme2".into())),
            ("host", Notation::Host),
            ("null", Notation::Null),
            ("gpu:0", Notation::Gpu(GpuName::Index(0))),
            ("gpu:0000:41:00.0", Notation::Gpu(GpuName::Address("0000:41:00.0".parse().unwrap()))),
            ("fpga:0000:04:00.1", Notation::Device("fpga:0000:04:00.1".into())),
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
