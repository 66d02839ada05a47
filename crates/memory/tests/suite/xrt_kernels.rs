//! Kernels of cards on chunks, against a library that logs its calls. No card has been there.
#![allow(clippy::unwrap_used)]

use crate::xrt_mock;
use std::io::ErrorKind;

use peerlane_memory::xrt::{Card, CardBuffer, CardKernel, CardKernelError, Xrt};
use peerlane_memory::{Region, XrtRefusal};
use peerlane_units::Bytes;

use crate::xrt_mock::{CARD, XrtMock};

/// A card with an image whose one bank is number 2.
fn loaded(mock: &XrtMock) -> Card {
    let mut card = open(mock);
    let path = mock.file("card.xclbin", &xrt_mock::image(1024));
    card.load(&path).unwrap();
    card
}

fn open(mock: &XrtMock) -> Card {
    let xrt = Xrt::load_from(mock.library().as_os_str()).unwrap();
    xrt.open(&mock.root(), CARD).unwrap()
}

/// A kernel with a buffer that it reaches.
fn with_kernel(mock: &XrtMock, name: &str) -> (CardKernel, Region, CardBuffer) {
    let card = loaded(mock);
    let kernel = card.kernel(name).unwrap();
    let region = card.allocate_for(&kernel, Bytes::kib(64)).unwrap();
    let buffer = region.card_buffer().unwrap();
    (kernel, region, buffer)
}

fn finish(kernel: &mut CardKernel) -> (u64, Result<(), String>) {
    let (tag, result) = (0..10).find_map(|_| kernel.finished()).expect("a chunk that ends");
    (tag, result.map_err(|error| error.to_string()))
}

fn expect_no_misuse(mock: &XrtMock) {
    let calls = mock.calls();
    assert!(!calls.iter().any(|call| call.starts_with("MISUSE")), "{calls:#?}");
}

#[test]
fn run_calls_come_in_order() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let (mut kernel, region, buffer) = with_kernel(&mock, "invert");
    assert_eq!((kernel.group(), buffer.group(), buffer.length()), (2, 2, Bytes::kib(64)));
    kernel.start(7, &buffer, 4096, 100, 1 << 40).unwrap();
    kernel.start(8, &buffer, 8192, 4096, 5).unwrap();
    assert_eq!(kernel.in_flight(), 2);
    assert!(kernel.finished().is_none(), "not at once");
    assert_eq!([finish(&mut kernel), finish(&mut kernel)], [(7, Ok(())), (8, Ok(()))]);
    // The part of a slot serves a shorter chunk, too.
    kernel.start(9, &buffer, 8192, 10, 6).unwrap();
    assert_eq!(finish(&mut kernel), (9, Ok(())));
    assert!(kernel.finished().is_none() && kernel.in_flight() == 0);
    // In the worst order: the buffer outlives neither its parts nor the kernel's runs.
    drop((region, buffer));
    drop(kernel);
    let expected = [
        "load",
        "uuid",
        "open kernel invert",
        "group 0",
        "alloc 65536 0x40000000 65538",
        "map",
        "part 100 4096",
        "run 0",
        "set 0 0 4096",
        "set 0 1 100",
        "set 0 2 1099511627776",
        "start 0",
        "part 4096 8192",
        "run 1",
        "set 1 0 8192",
        "set 1 1 4096",
        "set 1 2 5",
        "start 1",
        "state 0",
        "state 1",
        "state 0",
        "state 1",
        "set 1 0 8192",
        "set 1 1 10",
        "set 1 2 6",
        "start 1",
        "state 1",
        "state 1",
        "close run 0",
        "close run 1",
        "free part",
        "free part",
        "free",
        "close kernel",
        "close",
    ];
    assert_eq!(mock.calls()[1..], expected);
}

#[test]
fn kernel_changes_its_chunk_alone() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let (mut kernel, region, buffer) = with_kernel(&mock, "invert");
    kernel.start(0, &buffer, 4096, 4097, 0).unwrap();
    assert_eq!(finish(&mut kernel), (0, Ok(())));
    let content = mock.read(&region);
    let (before, rest) = content.split_at(4096);
    let (chunk, after) = rest.split_at(4097);
    assert!(chunk.iter().all(|&byte| byte == 0xff));
    assert!(before.iter().chain(after).all(|&byte| byte == 0));
}

#[test]
fn bank_mismatch_names_both_banks() {
    let Some(mock) = XrtMock::build(&["BANK=5"]) else { return };
    let card = loaded(&mock);
    let region = card.allocate(Bytes::kib(64)).unwrap();
    let buffer = region.card_buffer().unwrap();
    let refusal = buffer.kernel("invert").unwrap_err();
    let XrtRefusal::Kernel(CardKernelError::OtherGroup { kernel_group, buffer_group, .. }) =
        &refusal
    else {
        panic!("{refusal:?}")
    };
    assert_eq!((*kernel_group, *buffer_group), (5, 2));
    let words = refusal.to_string();
    assert!(words.contains("group 5") && words.contains("group 2"), "{words}");
    assert!(refusal.hint().is_some_and(|hint| hint.contains("connectivity.sp")));
    let mut kernel = card.kernel("invert").unwrap();
    let error = kernel.start(0, &buffer, 0, 1, 0).unwrap_err();
    assert!(matches!(error, CardKernelError::OtherGroup { .. }), "{error}");
    let region = card.allocate_for(&kernel, Bytes::kib(64)).unwrap();
    kernel.start(0, &region.card_buffer().unwrap(), 0, 1, 0).unwrap();
    drop((card, buffer, region, kernel));
    expect_no_misuse(&mock);
}

