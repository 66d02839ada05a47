//! Block sizes by routes: bandwidth with ceilings, ratio of the routes, latency, CPU.

use std::collections::HashMap;

use peerlane_fabric::ProviderKind;
use peerlane_results::{Limit, Order, Path};
use peerlane_units::Bytes;

use super::case::{CaseGroup, RanCase, groups, spread_words};
use super::limit_words;
use crate::chart::{LimitLine, LineChart, LineStyle, Point, ScaleKind, Series, ValueKind};
use crate::document::{Art, Figure};
use crate::plain::plain;

/// The figures of a sweep.
pub(super) fn figures(cases: &[RanCase<'_>]) -> Vec<Figure> {
    let groups = groups(cases, true);
    let mut figures = vec![bandwidth(&groups, spread_words(cases))];
    figures.extend(ratio(cases));
    figures.push(latency(&groups));
    figures.push(cpu(&groups));
    figures
}

fn line(group: &CaseGroup<'_>, point: impl Fn(&RanCase<'_>) -> Option<Point>) -> Series {
    let mut points: Vec<Point> = group.cases.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { name: group.name.clone(), colour: group.colour, look: LineStyle::Line, points }
}

fn block_of(case: &RanCase<'_>) -> Option<f64> {
    case.block().map(|block| block.0 as f64)
}

fn bandwidth(groups: &[CaseGroup<'_>], spread: &str) -> Figure {
    let series: Vec<Series> = groups
        .iter()
        .map(|group| {
            line(group, |case| {
                let y = case.summary.rate.mean;
                Some(Point { x: block_of(case)?, y, band: case.range(), note: case.note() })
            })
        })
        .collect();
    let most =
        series.iter().flat_map(|series| &series.points).map(|point| point.y).fold(0.0, f64::max);
    let (limits, beyond) = limits(groups, most);
    let mut caption = spread.to_owned();
    if !beyond.is_empty() {
        caption += &format!(" Ceilings beyond the chart: {}.", beyond.join("; "));
    } else if limits.is_empty() {
        caption += " No ceiling is known.";
    }
    let about = format!("Bandwidth against block size for {}.", names(groups));
    let lines = LineChart {
        about,
        x: ("block size", ScaleKind::Log2, ValueKind::Size),
        y: ("bandwidth", ScaleKind::Linear, ValueKind::Rate),
        names: Vec::new(),
        series,
        limits,
    };
    Figure {
        title: "Bandwidth against block size".to_owned(),
        caption,
        art: Art::Chart(lines.picture()),
    }
}

/// Most ceilings in one chart.
const LIMITS_MAX: usize = 3;
/// Ceilings that are less apart than this are one line.
const SAME_LIMIT: f64 = 1.005;

/// The lowest ceilings: those that fit into the chart, and words for the others.
fn limits(groups: &[CaseGroup<'_>], most: f64) -> (Vec<LimitLine>, Vec<String>) {
    let mut all: Vec<_> = groups.iter().flat_map(of_all_sizes).collect();
    all.sort_by(|a, b| (a.bytes_per_second, &a.object).cmp(&(b.bytes_per_second, &b.object)));
    all.dedup();
    let mut drawn: Vec<LimitLine> = Vec::new();
    let mut beyond = Vec::new();
    for limit in all.into_iter().take(LIMITS_MAX) {
        let y = limit.bytes_per_second.0 as f64;
        let last = drawn.last_mut();
        if y > 2.2 * most {
            beyond.push(limit_words(limit));
        } else if let Some(last) = last.filter(|last| y < last.y * SAME_LIMIT) {
            // Two lines on each other say no more than one with both names.
            last.name = format!("{}, {}", plain(&limit.object), last.name);
        } else {
            drawn.push(LimitLine { name: limit_words(limit), y });
        }
    }
    (drawn, beyond)
}

/// The ceilings of all sizes of a line. A limit of one size that another exceeds, such as commands a second, is none.
fn of_all_sizes<'a>(group: &CaseGroup<'a>) -> Vec<&'a Limit> {
    let limits = |case: &RanCase<'a>| -> &'a [Limit] {
        case.runs.first().map(|run| run.limits.as_slice()).unwrap_or_default()
    };
    let rate = |case: &RanCase<'a>| case.summary.rate.mean;
    let Some(fastest) = group.cases.iter().max_by(|a, b| rate(a).total_cmp(&rate(b))) else {
        return Vec::new();
    };
    let is_above = |limit: &Limit| rate(fastest) > limit.bytes_per_second.0 as f64 * SAME_LIMIT;
    let all = group.cases.iter().flat_map(limits);
    all.filter(|limit| !is_above(limit) || limits(fastest).contains(limit)).collect()
}

fn names(groups: &[CaseGroup<'_>]) -> String {
    groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Two cases that differ in their path only.
pub(super) struct CasePair<'a> {
    pub(super) block: Bytes,
    pub(super) p2p: RanCase<'a>,
    pub(super) host: RanCase<'a>,
}

impl CasePair<'_> {
    /// Rate by p2p over that by host memory, with its range. The range sets the ends of both 95 %
    /// intervals against each other; an interval of the ratio would be narrower.
    pub(super) fn ratio(&self) -> Option<(f64, Option<(f64, f64)>)> {
        let (p2p, host) = (self.p2p.summary.rate, self.host.summary.rate);
        if !(p2p.mean > 0.0 && host.mean > 0.0) {
            return None;
        }
        let band = p2p.confidence.zip(host.confidence).filter(|(_, (low, _))| *low > 0.0);
        let around = band.map(|((low, high), (least, most))| ((low / most).max(0.0), high / least));
        Some((p2p.mean / host.mean, around))
    }
}

