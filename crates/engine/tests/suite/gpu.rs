//! The ring between files and memory of a GPU, on the io_uring of the running kernel and a mock of CUDA.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

use std::sync::Arc;

use crate::common::{direct, folder, noise, ring};
use crate::mock::Mock;
use peerlane_engine::ring::{
    Action, Completion, FileId, GpuRing, Operation, PushError, RegionId, Ring,
};
use peerlane_memory::cuda::{Cuda, Gpu};
use peerlane_memory::cufile::{self, Mode};
use peerlane_memory::host;
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