#[test]
fn argument_without_memory_is_refused() {
    let Some(mock) = XrtMock::build(&["BANK=0xffff"]) else { return };
    let refusal = loaded(&mock).kernel("invert").unwrap_err();
    assert!(matches!(refusal, XrtRefusal::Kernel(CardKernelError::NoMemory { .. })), "{refusal}");
    assert_eq!(mock.calls().last().map(String::as_str), Some("close"));
    expect_no_misuse(&mock);
}

#[test]
fn unopened_kernels_are_named() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let refusal = open(&mock).kernel("invert").unwrap_err();
    assert!(refusal.to_string().contains("has no image"), "{refusal}");
    assert!(refusal.hint().is_some_and(|hint| hint.contains("PEERLANE_XCLBIN")));
    for name in ["missing", "invert\0"] {
        let refusal = loaded(&mock).kernel(name).unwrap_err();
        let XrtRefusal::Kernel(CardKernelError::Open { kernel, source, .. }) = &refusal else {
            panic!("{refusal:?}")
        };
        assert_eq!(kernel, name);
        assert!(
            source.kind() != ErrorKind::NotFound && !source.to_string().contains("(os error 0)")
        );
    }
    expect_no_misuse(&mock);
}

#[test]
fn library_without_kernels_serves_memory() {
    let Some(mock) = XrtMock::build(&["NO_KERNELS"]) else { return };
    let card = loaded(&mock);
    let region = card.allocate(Bytes::kib(64)).unwrap();
    for refusal in [card.kernel("invert"), region.card_buffer().unwrap().kernel("invert")] {
        let words = refusal.unwrap_err().to_string();
        assert!(words.contains("no function xrtDeviceGetXclbinUUID"), "{words}");
    }
    expect_no_misuse(&mock);
}

#[test]
fn wrong_chunks_never_reach_library() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let (mut kernel, region, buffer) = with_kernel(&mock, "invert");
    let before = mock.calls();
    for (offset, bytes) in [(0, 65_537), (65_536, 1), (u64::MAX, 1), (1, u64::MAX), (0, 0)] {
        let error = kernel.start(0, &buffer, offset, bytes, 0).unwrap_err();
        assert!(matches!(error, CardKernelError::Range { .. }), "{error}");
    }
    let (_, other, other_buffer) = with_kernel(&mock, "invert");
    let error = kernel.start(0, &other_buffer, 0, 1, 0).unwrap_err();
    assert!(matches!(error, CardKernelError::OtherCard { .. }), "{error}");
    assert!(mock.calls()[before.len()..].iter().all(|call| !call.starts_with("part")));
    drop((region, other));
}

#[test]
fn failed_kernel_state_ends_chunk() {
    let Some(mock) = XrtMock::build(&[]) else { return };
    let (mut kernel, region, buffer) = with_kernel(&mock, "fails");
    for tag in 0..2 {
        kernel.start(tag, &buffer, 0, 8, 0).unwrap();
        let words = "kernel fails ended with an error (5)".to_owned();
        assert_eq!(finish(&mut kernel), (tag, Err(words)));
    }
    drop((region, buffer, kernel));
    let calls = mock.calls();
    assert_eq!(calls.iter().filter(|call| *call == "run 0").count(), 1, "the run is used again");
    assert_eq!(calls.last().map(String::as_str), Some("close"));
    expect_no_misuse(&mock);
}

#[test]
fn runs_without_known_end_stay_open() {
    for (name, is_ended) in [("never", false), ("lost", true)] {
        let Some(mock) = XrtMock::build(&[]) else { return };
        let (mut kernel, region, buffer) = with_kernel(&mock, name);
        kernel.start(3, &buffer, 0, 8, 0).unwrap();
        if is_ended {
            let words = "kernel lost ended with no response to a reset (9)".to_owned();
            assert_eq!(finish(&mut kernel), (3, Err(words)));
        }
        assert!(kernel.finished().is_none());
        drop((region, buffer, kernel));
        let calls = mock.calls();
        let is_let_go = |call: &String| call.starts_with("close") || call.starts_with("free");
        assert!(!calls.iter().any(is_let_go), "{name}: {calls:?}");
    }
}

#[test]
fn refused_calls_leave_nothing_in_flight() {
    for (refusal, words) in [("PART_FAILS", "xrtBOSubAlloc"), ("START_FAILS", "xrtRunStart")] {
        let Some(mock) = XrtMock::build(&[refusal]) else { return };
        let (mut kernel, region, buffer) = with_kernel(&mock, "invert");
        let error = kernel.start(0, &buffer, 0, 8, 0).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!((kernel.in_flight(), kernel.finished().is_none()), (0, true));
        drop((region, buffer, kernel));
        assert_eq!(mock.calls().last().map(String::as_str), Some("close"));
        expect_no_misuse(&mock);
    }
}
