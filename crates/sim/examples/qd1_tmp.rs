use peerlane_sim::generate::{tree};
use peerlane_sim::model::*;
use peerlane_sim::tlp::*;
use peerlane_units::{ByteRate, Bytes};
fn main() {
    let mut machine = tree(10);
    let d = machine.groups.remove(0);
    for &drive in &d {
        let posts = Some(ByteRate(5_000_000_000));
        let fetches = Some(ByteRate(3_000_000_000));
        machine.topology.node_mut(drive).kind = NodeKind::Endpoint(Endpoint { posts, fetches, ..Endpoint::default() });
    }
    let t = machine.topology;
    let cases: Vec<(&str, Vec<FlowSpec>)> = vec![
        ("incast", (1..6).map(|a| FlowSpec::write("in", d[a], d[0])).collect()),
        ("incast9", (1..10).map(|a| FlowSpec::write("in", d[a], d[0])).collect()),
        ("all", (0..10).flat_map(|a| (0..10).filter(move |&b| a != b).map(move |b| (a, b))).map(|(a, b)| FlowSpec::write("x", d[a], d[b])).collect()),
        ("relay", (0..4).flat_map(|a| (0..4).filter(move |&b| a != b).map(move |b| (a, b))).map(|(a, b)| FlowSpec::relay("x", d[a], d[9], d[b])).collect()),
        ("pairs", (0..5).map(|a| FlowSpec::read("x", d[a], d[a + 5])).collect()),
    ];
    for (name, flows) in cases {
        for kib in [4u64, 64, 1024] { for depth in [1u32, 2, 4] {
            let flows: Vec<FlowSpec> = flows.iter().cloned().map(|mut f| { f.first.latency = Picos::micros(80); if let Some(s) = &mut f.second { s.latency = Picos::micros(20); } f.with(Bytes::kib(kib), depth) }).collect();
            print!("{name} {kib}K q{depth}: ");
            for (after, window) in [(0u64, 10u64), (20, 20), (50, 50), (100, 100), (200, 200), (400, 400)] {
                let extent = Extent::Even { after: Picos::millis(after), least: Picos::millis(window), window: Picos::millis(window), most: Picos::millis(2 * after + 50) };
                let o = simulate(&t, &flows, &Settings { extent, train: Train::Fixed(16), ..Settings::default() }).unwrap();
                let p = |q: f64| o.flows.iter().map(|f| f.latency.quantile(q).0 as f64 / 1e6).fold(0.0, f64::max);
                let m: f64 = o.flows.iter().map(|f| f.latency.quantile(0.5).0 as f64 / 1e6).sum::<f64>() / o.flows.len() as f64;
                print!(" [{after}:{window}] {:.0}/{:.0}/{:.0}", m, p(0.5), p(0.99));
            }
            println!();
        } }
    }
}
