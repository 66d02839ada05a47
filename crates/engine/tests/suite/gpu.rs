//! The ring between files and memory of a GPU, on the io_uring of the running kernel and a mock of CUDA.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::common::{direct, folder, noise, ring};
use crate::mock::Mock;
use peerlane_engine::load::{Filled, LoadError, LoadRings, Loader, fill, room};
use peerlane_engine::read::ReadTools;
use peerlane_engine::ring::{
    Action, Completion, FileId, GpuRing, Operation, PushError, RegionId, Ring,
};
use peerlane_engine::{MonotonicClock, Watch};
use peerlane_memory::cuda::{Copy, CopyDirection, Cuda, DeviceMemory, Gpu, Pinned};
use peerlane_memory::cufile::{self, Mode};
use peerlane_memory::host;
use peerlane_results::{Route, RouteChoice};
use peerlane_units::{Bytes, Nanos};

const PIECE: u32 = 64 << 10;
const WAIT: Nanos = Nanos::seconds(10);

/// A ring of either way with a file of noise, memory of a GPU, and host memory.
struct GpuBench {
    ring: GpuRing,
    gpu: Arc<Gpu>,
    file: FileId,
    memory: RegionId,
    host: RegionId,
    content: Vec<u8>,
    _folder: tempfile::TempDir,
}

fn bench(mock: &Mock, mode: Option<Mode>) -> Option<GpuBench> {
    let below = ring(64)?;
    let folder = folder();
    let content = noise(4 * PIECE as usize, 7);
    std::fs::write(folder.path().join("file"), &content).unwrap();
    let file = direct(&folder.path().join("file"))?;
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpu = cuda.open(&cuda.gpus().unwrap()[0]).unwrap();
    let mut ring = match mode {
        None => GpuRing::bounce(below, &gpu, 2, Bytes(PIECE.into())).unwrap(),
        Some(mode) => {
            let session = cufile::open_from(&mock.library(), mode).unwrap();
            GpuRing::cufile(below, &session, 2).unwrap()
        }
    };
    let file = ring.attach_file(file).unwrap();
    let memory = ring.attach_memory(gpu.allocate(Bytes(4 * u64::from(PIECE))).unwrap()).unwrap();
    let host = ring.attach_region(host::allocate(Bytes(4 * u64::from(PIECE))).unwrap());
    Some(GpuBench { ring, gpu, file, memory, host, content, _folder: folder })
}

impl GpuBench {
    fn operation(&self, action: Action, region: RegionId, piece: u32, tag: u64) -> Operation {
        let offset = u64::from(piece) * u64::from(PIECE);
        Operation {
            action,
            file: self.file,
            file_offset: offset,
            region,
            region_offset: offset,
            length: PIECE,
            tag,
        }
    }

    /// Does one operation; its end.
    fn act(&mut self, operation: Operation) -> Completion {
        self.ring.push(operation).unwrap();
        self.ring.submit(1, WAIT).unwrap();
        self.ring.pop().expect("an end in time")
    }
}

#[test]
fn gpu_content_round_trips_either_way() {
    for (mode, conf) in [(None, ""), (Some(Mode::P2pdma), "mode=p2pdma")] {
        let mock = Mock::new(conf);
        let Some(mut bench) = bench(&mock, mode) else { return };
        let full = |tag| Completion { tag, result: Ok(PIECE) };
        let there = bench.operation(Action::Read, bench.memory, 1, u64::MAX);
        assert_eq!(bench.act(there), full(u64::MAX), "any tag comes back");
        // Out of the GPU to another place of the file, and from there into host memory.
        let back = Operation {
            file_offset: 3 * u64::from(PIECE),
            ..bench.operation(Action::Write, bench.memory, 1, 2)
        };
        assert_eq!(bench.act(back), full(2));
        let look = bench.operation(Action::Read, bench.host, 3, 3);
        assert_eq!(bench.act(look), full(3));
        let (piece, host) = (PIECE as usize, bench.host);
        let expected = bench.content[piece..2 * piece].to_vec();
        assert_eq!(bench.ring.host_bytes(host).unwrap()[3 * piece..], expected);
        assert!(bench.ring.host_bytes(bench.memory).is_none(), "device memory has no bytes");
        drop(bench);
        mock.expect_all_undone();
    }
}

