//! The volatile cache of a simulated drive.

use crate::io::random::Random;

/// Content of the medium, and writes since.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    stable: Vec<u8>,
    written: Vec<CachedWrite>,
    next: u64,
}

#[derive(Debug, Clone)]
struct CachedWrite {
    number: u64,
    change: CachedChange,
}

#[derive(Debug, Clone)]
enum CachedChange {
    Bytes { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Cache {
    /// A cache with nothing in it over a medium that holds `stable`.
    pub fn over(stable: &[u8]) -> Self {
        Self { stable: stable.to_vec(), written: Vec::new(), next: 0 }
    }

    /// Content of the medium.
    pub(crate) fn stable(&self) -> &[u8] {
        &self.stable
    }

    /// Every write that ended has a number below this.
    pub(super) fn barrier(&self) -> u64 {
        self.next
    }

    pub(super) fn wrote(&mut self, offset: usize, bytes: &[u8]) {
        self.changed(CachedChange::Bytes { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.changed(CachedChange::Length(length));
    }

    fn changed(&mut self, change: CachedChange) {
        self.written.push(CachedWrite { number: self.next, change });
        self.next += 1;
    }

    /// Puts writes before the barrier on the medium.
    pub(super) fn keep(&mut self, barrier: u64) {
        let kept = self.written.partition_point(|written| written.number < barrier);
        for written in self.written.drain(..kept) {
            written.change.put(&mut self.stable);
        }
    }

    /// Puts each write before the barrier on the medium or drops it, by chance. None is tried
    /// again.
    pub(super) fn forget(&mut self, barrier: u64, random: &mut Random) {
        let forgotten = self.written.partition_point(|written| written.number < barrier);
        for written in self.written.drain(..forgotten) {
            if random.below(2) == 0 {
                written.change.put(&mut self.stable);
            }
        }
    }

    /// Each block that was not flushed is on the medium or not. Returns the content of the medium.
    pub(super) fn lose(&mut self, block: u64, random: &mut Random) -> Vec<u8> {
        let block = usize::try_from(block.max(1)).unwrap_or(1);
        for written in self.written.drain(..) {
            let CachedChange::Bytes { offset, bytes } = written.change else {
                if random.below(2) == 0 {
                    written.change.put(&mut self.stable);
                }
                continue;
            };
            for (number, bytes) in bytes.chunks(block).enumerate() {
                if random.below(2) == 0 {
                    put(&mut self.stable, offset + number * block, bytes);
                }
            }
        }
        self.stable.clone()
    }
}

impl CachedChange {
    fn put(&self, stable: &mut Vec<u8>) {
        match self {
            Self::Bytes { offset, bytes } => put(stable, *offset, bytes),
            Self::Length(length) => stable.resize(*length, 0),
        }
    }
}

fn put(stable: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if stable.len() < end {
        stable.resize(end, 0);
    }
    stable[offset..end].copy_from_slice(bytes);
}
