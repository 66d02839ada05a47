//! Published figures, and laws that hold for every device.

use peerlane_results::Path;
use proptest::prelude::*;

use super::drive::{DriveSide, beside_medium, throughput, write_time, written_in};
use super::host;
use super::path::soft_minimum;
use super::table::{SizeTable, TableError};

#[track_caller]
fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} is not {expected}");
}

fn table(points: &[(f64, f64)]) -> SizeTable {
    SizeTable::measured(points.iter().copied()).expect("a table")
}

/// README of the Donard library: 104.86 MB through a map, 1607 faults counted, 9 at the start.
#[test]
fn page_faults_match_a_published_count() {
    assert_near(host::page_faults(104.86e6, 65_536.0, 9.0), 1607.0, 0.005);
}

#[test]
fn large_commands_stream_beyond_the_table() {
    let latency = table(&[(4096.0, 85e-6), (131_072.0, 120e-6)]);
    let side = DriveSide { latency, rate: 6.5e9, commands: 800e3 };
    let (piece, whole) = (131_072.0, 1_048_576.0);
    assert_near(beside_medium(&side, whole, 6.5e9), 120e-6 - piece / 6.5e9, 1e-12);
    // A published log of a SmartSSD's reads (sources/holdout-curves.toml), GiB/s by KiB: the slope is further off.
    let time = |kib: f64, rate: f64| (kib * 1024.0, kib / 1_048_576.0 / rate);
    let latency = table(&[time(4.0, 0.05), time(128.0, 1.21)]);
    let (slope, measured) = (latency.time(whole), time(1024.0, 1.59).1);
    let rate = 2.36 * 1_073_741_824.0;
    let log = DriveSide { latency, rate, commands: 800e3 };
    let streamed = beside_medium(&log, whole, rate) + whole / rate;
    assert!(slope < streamed && streamed < measured, "{slope} {streamed} {measured}");
}

#[test]
fn invalid_tables_are_refused() {
    assert_eq!(SizeTable::measured([]), Err(TableError::Empty));
    assert_eq!(SizeTable::measured([(1.0, 0.0)]), Err(TableError::Number));
    assert_eq!(SizeTable::measured([(1.0, 2.0), (1.0, 3.0)]), Err(TableError::SaidTwice));
    assert_eq!(SizeTable::measured([(1.0, f64::NAN)]), Err(TableError::Number));
    // Measured times may fall, and share their mean.
    let table = SizeTable::measured([(1.0, 3.0), (2.0, 1.0), (4.0, 5.0)]).expect("a table");
    assert_eq!([1.0, 2.0, 4.0].map(|size| table.time(size)), [2.0, 2.0, 5.0]);
}

#[test]
fn copies_add_host_memory_traffic() {
    let most = |path| (host::traffic(path, 2).most, host::traffic(path, 1).most);
    assert_eq!(most(Path::P2p), (0.0, 0.0));
    assert_eq!(most(Path::HostPipelined), (2.0, 1.0));
    assert_eq!(most(Path::HostPageCache), (8.0, 4.0));
    assert_eq!(most(Path::HostMapped), (5.0, 1.0));
}

fn rates() -> impl Strategy<Value = f64> {
    1e6..1e11f64
}

proptest! {
    #[test]
    fn throughput_is_bounded_and_grows(
        start in 1e-6..1e-2f64, slope in rates(), rate in rates(), commands in 1e3..1e7f64,
        size in 512.0..1e9f64, depth in 1.0..1024.0f64,
    ) {
        let side = DriveSide { latency: SizeTable::line(start, slope), rate, commands };
        let found = throughput(&side, size, depth);
        prop_assert!(found <= rate && found <= commands * size * 1.000_001);
        prop_assert!(found <= depth * size / side.latency.time(size) * 1.000_001);
        prop_assert!(throughput(&side, size, depth * 2.0) >= found);
    }

    #[test]
    fn tables_grow_and_keep_their_points(
        mut times in prop::collection::vec(1e-6..1.0f64, 1..10), size in 1.0..1e10f64,
    ) {
        times.sort_by(f64::total_cmp);
        let sizes = std::iter::successors(Some(4096.0), |size| Some(size * 2.0));
        let points: Vec<(f64, f64)> = sizes.zip(times).collect();
        let table = table(&points);
        for (size, time) in points {
            prop_assert!((table.time(size) - time).abs() < 1e-12);
        }
        prop_assert!(table.time(size * 1.5) >= table.time(size));
    }

    #[test]
    fn stages_never_exceed_the_slowest(rates in prop::collection::vec(rates(), 1..5)) {
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let (low, high) = (soft_minimum(&rates, 2.0), soft_minimum(&rates, 3.0));
        prop_assert!(low <= high * 1.000_001 && high <= slowest * 1.000_001);
        prop_assert_eq!(soft_minimum(&rates, f64::INFINITY), slowest);
    }

    #[test]
    fn cached_writes_lie_between_both_rates(
        bytes in 1e6..1e12f64, cache in 1e6..1e11f64, fast in 1e9..1e10f64, slow in 1e8..1e9f64,
    ) {
        let time = write_time(bytes, cache, fast, slow);
        prop_assert!(bytes / fast <= time * 1.000_001 && time <= bytes / slow * 1.000_001);
        prop_assert!((written_in(time, cache, fast, slow) / bytes - 1.0).abs() < 1e-9);
    }
}
