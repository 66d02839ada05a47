//! Pinned host memory of the process, on its way between loads.
//!
//! Registering memory costs more than copying it (0.24 s for 512 MiB on an H100's machine, November 2026), so lanes are
//! kept for the next load, and given back when nobody has loaded for ten seconds.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_memory::cuda::{CopyQueue, CudaError, Gpu, PinnedSlot};
use peerlane_units::Bytes;

use super::BLOCK;

/// Bytes of a slot: small enough that the copy engine reads what a processor's cache still holds.
pub(super) const SLOT: u64 = 4 << 20;
/// The smallest slot that is worth a copy.
const LEAST_SLOT: u64 = 64 << 10;
/// Slots of a lane: one is read into while the other is copied from.
pub(super) const SLOTS: usize = 2;
/// Time after which a lane that nobody uses is given back.
const IDLE: Duration = Duration::from_secs(10);
/// Pause between two looks whether the wait for a lane is to end.
const WAIT: Duration = Duration::from_millis(50);

/// Lanes that wait for the next load, and a count of the memory of all.
#[derive(Debug)]
pub struct PinnedPool {
    state: Mutex<PoolState>,
    returned: Condvar,
    idle: Duration,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Bytes of all lanes, in use or not.
    pinned: u64,
    most: u64,
    idle: Vec<(Instant, Lane)>,
    has_keeper: bool,
    has_said: bool,
}

/// Two slots, and the queue of copies out of them.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) slots: [PinnedSlot; SLOTS],
    pub(super) queue: CopyQueue,
    /// Bytes of each slot that may hold content.
    pub(super) used: [u64; SLOTS],
    gpu: Arc<Gpu>,
}

impl Lane {
    fn new(gpu: &Arc<Gpu>, slot: u64) -> Result<Self, CudaError> {
        let slots = [gpu.slot(Bytes(slot))?, gpu.slot(Bytes(slot))?];
        Ok(Self { slots, queue: gpu.lane()?, used: [0; SLOTS], gpu: Arc::clone(gpu) })
    }

    pub(super) fn slot_bytes(&self) -> u64 {
        self.slots[0].length().0
    }

    fn bytes(&self) -> u64 {
        self.slot_bytes() * SLOTS as u64
    }

    /// Overwrites what was loaded; false where a copy may still be reading it.
    pub(super) fn clear(&mut self) -> bool {
        let Self { slots, used, .. } = self;
        let pairs = slots.iter_mut().zip(used);
        pairs.into_iter().fold(true, |all, (slot, used)| slot.clear(std::mem::take(used)) && all)
    }

    /// Whether it is of this GPU by the same driver.
    fn serves(&self, gpu: &Arc<Gpu>) -> bool {
        self.gpu.is_same(gpu)
    }
}

/// Lanes for a load.
pub(super) struct TakenLanes {
    pub(super) lanes: Vec<Lane>,
    /// Set once for a pool, where the system gave less pinned memory than was asked for.
    pub(super) shortage: Option<String>,
}

/// Reason why there is no lane.
pub(super) enum NoLane {
    Cuda(CudaError),
    /// The wait was ended.
    Stopped,
}

impl PinnedPool {
    /// The pool of this process.
    pub fn of_process() -> Arc<Self> {
        static POOL: OnceLock<Arc<PinnedPool>> = OnceLock::new();
        Arc::clone(POOL.get_or_init(|| Self::new(IDLE)))
    }

