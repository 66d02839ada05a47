//! A case of a workload with its summary and its runs, as figures and tables need it.

use std::collections::HashMap;

use peerlane_results::{BenchRecord, CaseRecord, CaseSpec, Flow, Limit, Order, Path, Summary};
use peerlane_units::Bytes;

use crate::plain::plain;

/// A case of a workload that ran.
#[derive(Debug, Clone)]
pub(super) struct RanCase<'a> {
    pub(super) spec: &'a CaseSpec,
    pub(super) summary: &'a Summary,
    pub(super) runs: Vec<&'a CaseRecord>,
}

/// The cases that have a summary, in the order of the workload.
pub(super) fn cases(bench: &BenchRecord) -> Vec<RanCase<'_>> {
    let mut runs: HashMap<&str, Vec<&CaseRecord>> = HashMap::new();
    for run in &bench.cases {
        runs.entry(&run.asked.name).or_default().push(run);
    }
    let specs: HashMap<&str, &CaseSpec> =
        bench.asked.cases.iter().map(|spec| (spec.name.as_str(), spec)).collect();
    bench
        .summaries
        .iter()
        .filter_map(|summary| {
            let runs = runs.get(summary.case.as_str()).cloned().unwrap_or_default();
            let spec =
                runs.first().map(|run| &run.asked).or(specs.get(summary.case.as_str()).copied())?;
            Some(RanCase { spec, summary, runs })
        })
        .collect()
}

impl<'a> RanCase<'a> {
    pub(super) fn name(&self) -> String {
        plain(&self.spec.name)
    }

    pub(super) fn first(&self) -> Option<&'a Flow> {
        self.spec.flows.first()
    }

    /// The path of its flows, if all share one.
    pub(super) fn path(&self) -> Option<Path> {
        common(self.spec, |flow| flow.path)
    }

    /// True when every counted byte took the route that was asked for.
    pub(super) fn took_own_route(&self) -> bool {
        let is_p2p = self.path() == Some(Path::P2p);
        self.runs.iter().map(|run| run.bytes_by_route).all(|moved| {
            let other = if is_p2p { moved.host } else { moved.p2p };
            other == Bytes::ZERO
        })
    }

    /// The block size of its flows, if all share one.
    pub(super) fn block(&self) -> Option<Bytes> {
        common(self.spec, |flow| flow.block)
    }

    /// The queue depth of its flows, if all share one.
    pub(super) fn depth(&self) -> Option<u32> {
        common(self.spec, |flow| flow.depth)
    }

    /// The lowest ceiling that any of its runs names.
    pub(super) fn limit(&self) -> Option<&'a Limit> {
        self.runs.iter().flat_map(|run| &run.limits).min_by_key(|limit| limit.bytes_per_second)
    }

    /// Lowest and highest run.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let rate = self.summary.rate;
        (rate.count > 1).then_some((rate.min, rate.max))
    }

    /// Mean rate in words, for a pointer that rests on it.
    pub(super) fn note(&self) -> String {
        let rate = self.summary.rate;
        format!(
            "{}: mean {}, {} to {}, {} runs",
            self.name(),
            super::rate(rate.mean),
            super::rate(rate.min),
            super::rate(rate.max),
            rate.count
        )
    }
}

fn common<T: PartialEq>(spec: &CaseSpec, of: impl Fn(&Flow) -> T) -> Option<T> {
    let first = of(spec.flows.first()?);
    spec.flows.iter().all(|flow| of(flow) == first).then_some(first)
}

