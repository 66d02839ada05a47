//! Memory of SmartSSD and Alveo cards, by XRT: a window onto the card's DDR or HBM, as a region.
//!
//! Preconditions, in this order, with the place where each shows:
//!
//! 1. `libxrt_coreutil.so.2` is there (XRT 2.13 or later), with the functions of its C interface.
//! 2. The function is there and the driver `xocl` is bound to it; without, XRT 2.13 may end the process.
//! 3. The card lends its memory: `p2p_enable` of the driver is 1.
//! 4. The card opens, which needs permission for `/dev/dri/renderD*`.
//! 5. An image (xclbin) is on the card, or is named and loads: it says which memory groups there are.
//! 6. The group has room. What is mapped begins at a page, or direct I/O would be refused.
//!
//! The driver gives the window pages (`xocl_p2p`, XRT 2.25), so that the map takes direct I/O. What a kernel makes of
//! these pages differs, and some may not survive it: the plan of a copy judges that, and nothing here does. The map is
//! the card's memory itself: there is no copy of it in the host that `xrtBOSync` would have to move, and the CPU
//! never loads from it or stores to it.
//!
//! The card's DDR has ECC, and a read of what was never written since power-on can end in a PCIe
//! error, an NVMe error or a reset of the machine (Xilinx UG1382, "SmartSSD", pages 28 and 29). Who
//! takes memory here must write each part by DMA before reading it. A relay does, since a slot is
//! read out only after a source was read into it; so does a measurement, which fills its slots
//! first.
//!
//! None of this has run on a card: `docs/fpga.md`.

pub mod dna;
#[allow(unsafe_code)]
pub(crate) mod ffi;
mod kernel;
pub mod xclbin;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use peerlane_units::Bytes;

use crate::region::{MapKeeper as _, Region, RegionKind};
use ffi::{NoBuffer, NoTable, XrtDevice, XrtFunctions};
pub use kernel::{CardBuffer, CardKernel, CardKernelError};
use xclbin::{MemoryBank, XclbinError};

/// The library, by the name that its programs ask for.
pub const LIBRARY: &str = "libxrt_coreutil.so.2";
/// Variable with the folder of XRT, as XRT's own setup sets it.
const PLACE: &str = "XILINX_XRT";
/// Most bytes of an xclbin: those of the largest cards take about 100 MB.
const LARGEST_XCLBIN: u64 = 1 << 30;

/// The reason why a card gives no memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XrtRefusal {
    /// The library is not there, or does not load.
    #[error("cannot load {name}: {reason}")]
    Library {
        /// The library.
        name: String,
        /// The loader's words.
        reason: String,
    },
    /// A library of that name without a function that is needed.
    #[error("cannot use {name}: it has no function {function}")]
    Function {
        /// The library.
        name: String,
        /// The function.
        function: &'static str,
    },
    /// XRT 2.13 ends the process instead of answering.
    #[error(
        "cannot ask this XRT for a card: it ends programs that do not say where it lies ({PLACE})"
    )]
    Place,
    /// There is no such function.
    #[error("there is no function {address}")]
    NoCard {
        /// Its address.
        address: String,
    },
    /// Another driver, or none, is bound to it.
    #[error("cannot use {address} as a card: its driver is {}, not xocl", found.as_deref().unwrap_or("none"))]
    Driver {
        /// Its address.
        address: String,
        /// The driver that is bound to it.
        found: Option<String>,
    },
    /// The window is switched off.
    #[error("cannot map memory of {address}: the card does not lend it (p2p_enable is 0)")]
    WindowOff {
        /// Its address.
        address: String,
    },
    /// XRT did not open the card.
    #[error("cannot open card {address}")]
    Open {
        /// Its address.
        address: String,
        /// The error that XRT left.
        source: io::Error,
    },
    /// The image could not be read.
    #[error("cannot read xclbin {}", path.display())]
    XclbinFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not an image, or says nothing about memory.
    #[error("cannot use xclbin {}", path.display())]
    Xclbin {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        source: XclbinError,
    },
    /// XRT did not load the image.
    #[error("cannot load xclbin {} onto card {address}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The card.
        address: String,
        /// The error that XRT left.
        source: io::Error,
    },
    /// No group of the image has room for that much.
    #[error("cannot find {length} in one memory group of xclbin {}", path.display())]
    NoGroup {
        /// The file.
        path: PathBuf,
        /// Bytes asked for.
        length: Bytes,
    },
    /// XRT did not allocate it.
    #[error("cannot allocate {length} in memory group {group} of card {address}")]
    Allocate {
        /// The card.
        address: String,
        /// Bytes asked for.
        length: Bytes,
        /// The memory group.
        group: u32,
        /// The error that XRT left.
        source: io::Error,
    },
    /// XRT did not map it.
    #[error("cannot map {length} of card {address}")]
    Map {
        /// The card.
        address: String,
        /// Bytes asked for.
        length: Bytes,
        /// The error that XRT left.
        source: io::Error,
    },
    /// A kernel of the card cannot be used.
    #[error(transparent)]
    Kernel(#[from] CardKernelError),
    /// A map that cannot be the window of a card: too short, or not at a page.
    #[error("cannot use what XRT mapped for card {address}: {reason}")]
    NotAWindow {
        /// The card.
        address: String,
        /// The fault in it.
        reason: String,
    },
}