    /// A pool that gives back what was not used for so long.
    pub fn new(idle: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), returned: Condvar::new(), idle })
    }

    /// Pinned memory at its highest.
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

    /// Takes lanes of a GPU: as many as wanted, or as `limit` and the system allow, at least one. Waits where others
    /// have them all, until `stops` says so.
    pub(super) fn take(
        &self,
        gpu: &Arc<Gpu>,
        wanted: usize,
        limit: Bytes,
        stops: &mut dyn FnMut() -> bool,
    ) -> Result<TakenLanes, NoLane> {
        let mut state = self.lock();
        loop {
            let mut lanes = state.take_idle(gpu, wanted);
            let mut refused = None;
            while lanes.len() < wanted && refused.is_none() {
                let slot = slot_within(limit);
                let Some(others) = state.make_room(slot * SLOTS as u64, limit) else { break };
                drop(state);
                drop(others);
                let made = make(gpu, slot, lanes.is_empty());
                state = self.lock();
                state.pinned -= slot * SLOTS as u64;
                match made {
                    Ok(lane) => {
                        state.pinned += lane.bytes();
                        let is_small = lane.slot_bytes() < slot;
                        lanes.push(lane);
                        if is_small {
                            break;
                        }
                    }
                    Err(error) => refused = Some(error),
                }
            }
            state.most = state.most.max(state.pinned);
            if !lanes.is_empty() {
                let shortage = state.shortage(&lanes, wanted, limit, refused.as_ref());
                return Ok(TakenLanes { lanes, shortage });
            }
            if let Some(error) = refused {
                return Err(NoLane::Cuda(error));
            }
            if stops() {
                return Err(NoLane::Stopped);
            }
            let waited = self.returned.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Keeps lanes for the next load.
    pub(super) fn give_back(self: &Arc<Self>, lanes: impl IntoIterator<Item = Lane>) {
        let now = Instant::now();
        let mut state = self.lock();
        state.idle.extend(lanes.into_iter().map(|lane| (now, lane)));
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

    /// Gives back idle lanes at once.
    pub(super) fn release(&self) {
        let mut state = self.lock();
        let idle = std::mem::take(&mut state.idle);
        state.pinned -= idle.iter().map(|(_, lane)| lane.bytes()).sum::<u64>();
        drop(state);
        for (_, mut lane) in idle {
            let _ = lane.clear();
        }
    }

    /// Counts a lane as gone; a copy that does not end may have it for ever.
    pub(super) fn lose(&self, lane: Lane) {
        self.lock().pinned -= lane.bytes();
        drop(lane);
        self.returned.notify_all();
    }
}

/// Makes a lane, of smaller slots where it is the first and the system has no room for it.
fn make(gpu: &Arc<Gpu>, mut slot: u64, is_first: bool) -> Result<Lane, CudaError> {
    loop {
        match Lane::new(gpu, slot) {
            Err(_) if is_first && slot / 2 >= LEAST_SLOT => slot = slot / 2 / BLOCK * BLOCK,
            made => return made,
        }
    }
}

/// Bytes of a slot such that a lane is within the limit, where that is possible.
fn slot_within(limit: Bytes) -> u64 {
    (limit.0 / SLOTS as u64 / BLOCK * BLOCK).clamp(LEAST_SLOT, SLOT)
}

/// Gives back what was idle for long enough, and waits for the next; false when there is nothing left to wait for.
fn keep(pool: &Weak<PinnedPool>) -> bool {
    let Some(pool) = pool.upgrade() else { return false };
    let mut state = pool.lock();
    let now = Instant::now();
    let idle = pool.idle;
    let is_old = |(since, _): &(Instant, Lane)| now.duration_since(*since) >= idle;
    let (old, young): (Vec<_>, Vec<_>) = state.idle.drain(..).partition(is_old);
    state.idle = young;
    state.pinned -= old.iter().map(|(_, lane)| lane.bytes()).sum::<u64>();
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
    fn take_idle(&mut self, gpu: &Arc<Gpu>, wanted: usize) -> Vec<Lane> {
        let mut taken = Vec::new();
        for (since, lane) in std::mem::take(&mut self.idle) {
            if taken.len() < wanted && lane.serves(gpu) {
                taken.push(lane);
            } else {
                self.idle.push((since, lane));
            }
        }
        taken
    }

    /// Counts so many bytes as pinned; lanes of other GPUs that had to go for that. `None` where there is no room.
    fn make_room(&mut self, bytes: u64, limit: Bytes) -> Option<Vec<(Instant, Lane)>> {
        let mut gone = Vec::new();
        while self.pinned + bytes > limit.0 {
            // One lane there is, however low the limit.
            if self.pinned == 0 {
                break;
            }
            let Some((since, lane)) = self.idle.pop() else {
                self.pinned += gone.iter().map(|(_, lane): &(_, Lane)| lane.bytes()).sum::<u64>();
                self.idle.append(&mut gone);
                return None;
            };
            self.pinned -= lane.bytes();
            gone.push((since, lane));
        }
        self.pinned += bytes;
        Some(gone)
    }

    fn shortage(
        &mut self,
        lanes: &[Lane],
        wanted: usize,
        limit: Bytes,
        refused: Option<&CudaError>,
    ) -> Option<String> {
        let is_small = lanes.iter().any(|lane| lane.slot_bytes() < slot_within(limit));
        if self.has_said || !(is_small || refused.is_some()) {
            return None;
        }
        self.has_said = true;
        let bytes = Bytes(lanes.iter().map(Lane::bytes).sum());
        let why = refused.map(|error| format!(" ({error})")).unwrap_or_default();
        Some(format!(
            "only {bytes} of pinned host memory, by {} of {wanted} threads{why}: loading is slower; \
             `ulimit -l` shows the limit of locked memory",
            lanes.len()
        ))
    }
}
