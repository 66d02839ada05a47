//! Files into memory of a GPU: real files, and a mock of CUDA that demands the order of its calls.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{folder, noise};
use crate::mock::Mock;
use peerlane_engine::failure::RequestError;
use peerlane_engine::load::{
    LoadError, LoadFile, LoadPart, LoadRoutes, LoadSettings, Loaded, Loader, PinnedPool, ReadTools,
};
use peerlane_engine::{MonotonicClock, Watch};
use peerlane_memory::cuda::{
    Copy, CopyDirection, Cuda, DeviceMemory, Foreign, Gpu, GpuTarget, Pinned,
};
use peerlane_results::RouteChoice;
use peerlane_units::{Bytes, Nanos};
use rustix::fs::{Advice, fadvise};

const WAIT: Nanos = Nanos::seconds(10);
const KEPT: Duration = Duration::from_secs(60);

fn settings(workers: usize, pinned: u64) -> LoadSettings {
    LoadSettings { workers, registers: false, yields: false, pinned: Bytes(pinned) }
}

/// A machine with a mock GPU, files, and a listener for loads.
struct LoadBench {
    mock: Mock,
    cuda: Cuda,
    gpu: Arc<Gpu>,
    pool: Arc<PinnedPool>,
    folder: tempfile::TempDir,
    deadline: Nanos,
    settings: LoadSettings,
}

type LoadResults = Result<Vec<Result<Loaded, LoadError>>, LoadError>;

impl LoadBench {
    fn new(conf: &str, settings: LoadSettings) -> Self {
        let mock = Mock::new(conf);
        let cuda = Cuda::load_from(&mock.library()).unwrap();
        let gpu = cuda.open(&cuda.gpus().unwrap()[0]).unwrap();
        let pool = PinnedPool::new(KEPT);
        Self { mock, cuda, gpu, pool, folder: folder(), deadline: WAIT, settings }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of noise, and to the disk.
    fn file(&self, name: &str, length: usize, seed: u64) -> Vec<u8> {
        let content = noise(length, seed);
        std::fs::write(self.path(name), &content).unwrap();
        File::open(self.path(name)).unwrap().sync_all().unwrap();
        content
    }

    fn part(&self, name: &str, range: Range<u64>, memory: &GpuTarget, offset: u64) -> LoadPart {
        let file = LoadFile::new(File::open(self.path(name)).unwrap());
        LoadPart { file, range, memory: memory.clone(), offset }
    }

    fn own(&self, length: u64) -> (Arc<DeviceMemory>, GpuTarget) {
        let memory = self.gpu.allocate(Bytes(length)).unwrap();
        (Arc::clone(&memory), GpuTarget::Own(memory))
    }

    /// Memory that is lent to the loader from its byte `skip` on.
    fn lent(&self, owner: &Arc<DeviceMemory>, skip: u64, length: u64) -> GpuTarget {
        let kept = Arc::<DeviceMemory>::clone(owner);
        let lent: Foreign = self.cuda.foreign(owner.address() + skip, Bytes(length), kept).unwrap();
        GpuTarget::Foreign(Arc::new(lent))
    }

    fn load(&self, parts: &[LoadPart], watch: &mut dyn Watch) -> LoadResults {
        let ways = LoadRoutes::new(RouteChoice::Host);
        let clock = MonotonicClock::start();
        let mut tools = ReadTools { clock: &clock, watch, deadline: self.deadline };
        Loader::new(&self.gpu, &ways, &self.pool, self.settings).load(parts, &mut tools)
    }

    /// The same if a failure of one part leaves the others alone.
    fn load_many(&self, parts: &[LoadPart]) -> LoadResults {
        let ways = LoadRoutes::new(RouteChoice::Host);
        let clock = MonotonicClock::start();
        let mut tools = ReadTools { clock: &clock, watch: &mut (), deadline: self.deadline };
        let loader = Loader::new(&self.gpu, &ways, &self.pool, self.settings);
        loader.for_many().load(parts, &mut tools)
    }

    /// The content of memory.
    fn content(&self, memory: &Arc<DeviceMemory>) -> Vec<u8> {
        let (mut pinned, mut queue) =
            (self.gpu.pin(memory.length()).unwrap(), self.gpu.queue().unwrap());
        let (length, direction) = (memory.length().0, CopyDirection::ToHost);
        let (pinned_offset, memory_offset) = (0, 0);
        let copy = Copy {
            direction,
            pinned: &pinned,
            pinned_offset,
            memory,
            memory_offset,
            length,
            tag: 0,
        };
        queue.copy(&copy).unwrap();
        queue.close().unwrap();
        assert!((0..1000).any(|_| queue.is_over().unwrap()));
        Pinned::bytes_mut(&mut pinned).unwrap()[..to_usize(length)].to_vec()
    }

    /// Ends the machine: all that was taken is given back.
    fn end(self) {
        let Self { mock, cuda, gpu, pool, .. } = self;
        drop((pool, gpu, cuda));
        mock.expect_all_undone();
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Puts a part of a file out of the page cache.
fn forget(path: &Path, from: u64) {
    let file = File::open(path).unwrap();
    fadvise(&file, from, None, Advice::DontNeed).unwrap();
}

/// Does something at the first progress, and stops when so many bytes are there.
#[derive(Default)]
struct Meanwhile<'a> {
    first: Option<Box<dyn FnOnce() + 'a>>,
    stops_after: Option<u64>,
    done: u64,
    notices: Vec<String>,
}

impl Watch for Meanwhile<'_> {
    fn progress(&mut self, done: Bytes, _: Bytes) {
        self.done = done.0;
        if let Some(first) = self.first.take() {
            first();
        }
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.to_owned());
    }

