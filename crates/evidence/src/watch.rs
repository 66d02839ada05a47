//! All sources together, around one run of one case.

use peerlane_fabric::Bdf;
use peerlane_results::PageFaults;
use peerlane_units::Bytes;

use super::block_counters::BlockCounters;
use super::counters::Counters;
use super::cpu::CpuWatch;
use super::dma_map::{self, DmaWitness, Unwatched};
use super::kernel_log::KernelLog;
use super::page_faults;
use super::pool::PoolWatch;
use super::{CaseEvidence, DriveBytes, Observed, Root, Scene, Unread, cache, recorder, requests};

/// A watch over one case: begun before its first request, read while payload moves, ended after
/// its last.
#[derive(Debug)]
pub struct CaseWatch {
    root: Root,
    addresses: Vec<Bdf>,
    pools: Vec<PoolWatch>,
    sectors: Vec<BlockCounters>,
    faults: Result<PageFaults, Unread>,
    cache: Result<cache::PageCache, Unread>,
    log: KernelLog,
    counters: Counters,
    dma: Result<DmaWitness, Unwatched>,
    cpu: CpuWatch,
}

impl CaseWatch {
    /// Reads the state of every source. A source that cannot be read becomes evidence with the
    /// reason.
    pub fn begin(scene: &Scene) -> Self {
        let root = Root::at(&scene.root);
        let drives: Vec<Bdf> = scene.drives.iter().filter_map(|drive| drive.address).collect();
        Self {
            dma: DmaWitness::begin(&root, &drives, &scene.memories, scene.is_translating),
            addresses: drives
                .into_iter()
                .chain(scene.pools.iter().map(|pool| pool.address))
                .collect(),
            pools: scene.pools.iter().map(|pool| PoolWatch::begin(&root, pool.clone())).collect(),
            sectors: scene
                .drives
                .iter()
                .map(|one| BlockCounters::begin(&root, one.clone()))
                .collect(),
            faults: page_faults::count(&root),
            cache: cache::read(&root),
            log: KernelLog::at_end(&root),
            counters: Counters::begin(&root),
            // Last, so that it does not count what the others take.
            cpu: CpuWatch::begin(&root),
            root,
        }
    }

    /// Reads the sources that show only while payload moves: pools in use, workers that come and
    /// go. The caller does so at least once between the first and the last request of the case.
    pub fn look(&mut self) {
        for pool in &mut self.pools {
            pool.look(&self.root);
        }
        self.cpu.look(&self.root);
    }

    /// Reads every source again.
    pub fn end(self, seen: &CaseEvidence) -> Observed {
        let root = &self.root;
        // First, so that it does not count what the others take.
        let (cpu, of_cpu) = self.cpu.end(root, seen.asked);
        let mut evidence = vec![requests::look(seen.asked, seen.moved)];
        evidence.extend(match self.dma {
            Ok(witness) => witness.judge(&seen.transfers),
            Err(unwatched) => vec![dma_map::unseen(&unwatched)],
        });
        evidence.push(recorder::look(seen.dma.as_ref(), seen.asked));
        evidence.extend(self.pools.into_iter().map(|pool| pool.end(seen.asked)));
        let mut drives = Vec::new();
        for (position, watch) in self.sectors.into_iter().enumerate() {
            let claimed = seen.drives.get(position).copied().unwrap_or(DriveBytes::default());
            // A case reads no file with holes.
            let (counted, item) = watch.end(root, claimed, Some(Bytes(0)));
            drives.push(counted);
            evidence.push(item);
        }
        evidence.extend(of_cpu);
        let (page_faults, of_faults) = page_faults::end(self.faults, root);
        evidence.push(of_faults);
        evidence.push(cache::end(self.cache, root, seen.asked));
        let (of_counters, host_memory) = self.counters.end(seen.asked);
        evidence.extend(of_counters);
        let host_memory = seen.dma.as_ref().map_or(host_memory, recorder::DmaTally::host_memory);
        evidence.push(self.log.end(&self.addresses));
        Observed { evidence, host_memory, cpu, drives, page_faults }
    }
}
