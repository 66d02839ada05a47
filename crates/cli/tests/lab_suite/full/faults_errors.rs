//! Drives of a booted machine that fail single requests, once or always.

use crate::faults;
use crate::faults::{EndCounts, READ_ALWAYS, READ_ONCE, RETRIED, Random, WRITE_ALWAYS, WRITE_ONCE};
use crate::lab::{LabRun, assert_same};

const MIB: u64 = 1 << 20;
/// Each copy has an area of its own, on the source and on the target.
const AREA: u64 = 2 * MIB;
/// Bytes of a request.
const BLOCK: u64 = 64 << 10;
/// Requests in flight.
const DEPTH: u32 = 4;
/// Offset of areas on the target: there is data before and behind them.
const SHIFT: u64 = MIB;

struct ErrorCase {
    case: &'static str,
    route: &'static str,
    /// Byte of source or target at which requests fail.
    at: u64,
}

impl ErrorCase {
    fn name(&self) -> String {
        format!("{}-{}", self.case.replace([' ', ','], "-"), self.route)
    }

    fn is_on_read(&self) -> bool {
        [READ_ONCE, READ_ALWAYS].contains(&self.case)
    }

    fn is_once(&self) -> bool {
        [READ_ONCE, WRITE_ONCE].contains(&self.case)
    }
}

/// All cases by both routes, each in its area.
fn cases(seed: u64) -> Vec<ErrorCase> {
    let mut random = Random::new(seed);
    let mut cases = Vec::new();
    for case in [READ_ONCE, READ_ALWAYS, WRITE_ONCE, WRITE_ALWAYS] {
        for route in ["p2p", "host"] {
            let area = cases.len() as u64 * AREA;
            // Behind what the kernel reads of a drive at the start and a proof writes.
            let at = area + MIB / 2 + random.below(MIB / 512) * 512;
            cases.push(ErrorCase { case, route, at });
        }
    }
    cases
}

/// The keys of the machine that make drives a and b fail where the cases say.
fn keys(cases: &[ErrorCase]) -> [String; 2] {
    let key = |on: &str, is_here: &dyn Fn(&&ErrorCase) -> bool, shift: u64| {
        let errors: Vec<String> = cases
            .iter()
            .filter(is_here)
            .map(|case| {
                let sector = (case.at + shift) / 512;
                let times = if case.is_once() { ", times = \"once\"" } else { "" };
                format!("{{ on = \"{on}\", sector = {sector}{times} }}")
            })
            .collect();
        format!("errors = [{}]", errors.join(", "))
    };
    [key("read", &|case| case.is_on_read(), 0), key("write", &|case| !case.is_on_read(), SHIFT)]
}

fn copies(cases: &[ErrorCase]) -> String {
    let copies = cases.iter().enumerate().map(|(index, case)| {
        let (name, route, area) = (case.name(), case.route, index as u64 * AREA);
        let copy = format!(
            "/dev/lab/a /dev/lab/b --route {route} --block {BLOCK} --depth {DEPTH} --offset {area} \
             --target-offset {} --length {AREA} --journal /tmp/{name}.journal --verify full",
            area + SHIFT
        );
        format!(
            "copy {name} {copy} --force\n\
             copy {name}-resumed {copy} --resume\n\
             [ $(cat $OUT/{name}-resumed.status) = 0 ] || copy {name}-anew {copy} --force\n"
        )
    });
    copies.collect()
}

/// A machine after all cases, and the earlier content of its drives a and b.
struct Booted {
    lab: LabRun,
    cases: Vec<ErrorCase>,
    source: Vec<u8>,
    before: Vec<u8>,
}

fn boot(seed: u64, kernel_args: &str) -> Option<Booted> {
    let cases = cases(seed);
    let [a, b] = keys(&cases);
    let machine = faults::machine(&[("a", &a), ("b", &b)], kernel_args);
    let mut lab = LabRun::open_described(&machine)?;
    let size = usize::try_from(cases.len() as u64 * AREA).expect("small");
    let source = lab.fill("a", size);
    let before = lab.fill("b", size + usize::try_from(2 * SHIFT).expect("small"));
    lab.run(&format!(
        "for drive in a b; do readlink -f /dev/lab/$drive >$OUT/$drive.device; done\n{}",
        copies(&cases)
    ));
    Some(Booted { lab, cases, source, before })
}