    fn stop_requested(&self) -> bool {
        self.stops_after.is_some_and(|after| self.done >= after)
    }
}

#[test]
fn pieces_in_any_order_fill_every_place() {
    for seed in 0..6_u64 {
        // Slots of 64 KiB, so that there are many pieces, and copies that end by chance.
        let workers = [1, 3, 8][to_usize(seed % 3)];
        let bench = LoadBench::new("shuffled=1", settings(workers, (workers as u64) << 17));
        let lengths = [3_000_001, 70_000, 1, 200_001, 1 << 20];
        let (mut expected, mut parts) = (vec![0xee; 8 << 20], Vec::new());
        let (owner, target) = bench.own(8 << 20);
        let mut at = 3 * seed;
        for (number, length) in lengths.into_iter().enumerate() {
            let content = bench.file(&number.to_string(), length, seed);
            // From another offset of the file and to another one of the memory, none of them a multiple of a block.
            let from = (seed * 977) % (length as u64).min(5000);
            let range = from..length as u64 - u64::from(number == 0) * seed;
            let slice = &content[to_usize(range.start)..to_usize(range.end)];
            expected[to_usize(at)..][..slice.len()].copy_from_slice(slice);
            parts.push(bench.part(&number.to_string(), range, &target, at));
            at += slice.len() as u64 + 5;
            // Cold from the first byte on, which is within a block, or from the second MiB.
            forget(&bench.path(&number.to_string()), (seed % 2) << 20);
        }
        let loaded = bench.load(&parts, &mut ()).unwrap();
        for (part, loaded) in parts.iter().zip(&loaded) {
            let loaded = loaded.as_ref().unwrap();
            assert_eq!(loaded.bytes.0, part.range.end - part.range.start);
            assert_eq!(loaded.page_cache.0 + loaded.through_host.0, loaded.bytes.0);
        }
        assert!(bench.content(&owner) == expected, "seed {seed}");
        assert!(bench.pool.peak().0 <= (workers as u64) << 17, "{}", bench.pool.peak());
        drop((parts, owner, target));
        bench.end();
    }
}