impl XrtRefusal {
    /// Advice on how to fix it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Library { .. } | Self::Function { .. } => Some(
                "install XRT: `apt install libxrt2 libxrt-alveo2` on Debian 13 with backports, or the \
                 package of the card's maker; `peerlane doctor` shows what else is missing"
                    .to_owned(),
            ),
            Self::Place => Some(
                "`source /opt/xilinx/xrt/setup.sh`, or say where its folder `lib` is: \
                 `export XILINX_XRT=/usr`"
                    .to_owned(),
            ),
            Self::NoCard { .. } => {
                Some("`peerlane topo` and `lspci -d 10ee:` show the cards".to_owned())
            }
            Self::Driver { address, .. } => Some(format!(
                "`sudo modprobe xocl`, and name the card's user function, the second one (`lspci -ks \
                 {address}`)"
            )),
            Self::WindowOff { address } => Some(format!(
                "echo 1 | sudo tee /sys/bus/pci/devices/{address}/p2p*/p2p_enable; where the window does \
                 not fit, the machine must be restarted"
            )),
            Self::Open { .. } => Some(
                "run as root, or as a member of the group of /dev/dri/renderD*: `ls -l /dev/dri`".to_owned(),
            ),
            Self::Allocate { .. } => Some(
                "an image with this memory group must be on the card: name one with \
                 PEERLANE_XCLBIN=FILE; or take a smaller --block or --depth"
                    .to_owned(),
            ),
            Self::Kernel(error) => error.hint(),
            Self::NoGroup { .. } => Some("take a smaller --block or --depth".to_owned()),
            Self::NotAWindow { .. } => Some(
                "`xrt-smi examine` shows whether this is a card or one of XRT's emulations, which lend \
                 no memory"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns whether less memory may be had where this much is not.
    pub fn is_for_want_of_room(&self) -> bool {
        match self {
            Self::NoGroup { .. } => true,
            Self::Allocate { source, .. } => source.raw_os_error() == Some(ENOMEM),
            _ => false,
        }
    }
}

/// `ENOMEM` of Linux.
const ENOMEM: i32 = 12;

/// The library of XRT, loaded.
#[derive(Debug, Clone)]
pub struct Xrt {
    table: Arc<XrtFunctions>,
}

impl Xrt {
    /// Loads the library that the system has.
    ///
    /// # Errors
    /// [`XrtRefusal::Library`] and [`XrtRefusal::Function`].
    pub fn load() -> Result<Self, XrtRefusal> {
        Self::load_from(OsStr::new(LIBRARY))
    }

    /// Loads a library by name or path.
    ///
    /// # Errors
    /// As [`Xrt::load`].
    pub fn load_from(name: &OsStr) -> Result<Self, XrtRefusal> {
        let shown = || name.to_string_lossy().into_owned();
        match XrtFunctions::load(name) {
            Ok(table) => Ok(Self { table }),
            Err(NoTable::Library(reason)) => Err(XrtRefusal::Library { name: shown(), reason }),
            Err(NoTable::Function(function)) => {
                Err(XrtRefusal::Function { name: shown(), function })
            }
        }
    }

    /// The version, where the library says it: from 2.25 on.
    pub fn version(&self) -> Option<u32> {
        self.table.version()
    }

    /// Opens a card by the address of its user function, after a look at `sys/bus/pci/devices` below
    /// `root`.
    ///
    /// # Errors
    /// [`XrtRefusal`], by what does not hold.
    pub fn open(&self, root: &Path, address: &str) -> Result<Card, XrtRefusal> {
        look(root, address)?;
        // Without a place, XRT 2.13 ends the process by an exception that leaves its C interface.
        if !self.table.says_version() && std::env::var_os(PLACE).is_none() {
            return Err(XrtRefusal::Place);
        }
        let open = |source| XrtRefusal::Open { address: address.to_owned(), source };
        let bdf = CString::new(address).map_err(|error| open(error.into()))?;
        let device = XrtDevice::open(&self.table, &bdf).map_err(open)?;
        Ok(Card { address: address.to_owned(), device, image: None })
    }
}

