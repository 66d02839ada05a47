//! What a calibration learns beside drives: the processor, memories of devices, packets, host-memory traffic.

use peerlane_results::{HostMemoryTraffic, Packets, PageFaults};

use super::tests::{does, drive, measured_drive, of, read};
use super::*;
use crate::parameters::Parameter;

/// Bytes a second that one core copies, seconds of a fault, bytes that it maps.
const COPY: f64 = 8e9;
const FAULT: f64 = 1e-6;
const WINDOW: u64 = 65536;

fn row(
    source: &str,
    target: &str,
    path: Path,
    (block, depth): (Bytes, u32),
    rate: f64,
) -> CaseRecord {
    of(Flow { block, depth, ..Flow::new(source, target, path) }, rate, 0)
}

#[expect(clippy::cast_precision_loss, reason = "a block size")]
fn size(block: Bytes) -> f64 {
    block.0 as f64
}

/// A drive without noise and the rows of a host, each off by what `noise` says of it.
fn with_host(noise: impl Fn(&str) -> f64) -> BenchRecord {
    let mut record = measured_drive("d", |_| 1.0);
    for block in HOST_BLOCKS {
        let name = format!("copy {}", block.0);
        let (at, rate) = ((block, 1), COPY * noise(&name));
        record.cases.push(row("host", "host", Path::HostPipelined, at, rate));
        #[expect(clippy::cast_precision_loss, reason = "a window")]
        let rate = WINDOW as f64 / FAULT * noise(&format!("map {}", block.0));
        let mut map = row("host", "host", Path::HostMapped, at, rate);
        // As a process has them: a few more than those of the map.
        let minor = map.bytes.0 / WINDOW + 20;
        map.page_faults = Some(PageFaults { minor, major: 0 });
        record.cases.push(map);
    }
    for block in CACHED_BLOCKS {
        let drive = size(block) / does(&drive(), size(block), 1);
        #[expect(clippy::cast_precision_loss, reason = "a window")]
        let faults = size(block) / WINDOW as f64 * FAULT;
        for (path, more) in [(Path::HostPageCache, size(block) / COPY), (Path::HostMapped, faults)]
        {
            let rate = size(block) / (drive + more) * noise(&format!("{path} {}", block.0));
            record.cases.push(row("d", "host", path, (block, 1), rate));
        }
    }
    record
}

/// The rows of a memory that is written and read at these rates at most.
fn add_memory(record: &mut BenchRecord, memory: &str, written: f64, read: f64) {
    for block in MEMORY_BLOCKS {
        for depth in MEMORY_DEPTHS {
            let alone = does(&drive(), size(block), depth);
            let at = (block, depth);
            record.cases.push(row("d", memory, Path::P2p, at, alone.min(written)));
            record.cases.push(row(memory, "d", Path::P2p, at, alone.min(read)));
        }
    }
}

fn value(parameters: &[Parameter], name: &str) -> f64 {
    let found = parameters.iter().find(|one| one.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).value
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-3
}

#[test]
fn a_processor_without_noise_is_found_again_and_says_what_goes_by_the_page_cache() {
    let found = calibrate(&with_host(|_| 1.0)).expect("a calibration");
    let parameters = read(&found.to_toml());
    assert!(is_near(value(&parameters, "host.copy"), COPY));
    assert!(is_near(value(&parameters, "host.fault"), FAULT));
    #[expect(clippy::cast_precision_loss, reason = "a window")]
    let window = WINDOW as f64;
    assert!(is_near(value(&parameters, "host.window"), window));
    let (copy, fault) = (found.host.copy.expect("copies"), found.host.fault.expect("faults"));
    assert_eq!((copy.rows.fitted.len(), copy.rows.held_out.len()), (1, 2));
    assert_eq!((fault.rows.fitted.len(), fault.rows.held_out.len()), (1, 2));
    assert_eq!(found.host.cached.len(), 2);
    for cached in found.host.cached {
        assert_eq!((cached.rows.fitted.len(), cached.rows.held_out.len()), (0, 2));
        assert!(cached.rows.worst_error() < 1e-3, "{cached:?}");
    }
}

#[test]
fn the_largest_copy_makes_the_parameter_and_the_others_test_it() {
    let largest = format!("copy {}", HOST_BLOCKS[2].0);
    let off = |name: &str| if name == largest { 0.5 } else { 1.0 };
    let found = calibrate(&with_host(off)).expect("a calibration");
    let copy = found.host.copy.as_ref().expect("copies");
    assert!(is_near(copy.rate, COPY / 2.0));
    assert!(is_near(copy.rows.mean_error(), 0.5));
    let text = found.to_toml();
    let of_file = read(&text);
    let of_copy = of_file.iter().find(|one| one.name == "host.copy").expect("it");
    assert!(of_copy.hi >= of_copy.value * 1.499, "{of_copy:?}");
    // What the drive does by the page cache is predicted with it, and is off.
    assert!(found.host.cached[0].rows.mean_error() > 0.05, "{:?}", found.host.cached[0]);
    assert!(text.contains("# d, read by host-page-cache: 2 rows held out"), "{text}");
}

#[test]
fn without_a_count_of_faults_there_is_no_parameter_of_them() {
    let mut record = with_host(|_| 1.0);
    record.cases.iter_mut().for_each(|case| case.page_faults = None);
    let found = calibrate(&record).expect("a calibration");
    assert_eq!(found.host.fault, None);
    assert!(!found.to_toml().contains("host.fault"));
    let paths: Vec<Path> = found.host.cached.iter().map(|one| one.path).collect();
    assert_eq!(paths, [Path::HostPageCache]);
    // One row alone tests nothing.
    let is_small = |case: &CaseRecord| {
        let flow = &case.asked.flows[0];
        flow.source == "host" && flow.target == "host" && flow.block != HOST_BLOCKS[0]
    };
    record.cases.retain(|case| !is_small(case));
    assert!(matches!(calibrate(&record), Err(CalibrateError::Rows { of, .. }) if of == "host"));
}