#[test]
fn half_cached_file_comes_half_from_each() {
    let bench = LoadBench::new("", settings(4, 128 << 20));
    let length = 8_u64 << 20;
    let content = bench.file("file", to_usize(length), 1);
    let (owner, target) = bench.own(length);
    let part = bench.part("file", 0..length, &target, 0);
    let whole = bench.load(&[part], &mut ()).unwrap().pop().unwrap().unwrap();
    assert_eq!((whole.page_cache.0, whole.through_host.0), (length, 0));
    forget(&bench.path("file"), length / 2);
    let part = bench.part("file", 0..length, &target, 0);
    let half = bench.load(std::slice::from_ref(&part), &mut ()).unwrap().pop().unwrap().unwrap();
    assert!(bench.content(&owner) == content);
    if half.through_host.0 == 0 {
        crate::testing::skip("direct-io", "no file here leaves the page cache or takes direct I/O");
    } else {
        assert_eq!((half.page_cache.0, half.through_host.0), (length / 2, length / 2));
        let again = bench.load(&[part], &mut ()).unwrap().pop().unwrap().unwrap();
        assert_eq!(again.through_host.0, length / 2, "the page cache is not filled");
    }
    drop((owner, target));
    bench.end();
}

#[test]
fn nothing_beside_a_part_is_touched() {
    let bench = LoadBench::new("delay=1", settings(4, 128 << 20));
    let content = bench.file("file", 3_000_001, 3);
    for (range, skip) in [(0..3_000_001_u64, 0_u64), (4097..2_999_998, 77), (5..6, 1)] {
        let (owner, _own) = bench.own(3_001_000);
        let length = range.end - range.start;
        let part = bench.part("file", range.clone(), &bench.lent(&owner, skip, length), 0);
        bench.load(&[part], &mut ()).unwrap();
        let mut expected = vec![0xee; 3_001_000];
        expected[to_usize(skip)..to_usize(skip + length)]
            .copy_from_slice(&content[to_usize(range.start)..to_usize(range.end)]);
        assert!(bench.content(&owner) == expected, "{range:?}");
    }
    let calls = bench.mock.log();
    let first = |name: &str| calls.iter().position(|call| call == name).unwrap();
    assert!(first("cuCtxSynchronize") < first("cuMemcpyHtoDAsync"), "others' work is waited for");
    bench.end();
}

#[test]
fn page_cache_is_registered_for_few_processors() {
    let few = LoadSettings { registers: true, ..settings(2, 128 << 20) };
    let bench = LoadBench::new("shuffled=1", few);
    let length = 20_u64 << 20;
    let content = bench.file("file", to_usize(length), 4);
    let (owner, target) = bench.own(length);
    let part = bench.part("file", 4099..length, &target, 1);
    let loaded = bench.load(&[part], &mut ()).unwrap().pop().unwrap().unwrap();
    assert_eq!(loaded.page_cache, loaded.bytes);
    assert_eq!(bench.mock.calls("registered a file"), 2, "16 MiB at a time");
    assert!(bench.content(&owner)[1..to_usize(length) - 4098] == content[4099..]);
    // What cannot be registered goes by slots.
    bench.mock.configure("no_register=1");
    let part = bench.part("file", 0..length, &target, 0);
    bench.load(&[part], &mut ()).unwrap();
    assert!(bench.content(&owner) == content);
    drop((owner, target));
    bench.end();
}

#[test]
fn file_that_is_cut_meanwhile_is_an_error() {
    for registers in [false, true] {
        let bounds = LoadSettings { registers, ..settings(2, 1 << 20) };
        // A copy takes so many looks that the file is cut before the last one.
        let bench = LoadBench::new("delay=200", bounds);
        bench.file("file", 24 << 20, 5);
        let (owner, target) = bench.own(24 << 20);
        let part = bench.part("file", 0..24 << 20, &target, 0);
        let path = bench.path("file");
        let cut = move || File::options().write(true).open(path).unwrap().set_len(9000).unwrap();
        let mut watch = Meanwhile { first: Some(Box::new(cut)), ..Meanwhile::default() };
        let error = bench.load(&[part], &mut watch).unwrap_err();
        assert!(error.is_of_one_file(), "{error:?}");
        let said = format!("{error:?}");
        assert!(said.contains("EndedEarly"), "{said}");
        drop((owner, target));
        bench.end();
    }
}

