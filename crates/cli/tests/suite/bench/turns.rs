//! Both sides of a comparison measured in turns.

use std::fs;

use crate::program::Exited;
use peerlane_results::{BenchRecord, Change, CompareRecord};
use peerlane_units::Nanos;

use super::{bench, folder};

const TURNS: u64 = 6;

#[test]
fn slower_side_is_found_in_six_turns() {
    let folder = folder();
    let mut words = "compare --json".to_owned();
    for turn in 0..TURNS {
        for side in ["before", "after"] {
            let file = format!("{side}{turn}.json");
            let stream = "stream --source source --target host --block 64K --repeats 2 -q";
            bench(folder.path(), &format!("{stream} -o {file}")).exited(0);
            let seconds = if side == "after" { 100_000 } else { 1000 } + turn;
            take(&folder.path().join(&file), Nanos::seconds(seconds));
            words += &format!(" {file}");
        }
    }
    let output = bench(folder.path(), &words);
    let record: CompareRecord = output.json();
    let found = record.only().expect("one machine");
    assert_eq!((found.turns, found.cases.len()), (6, 1));
    let case = &found.cases[0];
    assert_eq!((case.verdict, output.status.code()), (Change::Slower, Some(1)), "{case:?}");
    let (low, high) = case.interval.expect("an interval");
    assert!(low <= case.ratio.expect("a ratio") && high < 0.95, "{case:?}");

    let alone = words.rsplit_once(' ').expect("files").0;
    let output = bench(folder.path(), alone).exited(2);
    let reason = "before5.json has no record after it to be compared with";
    output.says(reason);

    let two = "compare before0.json after0.json before1.json after1.json";
    let text = bench(folder.path(), two).exited(1).text();
    assert!(text.contains("2 turns, where so many cases need 6"), "{text}");
}

/// Makes every run of a record take so long: a machine that is busy may be slower by any factor in any turn.
fn take(file: &std::path::Path, time: Nanos) {
    let text = fs::read_to_string(file).expect("the record");
    let mut record: BenchRecord = serde_json::from_str(&text).expect("a record");
    record.cases.iter_mut().for_each(|run| run.elapsed_ns = time);
    fs::write(file, serde_json::to_vec(&record).expect("JSON")).expect("room");
}
