//! Properties that hold for every device: more of anything never makes it slower, and nothing exceeds its
//! lowest ceiling. Published figures check the numbers.

use proptest::prelude::*;

use super::drive::{
    Side, alone, commands, commands_in_flight, flash, mixed, tag_ceiling, write_time,
};
use super::link::{Carry, Packets, both_ways, one_way, wire_rate};
use super::memory::{InFlight, Port, peak, port_rate};
use super::path::{Leg, makespan, pipelined, serial, soft_minimum};
use super::share::{Demand, fill};
use super::table::{Table, TableError};
use super::{drive, ethernet, host, path};

const PACKETS: Packets = Packets { write: 256.0, completion: 256.0, request: 512.0, dllps: 1.0 };

fn link_of(megatransfers: u32, width: u8) -> peerlane_fabric::LinkSpeed {
    peerlane_fabric::LinkSpeed { megatransfers, width }
}

#[track_caller]
fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} is not {expected}");
}

/// One command of 1 MiB and eight of 128 KiB in flight keep the same channels busy.
#[test]
fn a_large_command_is_no_slower_than_its_pieces_at_once() {
    let table = Table::new([(4096.0, 85e-6), (131_072.0, 120e-6)]).expect("a table");
    let side = Side { latency: table, rate: 6.5e9, commands: 800e3 };
    let (piece, whole) = (131_072.0, 1_048_576.0);
    let pieces = alone(&side, whole, piece);
    assert!((alone(&side, whole, whole) / pieces - 1.0).abs() < 1e-12);
    assert!((alone(&side, 2.0 * whole, 2.0 * whole) - pieces - whole / 6.5e9).abs() < 1e-12);
    // A published log of a SmartSSD's reads (sources/holdout-curves.toml), GiB/s by KiB: the slope is further off.
    let time = |kib: f64, rate: f64| (kib * 1024.0, kib / 1_048_576.0 / rate);
    let log = Table::new([time(4.0, 0.05), time(128.0, 1.21)]).expect("a table");
    let (slope, measured) = (log.time(whole), time(1024.0, 1.59).1);
    let side_of_log = Side { latency: log, rate: 2.36 * 1_073_741_824.0, commands: 800e3 };
    let streamed = alone(&side_of_log, whole, whole);
    assert!(slope < streamed && streamed < measured, "{slope} {streamed} {measured}");
    // Within the table a command takes what the table says.
    assert!((alone(&side, piece, piece) - 120e-6).abs() < 1e-12);
}

/// H100 to H100 both ways through one switch, 56.1 GB/s each way, and one way 54.3 to 57.5 by MPS.
#[test]
fn a_gen5_link_carries_both_ways_what_was_measured() {
    let both = both_ways(link_of(32_000, 16), Carry::Pushed, Carry::Pushed, PACKETS);
    assert_near(both, 56.1e9, 0.01);
    assert_near(one_way(link_of(32_000, 16), Carry::Pushed, PACKETS), 57.5e9, 0.005);
}

#[test]
fn one_way_agrees_with_the_ceiling_of_the_link() {
    let link = link_of(8_000, 4);
    let ceiling = link.write_ceiling(peerlane_units::Bytes(256)).0;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let ceiling = ceiling as f64;
    assert_near(one_way(link, Carry::Pushed, PACKETS), ceiling, 1e-6);
}

/// NVMeVirt's constants of a Samsung 970 PRO: 8 channels of 800 MB/s, 16 dies of 32 KiB, 36 us to sense,
/// 185 us to program.
#[test]
fn flash_of_a_known_drive_gives_its_rates() {
    let dies = 16.0;
    assert_near(flash(8.0, 800e6, dies, 32_768.0, 36e-6), 6.4e9, 1e-9);
    assert_near(flash(8.0, 800e6, dies, 32_768.0, 185e-6), 2.83e9, 0.01);
}

#[test]
fn two_banks_of_64_bits_at_3200_million_transfers_peak_at_51_gb() {
    assert_near(peak(2.0, 64.0, 3200e6), 51.2e9, 1e-9);
}

/// README of the Donard library: 104.86 MB through a map, 1607 faults counted, 9 at the start.
#[test]
fn faults_of_a_published_run_are_counted() {
    assert_near(host::page_faults(104.86e6, 65_536.0, 9.0), 1607.0, 0.005);
}

