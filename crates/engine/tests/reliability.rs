//! The page of what was counted has the form that the example `faults` writes, and says what it must.

#![allow(clippy::unwrap_used, reason = "a failure in a test is a panic")]

/// Copies that the page must count.
const COPIES_MIN: u64 = 100_000;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability.md");
    std::fs::read_to_string(path).unwrap()
}

/// The cells of the table's rows, head and rule left out.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter(|line| line.starts_with('|'));
    lines.skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_counts_enough_copies_and_no_broken_promise() {
    let page = page();
    let rows = rows(&page);
    assert_eq!(rows.len(), 26, "one row for each fault");
    let mut copies = 0;
    for row in &rows {
        let counts: Vec<u64> = row[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(counts.len(), 12, "{row:?}");
        let endings: u64 = counts[1..8].iter().sum();
        assert_eq!(counts[0], endings, "every copy ends in one way: {row:?}");
        assert!(counts[8] >= counts[0], "every copy takes a run at least: {row:?}");
        assert_eq!(counts[11], 0, "{row:?}");
        copies += counts[0];
    }
    assert!(copies >= COPIES_MIN, "{copies} copies");
    assert!(page.contains(&format!("\n{copies} copies, ")), "the sum is that of the rows");
}

#[test]
fn the_page_names_the_command_that_wrote_it() {
    let command = "    cargo run --release -p peerlane-engine --features simulation --example faults -- \
                   --runs ";
    assert!(page().contains(command));
}
