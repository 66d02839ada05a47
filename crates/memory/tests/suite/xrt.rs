//! Memory of cards against a library that logs its calls, and against XRT's own no-op card where
//! XRT 2.13 is installed. No card has been there.

use crate::xrt_mock;
use std::path::Path;
use std::process::Command;

use peerlane_memory::xrt::{self, Xrt};
use peerlane_memory::{RegionKind, XrtRefusal};
use peerlane_units::Bytes;

use crate::xrt_mock::{CARD, XrtMock};
use peerlane_testing::skip;

fn open(mock: &XrtMock) -> Result<xrt::Card, XrtRefusal> {
    Xrt::load_from(mock.library().as_os_str())?.open(&mock.root(), CARD)
}

fn allocate(mock: &XrtMock) -> XrtRefusal {
    open(mock).expect("a card").allocate(Bytes::kib(64)).expect_err("refused")
}

#[test]
fn memory_calls_come_in_order() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let card = open(&mock).expect("a card");
    let mut region = card.allocate(Bytes(5000)).expect("memory");
    assert_eq!((region.length(), region.kind()), (Bytes(5000), RegionKind::Card));
    assert!(region.host_bytes_mut().is_none(), "device memory is never given as bytes");
    // The region keeps the card open.
    drop(card);
    drop(region);
    let pages = 8192;
    let expected = [
        format!("open {CARD}"),
        format!("alloc {pages} {:#x} 0", 1u32 << 30),
        "map".to_owned(),
        "free".to_owned(),
        "close".to_owned(),
    ];
    assert_eq!(mock.calls(), expected);
    assert_eq!(
        Xrt::load_from(mock.library().as_os_str()).expect("library").version(),
        Some(0x2_0019)
    );
}

#[test]
fn named_image_decides_memory_group() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let path = mock.file("card.xclbin", &xrt_mock::image(1024));
    let mut card = open(&mock).expect("a card");
    let groups = card.load(&path).expect("groups").to_vec();
    assert_eq!((groups.len(), groups[0].index, groups[0].name.as_str()), (1, 2, "bank2"));
    drop(card.allocate(Bytes::mib(1)).expect("memory"));
    let refusal = card.allocate(Bytes::mib(2)).expect_err("larger than the group");
    assert!(matches!(refusal, XrtRefusal::NoGroup { .. }) && refusal.is_for_want_of_room());
    drop(card);
    let alloc = format!("alloc 1048576 {:#x} 2", 1u32 << 30);
    assert_eq!(mock.calls()[1..3], ["load".to_owned(), alloc]);
    assert!(!mock.calls().iter().any(|call| call.starts_with("MISUSE")), "{:?}", mock.calls());
}

#[test]
fn bad_image_never_reaches_card() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let path = mock.file("card.xclbin", b"bitstream");
    let refusal = open(&mock).expect("a card").load(&path).expect_err("no image");
    assert!(matches!(refusal, XrtRefusal::Xclbin { .. }), "{refusal:?}");
    assert_eq!(mock.calls(), [format!("open {CARD}"), "close".to_owned()]);
    let missing = xrt::groups_of(Path::new("/nowhere.xclbin")).expect_err("no file");
    assert!(missing.to_string().contains("/nowhere.xclbin"), "{missing}");
}

#[test]
fn refused_calls_are_named_and_closed() {
    let cases = [
        (&["ALLOC_FAILS"][..], "cannot allocate 64 KiB in memory group 0", true, 0),
        (&["MAP_FAILS"], "cannot map 64 KiB", false, 1),
        (&["SHORT"], "32768 bytes of 65536", false, 1),
        (&["UNALIGNED"], "does not begin at a page", false, 1),
    ];
    for (refusals, words, is_room, freed) in cases {
        let Some(mock) = XrtMock::build(refusals) else { return };
        let refusal = allocate(&mock);
        assert!(refusal.to_string().contains(words), "{refusals:?}: {refusal}");
        assert_eq!(refusal.is_for_want_of_room(), is_room, "{refusal:?}");
        let calls = mock.calls();
        assert_eq!(calls.iter().filter(|call| *call == "free").count(), freed, "{calls:?}");
        assert_eq!(calls.last().map(String::as_str), Some("close"), "{calls:?}");
    }
    let Some(mock) = XrtMock::build(&["LOAD_FAILS"]) else { return };
    let path = mock.file("card.xclbin", &xrt_mock::image(1024));
    let refusal = open(&mock).expect("a card").load(&path).expect_err("refused");
    let source = std::error::Error::source(&refusal).expect("a source").to_string();
    assert!(source.contains("not permitted"), "{source}");
}