#[test]
fn excess_requests_refused_until_slot_frees() {
    let mock = Mock::new("delay=4");
    let Some(mut bench) = bench(&mock, None) else { return };
    for piece in 0..2 {
        let operation = bench.operation(Action::Read, bench.memory, piece, piece.into());
        bench.ring.push(operation).unwrap();
    }
    let third = bench.operation(Action::Read, bench.memory, 2, 2);
    assert_eq!(
        (bench.ring.space(), bench.ring.push(third)),
        (0, Err(PushError::Full { space: 0 }))
    );
    bench.ring.submit(2, WAIT).unwrap();
    let mut tags: Vec<u64> = std::iter::from_fn(|| bench.ring.pop()).map(|one| one.tag).collect();
    tags.sort_unstable();
    assert_eq!((tags, bench.ring.space(), bench.ring.in_flight()), (vec![0, 1], 2, 0));
    assert_eq!(bench.act(third).result, Ok(PIECE));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mock = Mock::new("");
    let Some(mut bench) = bench(&mock, None) else { return };
    let fits = bench.operation(Action::Read, bench.memory, 0, 0);
    let beyond = Operation { region_offset: 4 * u64::from(PIECE), ..fits };
    assert!(matches!(bench.ring.push(beyond), Err(PushError::OutOfRegion { .. })));
    let long = Operation { length: PIECE + 1, ..fits };
    assert!(matches!(bench.ring.push(long), Err(PushError::TooLong { .. })));
    let unknown = Operation { region: RegionId(9), ..fits };
    assert_eq!(bench.ring.push(unknown), Err(PushError::UnknownRegion { region: RegionId(9) }));
    assert_eq!((bench.ring.in_flight(), bench.ring.space()), (0, 2));
    assert_eq!(bench.act(fits).result, Ok(PIECE));
    assert!(bench.gpu.free().unwrap() < Bytes::mib(64));
}

#[test]
fn file_end_is_short_or_empty_read() {
    let mock = Mock::new("");
    let Some(mut bench) = bench(&mock, None) else { return };
    let half = Operation {
        file_offset: 4 * u64::from(PIECE) - 4096,
        ..bench.operation(Action::Read, bench.memory, 0, 1)
    };
    assert_eq!(bench.act(half).result, Ok(4096));
    let none = Operation { file_offset: 4 * u64::from(PIECE), ..half };
    assert_eq!(bench.act(none).result, Ok(0));
}

/// Returns the content of memory of a GPU.
fn content_of(gpu: &Arc<Gpu>, memory: &Arc<DeviceMemory>) -> Vec<u8> {
    let (mut pinned, mut queue) = (gpu.pin(memory.length()).unwrap(), gpu.queue().unwrap());
    let (length, direction) = (memory.length().0, CopyDirection::ToHost);
    let (pinned_offset, memory_offset) = (0, 0);
    let copy =
        Copy { direction, pinned: &pinned, pinned_offset, memory, memory_offset, length, tag: 0 };
    queue.copy(&copy).unwrap();
    queue.close().unwrap();
    assert!((0..100).any(|_| queue.is_over().unwrap()));
    let length = usize::try_from(length).unwrap();
    Pinned::bytes_mut(&mut pinned).unwrap()[..length].to_vec()
}

#[test]
fn many_files_load_into_changing_memory() {
    if ring(64).is_none() {
        return;
    }
    let mock = Mock::new("delay=1");
    let folder = folder();
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpu = cuda.open(&cuda.gpus().unwrap()[0]).unwrap();
    let (ways, clock) = (LoadRings::new(RouteChoice::Host), MonotonicClock::start());
    let mut loader = Loader::new(&gpu, &ways, &clock, WAIT);
    let path = folder.path().join("file");
    // More files than a ring holds at a time, some of them more than one piece.
    for round in 0..70_usize {
        let length = if round % 30 == 0 { 3_000_001 } else { 9000 };
        let (content, from) = (noise(length, round as u64), [15, 4096, 5000][round % 3]);
        std::fs::write(&path, &content).unwrap();
        let range: Range<u64> = from as u64..length as u64;
        let memory = gpu.allocate(room(&range)).unwrap();
        let loaded = loader.load(&File::open(&path).unwrap(), &range, &memory).unwrap();
        assert_eq!((loaded.begin, loaded.route), (range.start % 4096, Route::Host));
        let there = content_of(&gpu, &memory);
        assert!(there[from % 4096..][..length - from] == content[from..], "round {round}");
    }
    let memory = gpu.allocate(Bytes::mib(1)).unwrap();
    let file = File::open(&path).unwrap();
    let short = loader.load(&file, &(0..20_000), &memory).unwrap_err();
    assert!(short.is_of_one_file(), "{short:?}");
    assert!(loader.load(&file, &(0..2 << 20), &memory).is_err_and(|error| error.is_of_one_file()));
    assert!(loader.load(&file, &(0..9000), &memory).is_ok(), "an error of one file is no more");
    assert_eq!(ways.judge().unwrap(), None);
    drop((loader, memory, gpu));
    mock.expect_all_undone();
}

