//! Direct ways that cuFile has switched on for a kind of storage.

use std::fmt;

use super::abi::{P2P_FLAGS, storage};

/// A kind of storage that cuFile has flags for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// NVMe drives of this machine.
    Nvme,
    /// NVMe over Fabrics.
    NvmeOf,
}

impl Storage {
    /// All of them.
    pub(super) const ALL: [Self; 2] = [Self::Nvme, Self::NvmeOf];

    /// Its number in `CUfileDriverStatusFlags_t`.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::Nvme => storage::NVME,
            Self::NvmeOf => storage::NVME_OF,
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nvme => "NVMe",
            Self::NvmeOf => "NVMe-oF",
        })
    }
}

/// Direct ways of one kind of storage, as the library says it (`cuFileDriverGetP2PFlags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct P2pFlags(pub(super) u32);

impl fmt::Display for P2pFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_on = |&(bit, _): &(u32, &str)| self.0 & 1 << bit != 0;
        let mut names: Vec<String> =
            P2P_FLAGS.into_iter().filter(is_on).map(|(_, name)| name.to_owned()).collect();
        let known = P2P_FLAGS.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
        let unknown = self.0 & !known;
        if unknown != 0 {
            names.push(format!("{unknown:#x}"));
        }
        if names.is_empty() { f.pad("none") } else { f.pad(&names.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::P2pFlags;

    #[test]
    fn unknown_flags_are_kept() {
        for (flags, words) in
            [(0, "none"), (1, "P2PDMA"), (0b1010, "nvidia-fs, C2C"), (0x41, "P2PDMA, 0x40")]
        {
            assert_eq!(P2pFlags(flags).to_string(), words);
        }
    }
}
