//! Pinned host memory of the process, on its way between loads.
//!
//! Registering memory costs more than copying it (0.24 s for 512 MiB on an H100's machine, November
//! 2026). So pairs are kept for the next load, and given back after ten seconds without one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::cuda::{CopyQueue, CudaError, Gpu, PinnedSlot};
use peerlane_units::Bytes;

use super::BLOCK;
use crate::endpoints::lane::fit;

/// Bytes of a slot. The copy engine then still reads from the processor's cache.
pub(super) const SLOT_BYTES: u64 = 4 << 20;
/// The smallest useful slot.
const MIN_SLOT_BYTES: u64 = 64 << 10;
/// Slots of a pair: one is read into while the other is copied from.
pub(super) const SLOTS: usize = 2;
/// Idle time before a pair is released.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two calls of `stops`.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Idle pairs, and the count of all pinned bytes.
#[derive(Debug)]
pub struct PinnedPool {
    state: Mutex<PoolState>,
    returned: Condvar,
    idle: Duration,
    /// Pieces read or sent by all loads of the pool.
    steps: AtomicU64,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Bytes of all pairs, in use or not.
    pinned: u64,
    most: u64,
    idle: Vec<IdlePair>,
    has_keeper: bool,
    has_said: bool,
}

/// A pair, and the start of its idle time.
type IdlePair = (Instant, SlotPair);

/// Two slots and the queue of copies out of them. Dropping it clears the slots, unless a copy may still read them.
#[derive(Debug)]
pub(super) struct SlotPair {
    pub(super) slots: [PinnedSlot; SLOTS],
    pub(super) queue: CopyQueue,
    /// Bytes of each slot that may hold content.
    pub(super) used: [u64; SLOTS],
    gpu: Arc<Gpu>,
    /// Dropped after the slots, so the count never runs ahead of the release.
    _count: PairCount,
}

/// The share of one pair in the pool's count. Dropping it locks the pool.
#[derive(Debug)]
struct PairCount {
    pool: Weak<PinnedPool>,
    bytes: u64,
}

impl PairCount {
    fn shrink(&mut self, bytes: u64) {
        if let Some(pool) = self.pool.upgrade() {
            pool.lock().pinned -= self.bytes - bytes;
        }
        self.bytes = bytes;
    }
}

impl Drop for PairCount {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.lock().pinned -= self.bytes;
            pool.returned.notify_all();
        }
    }
}

impl SlotPair {
    /// Pins the slots. With `may_shrink`, slots shrink until the system pins them.
    fn new(gpu: &Arc<Gpu>, mut count: PairCount, may_shrink: bool) -> Result<Self, CudaError> {
        let (slots, _) = fit(
            count.bytes / SLOTS as u64,
            |slot| Ok([gpu.slot(Bytes(*slot))?, gpu.slot(Bytes(*slot))?]),
            |slot, _: &CudaError| {
                (may_shrink && slot / 2 >= MIN_SLOT_BYTES).then(|| {
                    let smaller = slot / 2 / BLOCK * BLOCK;
                    count.shrink(smaller * SLOTS as u64);
                    smaller
                })
            },
        )?;
        let (queue, gpu) = (gpu.copy_queue()?, Arc::clone(gpu));
        Ok(Self { slots, queue, used: [0; SLOTS], gpu, _count: count })
    }

    pub(super) fn slot_bytes(&self) -> u64 {
        self.slots[0].length().0
    }

    fn bytes(&self) -> u64 {
        self.slot_bytes() * SLOTS as u64
    }

    /// Overwrites loaded bytes with zeroes; false if a copy may still read them.
    pub(super) fn clear(&mut self) -> bool {
        let Self { slots, used, .. } = self;
        let pairs = slots.iter_mut().zip(used);
        pairs.into_iter().fold(true, |all, (slot, used)| slot.clear(std::mem::take(used)) && all)
    }
}

impl Drop for SlotPair {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Pairs for a load.
pub(super) struct TakenPairs {
    pub(super) pairs: Vec<SlotPair>,
    /// A notice that the system pinned less than requested; given once per pool.
    pub(super) shortage: Option<String>,
}

/// Reason why there is no pair.
pub(super) enum NoSlots {
    Cuda(CudaError),
    /// `stops` ended the wait.
    Stopped,
}

impl PinnedPool {
    /// The pool of this process.
    pub fn of_process() -> Arc<Self> {
        static POOL: OnceLock<Arc<PinnedPool>> = OnceLock::new();
        Arc::clone(POOL.get_or_init(|| Self::new(IDLE_TIMEOUT)))
    }

    /// A pool that releases pairs after this idle time.
    pub fn new(idle: Duration) -> Arc<Self> {
        let (state, returned, steps) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Arc::new(Self { state, returned, idle, steps })
    }

    /// Peak of pinned memory.
    pub fn peak(&self) -> Bytes {
        Bytes(self.lock().most)
    }