/// Stops when so many bytes are done.
#[derive(Default)]
struct Stops {
    after: Option<u64>,
    done: u64,
    cautions: Vec<String>,
}

impl Watch for Stops {
    fn progress(&mut self, done: Bytes, _total: Bytes) {
        self.done = done.0;
    }

    fn caution(&mut self, text: &str) {
        self.cautions.push(text.to_owned());
    }

    fn stop_requested(&self) -> bool {
        self.after.is_some_and(|after| self.done >= after)
    }
}

/// Fills memory of somebody else, from its byte `skip` on; what all of it holds then.
fn fill_others(
    mock: &Mock,
    owner_length: u64,
    (file, range): (&File, Range<u64>),
    skip: u64,
    stops: &mut Stops,
) -> (Result<Filled, LoadError>, Vec<u8>) {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpu = cuda.open(&cuda.gpus().unwrap()[0]).unwrap();
    let owner = gpu.allocate(Bytes(owner_length)).unwrap();
    let (address, length) = (owner.address() + skip, Bytes(range.end - range.start));
    let memory = cuda.foreign(address, length, Arc::<DeviceMemory>::clone(&owner)).unwrap();
    let clock = MonotonicClock::start();
    let mut tools = ReadTools { clock: &clock, watch: stops, deadline: WAIT };
    let filled = fill(file, &range, &memory, &LoadRings::new(RouteChoice::Host), &mut tools);
    let zeroes = mock.calls("left zeroes");
    assert_eq!((zeroes, mock.calls("cuMemFree")), (1, 1), "ours is cleared and freed");
    (filled, content_of(&gpu, &owner))
}

#[test]
fn foreign_memory_filled_without_touching_beside() {
    if ring(64).is_none() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("file");
    let content = noise(3_000_001, 3);
    std::fs::write(&path, &content).unwrap();
    for (range, skip) in [(0..3_000_001_u64, 0_u64), (4097..2_999_998, 77), (5..6, 1)] {
        // There is not room for all of it at a time, and it comes in parts of 1 MiB.
        let mock = Mock::new("delay=1\nmemory=4500000");
        let file = File::open(&path).unwrap();
        let source = (&file, range.clone());
        let (filled, there) = fill_others(&mock, 3_001_000, source, skip, &mut Stops::default());
        let (filled, length) = (filled.unwrap(), range.end - range.start);
        assert_eq!(filled.bytes.0, length);
        assert_eq!(filled.direct, Bytes::ZERO);
        assert_eq!(filled.through_host.0 + filled.page_cache.0, length);
        let mut expected = vec![0xee; 3_001_000];
        let [from, to, at] = [range.start, range.end, skip].map(|n| usize::try_from(n).unwrap());
        expected[at..at + to - from].copy_from_slice(&content[from..to]);
        assert!(there == expected, "{range:?}");
        let calls = mock.log();
        let first = |name: &str| calls.iter().position(|call| call == name).unwrap();
        assert!(
            first("cuCtxSynchronize") < first("cuMemcpyHtoDAsync"),
            "others' work is waited for"
        );
        mock.expect_all_undone();
    }
}

#[test]
fn failed_or_stopped_fill_leaves_nothing() {
    if ring(64).is_none() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("file");
    std::fs::write(&path, noise(3_000_000, 4)).unwrap();
    let file = File::open(&path).unwrap();
    let conf = "delay=1\nmemory=4500000";
    let mock = Mock::new(conf);
    let mut stops = Stops { after: Some(1 << 20), ..Stops::default() };
    let (stopped, _) = fill_others(&mock, 3_000_000, (&file, 0..3_000_000), 0, &mut stops);
    let stopped = stopped.unwrap();
    assert!(stopped.is_stopped && stopped.bytes == Bytes::mib(1), "{stopped:?}");
    mock.expect_all_undone();
    let mock = Mock::new(conf);
    let mut stops = Stops::default();
    let (short, _) = fill_others(&mock, 3_000_001, (&file, 0..3_000_001), 0, &mut stops);
    assert!(matches!(short, Err(LoadError::Request { .. })), "{short:?}");
    mock.expect_all_undone();
    // The copies in are those of the first part, and the next is the one within the GPU.
    let mock = Mock::new("fail_copy=2");
    let (failed, there) = fill_others(&mock, 4096, (&file, 0..4096), 0, &mut stops);
    assert!(matches!(failed, Err(LoadError::Cuda(_))), "{failed:?}");
    assert!(there.iter().all(|&byte| byte == 0xee) && stops.cautions.is_empty());
    mock.expect_all_undone();
}