#[test]
fn file_that_grows_meanwhile_is_loaded() {
    let bench = LoadBench::new("delay=20", settings(2, 1 << 20));
    let content = bench.file("file", 9 << 20, 6);
    let (owner, target) = bench.own(9 << 20);
    let part = bench.part("file", 0..9 << 20, &target, 0);
    let path = bench.path("file");
    let grow = move || File::options().write(true).open(path).unwrap().set_len(10 << 20).unwrap();
    let mut watch = Meanwhile { first: Some(Box::new(grow)), ..Meanwhile::default() };
    bench.load(&[part], &mut watch).unwrap();
    assert!(bench.content(&owner) == content);
    drop((owner, target));
    bench.end();
}

#[test]
fn one_bad_file_ends_all_or_itself() {
    let bench = LoadBench::new("", settings(3, 128 << 20));
    let content = bench.file("good", 9000, 7);
    bench.file("short", 20_000, 8);
    std::fs::create_dir(bench.path("folder")).unwrap();
    let (owner, target) = bench.own(1 << 20);
    for (bad, said) in [("short", "the source became shorter"), ("folder", "Is a directory")] {
        let parts = [
            bench.part("good", 0..9000, &target, 0),
            bench.part(bad, 10_000..20_001, &target, 100_000),
        ];
        let Err(LoadError::Part(part)) = bench.load(&parts, &mut ()) else { panic!("no error") };
        assert_eq!(part.number, 1);
        let LoadError::Request { source: RequestError::Failed(failure), .. } = &*part.error else {
            panic!("{part:?}")
        };
        assert!((10_000..=20_000).contains(&failure.offset), "{failure:?}");
        let cause = failure.cause.to_string();
        assert!(cause.contains(said), "{cause}");
        let left = bench.mock.calls("host left content");
        let results = bench.load_many(&parts).unwrap();
        assert_eq!(bench.mock.calls("host left content"), left, "slots are cleared at the end");
        assert!(results[0].is_ok() && results[1].as_ref().is_err_and(LoadError::is_of_one_file));
        assert!(bench.content(&owner)[..9000] == content);
    }
    let beyond = bench.part("good", 0..9000, &target, (1 << 20) - 8999);
    assert!(matches!(
        bench.load(&[beyond], &mut ()),
        Err(LoadError::Part(part)) if matches!(*part.error, LoadError::Room { .. })
    ));
    drop((owner, target));
    bench.end();
}

#[test]
fn wish_to_stop_ends_load_at_once() {
    let bench = LoadBench::new("delay=30", settings(2, 256 << 10));
    bench.file("file", 16 << 20, 9);
    let (owner, target) = bench.own(16 << 20);
    let part = bench.part("file", 0..16 << 20, &target, 0);
    let mut watch = Meanwhile { stops_after: Some(1 << 20), ..Meanwhile::default() };
    let stopped = bench.load(std::slice::from_ref(&part), &mut watch);
    let Err(LoadError::Stopped { done }) = stopped else { panic!("{stopped:?}") };
    assert!(done.0 >= 1 << 20 && done.0 < 16 << 20, "{done}");
    // The pairs of slots serve the next one.
    bench.load(&[part], &mut ()).unwrap();
    drop((owner, target));
    bench.end();
}

#[test]
fn hung_gpu_ends_at_deadline_and_keeps_its_slots() {
    let mut bench = LoadBench::new("hang=3", settings(2, 256 << 10));
    bench.deadline = Nanos(300_000_000);
    bench.file("file", 1 << 20, 10);
    let (owner, target) = bench.own(1 << 20);
    let part = bench.part("file", 0..1 << 20, &target, 0);
    let start = Instant::now();
    let stuck = bench.load(&[part], &mut ()).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(matches!(stuck, LoadError::GpuStuck { .. }), "{stuck:?}");
    drop((owner, target));
    let LoadBench { mock, pool, gpu, cuda, .. } = bench;
    drop((pool, gpu, cuda));
    // Memory in flight that was freed, or slots that were unregistered, would be violations.
    mock.expect_no_violation();
}