    /// Pinned memory now, in use or not.
    pub fn pinned(&self) -> Bytes {
        Bytes(self.lock().pinned)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a piece that was read or sent.
    pub(super) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Takes up to `wanted` pairs of a GPU within `limit`, at least one. While other loads hold all pairs, waits until
    /// `stops` returns true.
    pub(super) fn take(
        self: &Arc<Self>,
        gpu: &Arc<Gpu>,
        wanted: usize,
        limit: Bytes,
        stops: &mut dyn FnMut() -> bool,
    ) -> Result<TakenPairs, NoSlots> {
        loop {
            let surplus = self.lock().trim(limit);
            drop(surplus);
            let mut taken = self.lock().take_idle(gpu, wanted);
            let made = self.make_up(gpu, &mut taken, wanted, limit);
            if !taken.is_empty() {
                let shortage = self.lock().shortage(&taken, wanted, &made);
                return Ok(TakenPairs { pairs: taken, shortage });
            }
            if let (Some(error), Bytes(0)) = (made.refused, self.pinned()) {
                return Err(NoSlots::Cuda(error));
            }
            // Without the lock: who is asked may run code that loads as well.
            if stops() {
                return Err(NoSlots::Stopped);
            }
            let _ = self.returned.wait_timeout(self.lock(), STOP_POLL);
        }
    }

    /// Pins further pairs up to `wanted`, the limit, or the first refusal.
    fn make_up(
        self: &Arc<Self>,
        gpu: &Arc<Gpu>,
        pairs: &mut Vec<SlotPair>,
        wanted: usize,
        limit: Bytes,
    ) -> MadePairs {
        let mut made = MadePairs::default();
        while pairs.len() < wanted && !made.is_small && made.refused.is_none() {
            let bytes = slot_within(limit) * SLOTS as u64;
            let Some(others) = self.lock().make_room(bytes, limit) else { break };
            drop(others);
            let count = PairCount { pool: Arc::downgrade(self), bytes };
            match SlotPair::new(gpu, count, pairs.is_empty()) {
                Ok(pair) => {
                    made.is_small = pair.bytes() < bytes;
                    pairs.push(pair);
                    let mut state = self.lock();
                    state.most = state.most.max(state.pinned);
                }
                Err(error) => made.refused = Some(error),
            }
        }
        made
    }

    /// Keeps pairs for the next load.
    pub(super) fn give_back(self: &Arc<Self>, pairs: impl IntoIterator<Item = SlotPair>) {
        let now = Instant::now();
        let mut state = self.lock();
        state.idle.extend(pairs.into_iter().map(|pair| (now, pair)));
        let begins = !state.has_keeper && !state.idle.is_empty();
        state.has_keeper |= begins;
        drop(state);
        self.returned.notify_all();
        if begins {
            let pool = Arc::downgrade(self);
            let keeper = thread::Builder::new().name("pinned-pool".to_owned());
            if keeper.spawn(move || while keep(&pool) {}).is_err() {
                self.lock().has_keeper = false;
            }
        }
    }

    /// Gives back idle pairs of a GPU at once.
    pub(super) fn release(&self, gpu: &Arc<Gpu>) {
        let idle = self.lock().take_idle(gpu, usize::MAX);
        drop(idle);
    }
}

/// Outcome of making pairs.
#[derive(Debug, Default)]
struct MadePairs {
    /// The last pair has smaller slots than the limit allows.
    is_small: bool,
    refused: Option<CudaError>,
}

/// Slot size that keeps one pair within the limit; never below [`MIN_SLOT_BYTES`].
fn slot_within(limit: Bytes) -> u64 {
    (limit.0 / SLOTS as u64 / BLOCK * BLOCK).clamp(MIN_SLOT_BYTES, SLOT_BYTES)
}

/// Releases pairs whose idle time is over, then sleeps until the next one is due; false without idle pairs.
fn keep(pool: &Weak<PinnedPool>) -> bool {
    let Some(pool) = pool.upgrade() else { return false };
    let mut state = pool.lock();
    let now = Instant::now();
    let idle = pool.idle;
    let is_old = |(since, _): &IdlePair| now.duration_since(*since) >= idle;
    let (old, young): (Vec<_>, Vec<_>) = state.idle.drain(..).partition(is_old);
    state.idle = young;
    let next = state.idle.iter().map(|(since, _)| *since + idle).min();
    state.has_keeper = next.is_some();
    drop(state);
    drop(old);
    drop(pool);
    let Some(next) = next else { return false };
    thread::sleep(next.saturating_duration_since(Instant::now()));
    true
}

impl PoolState {
    fn take_idle(&mut self, gpu: &Arc<Gpu>, wanted: usize) -> Vec<SlotPair> {
        let mut taken = Vec::new();
        for (since, pair) in std::mem::take(&mut self.idle) {
            if taken.len() < wanted && pair.gpu.is_same(gpu) {
                taken.push(pair);
            } else {
                self.idle.push((since, pair));
            }
        }
        taken
    }

    /// Removes idle pairs beyond a limit. The caller drops them after it has unlocked the pool.
    fn trim(&mut self, limit: Bytes) -> Vec<IdlePair> {
        let (mut gone, mut left) = (Vec::new(), self.pinned);
        while left > limit.0 {
            let Some(other) = self.idle.pop() else { break };
            left -= other.1.bytes();
            gone.push(other);
        }
        gone
    }

    /// Reserves bytes within a limit, and removes idle pairs for them as [`PoolState::trim`] does; `None` without room.
    fn make_room(&mut self, bytes: u64, limit: Bytes) -> Option<Vec<IdlePair>> {
        let idle: u64 = self.idle.iter().map(|(_, pair)| pair.bytes()).sum();
        let in_use = self.pinned - idle;
        // One pair there is, however low the limit.
        if in_use > 0 && in_use + bytes > limit.0 {
            return None;
        }
        let gone = self.trim(Bytes(limit.0.saturating_sub(bytes)));
        self.pinned += bytes;
        Some(gone)
    }

    fn shortage(&mut self, pairs: &[SlotPair], wanted: usize, made: &MadePairs) -> Option<String> {
        if self.has_said || !(made.is_small || made.refused.is_some()) {
            return None;
        }
        self.has_said = true;
        let bytes = Bytes(pairs.iter().map(SlotPair::bytes).sum());
        let why = made.refused.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        Some(format!(
            "only {bytes} of host memory could be pinned, for {} of {wanted} threads{why}: loading is \
             slower; `ulimit -l` shows the limit of locked memory",
            pairs.len()
        ))
    }
}
