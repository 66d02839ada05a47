//! Address translation: page-table walks of an IOMMU.

use super::engine::PacketEngine;
use super::train::Train;
use crate::model::Iommu;

/// Page-table walkers, by the time that each is free.
#[derive(Debug, Clone)]
pub(super) struct Walkers {
    free_at: Vec<u64>,
    walk: u64,
    /// Bytes a thousand times over between two misses.
    bytes_per_mille_miss: u64,
    miss_per_mille: u64,
}

impl Walkers {
    pub(super) fn new(iommu: &Iommu) -> Self {
        Self {
            free_at: vec![0; iommu.walkers.max(1) as usize],
            walk: iommu.walk.0,
            bytes_per_mille_miss: iommu.bytes_per_translation.0.max(1) * 1000,
            miss_per_mille: u64::from(iommu.miss_per_mille),
        }
    }

    /// Walks page tables `count` times, each on the walker that is free first. Returns the end of the last walk.
    fn walk(&mut self, count: u64, now: u64) -> u64 {
        let mut last = now;
        for _ in 0..count {
            let Some(first) = self.free_at.iter_mut().min() else { break };
            *first = now.max(*first) + self.walk;
            last = last.max(*first);
        }
        last
    }
}

impl PacketEngine {
    /// Returns the time at which a train is translated; `None` if its translation is cached.
    ///
    /// Of each leg, one in so many pages misses, evenly: `B <= walkers * page / (miss * T_walk)`
    /// (Farshin et al., "Overcoming the IOTLB wall for multi-100-Gbps Linux-based networking", 2023).
    pub(super) fn translate(&mut self, index: u32, train: &Train) -> Option<u64> {
        let walkers = &mut self.net.iommus[index as usize];
        let leg = &mut self.legs[train.leg as usize];
        leg.untranslated += u64::from(train.bytes) * walkers.miss_per_mille;
        let misses = leg.untranslated / walkers.bytes_per_mille_miss;
        leg.untranslated %= walkers.bytes_per_mille_miss;
        (misses > 0).then(|| walkers.walk(misses, self.now))
    }
}