/// The error names the drive, the place and the kernel's answer.
fn check_error(lab: &LabRun, name: &str, case: &ErrorCase) {
    let said = lab.stderr(name);
    assert_eq!(lab.status(name), 2, "{name}: {said}");
    let [from, to] = ["a", "b"].map(|drive| lab.text(&format!("{drive}.device")));
    let both = format!("cannot copy {} to {}", from.trim(), to.trim());
    assert!(said.contains(&both), "{name}: no {both} in {said}");
    let (verb, end) = if case.is_on_read() { ("read", "source") } else { ("write", "target") };
    let at = if case.is_on_read() { case.at } else { case.at + SHIFT };
    let request = format!("cannot {verb} {BLOCK} bytes at ");
    let shown: u64 = said
        .split_once(&request)
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_else(|| panic!("{name}: no `{request}` in {said}"));
    // The kernel merges neighbours into one request of the drive, which fails as one.
    let span = u64::from(DEPTH) * BLOCK;
    assert!((at.saturating_sub(span)..at + span).contains(&shown), "{name}: {at}, not {shown}");
    assert!(said.contains(&format!(" the {end}\n")), "{name}: {said}");
    assert!(said.contains(&format!("bad sector: the drive cannot {verb} it")), "{name}: {said}");
}

fn check_one(lab: &LabRun, case: &ErrorCase, area: [&[u8]; 2], before: &[u8]) -> EndCounts {
    let [source, target] = area;
    let name = case.name();
    check_error(lab, &name, case);
    if case.is_once() {
        let resumed = lab.status(&format!("{name}-resumed"));
        let is_done = resumed == 0 || lab.status(&format!("{name}-anew")) == 0;
        assert!(is_done, "{name}: {}", lab.stderr(&format!("{name}-resumed")));
        assert_same(&name, target, source);
        return EndCounts::completed();
    }
    for suffix in ["resumed", "anew"] {
        let again = format!("{name}-{suffix}");
        if !lab.stderr(&again).contains("there is no journal") {
            check_error(lab, &again, case);
        }
    }
    // What is not written yet is as it was: each block is the old one or the new one.
    let blocks = target.chunks(512).zip(source.chunks(512).zip(before.chunks(512)));
    for (index, (is, (new, old))) in blocks.enumerate() {
        assert!(is == new || is == old, "{name}: block {index} is neither old nor new");
    }
    assert!(target != source, "{name}: complete in spite of the error");
    EndCounts::refused()
}

#[test]
fn failing_sector_is_named() {
    let order = [READ_ONCE, READ_ALWAYS, WRITE_ONCE, WRITE_ALWAYS];
    let mut counts = order.map(|case| (case, EndCounts::default()));
    for seed in faults::seeds(1, faults::OTHERS) {
        // Without the kernel's own retries, so that transient errors reach the program.
        let Some(booted) = boot(seed, "\"nvme_core.max_retries=0\"") else { return };
        let Booted { lab, cases, source, before } = booted;
        let target = lab.content("b");
        let [area, shift] = [AREA, SHIFT].map(|size| usize::try_from(size).expect("small"));
        for (index, case) in cases.iter().enumerate() {
            let (from, to) = (index * area, index * area + shift);
            let both = [&source[from..from + area], &target[to..to + area]];
            let end = check_one(&lab, case, both, &before[to..to + area]);
            let (_, count) =
                counts.iter_mut().find(|(name, _)| *name == case.case).expect("a case");
            count.add(&end);
        }
        let end = shift + source.len();
        assert_same("before the areas", &target[..shift], &before[..shift]);
        assert_same("behind the areas", &target[end..], &before[end..]);
        assert_same("source", &lab.content("a"), &source);
    }
    for (case, count) in counts {
        count.keep(case);
    }
}

#[test]
fn kernel_retries_disturb_no_copy() {
    let mut count = EndCounts::default();
    for seed in faults::seeds(1, faults::OTHERS) {
        let Some(booted) = boot(seed ^ 0xe7, "") else { return };
        let Booted { lab, cases, source, .. } = booted;
        let target = lab.content("b");
        for (index, case) in cases.iter().enumerate().filter(|(_, case)| case.is_once()) {
            let record = lab.record(&case.name());
            assert!(record.route.to_string() == case.route, "{}", case.name());
            let from = usize::try_from(index as u64 * AREA).expect("small");
            let to = from + usize::try_from(SHIFT).expect("small");
            let area = usize::try_from(AREA).expect("small");
            assert_same(&case.name(), &target[to..to + area], &source[from..from + area]);
            count.add(&EndCounts::completed());
        }
    }
    count.keep(RETRIED);
}
