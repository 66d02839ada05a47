//! The identifier (DNA) of the FPGA of a card, which the card's drive names, too.
//!
//! The driver `xocl` shows it on platforms that check it (`dna.*/dna` below the function). On the
//! platform of SmartSSD it lies in three registers of the user function (Xilinx UG1382, "FPGA-SSD
//! DNA Pairing"). They are read through the first window, and only on the device that the guide is
//! about: the address may mean something else on another platform. Kernels with
//! `CONFIG_IO_STRICT_DEVMEM` map no window that a driver has; that is an error here.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use peerlane_fabric::Dna;

use super::ffi;

/// User function of SmartSSD (UG1382; `lspci` of one).
const USER_FUNCTION: (&str, &str) = ("0x10ee", "0x6988");
/// The page of the registers: UG1382, appendix F, "PCIe User PF BAR + 0x330020".
const PAGE: u64 = 0x33_0000;
const REGISTERS: [usize; 3] = [0x20, 0x24, 0x28];

/// The DNA of the card at a PCI address, below `root`; `None` where this kind of card does not show it.
///
/// # Errors
/// When the card shows it, and the system does not let this process read it.
pub fn read(root: &Path, address: &str) -> io::Result<Option<Dna>> {
    let folder = root.join("sys/bus/pci/devices").join(address);
    if let Some(dna) = of_driver(&folder) {
        return Ok(Some(dna));
    }
    let is = |file: &str, wanted: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.trim() == wanted)
    };
    if !(is("vendor", USER_FUNCTION.0) && is("device", USER_FUNCTION.1)) {
        return Ok(None);
    }
    let window = File::open(folder.join("resource0"))?;
    Ok(Dna::of_words(ffi::registers(&window, PAGE, REGISTERS)?))
}

/// The DNA that the driver shows; `None` if it has no device for it.
fn of_driver(folder: &Path) -> Option<Dna> {
    let devices = std::fs::read_dir(folder).ok()?.flatten();
    let dna = devices.filter(|entry| entry.file_name().as_bytes().starts_with(b"dna."));
    let mut texts = dna.filter_map(|entry| std::fs::read_to_string(entry.path().join("dna")).ok());
    texts.find_map(|text| Dna::of_text(&text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const ADDRESS: &str = "0000:04:00.1";

    /// A card of this device, with a window of this size.
    fn card(device: &str, window: u64) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/bus/pci/devices").join(ADDRESS);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("vendor"), "0x10ee\n").unwrap();
        std::fs::write(folder.join("device"), format!("{device}\n")).unwrap();
        let file = File::create(folder.join("resource0")).unwrap();
        file.set_len(window).unwrap();
        if window > PAGE {
            let words = [0x34b0_c205_u32, 0x013a_1b29, 0x4002_0000];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            file.write_all_at(&bytes, PAGE + 0x20).unwrap();
        }
        root
    }

    #[test]
    fn registers_are_read_of_known_card() {
        let root = card("0x6988", 32 << 20);
        let dna = read(root.path(), ADDRESS).unwrap().unwrap();
        assert_eq!(dna.to_string(), "40020000013a1b2934b0c205");
        let other = card("0x5001", 32 << 20);
        assert_eq!(read(other.path(), ADDRESS).unwrap(), None, "another card is not touched");
        let short = card("0x6988", 64 << 10);
        let error = read(short.path(), ADDRESS).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(read(Path::new("/nowhere"), ADDRESS).unwrap().is_none());
    }

    #[test]
    fn what_the_driver_shows_counts_first() {
        let root = card("0x6988", 0);
        let folder = root.path().join("sys/bus/pci/devices").join(ADDRESS).join("dna.u.33554432");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("dna"), "0000000000000000000000aa\n").unwrap();
        let dna = read(root.path(), ADDRESS).unwrap().unwrap();
        assert_eq!(dna.to_string(), "0000000000000000000000aa");
    }
}
