//! Trains: packets of one command that move as one, with the bytes on the wire of each.

use super::port::NONE;

/// Packets of one command that move as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Train {
    /// The hop that it waits for or crosses.
    pub(super) hop: u32,
    pub(super) leg: u32,
    /// Slot of its command.
    pub(super) slot: u32,
    pub(super) bytes: u32,
    /// The train behind it in a queue, or the next free entry of the slab.
    pub(super) next: u32,
    /// Pool whose credits it holds.
    pub(super) held: u32,
    /// Arrival of its last byte at the end of the hop.
    pub(super) tail: u64,
    /// Tags that it returns.
    pub(super) tags: u32,
    /// True once the IOMMU at the end of its hop has translated its address.
    pub(super) is_translated: bool,
}

/// Trains under way, by index, with a free list.
#[derive(Debug, Default)]
pub(super) struct Slab {
    trains: Vec<Train>,
    free: Option<u32>,
    pub(super) live: u32,
}

impl Slab {
    #[expect(clippy::cast_possible_truncation, reason = "bounded by depth and credits")]
    pub(super) fn insert(&mut self, train: Train) -> u32 {
        self.live += 1;
        match self.free {
            Some(index) => {
                let entry = &mut self.trains[index as usize];
                self.free = (entry.next != NONE).then_some(entry.next);
                *entry = train;
                index
            }
            None => {
                self.trains.push(train);
                (self.trains.len() - 1) as u32
            }
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.live -= 1;
        self.trains[index as usize].next = self.free.unwrap_or(NONE);
        self.free = Some(index);
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Train;
    fn index(&self, index: u32) -> &Train {
        &self.trains[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, index: u32) -> &mut Train {
        &mut self.trains[index as usize]
    }
}