#[test]
fn a_frame_for_each_tlp_leaves_ten_gigabit_ethernet_879_megabytes() {
    assert_near(ethernet::tlp_in_frame(1.25e9, 128.0, 16.0, 0.0), 879e6, 0.001);
    assert!(ethernet::stream(1.25e9, 9000.0, 40.0) > ethernet::stream(1.25e9, 1500.0, 40.0));
}

#[test]
fn a_table_refuses_what_is_none() {
    assert_eq!(Table::new([]), Err(TableError::Empty));
    assert_eq!(Table::new([(1.0, 0.0)]), Err(TableError::Number));
    assert_eq!(Table::new([(1.0, 2.0), (1.0, 3.0)]), Err(TableError::SaidTwice));
    assert_eq!(Table::new([(1.0, 2.0), (2.0, 1.0)]), Err(TableError::Falls));
}

#[test]
fn a_measured_table_takes_noise_to_its_mean() {
    let table = Table::measured([(1.0, 3.0), (2.0, 1.0), (4.0, 5.0)]).expect("a table");
    assert_eq!(table.points(), [(1.0, 2.0), (2.0, 2.0), (4.0, 5.0)]);
    assert_eq!(Table::measured([(1.0, f64::NAN)]), Err(TableError::Number));
}

#[test]
fn a_large_synchronous_request_is_many_commands() {
    assert_eq!(commands(2e9, 131_072.0), 15_259.0);
    assert_eq!(commands_in_flight(2e9, 131_072.0, 1.0, 1023.0), 1023.0);
    assert_eq!(commands(4096.0, 131_072.0), 1.0);
}

#[test]
fn one_buffer_adds_times_and_two_hide_the_shorter() {
    let times = [2.0, 3.0];
    assert_near(makespan(&times, 1, 100), 500.0, 1e-9);
    assert_near(makespan(&times, 2, 100), 302.0, 1e-9);
}

#[test]
fn flows_that_are_alike_share_alike() {
    let flow = Demand { most: 6.0, takes: vec![(0, 1.0)] };
    let shares = fill(&[16.0], &vec![flow; 4]);
    assert!(shares.iter().all(|share| share.rate == 4.0 && share.stopped_by == Some(0)));
}

fn rates() -> impl Strategy<Value = f64> {
    1e6..1e11f64
}

fn side() -> impl Strategy<Value = Side> {
    (1e-6..1e-2f64, rates(), rates(), 1e3..1e7f64).prop_map(|(start, slope, rate, commands)| Side {
        latency: Table::line(start, slope),
        rate,
        commands,
    })
}