#[test]
fn less_pinned_memory_is_said_once() {
    for (pinnable, works) in [(20_u64 << 20, true), (1 << 20, true), (1000, false)] {
        let bench = LoadBench::new(&format!("pinnable={pinnable}"), settings(4, 128 << 20));
        let content = bench.file("file", 40 << 20, 11);
        let (owner, target) = bench.own(40 << 20);
        let part = bench.part("file", 0..40 << 20, &target, 0);
        let mut watch = Meanwhile::default();
        for _ in 0..2 {
            let loaded = bench.load(std::slice::from_ref(&part), &mut watch);
            assert_eq!(loaded.is_ok(), works, "{loaded:?}");
        }
        if works {
            assert_eq!(watch.notices.len(), 1, "{:?}", watch.notices);
            assert!(
                watch.notices[0].contains("of host memory could be pinned"),
                "{:?}",
                watch.notices
            );
            assert!(bench.pool.peak().0 <= pinnable);
            bench.mock.configure("");
            assert!(bench.content(&owner) == content);
        }
        drop((owner, target, part));
        bench.end();
    }
}

#[test]
fn idle_slots_are_cleared_and_given_back() {
    let mut bench = LoadBench::new("", settings(2, 128 << 20));
    bench.pool = PinnedPool::new(Duration::from_millis(50));
    bench.file("file", 9 << 20, 12);
    let (owner, target) = bench.own(9 << 20);
    let part = bench.part("file", 0..9 << 20, &target, 0);
    bench.load(&[part], &mut ()).unwrap();
    drop((owner, target));
    let until = Instant::now() + Duration::from_secs(20);
    while Arc::strong_count(&bench.gpu) > 1 || bench.pool.pinned() > Bytes::ZERO {
        assert!(Instant::now() < until, "slots are kept");
        std::thread::yield_now();
    }
    assert_eq!(bench.mock.calls("host left content"), 0);
    bench.end();
}

#[test]
fn loads_side_by_side_share_the_bound() {
    let bench = LoadBench::new("shuffled=1", settings(4, 512 << 10));
    let content = bench.file("file", 4 << 20, 13);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let (owner, target) = bench.own(4 << 20);
                let part = bench.part("file", 0..4 << 20, &target, 0);
                bench.load(&[part], &mut ()).unwrap();
                assert!(bench.content(&owner) == content);
            });
        }
    });
    assert!(bench.pool.peak().0 <= 512 << 10, "{}", bench.pool.peak());
    bench.end();
}

#[test]
fn lower_bound_releases_idle_slots() {
    let mut bench = LoadBench::new("", settings(2, 16 << 20));
    let content = bench.file("file", 9 << 20, 14);
    let (owner, target) = bench.own(9 << 20);
    let part = bench.part("file", 0..9 << 20, &target, 0);
    bench.load(std::slice::from_ref(&part), &mut ()).unwrap();
    assert_eq!(bench.pool.pinned(), Bytes::mib(16));
    bench.settings.pinned = Bytes::mib(1);
    let mut watch = Meanwhile::default();
    bench.load(&[part], &mut watch).unwrap();
    assert_eq!((bench.pool.pinned(), watch.notices.len()), (Bytes::mib(1), 0));
    assert!(bench.content(&owner) == content);
    drop((owner, target));
    bench.end();
}

#[test]
fn slots_of_a_load_that_moves_are_waited_for() {
    // One pair of slots: the first load has it for longer than the second one's deadline, and moves all the time.
    let mut bench = LoadBench::new("delay=300", settings(1, 128 << 10));
    bench.deadline = Nanos(200_000_000);
    bench.file("file", 3 << 20, 15);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (owner, target) = bench.own(3 << 20);
                let part = bench.part("file", 0..3 << 20, &target, 0);
                bench.load(&[part], &mut ()).unwrap();
                drop((owner, target));
            });
        }
    });
    assert_eq!(bench.pool.peak(), Bytes(128 << 10));
    bench.end();
}

#[test]
fn slots_of_a_failed_gpu_are_not_kept() {
    let bench = LoadBench::new("fail_copy=1", settings(2, 16 << 20));
    bench.file("file", 1 << 20, 16);
    let (owner, target) = bench.own(1 << 20);
    let part = bench.part("file", 0..1 << 20, &target, 0);
    let failed = bench.load(std::slice::from_ref(&part), &mut ());
    assert!(matches!(failed, Err(LoadError::Cuda(_))), "{failed:?}");
    assert_eq!(bench.pool.pinned(), Bytes::ZERO);
    bench.load(&[part], &mut ()).unwrap();
    drop((owner, target));
    bench.end();
}
