//! The flow engine beside the TLP engine, on one case.
//!
//! Leaves out which cases: `generate::scenarios` has them. The one thing to know: that both agree does
//! not say that machines do; it says that the fluid loses nothing that the packets have.

use peerlane_units::Bytes;

use super::rates::{FlowError, Rates};
use super::solve::Settings;
use crate::generate::scenarios::Scenario;
use crate::model::{FlowSpec, Node, Picos};
use crate::tlp::{self, Extent, TlpError, Train, simulate};
use crate::way::as_f64;

/// Commands of each flow that passes on slots, of each where draws have a part, and of each with few under way.
const SLOTS: f64 = 50.0;
const DRAWN: f64 = 200.0;
const FEW: f64 = 256.0;
/// The shortest window and the longest, in milliseconds, and the longest where a flow has few commands under way.
const LEAST: f64 = 4.0;
const MOST: f64 = 100.0;
const MOST_OF_FEW: f64 = 1000.0;

/// What the engines say of the flows of one case, in payload a nanosecond.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The TLP engine.
    pub tlp: Vec<f64>,
    /// The flow engine.
    pub flow: Vec<f64>,
    /// Rounds of the flow engine.
    pub rounds: u32,
    /// Whether the rates of the TLP engine were stable, and the rules that it checks held.
    pub is_sound: bool,
}

/// How large some errors are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// What three quarters of them are at most.
    pub p75: f64,
    /// What 95 of a hundred are at most.
    pub p95: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Takes relative errors; all are 0 where there are none.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Self {
        let mut errors: Vec<f64> = errors.into_iter().collect();
        errors.sort_by(f64::total_cmp);
        let last = errors.len().saturating_sub(1);
        let at = |percent: usize| errors.get((last * percent + 50) / 100).copied().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let count = errors.len().max(1) as f64;
        let mean = errors.iter().sum::<f64>() / count;
        Self { mean, p75: at(75), p95: at(95), most: at(100) }
    }
}

/// Why a case could not be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// The flow engine.
    #[error("the flow engine has no result")]
    Flow(#[from] FlowError),
    /// The TLP engine.
    #[error("the TLP engine has no result")]
    Tlp(#[from] TlpError),
}

impl Compared {
    /// The relative error of each flow.
    pub fn errors(&self, rates: &[f64]) -> Vec<f64> {
        self.tlp.iter().zip(rates).map(|(tlp, rate)| (rate / tlp.max(1e-9) - 1.0).abs()).collect()
    }

    /// The relative error of the sum over all flows.
    pub fn sum_error(&self) -> f64 {
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        (sum(&self.flow) / sum(&self.tlp) - 1.0).abs()
    }
}

/// How long packets are watched: 4 ms, but as long as a flow needs for some commands where bytes count by
/// slots, draws decide their queue, or gaps between few of them whom they meet; 100 ms at most, with few a second, so that
/// what hardly moves ends.
fn extent(scenario: &Scenario, rates: &[f64]) -> Extent {
    let Scenario { topology, flows, .. } = scenario;
    let is_drawn = |node: &Node| (1..1 << 16).contains(&node.kind.hol().in_65536ths());
    let is_random = topology.nodes().iter().any(is_drawn);
    let time = |(flow, rate): (&FlowSpec, &f64)| {
        let commands = match &flow.second {
            _ if is_random => DRAWN,
            _ if flow.depth <= tlp::FEW_SLOTS => FEW,
            Some(_) => SLOTS,
            None => 0.0,
        };
        commands * as_f64(flow.request) / rate / 1e6
    };
    let most = if has_few(flows) { MOST_OF_FEW } else { MOST };
    let millis = flows.iter().zip(rates).map(time).fold(LEAST, f64::max).min(most);
    let has_slots = flows.iter().any(|flow| flow.second.is_some());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "4 to 100")]
    let window = Picos::millis(millis.ceil() as u64);
    Extent::Steady { window, most: Picos::millis(if has_slots { 300 } else { 60 }) }
}

