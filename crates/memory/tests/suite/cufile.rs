//! cuFile against a mock that demands the order of calls that the real library does.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::mock::Mock;
use peerlane_memory::cuda::{Cuda, DeviceMemory, Gpu};
use peerlane_memory::cufile::{
    self, Counted, CuFileError, CuFileSession, Fallback, Mode, TransferSpan,
};
use peerlane_memory::{LibraryError, host};
use peerlane_units::Bytes;

fn first(mock: &Mock) -> Arc<Gpu> {
    let cuda = Cuda::load_from(&mock.library()).unwrap();
    let gpus = cuda.gpus().unwrap();
    cuda.open(&gpus[0]).unwrap()
}

#[test]
fn missing_library_has_a_hint() {
    let error = cufile::open_from(Path::new("/nowhere/libcufile.so.0"), Mode::P2pdma).unwrap_err();
    assert!(matches!(error, CuFileError::Library(LibraryError::NotThere { .. })), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("nvidia-gds")));
}

/// A file of `bytes` bytes, open for direct I/O where the file system has it.
fn file(folder: &Path, bytes: &[u8]) -> File {
    let path = folder.join("data");
    File::create(&path).unwrap().write_all(bytes).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
    options.clone().custom_flags(direct).open(&path).or_else(|_| options.open(&path)).unwrap()
}

fn read_all(session: &Arc<CuFileSession>, gpu: &Arc<Gpu>, file: File) -> (u64, Arc<DeviceMemory>) {
    let memory = gpu.allocate(Bytes::kib(16)).unwrap();
    let registered = session.memory(Arc::clone(&memory)).unwrap();
    let file = session.file(file).unwrap();
    let span = TransferSpan {
        file: &file,
        file_offset: 0,
        memory: &registered,
        memory_offset: 4096,
        length: 8192,
    };
    (session.read(&span).unwrap(), memory)
}