#[test]
fn unusable_card_is_refused_before_allocation() {
    let Some(mock) = XrtMock::build(&["NO_DEVICE"]) else { return };
    let refusal = open(&mock).expect_err("no device");
    assert!(
        matches!(&refusal, XrtRefusal::Open { source, .. }
        if source.raw_os_error() == Some(19)),
        "{refusal:?}"
    );
    assert_eq!(mock.calls(), [format!("open {CARD}")]);

    let Some(mock) = XrtMock::build(&[]) else { return };
    mock.lend("0");
    let refusal = open(&mock).expect_err("off");
    assert!(matches!(refusal, XrtRefusal::WindowOff { .. }), "{refusal:?}");
    assert!(refusal.hint().expect("a hint").contains("p2p_enable"));
    let xrt = Xrt::load_from(mock.library().as_os_str()).expect("library");
    for address in ["0000:05:00.1", "../../etc"] {
        let refusal = xrt.open(&mock.root(), address).expect_err("no such card");
        assert!(matches!(refusal, XrtRefusal::NoCard { .. }), "{refusal:?}");
    }
    let driver = mock.root().join("sys/bus/pci/devices").join(CARD).join("driver");
    std::fs::remove_file(&driver).expect("a link");
    let refusal = open(&mock).expect_err("no driver");
    assert!(matches!(refusal, XrtRefusal::Driver { found: None, .. }), "{refusal:?}");
    assert!(mock.calls().is_empty(), "the library was asked: {:?}", mock.calls());
}

#[test]
fn missing_or_wrong_library_has_hint() {
    let refusal = Xrt::load_from("/nowhere/libxrt_coreutil.so.2".as_ref()).expect_err("missing");
    assert!(refusal.to_string().contains("/nowhere/libxrt_coreutil.so.2"), "{refusal}");
    assert!(refusal.hint().expect("a hint").contains("install XRT"));
    let Some(mock) = XrtMock::build(&["NO_MAP_FUNCTION"]) else { return };
    let refusal = Xrt::load_from(mock.library().as_os_str()).expect_err("no such function");
    assert!(refusal.to_string().contains("no function xrtBOMap"), "{refusal}");
}

/// Set in the process that a test runs itself again in.
const ALONE: &str = "PEERLANE_TEST_ALONE";

/// Runs a test again in a process of its own, with XRT told where it lies, and that it has a card which
/// does nothing, or told nothing.
fn alone(test: &str, place: Option<&Path>) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(ALONE, "1");
    command.env_remove("XILINX_XRT").env_remove("XCL_EMULATION_MODE");
    if let Some(place) = place {
        command.env("XILINX_XRT", place).env("XCL_EMULATION_MODE", "noop");
    }
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}\n{wrong}", output.status);
    assert!(said.contains("1 passed"), "{said}");
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

#[test]
fn aborting_xrt_is_not_asked() {
    if !is_alone() {
        return alone("xrt::aborting_xrt_is_not_asked", None);
    }
    let Some(mock) = XrtMock::build(&["OLD"]) else { return };
    let refusal = open(&mock).expect_err("refused");
    assert!(matches!(refusal, XrtRefusal::Place), "{refusal:?}");
    assert!(mock.calls().is_empty(), "{:?}", mock.calls());
}

#[test]
fn endless_and_long_images_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.xclbin");
    std::fs::File::create(&long).and_then(|file| file.set_len((1 << 30) + 1)).expect("a file");
    for (path, words) in [(Path::new("/dev/null"), "not a regular file"), (&long, "file too large")]
    {
        let refusal = xrt::groups_of(path).expect_err("refused");
        let XrtRefusal::XclbinFile { source, .. } = refusal else { panic!("{refusal:?}") };
        assert!(source.to_string().contains(words), "{source}");
    }
}

/// Left to `./test full`, which installs the no-op card.
mod full {
    use super::*;

    #[test]
    fn no_op_card_takes_same_calls() {
        let folder = Path::new("/usr/lib/x86_64-linux-gnu");
        if !folder.join("libxrt_noop.so.2").exists() {
            skip("xrt-noop", "no libxrt_noop.so.2 here, which XRT 2.13 has (Debian's libxrt1)");
            return;
        }
        if !is_alone() {
            let place = tempfile::tempdir().expect("a folder");
            std::os::unix::fs::symlink(folder, place.path().join("lib")).expect("a link");
            return alone("xrt::full::no_op_card_takes_same_calls", Some(place.path()));
        }
        let Some(mock) = XrtMock::build(&[]) else { return };
        let xrt = Xrt::load().expect("the library beside that of the no-op card");
        assert_eq!(xrt.version(), None, "2.13 does not say its version");
        // The card has no address, only the number 0, which the library takes in its place.
        let devices = mock.root().join("sys/bus/pci/devices");
        std::os::unix::fs::symlink(devices.join(CARD), devices.join("0")).expect("a link");
        let refusal = xrt.open(&mock.root(), CARD).expect_err("no card of that address");
        assert!(matches!(refusal, XrtRefusal::Open { .. }), "{refusal:?}");
        let card = xrt.open(&mock.root(), "0").expect("a card that does nothing");
        // Its peer-to-peer memory is heap memory that begins at no page: refused, and freed, and closed.
        let refusal = card.allocate(Bytes::kib(64)).expect_err("no window");
        assert!(matches!(refusal, XrtRefusal::NotAWindow { .. }), "{refusal:?}");
    }
}