/// Meaning of lines and their shades, for a caption.
pub(super) fn spread_words(cases: &[RanCase<'_>]) -> &'static str {
    if cases.iter().any(|case| case.range().is_some()) {
        "Mean of the runs of each case; the shade reaches from the lowest to the highest run."
    } else {
        "One value for each case."
    }
}

/// Words for a path.
pub(super) fn path_words(path: Option<Path>) -> &'static str {
    match path {
        Some(Path::P2p) => "p2p",
        Some(Path::HostPipelined) => "host",
        Some(Path::HostSerial) => "host-serial",
        Some(Path::HostPageCache) => "host-page-cache",
        Some(Path::HostMapped) => "host-mapped",
        Some(Path::HostCufile) => "host-cufile",
        None => "mixed",
    }
}

/// A colour for a path, the same in all figures.
pub(super) fn path_colour(path: Option<Path>) -> usize {
    match path {
        Some(Path::P2p) => 0,
        Some(Path::HostPipelined) => 1,
        Some(Path::HostSerial) => 2,
        Some(Path::HostPageCache) => 3,
        Some(Path::HostMapped) => 4,
        Some(Path::HostCufile) => 5,
        None => 6,
    }
}

/// Cases that belong on one line: alike in everything except its axis.
#[derive(Debug)]
pub(super) struct CaseGroup<'a> {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) cases: Vec<RanCase<'a>>,
}

/// Key of a line: path, ends, memory, queue depth, order.
type Key = (Option<Path>, String, String, u32, bool);

fn key(case: &RanCase<'_>) -> Key {
    let Some(flow) = case.first() else { return (None, String::new(), String::new(), 0, false) };
    let ends = format!("{} to {}", short(&flow.source), short(&flow.target));
    let via = flow.via.as_deref().map(short).unwrap_or_default();
    (case.path(), ends, via, flow.depth, flow.order == Order::Random)
}

/// Most lines of one chart.
const GROUPS_MAX: usize = 12;

/// Puts cases into groups, named by their differences; `has_ends` is false if the ends lie along
/// the line.
pub(super) fn groups<'a>(cases: &[RanCase<'a>], has_ends: bool) -> Vec<CaseGroup<'a>> {
    let mut found: Vec<(Key, Vec<RanCase<'a>>)> = Vec::new();
    for case in cases {
        let mut key = key(case);
        if !has_ends {
            key.1.clear();
        }
        match found.iter().position(|(known, _)| *known == key) {
            Some(place) => found[place].1.push(case.clone()),
            None if found.len() < GROUPS_MAX => found.push((key, vec![case.clone()])),
            None => {}
        }
    }
    let keys: Vec<Key> = found.iter().map(|(key, _)| key.clone()).collect();
    let differ = |of: &dyn Fn(&Key) -> String| keys.iter().any(|key| of(key) != of(&keys[0]));
    let ends = differ(&|key| key.1.clone());
    // That there is none on the host path goes without saying.
    let mut memories: Vec<&String> =
        keys.iter().map(|key| &key.2).filter(|via| !via.is_empty()).collect();
    memories.sort();
    memories.dedup();
    let via = memories.len() > 1;
    let (depth, order) = (differ(&|key| key.3.to_string()), differ(&|key| key.4.to_string()));
    // The same colour for the same path in every figure, where a path is one line.
    let mut paths: Vec<_> = keys.iter().map(|key| key.0).collect();
    paths.sort();
    paths.dedup();
    let is_by_path = paths.len() == keys.len();
    found
        .into_iter()
        .enumerate()
        .map(|(index, (key, cases))| {
            let mut name = path_words(key.0).to_owned();
            for (is_shown, word) in [
                (ends, key.1.clone()),
                (via && !key.2.is_empty(), format!("via {}", key.2)),
                (depth, format!("depth {}", key.3)),
                (order, if key.4 { "random" } else { "sequential" }.to_owned()),
            ] {
                if is_shown {
                    name += &format!(" {word}");
                }
            }
            let colour = if is_by_path { path_colour(key.0) } else { index };
            CaseGroup { name, colour, cases }
        })
        .collect()
}

/// An endpoint without the folder that all devices are in.
pub(super) fn short(endpoint: &str) -> String {
    plain(endpoint.strip_prefix("/dev/").unwrap_or(endpoint))
}