/// Whether gaps between commands of a flow decide whom they meet.
fn has_few(flows: &[FlowSpec]) -> bool {
    flows.iter().any(|flow| flow.depth <= tlp::FEW_SLOTS)
}

/// Runs both engines on a case.
///
/// # Errors
/// When one of them has no result.
pub fn compare(scenario: &Scenario) -> Result<Compared, CompareError> {
    let Scenario { topology, flows, .. } = scenario;
    let rates = Rates::of(topology, flows, Settings::default())?;
    let extent = extent(scenario, &rates.solution.rates);
    // Where latencies vary, trains agree no better than by chance.
    let train = if has_few(flows) { Train::Fixed(16) } else { Train::Auto };
    let settings = tlp::Settings { extent, train, ..tlp::Settings::default() };
    let outcome = simulate(topology, flows, &settings)?;
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let per_nano = |bytes: Bytes| bytes.0 as f64 / outcome.measured.to_nanos().0.max(1) as f64;
    Ok(Compared {
        tlp: outcome.flows.iter().map(|flow| per_nano(flow.bytes)).collect(),
        rounds: rates.solution.rounds,
        flow: rates.solution.rates,
        is_sound: outcome.is_settled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::scenarios::{Family, coupled, scenario};
    use crate::model::{
        Coupling, Endpoint, HostMemory, Memory, NodeIndex, NodeKind, RootComplex, Switch, Topology,
        Wire,
    };
    use peerlane_units::ByteRate;

    /// Both engines on a case; no flow is further apart than this.
    #[track_caller]
    fn agreed(case: &Scenario, most: f64) -> Compared {
        let compared = compare(case).expect("both have a result");
        let errors = compared.errors(&compared.flow);
        assert!(errors.iter().all(|&error| error < most), "{} {compared:?}", case.family);
        compared
    }

    #[test]
    fn fluids_and_packets_agree_where_queues_join_and_hold_each_other_up() {
        for (family, seed) in [(Family::ParkingLot, 2), (Family::Victim, 0), (Family::Tree, 10)] {
            let compared = agreed(&scenario(family, seed), 0.03);
            assert!(compared.sum_error() < 0.01, "{family} {compared:?}");
        }
    }

    #[test]
    fn heads_wait_at_full_outputs_where_flows_are_many() {
        // With no waits, flows of dense cases are off by 10 % on average.
        for seed in [4, 6, 8] {
            let compared = compare(&scenario(Family::Dense, seed)).expect("both have a result");
            let errors = compared.errors(&compared.flow);
            let count = f64::from(u32::try_from(errors.len()).expect("few"));
            assert!(errors.iter().sum::<f64>() / count < 0.06, "{seed} {errors:?}");
            assert!(compared.sum_error() < 0.02, "{seed} {compared:?}");
        }
    }

    #[test]
    fn reads_wait_where_packets_of_others_fill_a_queue() {
        // Reads of three initiators with 2 to 32 tags, some behind others in full queues: without the
        // time that those take, the rates of some are up to 170 % too high.
        for (family, seed) in [(Family::FewTags, 5), (Family::FewTags, 9), (Family::Mixed, 7)] {
            let compared = agreed(&scenario(family, seed), 0.16);
            assert!(compared.sum_error() < 0.04, "{family} {compared:?}");
        }
    }

    #[test]
    fn a_read_that_is_alone_takes_as_long_as_its_packets() {
        // Over links of which the next is faster, slower or as fast, in both directions.
        let mut compared = 0;
        for seed in [3, 7, 31] {
            let Scenario { family, topology, flows } = scenario(Family::FewTags, seed);
            for flow in flows {
                let alone =
                    Scenario { family, topology: topology.clone(), flows: vec![flow.clone()] };
                let error = compare(&alone).expect("both have a result").sum_error();
                assert!(error < 0.003, "seed {seed}, {}: {error}", flow.name);
                compared += 1;
            }
        }
        assert!(compared > 20, "{compared}");
    }

    #[test]
    fn reads_of_few_tags_wait_for_each_other_no_more_and_no_less_than_packets() {
        // All reads of one initiator: what is wrong with their round trip or their waits is wrong with all.
        for seed in [7, 14, 31, 117] {
            let compared = compare(&scenario(Family::FewTags, seed)).expect("both have a result");
            assert!(compared.sum_error() < 0.035, "{seed} {compared:?}");
        }
    }

    #[test]
    fn what_goes_astray_in_its_first_rounds_finds_back() {
        // Without shares that begin anew a flow of each was 72 and 142 % off.
        for seed in [41_268_745_618_279, 41_268_745_618_281] {
            agreed(&scenario(Family::Relays, seed), 0.1);
        }
    }

    #[test]
    fn queues_that_the_tags_of_one_reader_fill_are_equally_long() {
        // Strangers behind one of them were up to 47 % too fast, with lengths that the first rounds left.
        for seed in [118, 9040] {
            agreed(&scenario(Family::FewTags, seed), 0.08);
        }
    }

    #[test]
    fn what_tags_leave_in_an_egress_buffer_holds_up_nobody() {
        // A quarter too slow where all of it stands in a queue, and a third too fast where the buffer delays nothing.
        for seed in [12, 19] {
            agreed(&scenario(Family::FewTags, seed), 0.08);
        }
    }

    /// The same with 2 MiB under way in commands of this size.
    fn in_commands(mut scenario: Scenario, size: Bytes) -> Scenario {
        for flow in &mut scenario.flows {
            flow.request = size;
            flow.depth = u32::try_from(Bytes::mib(2).0 / size.0).expect("few");
        }
        scenario
    }

    #[test]
    fn the_nearer_end_of_partial_coupling_is_where_small_commands_settle() {
        for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            // Half is where both ends meet. The slowest flow of the parking lot has 200 draws.
            let allowed = if share == 0.5 { 0.5 } else { 0.1 };
            for (family, seed) in [(Family::Victim, 0), (Family::ParkingLot, 2), (Family::Tree, 3)]
            {
                let case = in_commands(coupled(family, seed, Coupling::new(share)), Bytes::kib(1));
                let compared = compare(&case).expect("both have a result");
                let errors = compared.errors(&compared.flow);
                let worst = errors.iter().copied().fold(0.0, f64::max);
                assert!(worst < allowed, "{family} {share} {compared:?}");
            }
        }
    }

    #[test]
    fn outputs_with_queues_of_their_own_take_turns_once() {
        // A buffer and its link that both were full halved what stood in front of them.
        for seed in [3, 6, 24] {
            agreed(&coupled(Family::Coupled, seed, Coupling::ISOLATED), 0.03);
        }
    }

    #[test]
    fn both_legs_of_a_relay_share_a_memory_that_others_leave_alone() {
        // In small slots, which are no bursts. The legs took turns at what the other one had left, for ever.
        let case = in_commands(scenario(Family::Relays, 13), Bytes::kib(4));
        let compared = agreed(&case, 0.02);
        assert!(compared.rounds < 100, "{compared:?}");
    }

    #[test]
    fn both_stages_of_a_relay_take_turns_at_its_memory() {
        // A write that stands in the queue of a relay gets what the relay gets, which is half of its memory.
        agreed(&scenario(Family::Relays, 41_268_745_618_301), 0.02);
    }

    #[test]
    fn a_queue_of_requests_to_which_less_comes_than_it_lets_go_empties() {
        // It filled while rates were sought. Full ever after, it kept the copy that it delayed 30 and 60 % too slow,
        // and left to a write from the same source almost three times what packets do.
        for seed in [4, 44] {
            agreed(&in_commands(scenario(Family::Shared, seed), Bytes::kib(4)), 0.02);
        }
    }

    #[test]
    fn heads_wait_in_front_of_a_slow_memory_and_of_a_full_link() {
        // Its heads wait at both, and what waits for the memory is late there.
        agreed(&scenario(Family::Relays, 41_268_745_618_300), 0.08);
    }

    /// Payload a nanosecond of each flow on single packets, 60 to 100 ms after the others began, where those flows begin
    /// 10 ms later.
    fn settled(scenario: &Scenario, late: &[usize]) -> Vec<f64> {
        let mut flows = scenario.flows.clone();
        flows.iter_mut().for_each(|flow| flow.bytes = Bytes(1 << 36));
        late.iter().for_each(|&flow| flows[flow].start = Picos::millis(10));
        let until = |millis| {
            let most = Picos::millis(millis);
            let train = tlp::Train::Fixed(1);
            let settings =
                tlp::Settings { extent: Extent::Whole { most }, train, ..tlp::Settings::default() };
            let outcome = simulate(&scenario.topology, &flows, &settings).expect("a result");
            outcome.flows.iter().map(|flow| as_f64(flow.bytes)).collect::<Vec<f64>>()
        };
        until(60).iter().zip(until(100)).map(|(before, now)| (now - before) / 40e6).collect()
    }

    #[test]
    fn two_queues_in_front_of_the_same_two_outputs_settle_in_one_way() {
        // Without egress buffers packets settled in two, 20 % apart, by which queue was full first.
        let case = scenario(Family::Tree, 4);
        let rates = Rates::of(&case.topology, &case.flows, Settings::default()).expect("rates");
        // All flows of one of both queues come later, or none does.
        for late in [&[0, 6, 9][..], &[]] {
            let packets = settled(&case, late);
            for (tlp, flow) in packets.iter().zip(&rates.solution.rates) {
                let found = flow / tlp - 1.0;
                assert!(found.abs() < 0.02, "{packets:?} {:?}", rates.solution.rates);
            }
        }
    }

    #[test]
    fn a_slow_reader_of_host_memory_holds_up_no_fast_one() {
        let mut topology = Topology::new();
        let root = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
        let bare = Wire::bare(ByteRate(40_000_000_000), Picos::nanos(10));
        let host = NodeKind::HostMemory(HostMemory::default());
        let host = topology.add_below(root, "host", host, bare);
        let mut reader = |name: &str, link: &str| {
            let wire = Wire::pcie(link.parse().expect("a link"), Bytes(256));
            let device = NodeKind::Endpoint(Endpoint::default());
            let device = topology.add_below(root, name, device, wire);
            FlowSpec::read(name, device, host)
        };
        let flows = vec![reader("fast", "8GT/s x16"), reader("slow", "8GT/s x1")];
        let case = Scenario { family: Family::Tree, topology, flows };
        let compared = agreed(&case, 0.01);
        assert!(compared.flow[0] > 10.0 * compared.flow[1], "{compared:?}");
    }

    #[test]
    fn a_link_between_sockets_holds_no_more_than_its_buffers() {
        // What waits for a slow memory beyond the other socket fills them, so that what comes behind waits. With room for
        // all of it, as inside a chip, the fast memory would get 3.5 GB/s.
        let mut topology = Topology::new();
        let [near, far] = ["near", "far"]
            .map(|name| topology.add(name, NodeKind::RootComplex(RootComplex::default())));
        topology.join(near, far, Wire::socket(ByteRate(31_000_000_000), Picos::nanos(60)));
        let mut device = |name: &str, root, write| {
            let wire = Wire::pcie("8GT/s x4".parse().expect("a link"), Bytes(256));
            let mut endpoint = Endpoint::default();
            endpoint.memory.write = write;
            topology.add_below(root, name, NodeKind::Endpoint(endpoint), wire)
        };
        let slow = device("slow", far, Some(ByteRate(1_000_000_000)));
        let fast = device("fast", far, None);
        let (a, b) = (device("a", near, None), device("b", near, None));
        let mut flows = vec![FlowSpec::write("held", a, slow), FlowSpec::write("behind", b, fast)];
        flows[1].depth = 8 * flows[0].depth;
        let case = Scenario { family: Family::Tree, topology, flows };
        let compared = agreed(&case, 0.1);
        assert!(compared.tlp[1] < 2.0, "{compared:?}");
    }

    /// A drive whose medium reads 6.5 GB/s or writes 3.5, and what it lends to others.
    fn drive() -> Endpoint {
        let gigabytes = |tenths: u64| Some(ByteRate(100_000_000 * tenths));
        let memory = Memory { write: gigabytes(35), is_shared: false, ..Memory::default() };
        let (posts, fetches) = (gigabytes(65), gigabytes(35));
        Endpoint { posts, fetches, memory, ..Endpoint::default() }
    }

    /// A switch above `victim` and `guest`, and `lender`, `other` and `idle` beside it.
    fn lent() -> (Topology, [NodeIndex; 5]) {
        let mut topology = Topology::new();
        let root = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
        let wire = |speed: &str| Wire::pcie(speed.parse().expect("a link"), Bytes(256));
        let switch = NodeKind::Switch(Switch::default());
        let switch = topology.add_below(root, "switch", switch, wire("16GT/s x16"));
        let mut device = |name: &str, upper| {
            topology.add_below(upper, name, NodeKind::Endpoint(drive()), wire("16GT/s x4"))
        };
        let nodes = [("victim", switch), ("guest", switch), ("lender", root), ("other", root)];
        let [victim, guest, lender, other] = nodes.map(|(name, upper)| device(name, upper));
        let idle = device("idle", root);
        (topology, [victim, guest, lender, other, idle])
    }

    /// What both engines say of flows on a machine, within 1 % of each other.
    fn agreed_on(topology: Topology, flows: Vec<FlowSpec>) -> Compared {
        agreed(&Scenario { family: Family::Tree, topology, flows }, 0.01)
    }

    #[test]
    fn what_waits_for_a_slot_in_the_memory_of_a_drive_holds_up_nobody() {
        // The lender moves on what the guest writes, and is read itself: 2.275 GB/s each.
        let (topology, [victim, guest, lender, other, idle]) = lent();
        let flows = vec![
            FlowSpec::write("victim", victim, idle),
            FlowSpec::relay("guest", guest, lender, lender),
            FlowSpec::write("lender", lender, other),
        ];
        let compared = agreed_on(topology, flows);
        assert!((compared.tlp[0] - 3.5).abs() < 0.01, "{compared:?}");
        assert!((compared.tlp[1] - 2.275).abs() < 0.01, "{compared:?}");
    }

    #[test]
    fn drives_of_two_sockets_that_are_read_and_written_wait_for_each_other() {
        for seed in [3, 7, 9] {
            let compared = agreed(&scenario(Family::Sockets, seed), 0.02);
            assert!(compared.sum_error() < 0.01, "{seed} {compared:?}");
        }
    }

    #[test]
    fn flows_of_one_initiator_have_a_turn_each_at_the_medium_behind_a_memory() {
        let (topology, [_, guest, lender, other, _]) = lent();
        let flows = vec![
            FlowSpec::relay("one", guest, lender, lender),
            FlowSpec::relay("another", guest, lender, lender),
            FlowSpec::write("lender", lender, other),
        ];
        let compared = agreed_on(topology, flows);
        assert!((compared.tlp[2] / compared.tlp[0] - 1.0).abs() < 0.01, "{compared:?}");
    }

    #[test]
    fn requests_for_slots_that_a_drive_fills_itself_wait_for_it_in_both() {
        let (topology, [victim, guest, lender, other, idle]) = lent();
        let flows = vec![
            FlowSpec::read("victim", victim, idle),
            FlowSpec::relay("guest", lender, lender, guest),
            FlowSpec::read("lender", lender, other),
        ];
        let compared = agreed_on(topology, flows);
        assert!((compared.tlp[0] - 3.5).abs() < 0.01, "{compared:?}");
        assert!((compared.tlp[1] - 2.275).abs() < 0.01, "{compared:?}");
    }

    #[test]
    fn errors_are_spread_as_their_places_say() {
        let spread = Spread::of((1..=101).rev().map(f64::from));
        assert_eq!((spread.mean, spread.p75, spread.p95, spread.most), (51.0, 76.0, 96.0, 101.0));
        assert_eq!(Spread::of([0.5]).p95, 0.5);
        assert_eq!(Spread::of([]).most, 0.0);
    }
}