#[test]
fn a_memory_that_is_slower_than_the_drive_is_learnt_and_a_faster_one_is_not() {
    let mut record = measured_drive("d", |_| 1.0);
    add_memory(&mut record, "cmb:c", 2e9, 400e6);
    add_memory(&mut record, "gpu:0", 1e12, 1e12);
    let found = calibrate(&record).expect("a calibration");
    assert_eq!(found.memories.len(), 4);
    for memory in &found.memories {
        assert_eq!((memory.rows.fitted.len(), memory.rows.held_out.len()), (1, 5));
        assert!(memory.rows.worst_error() < 1e-3, "{memory:?}");
    }
    let text = found.to_toml();
    let parameters = read(&text);
    assert!(is_near(value(&parameters, "cmb:c.memory.write"), 2e9));
    assert!(is_near(value(&parameters, "cmb:c.memory.read"), 400e6));
    assert!(parameters.iter().all(|one| !one.name.starts_with("gpu:0")));
    assert!(text.contains("# no gpu:0.memory.write: the drive was the limit"), "{text}");
}

#[test]
fn of_two_drives_the_faster_one_says_what_a_memory_takes() {
    let mut record = measured_drive("d", |_| 1.0);
    add_memory(&mut record, "cmb:c", 2e9, 400e6);
    let mut other = measured_drive("e", |_| 1.0);
    add_memory(&mut other, "cmb:c", 1e9, 300e6);
    for case in &mut other.cases {
        for flow in &mut case.asked.flows {
            for end in [&mut flow.source, &mut flow.target] {
                if end == "d" {
                    "e".clone_into(end);
                }
            }
        }
    }
    record.cases.extend(other.cases);
    let parameters = read(&calibrate(&record).expect("a calibration").to_toml());
    assert!(is_near(value(&parameters, "cmb:c.memory.write"), 2e9));
    assert!(is_near(value(&parameters, "cmb:c.memory.read"), 400e6));
}

#[test]
fn a_memory_without_the_drive_alone_or_a_second_row_is_refused() {
    let mut record = measured_drive("d", |_| 1.0);
    let at = (Bytes::mib(1), 32);
    record.cases.push(row("e", "cmb:c", Path::P2p, at, 1e9));
    let refused = |record: &BenchRecord| calibrate(record).expect_err("refused").to_string();
    assert!(refused(&record).contains("e, read to cmb:c: needs the same drive"));
    record.cases.pop();
    record.cases.push(row("d", "cmb:c", Path::P2p, at, 1e9));
    assert!(refused(&record).contains("d, read to cmb:c: needs a second row"));
}

#[test]
fn fewer_slots_than_were_asked_for_are_the_depth_of_a_row() {
    let mut record = measured_drive("d", |_| 1.0);
    add_memory(&mut record, "cmb:c", 2e9, 400e6);
    for case in &mut record.cases {
        if case.asked.flows[0].depth == 32 && case.asked.flows[0].target == "cmb:c" {
            case.warnings.push(Warning::DepthReduced { asked: 64, slots: 14 });
        }
    }
    let found = calibrate(&record).expect("a calibration");
    let write = found.memories.iter().find(|one| one.op == Op::Read).expect("reads");
    assert!(write.rows.fitted[0].depth > 6.5 && write.rows.fitted[0].depth < 7.5, "{write:?}");
}

#[test]
fn what_configuration_spaces_say_is_in_the_file_or_why_they_do_not() {
    let mut record = measured_drive("d", |_| 1.0);
    let of = |device: &str, packets, reason: Option<&str>| DevicePackets {
        device: device.to_owned(),
        address: None,
        packets,
        reason: reason.map(str::to_owned),
    };
    let set = |payload, tags| {
        let (payload, request) = (Bytes(payload), Bytes(512));
        Some(Packets { payload, request, tags })
    };
    record.packets = vec![
        of("d", set(256, 32), None),
        of("e", set(128, 256), None),
        of("f", None, Some("why\n")),
    ];
    let text = calibrate(&record).expect("a calibration").to_toml();
    let parameters = read(&text);
    for (name, expected) in [("pcie.mps", 128.0), ("pcie.mrrs", 512.0), ("pcie.tags", 32.0)] {
        assert!(is_near(value(&parameters, name), expected), "{text}");
    }
    assert!(text.contains("# f: no pcie.mps, pcie.mrrs and pcie.tags: why"), "{text}");
}

#[test]
fn host_memory_traffic_is_shown_beside_what_the_model_says_or_why_it_is_not() {
    let mut record = with_host(|_| 1.0);
    let found = calibrate(&record).expect("a calibration");
    assert_eq!(found.traffic.not_counted.as_deref(), Some("a test"));
    assert!(found.to_toml().contains("# Host-memory traffic was not counted: a test."));
    for case in &mut record.cases {
        if case.asked.flows[0].source == "host" && case.asked.flows[0].target == "host" {
            let bytes = Some(Bytes(case.bytes.0 * 5 / 2));
            case.host_memory = HostMemoryTraffic { bytes, reason: "counted".to_owned() };
        }
    }
    let found = calibrate(&record).expect("a calibration");
    assert_eq!(found.traffic.not_counted, None);
    let copy = found.traffic.rows.iter().find(|row| row.what == "host, copies").expect("it");
    assert!(is_near(copy.measured, 2.5) && is_near(copy.predicted.most, 3.0), "{copy:?}");
    let text = found.to_toml();
    assert!(text.contains("# host, copies: 2.50 bytes in host memory a byte"), "{text}");
}