/// Checks that a function is a card that lends its memory, as far as files of its driver tell.
fn look(root: &Path, address: &str) -> Result<(), XrtRefusal> {
    let address = address.to_owned();
    let folder = root.join("sys/bus/pci/devices").join(&address);
    if address.contains('/') || !folder.is_dir() {
        return Err(XrtRefusal::NoCard { address });
    }
    let driver = std::fs::read_link(folder.join("driver")).ok();
    let name = driver.as_deref().and_then(Path::file_name);
    let found = name.map(|name| name.to_string_lossy().into_owned());
    if found.as_deref() != Some("xocl") {
        return Err(XrtRefusal::Driver { address, found });
    }
    let devices = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let p2p = devices.filter(|entry| entry.file_name().as_bytes().starts_with(b"p2p."));
    let mut switches =
        p2p.filter_map(|entry| std::fs::read_to_string(entry.path().join("p2p_enable")).ok());
    if switches.next().is_some_and(|value| value.trim() == "0") {
        return Err(XrtRefusal::WindowOff { address });
    }
    Ok(())
}

/// An open card.
#[derive(Debug)]
pub struct Card {
    address: String,
    device: Arc<XrtDevice>,
    image: Option<(PathBuf, Vec<MemoryBank>)>,
}

impl Card {
    /// Loads an image onto the card and takes memory of its groups from here on.
    ///
    /// # Errors
    /// [`XrtRefusal`], where the file is not an image, has no memory, or does not load.
    pub fn load(&mut self, path: &Path) -> Result<&[MemoryBank], XrtRefusal> {
        let groups = groups_of(path)?;
        let failed = |source| XrtRefusal::Load {
            path: path.to_owned(),
            address: self.address.clone(),
            source,
        };
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
        self.device.load(&name).map_err(failed)?;
        Ok(&self.image.insert((path.to_owned(), groups)).1)
    }

    /// Allocates memory of the card: in the first group of its image that is large enough, and in group 0
    /// where no image was loaded here. Its content is what the last user left, or was never written.
    ///
    /// # Errors
    /// [`XrtRefusal`], by the call that refused.
    pub fn allocate(&self, length: Bytes) -> Result<Region, XrtRefusal> {
        let group = match &self.image {
            None => 0,
            Some((path, groups)) => groups
                .iter()
                .find(|group| group.size >= length)
                .map(|group| group.index)
                .ok_or_else(|| XrtRefusal::NoGroup { path: path.clone(), length })?,
        };
        self.allocate_in(group, length)
    }

    fn allocate_in(&self, group: u32, length: Bytes) -> Result<Region, XrtRefusal> {
        let address = || self.address.clone();
        let page = rustix::param::page_size();
        let bytes = usize::try_from(length.0)
            .ok()
            .filter(|&bytes| bytes > 0)
            .and_then(|bytes| bytes.checked_next_multiple_of(page))
            .ok_or_else(|| XrtRefusal::Allocate {
                address: address(),
                length,
                group,
                source: io::ErrorKind::InvalidInput.into(),
            })?;
        let buffer = ffi::Buffer::allocate(&self.device, bytes, group).map_err(|no| match no {
            NoBuffer::Alloc(source) => {
                XrtRefusal::Allocate { address: address(), length, group, source }
            }
            NoBuffer::Map(source) => XrtRefusal::Map { address: address(), length, source },
            NoBuffer::Short(size) => XrtRefusal::NotAWindow {
                address: address(),
                reason: format!("it has {size} bytes of {bytes}"),
            },
        })?;
        if buffer.address().as_ptr().addr() % page != 0 {
            let reason = "it does not begin at a page, so that no drive could reach it".to_owned();
            return Err(XrtRefusal::NotAWindow { address: address(), reason });
        }
        Ok(Region::kept(Arc::new(buffer), length, RegionKind::Card))
    }
}

/// The memory groups of an image.
///
/// # Errors
/// [`XrtRefusal::XclbinFile`] and [`XrtRefusal::Xclbin`].
pub fn groups_of(path: &Path) -> Result<Vec<MemoryBank>, XrtRefusal> {
    let unreadable = |source| XrtRefusal::XclbinFile { path: path.to_owned(), source };
    // A pipe or a device has no length, and might have no end.
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    if found.len() > LARGEST_XCLBIN {
        return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
    }
    let file = std::fs::read(path).map_err(unreadable)?;
    xclbin::groups(&file).map_err(|source| XrtRefusal::Xclbin { path: path.to_owned(), source })
}
