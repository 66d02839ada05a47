//! Packets against formulas: ceilings of links, the law of tags, the law of credits.

use peerlane_fabric::LinkSpeed;
use peerlane_report::chart::{Kind, Lines, Look, Series, Values};
use peerlane_sim::model::{
    Endpoint, FlowSpec, Memory, NodeIndex, NodeKind, Picos, RootComplex, Topology, Wire,
};
use peerlane_sim::tlp::{Extent, Settings, Train, simulate};
use peerlane_units::Bytes;

use super::{Plot, series};

const PAYLOAD: f64 = 256.0;

/// Two devices below one root complex.
fn pair(link: LinkSpeed, mps: u64, device: Endpoint) -> (Topology, [NodeIndex; 2]) {
    let mut topology = Topology::new();
    let top = topology.add("root", NodeKind::RootComplex(RootComplex::default()));
    let wire = Wire::pcie(link, Bytes(mps));
    let kind = NodeKind::Endpoint(Endpoint { mps: Bytes(mps), ..device });
    let nodes = ["a", "b"].map(|name| topology.add_below(top, name, kind.clone(), wire));
    (topology, nodes)
}

/// Bytes a second of one flow, packet by packet, and the largest relative error of `expected`.
fn simulated(topology: &Topology, flow: FlowSpec, expected: f64, worst: &mut f64) -> f64 {
    // As long as ten thousand packets take.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time above 0")]
    let micros = (1e4 * PAYLOAD / expected * 1e6).max(50.0) as u64;
    let extent = Extent::Steady { window: Picos::micros(micros), most: Picos::millis(100) };
    let settings = Settings { train: Train::Fixed(1), extent, ..Settings::default() };
    let outcome = simulate(topology, &[flow], &settings).expect("it has a path");
    assert!(outcome.is_settled && outcome.check.holds(), "{:?}", outcome.check);
    let rate = outcome.flows[0].rate.0 as f64;
    *worst = worst.max((rate / expected - 1.0).abs());
    rate
}