#[test]
fn counters_show_mode_per_layout() {
    for (mode, conf, p2pdma, nvidia_fs, posix) in [
        (Mode::P2pdma, "mode=p2pdma\nversion=1150", 1, 0, 0),
        (Mode::P2pdma, "mode=p2pdma\nversion=1180", 1, 0, 0),
        (Mode::P2pdma, "mode=p2pdma\nversion=1190", 1, 0, 0),
        (Mode::P2pdma, "mode=p2pdma\nversion=1200", 1, 0, 0),
        (Mode::NvidiaFs, "mode=nvfs", 0, 1, 0),
        (Mode::Compatible, "mode=p2pdma", 0, 0, 1),
    ] {
        let mock = Mock::new(conf);
        let gpu = first(&mock);
        let session = cufile::open_from(&mock.library(), mode).unwrap();
        let data: Vec<u8> = (0..16384u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mark = session.mark();
        let (moved, memory) = read_all(&session, &gpu, file(mock.folder(), &data));
        assert_eq!(moved, 8192);
        let counts = session.since(&mark).expect("counters");
        let found = (counts.p2pdma, counts.nvidia_fs, counts.posix);
        assert_eq!(found, (p2pdma, nvidia_fs, posix), "{conf}");
        let mut back = host::allocate(Bytes::kib(16)).unwrap();
        memory.store(0, (&mut back, 0), 16 << 10).unwrap();
        assert_eq!(back.host_bytes_mut().unwrap()[4096..12288], data[..8192]);
        drop((memory, session, gpu));
        mock.expect_all_undone();
    }
}

/// Counts of the library after one read by P2PDMA.
fn counted(mock: &Mock, content: File) -> Counted {
    let gpu = first(mock);
    let session = cufile::open_from(&mock.library(), Mode::P2pdma).unwrap();
    let mark = session.mark();
    read_all(&session, &gpu, content);
    session.since(&mark)
}

#[test]
fn unreadable_counters_are_no_counter() {
    for (conf, words, reads) in [
        ("version=1210", "libcufile 1.21 is unknown", 0),
        ("version=1140", "libcufile 1.14 is unknown", 0),
        ("no_version=1", "does not tell its version", 0),
        ("no_counts=1", "show 0 of 1 requests", 2),
        ("no_counts=1\nversion=1180", "show 0 of 1 requests", 2),
    ] {
        let mock = Mock::new(&format!("mode=p2pdma\n{conf}"));
        let none = counted(&mock, file(mock.folder(), &[1; 16384])).unwrap_err();
        assert!(none.to_string().contains(words), "{conf}: {none}");
        assert!(none.hint().contains("host memory"), "{conf}");
        assert_eq!(mock.calls("cuFileGetStatsL3"), reads, "{conf}: only of a known layout");
        mock.expect_no_violation();
    }
}

#[test]
fn mark_excludes_earlier_requests() {
    let mock = Mock::new("mode=p2pdma");
    let gpu = first(&mock);
    let session = cufile::open_from(&mock.library(), Mode::P2pdma).unwrap();
    let memory = session.memory(gpu.allocate(Bytes::kib(8)).unwrap()).unwrap();
    let file = session.file(file(mock.folder(), &[1; 8192])).unwrap();
    let span = |file_offset| TransferSpan {
        file: &file,
        file_offset,
        memory: &memory,
        memory_offset: 0,
        length: 4096,
    };
    session.write(&span(0)).unwrap();
    let mark = session.mark();
    assert_eq!(session.since(&mark).map(|counts| counts.all()), Ok(0));
    // At the end of the file nothing moves.
    assert_eq!(session.read(&span(8192)), Ok(0));
    session.read(&span(4096)).unwrap();
    assert!(session.since(&mark).is_ok_and(|counts| counts.p2pdma >= 1 && counts.posix == 0));
}

#[test]
fn holes_use_host_since_1_19() {
    for (version, posix) in [(1180, 0), (1190, 1), (1200, 1)] {
        let mock = Mock::new(&format!("mode=p2pdma\nversion={version}"));
        let content = file(mock.folder(), &[1; 4096]);
        content.set_len(16384).unwrap();
        let counts = counted(&mock, content).expect("counters");
        assert_eq!((counts.p2pdma, counts.posix), (1 - posix, posix), "{version}");
    }
}

#[test]
fn missing_direct_mode_is_refused() {
    let mock = Mock::new("mode=compat");
    for mode in [Mode::P2pdma, Mode::NvidiaFs] {
        let session = cufile::open_from(&mock.library(), mode).unwrap();
        let error = session.file(file(mock.folder(), b"x")).unwrap_err();
        assert!(matches!(error, CuFileError::Call { code: 5049, .. }), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--routes host")));
    }
    mock.expect_all_undone();
}

#[test]
fn sticky_fallback_is_an_error() {
    use Fallback::{AllowCompatible, FallbackIo, PosixIo};
    for (conf, on, key) in [
        ("sticky=1", vec![AllowCompatible], "allow_compat_mode"),
        ("posix_mode=1", vec![PosixIo], "vanilla_posix_io_mode"),
        ("posix_mode=1\nversion=1170", vec![PosixIo], "\"posix_io_mode\" in 1.17"),
        ("fallback_io=1", vec![FallbackIo], "gds_fallback_io"),
        ("fallback_io=1\nversion=1180", vec![FallbackIo], "gds_fallback_io"),
        ("posix_mode=1\nfallback_io=1", vec![PosixIo, FallbackIo], "vanilla_posix_io_mode"),
    ] {
        let mock = Mock::new(&format!("mode=p2pdma\n{conf}"));
        for mode in [Mode::P2pdma, Mode::NvidiaFs] {
            let error = cufile::open_from(&mock.library(), mode).unwrap_err();
            assert_eq!(error, CuFileError::FallbacksOn { on: on.clone() }, "{conf}");
            assert!(on.iter().all(|one| error.to_string().contains(one.key())), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(key)), "{conf}: {error}");
        }
        assert_eq!(mock.calls("cuFileDriverClose"), 2);
        assert!(cufile::open_from(&mock.library(), Mode::Compatible).is_ok());
        mock.expect_no_violation();
    }
}

#[test]
fn older_library_has_no_fallbacks() {
    for version in [1140, 1160, 1180] {
        let mock = Mock::new(&format!("mode=p2pdma\nversion={version}"));
        let session = cufile::open_from(&mock.library(), Mode::P2pdma).unwrap();
        assert_eq!(session.fallbacks(), Ok(Vec::new()));
        assert_eq!(
            session.version().map(|one| one.to_string()).as_deref(),
            Some(&*format!("1.{}", version % 1000 / 10))
        );
        drop(session);
        mock.expect_all_undone();
    }
}

#[test]
fn p2p_flags_are_read_if_supported() {
    let words = |conf: &str| {
        let mock = Mock::new(conf);
        let session = cufile::open_from(&mock.library(), Mode::P2pdma).unwrap();
        let flags = session.p2p_flags();
        mock.expect_no_violation();
        flags.iter().map(|(kind, flags)| format!("{kind}: {flags}")).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(words("mode=p2pdma"), "NVMe: P2PDMA, nvidia-fs; NVMe-oF: none");
    assert_eq!(words("mode=p2pdma\np2p_flags=8\nversion=1160"), "NVMe: C2C; NVMe-oF: none");
    assert_eq!(words("mode=p2pdma\nversion=1150"), "");
}

#[test]
fn process_has_one_mode() {
    let mock = Mock::new("mode=p2pdma");
    let open = |mode| cufile::open_from(&mock.library(), mode);
    let session = open(Mode::P2pdma).unwrap();
    assert!(Arc::ptr_eq(&session, &open(Mode::P2pdma).unwrap()));
    let error = open(Mode::Compatible).unwrap_err();
    assert_eq!(error, CuFileError::OtherMode { open: Mode::P2pdma });
    drop(session);
    assert!(open(Mode::Compatible).is_ok());
    mock.expect_no_violation();
}

#[test]
fn failed_requests_differ_from_range_errors() {
    let mock = Mock::new("mode=p2pdma\nfail_io=1");
    let gpu = first(&mock);
    let session = cufile::open_from(&mock.library(), Mode::P2pdma).unwrap();
    let memory = session.memory(gpu.allocate(Bytes::kib(8)).unwrap()).unwrap();
    let file = session.file(file(mock.folder(), &[1; 8192])).unwrap();
    let span = |length| TransferSpan {
        file: &file,
        file_offset: 0,
        memory: &memory,
        memory_offset: 4096,
        length,
    };
    let beyond = session.write(&span(8192)).unwrap_err();
    assert_eq!((beyond.errno(), mock.calls("cuFileWrite")), (rustix::io::Errno::INVAL, 0));
    let failed = session.write(&span(4096)).unwrap_err();
    assert_eq!(failed.errno(), rustix::io::Errno::IO);
    assert_eq!(session.write(&span(4096)), Ok(4096));
}