proptest! {
    #[test]
    fn a_drive_is_bounded_and_grows_with_depth(side in side(), size in 512.0..1e9f64, depth in 1.0..1024.0f64) {
        let rate = drive::throughput(&side, size, depth);
        prop_assert!(rate <= side.rate && rate <= side.commands * size * 1.000_001);
        prop_assert!(drive::throughput(&side, size, depth * 2.0) >= rate);
        prop_assert!(drive::loaded_latency(&side, size, depth) >= side.latency.time(size) * 0.999_999);
        let knee = drive::knee(&side, size);
        let full = drive::throughput(&side, size, knee * 2.0);
        prop_assert!((full / side.rate.min(side.commands * size) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_table_grows_and_goes_through_its_points(mut times in prop::collection::vec(1e-6..1.0f64, 1..10), size in 1.0..1e10f64) {
        times.sort_by(f64::total_cmp);
        let points = times.iter().enumerate().map(|(index, &time)| (4096.0 * f64::powi(2.0, i32::try_from(index).unwrap_or(0)), time));
        let table = Table::new(points).expect("times grow");
        for &(size, time) in table.points() {
            prop_assert!((table.time(size) - time).abs() < 1e-12);
        }
        prop_assert!(table.time(size * 1.5) >= table.time(size));
    }

    #[test]
    fn a_port_is_bounded_by_memory_and_by_latency(rate in rates(), bytes in 64.0..1e6f64, round_trip in 1e-7..1e-4f64) {
        let found = port_rate(Port { rate, in_flight: Some(InFlight { bytes, round_trip }) });
        prop_assert!(found <= rate && found <= bytes / round_trip);
        prop_assert_eq!(port_rate(Port { rate, in_flight: None }), rate);
        prop_assert!(tag_ceiling(64.0, 512.0, round_trip) == 2.0 * tag_ceiling(32.0, 512.0, round_trip));
    }

    #[test]
    fn crossing_traffic_never_helps_and_larger_packets_do(width in 1u8..=16, megatransfers in prop::sample::select(vec![2_500u32, 5_000, 8_000, 16_000, 32_000]), payload in 64.0..2048.0f64) {
        let link = link_of(megatransfers, width);
        let packets = Packets { write: payload, completion: payload, ..PACKETS };
        for carry in [Carry::Pushed, Carry::Pulled] {
            let alone = one_way(link, carry, packets);
            prop_assert!(both_ways(link, carry, Carry::Pushed, packets) <= alone);
            prop_assert!(alone <= wire_rate(link));
            let larger = Packets { write: payload * 2.0, completion: payload * 2.0, ..packets };
            prop_assert!(one_way(link, carry, larger) >= alone);
        }
    }

    #[test]
    fn serial_is_slower_than_pipelined_is_slower_than_the_slowest(starts in prop::collection::vec((0.0..1e-3f64, rates()), 1..5), size in 512.0..1e9f64) {
        let legs: Vec<Leg> = starts.into_iter().map(|(start, rate)| Leg { start, rate }).collect();
        let slowest = legs.iter().map(|leg| leg.rate).fold(f64::INFINITY, f64::min);
        let (one, more) = (serial(&legs, size), pipelined(&legs, size, 1.0));
        prop_assert!(one <= more * 1.000_001 && more <= slowest * 1.000_001);
        prop_assert!(pipelined(&legs, size, 0.7) <= more);
        let rates: Vec<f64> = legs.iter().map(|leg| leg.rate).collect();
        prop_assert!(soft_minimum(&rates, 2.0) <= slowest * 1.000_001);
        prop_assert!(soft_minimum(&rates, 3.0) >= soft_minimum(&rates, 2.0) * 0.999_999);
        prop_assert!(path::gain_over_serial(legs[0], &legs, size) >= 0.999_999);
    }

    #[test]
    fn buffers_never_slow_a_pipeline(times in prop::collection::vec(1e-3..1.0f64, 1..4), buffers in 1usize..4) {
        let one = makespan(&times, buffers, 20);
        prop_assert!(makespan(&times, buffers + 1, 20) <= one * 1.000_001);
        let slowest = times.iter().copied().fold(0.0, f64::max);
        prop_assert!(one >= slowest * 20.0 * 0.999_999);
    }

    #[test]
    fn a_cache_and_a_mixture_lie_between_their_ends(bytes in 1e6..1e12f64, cache in 1e6..1e11f64, fast in 1e9..1e10f64, slow in 1e8..1e9f64, reads in 0.0..=1.0f64) {
        let time = write_time(bytes, cache, fast, slow);
        prop_assert!(bytes / fast <= time * 1.000_001 && time <= bytes / slow * 1.000_001);
        let rate = mixed(reads, fast, slow);
        prop_assert!(slow * 0.999_999 <= rate && rate <= fast * 1.000_001);
    }

    #[test]
    fn what_host_and_processor_leave_grows_with_them(size in 512.0..1e8f64, per_command in 1e-7..1e-4f64, per_byte in 0.0..1e-9f64, peak in rates()) {
        let one = host::processor_ceiling(1.0, size, per_command, per_byte);
        prop_assert!(host::processor_ceiling(2.0, size, per_command, per_byte) > one);
        prop_assert!(one <= size / per_command * 1.000_001);
        prop_assert!(host::memory_left(peak, 0.8, peak / 2.0) <= host::memory_left(peak, 0.8, 0.0));
        prop_assert!(drive::command_bytes(size) >= 100.0);
    }

    #[test]
    fn no_resource_is_filled_beyond_its_capacity(capacities in prop::collection::vec(1.0..100.0f64, 1..5), flows in prop::collection::vec((0.1..200.0f64, 0usize..5, 0usize..5, 0.5..2.0f64), 1..20)) {
        let count = capacities.len();
        let demands: Vec<Demand> = flows.iter().map(|&(most, one, other, weight)| Demand {
            most,
            takes: if one % count == other % count { vec![(one % count, weight)] } else { vec![(one % count, weight), (other % count, 1.0)] },
        }).collect();
        let shares = fill(&capacities, &demands);
        let mut load = vec![0.0; count];
        for (demand, share) in demands.iter().zip(&shares) {
            prop_assert!(share.rate <= demand.most * 1.000_001);
            prop_assert!(share.stopped_by.is_some() || (share.rate / demand.most - 1.0).abs() < 1e-9);
            for &(resource, weight) in &demand.takes {
                load[resource] += share.rate * weight;
            }
        }
        for (load, capacity) in load.iter().zip(&capacities) {
            prop_assert!(*load <= capacity * 1.000_001);
        }
    }
}
