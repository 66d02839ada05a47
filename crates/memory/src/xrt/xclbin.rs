//! Memory groups of an xclbin: the banks of a card's memory that its image knows.
//!
//! Layout: `struct axlf`, `axlf_section_header`, `mem_topology` and `mem_data` of `xclbin.h` (XRT 2.13 and
//! 2.25), little-endian. Nothing else of the file is read. It may come from anybody, so every offset and
//! count is checked.

use peerlane_units::Bytes;

/// `m_magic`.
const MAGIC: &[u8] = b"xclbin2\0";
/// Offset of `m_header.m_numSections`.
const SECTION_COUNT: usize = 448;
/// Offset of `m_sections`.
const SECTIONS: usize = 456;
/// `sizeof(struct axlf_section_header)`.
const SECTION: usize = 40;
/// `XCLBIN_MAX_NUM_SECTION`.
const MOST_SECTIONS: usize = 0x10000;
/// `MEM_TOPOLOGY` of `enum axlf_section_kind`.
const MEM_TOPOLOGY: u32 = 6;
/// Offset of `m_mem_data` in `struct mem_topology`.
const BANKS: usize = 8;
/// `sizeof(struct mem_data)`.
const BANK: usize = 40;
/// More banks than any card has: a bound on the work that a file can cause.
const MOST_BANKS: usize = 4096;
/// `MEM_DDR3`, `MEM_DDR4`, `MEM_DRAM` and `MEM_HBM` of `enum MEM_TYPE`: memory that a drive can
/// address.
const MEMORY_TYPES: [u8; 4] = [0, 1, 2, 6];

/// A bank of a card's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryBank {
    /// Its number, for requests of its memory.
    pub index: u32,
    /// Its name in the image: `bank0`, `HBM[3]`.
    pub name: String,
    /// Its size.
    pub size: Bytes,
}

/// The reason why a file has no memory groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XclbinError {
    /// The first bytes are others.
    #[error("it is not an xclbin: it does not begin with `xclbin2`")]
    NotXclbin,
    /// A section that should be there ends behind the file.
    #[error("it is cut short or damaged")]
    Damaged,
    /// No such section.
    #[error("it describes no memory (it has no section MEM_TOPOLOGY)")]
    NoMemory,
}

/// Reads the banks that are in use and that payload can rest in, in the order of their numbers.
///
/// # Errors
/// [`XclbinError`] where the bytes are not an xclbin, or are one without such banks.
pub fn groups(file: &[u8]) -> Result<Vec<MemoryBank>, XclbinError> {
    if !file.starts_with(MAGIC) {
        return Err(XclbinError::NotXclbin);
    }
    let topology = topology(file)?;
    let count = usize::try_from(u32_at(topology, 0)?).unwrap_or(usize::MAX);
    if count > MOST_BANKS {
        return Err(XclbinError::Damaged);
    }
    let mut groups = Vec::new();
    for index in 0..count {
        let bank = part(topology, BANKS + index * BANK, BANK)?;
        let (kind, is_used) = (bank[0], bank[1] != 0);
        if !is_used || !MEMORY_TYPES.contains(&kind) {
            continue;
        }
        let kibibytes = u64_at(bank, 8)?;
        let tag = &bank[24..];
        let end = tag.iter().position(|&byte| byte == 0).unwrap_or(tag.len());
        groups.push(MemoryBank {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            name: String::from_utf8_lossy(&tag[..end]).into_owned(),
            size: Bytes(kibibytes.saturating_mul(1 << 10)),
        });
    }
    Ok(groups)
}

fn topology(file: &[u8]) -> Result<&[u8], XclbinError> {
    let count = usize::try_from(u32_at(file, SECTION_COUNT)?).unwrap_or(usize::MAX);
    for index in 0..count.min(MOST_SECTIONS) {
        let header = part(file, SECTIONS + index * SECTION, SECTION)?;
        if u32_at(header, 0)? == MEM_TOPOLOGY {
            let at =
                |offset| usize::try_from(u64_at(header, offset)?).map_err(|_| XclbinError::Damaged);
            return part(file, at(24)?, at(32)?);
        }
    }
    Err(XclbinError::NoMemory)
}

fn part(bytes: &[u8], start: usize, length: usize) -> Result<&[u8], XclbinError> {
    let end = start.checked_add(length).ok_or(XclbinError::Damaged)?;
    bytes.get(start..end).ok_or(XclbinError::Damaged)
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, XclbinError> {
    let found = part(bytes, offset, 4)?.try_into().map_err(|_| XclbinError::Damaged)?;
    Ok(u32::from_le_bytes(found))
}

fn u64_at(bytes: &[u8], offset: usize) -> Result<u64, XclbinError> {
    let found = part(bytes, offset, 8)?.try_into().map_err(|_| XclbinError::Damaged)?;
    Ok(u64::from_le_bytes(found))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An image whose topology has these banks: type, whether in use, KiB, tag.
    fn image(banks: &[(u8, u8, u64, &str)]) -> Vec<u8> {
        let mut file = vec![0; SECTIONS];
        file[..8].copy_from_slice(MAGIC);
        file[SECTION_COUNT..SECTION_COUNT + 4].copy_from_slice(&2u32.to_le_bytes());
        let start = SECTIONS + 2 * SECTION;
        let length = BANKS + banks.len() * BANK;
        for (kind, offset, size) in [(1u32, 0u64, 0u64), (6, start as u64, length as u64)] {
            let mut header = [0; SECTION];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&offset.to_le_bytes());
            header[32..].copy_from_slice(&size.to_le_bytes());
            file.extend(header);
        }
        file.extend(u32::try_from(banks.len()).unwrap().to_le_bytes());
        file.extend([0; 4]);
        for (kind, used, kibibytes, tag) in banks {
            let mut bank = [0; BANK];
            (bank[0], bank[1]) = (*kind, *used);
            bank[8..16].copy_from_slice(&kibibytes.to_le_bytes());
            bank[24..24 + tag.len()].copy_from_slice(tag.as_bytes());
            file.extend(bank);
        }
        file
    }

    #[test]
    fn banks_in_use_become_groups() {
        let file = image(&[
            (1, 0, 1 << 22, "bank0"),
            (1, 1, 1 << 22, "bank1"),
            (3, 1, 7, "stream"),
            (6, 1, 1 << 18, "HBM[15]_and_more"),
        ]);
        let found = groups(&file).unwrap();
        let group = |index, name: &str, size| MemoryBank { index, name: name.to_owned(), size };
        let expected =
            [group(1, "bank1", Bytes::mib(4096)), group(3, "HBM[15]_and_more", Bytes::mib(256))];
        assert_eq!(found, expected);
    }

    #[test]
    fn bad_or_memoryless_xclbin_is_refused() {
        assert_eq!(groups(b"ELF"), Err(XclbinError::NotXclbin));
        assert_eq!(groups(MAGIC), Err(XclbinError::Damaged));
        let mut file = image(&[(1, 1, 1, "bank0")]);
        let whole = file.clone();
        file.truncate(whole.len() - 1);
        assert_eq!(groups(&file), Err(XclbinError::Damaged));
        let mut other = whole;
        other[SECTIONS + SECTION] = 7;
        assert_eq!(groups(&other), Err(XclbinError::NoMemory));
    }

    proptest! {
        #[test]
        fn damaged_files_do_not_panic(at in 0usize..620, byte: u8, cut in 0usize..620) {
            let mut file = image(&[(1, 1, u64::MAX, "bank0"), (6, 1, 3, "HBM[0]")]);
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            file.truncate(file.len().saturating_sub(cut));
            let _ = groups(&file);
        }
    }
}