/// The pairs of p2p and the pipelined host path, by block size; none where something else differs too.
pub(super) fn pairs<'a>(cases: &[RanCase<'a>]) -> Vec<CasePair<'a>> {
    pairs_by(cases, |end| end)
}

/// Pairs of drives against memory. These also differ in the memory where the bytes begin or end,
/// which cannot be avoided.
pub(super) fn pairs_with_memory<'a>(cases: &[RanCase<'a>]) -> Vec<CasePair<'a>> {
    pairs_by(cases, |end| if is_memory(end) { "memory" } else { end })
}

fn is_memory(end: &str) -> bool {
    // Memory of a GPU is the same end by every path.
    ProviderKind::split(end).is_some_and(|(kind, _)| kind != ProviderKind::Gpu)
}

fn pairs_by<'a>(cases: &[RanCase<'a>], end: fn(&'a str) -> &'a str) -> Vec<CasePair<'a>> {
    // Bytes that took another route than the one asked for compare nothing.
    let of = |path| {
        let own = move |case: &&RanCase<'a>| case.path() == Some(path) && case.took_own_route();
        cases.iter().filter(own)
    };
    let key = |case: &RanCase<'a>| -> Vec<_> {
        let flows = case.spec.flows.iter();
        flows
            .map(|flow| {
                let is_random = flow.order == Order::Random;
                (end(&flow.source), end(&flow.target), flow.block, flow.depth, is_random)
            })
            .collect()
    };
    let hosts: HashMap<_, _> = of(Path::HostPipelined).map(|case| (key(case), case)).collect();
    let mut pairs: Vec<CasePair<'a>> = of(Path::P2p)
        .filter_map(|p2p| {
            let host = *hosts.get(&key(p2p))?;
            Some(CasePair { block: p2p.block()?, p2p: p2p.clone(), host: host.clone() })
        })
        .collect();
    pairs.sort_by_key(|pair| pair.block);
    pairs
}

fn ratio(cases: &[RanCase<'_>]) -> Option<Figure> {
    let pairs = pairs(cases);
    // Several pairs of drives at one block size are no line.
    if pairs.len() < 2 || pairs.windows(2).any(|two| two[0].block == two[1].block) {
        return None;
    }
    let points: Vec<Point> = pairs
        .iter()
        .filter_map(|pair| {
            let (y, band) = pair.ratio()?;
            let note = format!("{}: p2p moved {y:.2} times as much as host", pair.block);
            Some(Point { x: pair.block.0 as f64, y, band, note })
        })
        .collect();
    let shade = if points.iter().any(|point| point.band.is_some()) {
        "; the shade sets the ends of both 95 % confidence intervals against each other"
    } else {
        ""
    };
    let series = Series { name: "p2p / host".to_owned(), colour: 0, look: LineStyle::Line, points };
    let lines = LineChart {
        about: "Bandwidth by p2p over bandwidth by the host path, against block size.".to_owned(),
        x: ("block size", ScaleKind::Log2, ValueKind::Size),
        y: ("times as much", ScaleKind::Linear, ValueKind::Times),
        names: Vec::new(),
        series: vec![series],
        limits: vec![LimitLine { name: "equal".to_owned(), y: 1.0 }],
    };
    Some(Figure {
        title: "p2p against the host path".to_owned(),
        caption: format!("Ratio of the means{shade}. Above the line p2p is faster."),
        art: Art::Chart(lines.picture()),
    })
}

fn latency(groups: &[CaseGroup<'_>]) -> Figure {
    let series = groups
        .iter()
        .map(|group| {
            line(group, |case| {
                let block = &case.summary.block;
                let (p50, p99) = (block.p50_ns.0 as f64, block.p99_ns.0 as f64);
                let note = format!(
                    "{}: median {}, 99 % below {}",
                    case.name(),
                    block.p50_ns,
                    block.p99_ns
                );
                (block.count > 0).then_some(Point {
                    x: block_of(case)?,
                    y: p50,
                    band: Some((p50, p99)),
                    note,
                })
            })
        })
        .collect();
    let lines = LineChart {
        about: format!("Latency of a block against block size for {}.", names(groups)),
        x: ("block size", ScaleKind::Log2, ValueKind::Size),
        y: ("latency of a block", ScaleKind::Log10, ValueKind::Time),
        names: Vec::new(),
        series,
        limits: Vec::new(),
    };
    Figure {
        title: "Latency against block size".to_owned(),
        caption:
            "From the submission of a block's read to the completion of its write: the median; the \
                  shade reaches up to the 99th percentile. It grows with the queue depth."
                .to_owned(),
        art: Art::Chart(lines.picture()),
    }
}

fn cpu(groups: &[CaseGroup<'_>]) -> Figure {
    let series = groups
        .iter()
        .map(|group| {
            line(group, |case| {
                let y = case.summary.cpu_s_per_gib;
                let note = format!("{}: {y:.4} s for each GiB", case.name());
                Some(Point { x: block_of(case)?, y: y * 1e9, band: None, note })
            })
        })
        .collect();
    let lines = LineChart {
        about: format!("CPU time for each GiB against block size for {}.", names(groups)),
        x: ("block size", ScaleKind::Log2, ValueKind::Size),
        y: ("CPU time for each GiB", ScaleKind::Log10, ValueKind::Time),
        names: Vec::new(),
        series,
        limits: Vec::new(),
    };
    Figure {
        title: "CPU time against block size".to_owned(),
        caption: "Process and its io_uring workers, for each GiB of payload.".to_owned(),
        art: Art::Chart(lines.picture()),
    }
}