fn lines(
    about: &str,
    x: (&'static str, Kind, Values),
    formulas: Vec<Series>,
    found: Vec<(f64, f64)>,
) -> Lines {
    let mut series = formulas;
    series.push(super::series("TLP engine", series.len(), Look::Dots, found));
    Lines {
        about: about.to_owned(),
        x,
        y: ("payload", Kind::Linear, Values::Rate),
        names: Vec::new(),
        series,
        limits: Vec::new(),
    }
}

fn note(formula: &str, worst: f64) -> String {
    assert!(worst < 0.01, "{formula} is off by {worst}");
    format!(
        "Lines: {formula}. Points: single packets, simulated. Largest difference {:.2} %.",
        worst * 100.0
    )
}

pub(super) fn links() -> Plot {
    let links = [(8_000, 4), (16_000, 4), (16_000, 16), (32_000, 16)];
    let (mut formulas, mut found, mut worst) = (Vec::new(), Vec::new(), 0.0);
    for (index, (megatransfers, width)) in links.into_iter().enumerate() {
        let link = LinkSpeed { megatransfers, width };
        let mut points = Vec::new();
        for mps in [64, 128, 256, 512, 1024] {
            let expected = link.write_ceiling(Bytes(mps)).0 as f64;
            let (topology, [from, to]) = pair(link, mps, Endpoint::default());
            let flow = FlowSpec::write("w", from, to);
            points.push((mps as f64, expected));
            found.push((mps as f64, simulated(&topology, flow, expected, &mut worst)));
        }
        let generation = link.to_string();
        formulas.push(series(&generation, index, Look::Dashed, points));
    }
    Plot {
        file: "links.svg",
        title: "Posted writes, one way: what a link carries",
        note: note("R p / (p + 24)", worst),
        lines: lines(
            "Payload of writes over four links by packet size, by formula and by packets",
            ("maximum payload size", Kind::Log2, Values::Size),
            formulas,
            found,
        ),
    }
}

pub(super) fn tags() -> Plot {
    let link = LinkSpeed { megatransfers: 16_000, width: 16 };
    let mrrs = 512.0;
    let (mut formulas, mut found, mut worst) = (Vec::new(), Vec::new(), 0.0);
    for (index, nanos) in [500, 1_000, 3_000].into_iter().enumerate() {
        let memory = Memory { read_latency: Picos::nanos(nanos), ..Memory::default() };
        let mut points = Vec::new();
        for tags in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            let device = Endpoint { tags, memory, ..Endpoint::default() };
            let (topology, [reader, lender]) = pair(link, 256, device);
            let per_byte = topology.links()[0].wire.picos_per_kib as f64 / 1024.0;
            let hop = 2.0 * topology.links()[0].wire.propagation.0 as f64
                + RootComplex::default().latency.0 as f64;
            // Both ways; headers are waited for at the root complex, the rest follows behind.
            let there = 2.0 * 24.0 * per_byte + hop;
            let back = (mrrs / PAYLOAD * 276.0 + 20.0) * per_byte + hop;
            let round = there + back + 1e3 * nanos as f64;
            let law = f64::from(tags) * mrrs / round * 1e12;
            let ceiling = link.read_ceiling(Bytes(256)).0 as f64;
            let expected = law.min(ceiling);
            let flow = FlowSpec::read("r", reader, lender);
            points.push((f64::from(tags), expected));
            // Where both laws are near each other, queues make a round trip longer than it is alone.
            let is_bend = law > 0.8 * ceiling && law < 1.3 * ceiling;
            let mut unlike = 0.0;
            let rate = simulated(&topology, flow, expected, &mut unlike);
            worst = if is_bend { worst } else { f64::max(worst, unlike) };
            found.push((f64::from(tags), rate));
        }
        formulas.push(series(&format!("memory after {nanos} ns"), index, Look::Dashed, points));
    }
    Plot {
        file: "tags.svg",
        title: "Reads with few tags, Gen4 x16, 512 bytes each",
        note: note("min(tags MRRS / round trip, R c / (c + 20))", worst),
        lines: lines(
            "Payload of reads by the number of tags, by formula and by packets",
            ("tags", Kind::Log2, Values::Count),
            formulas,
            found,
        ),
    }
}

pub(super) fn credits() -> Plot {
    let link = LinkSpeed { megatransfers: 32_000, width: 16 };
    let (mut formulas, mut found, mut worst) = (Vec::new(), Vec::new(), 0.0);
    for (index, propagation) in [100, 300, 500].into_iter().enumerate() {
        let mut points = Vec::new();
        for headers in [4, 8, 16, 32, 64, 128, 256] {
            let (mut topology, [from, to]) = pair(link, 256, Endpoint::default());
            let above = topology.link_above(from).expect("a link");
            let wire = topology.wire_mut(above);
            wire.credits.posted_headers = headers;
            wire.credits.posted_data = 1 << 20;
            wire.propagation = Picos::nanos(propagation);
            let per_byte = wire.picos_per_kib as f64 / 1024.0;
            let latency = RootComplex::default().latency.0 as f64;
            // Cut-through: a credit is on its way back as soon as its packet is out of the root complex.
            let around = (24.0 + 280.0) * per_byte + 2e3 * propagation as f64 + latency;
            let law = f64::from(headers) * PAYLOAD / around * 1e12;
            let expected = law.min(link.write_ceiling(Bytes(256)).0 as f64);
            points.push((f64::from(headers), expected));
            let flow = FlowSpec::write("w", from, to);
            found.push((f64::from(headers), simulated(&topology, flow, expected, &mut worst)));
        }
        let name = format!("{propagation} ns one way");
        formulas.push(series(&name, index, Look::Dashed, points));
    }
    Plot {
        file: "credits.svg",
        title: "Writes with few credits, Gen5 x16, 256 bytes each",
        note: note("min(PH p / time around, R p / (p + 24))", worst),
        lines: lines(
            "Payload of writes by the number of header credits, by formula and by packets",
            ("posted header credits", Kind::Log2, Values::Count),
            formulas,
            found,
        ),
    }
}
