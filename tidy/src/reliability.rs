//! The page on copies under faults, assembled from the results of the suites.
//!
//! The suites write one JSON file each (form: `docs/reliability/README.md`); nothing is measured here.
//! A result that does not add up, or counts anything as wrong, makes no page.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

/// Folder of the results, from the root of the repository.
pub const RESULTS: &str = "docs/reliability";
/// The page, from the root of the repository.
pub const PAGE: &str = "docs/reliability.md";

const HEAD: &str = "\
# Reliability

What becomes of a copy when something goes wrong, counted. This page is assembled from the results in [reliability/](reliability/README.md)
by `cargo run -p peerlane-tidy --example reliability`; each suite's command writes its results anew.

*Completed*: in the end, at once or by going on after the fault, the copy is complete and every byte is equal. *Refused clearly*: an
error names the cause, nothing that was there before is lost, and nothing is reported complete. *Wrong* is everything else; a suite
stops at the first such case, so that only zero can stand there.
";

/// Results of one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Suite {
    name: String,
    what: String,
    command: String,
    on: String,
    tables: Vec<TextTable>,
    cases: Vec<CountedCase>,
}

/// A table of words: its columns, and its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextTable {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CountedCase {
    name: String,
    runs: u64,
    completed: u64,
    refused_clearly: u64,
    counts: Vec<(String, u64)>,
}

/// Bugs that were planted and the end of each, written by hand.
const PLANTED: &str = "planted.md";

/// Reads the results below `root` and returns the page.
///
/// # Errors
/// The file that is not of the form, does not add up, or counts a wrong end.
pub fn assemble(root: &Path) -> Result<String, String> {
    let folder = root.join(RESULTS);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{RESULTS}: {error}"))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let texts = paths.iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Ok((name, text))
    });
    let planted = std::fs::read_to_string(folder.join(PLANTED))
        .map_err(|error| format!("{PLANTED}: {error}"))?;
    Ok(page(&texts.collect::<Result<Vec<_>, String>>()?)? + "\n" + &planted)
}

/// Returns the page for results by file name.
///
/// # Errors
/// As [`assemble`].
pub fn page(results: &[(String, String)]) -> Result<String, String> {
    let suites = results
        .iter()
        .map(|(name, text)| suite(text).map_err(|fault| format!("{name}: {fault}")))
        .collect::<Result<Vec<_>, _>>()?;
    if suites.is_empty() {
        return Err(format!("{RESULTS} holds no results"));
    }
    let mut text = HEAD.to_owned();
    text += "\n| Suite | Runs | Completed | Refused clearly | Wrong |\n| --- | --: | --: | --: | --: |\n";
    for suite in &suites {
        let sum = |count: fn(&CountedCase) -> u64| suite.cases.iter().map(count).sum::<u64>();
        let runs = sum(|case| case.runs);
        let (completed, refused) = (sum(|case| case.completed), sum(|case| case.refused_clearly));
        let _ = writeln!(text, "| {} | {runs} | {completed} | {refused} | 0 |", suite.name);
    }
    for suite in &suites {
        text += &section(suite);
    }
    Ok(text)
}

fn section(suite: &Suite) -> String {
    let Suite { name, what, command, on, tables, cases } = suite;
    let mut text = format!("\n## {}\n\n{what}\n\n    {command}\n\nOn: {on}.\n\n", capital(name));
    for TextTable { columns, rows } in tables {
        let heads: Vec<_> = columns.iter().map(|column| capital(column)).collect();
        let _ = writeln!(text, "| {} |\n|{}", heads.join(" | "), " --- |".repeat(columns.len()));
        text.extend(rows.iter().map(|row| format!("| {} |\n", row.join(" | "))));
        text.push('\n');
    }
    let further = cases.first().map(|case| case.counts.as_slice()).unwrap_or_default();
    text += "| Case | Runs | Completed | Refused clearly | Wrong |";
    text.extend(further.iter().map(|(column, _)| format!(" {} |", capital(column))));
    text += "\n| --- | --: | --: | --: | --: |";
    text += &" --: |".repeat(further.len());
    text.push('\n');
    for case in cases {
        let CountedCase { name, runs, completed, refused_clearly, counts } = case;
        let _ = write!(text, "| {name} | {runs} | {completed} | {refused_clearly} | 0 |");
        text.extend(counts.iter().map(|(_, count)| format!(" {count} |")));
        text.push('\n');
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn suite(text: &str) -> Result<Suite, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = value["cases"].as_array().ok_or("no list `cases`")?;
    let cases = list.iter().map(case).collect::<Result<Vec<_>, _>>()?;
    let first = cases.first().ok_or("no case")?;
    let names =
        |case: &CountedCase| case.counts.iter().map(|count| count.0.clone()).collect::<Vec<_>>();
    if let Some(other) = cases.iter().find(|case| names(case) != names(first)) {
        return Err(format!("case `{}` has other counts than `{}`", other.name, first.name));
    }
    Ok(Suite {
        name: words(&value, "suite")?,
        what: words(&value, "what")?,
        command: words(&value, "command")?,
        on: words(&value, "on")?,
        tables: tables(&value["tables"])?,
        cases,
    })
}

/// The tables of a suite, which may have none.
fn tables(value: &Value) -> Result<Vec<TextTable>, String> {
    let cells = |row: &Value| -> Option<Vec<String>> {
        row.as_array()?.iter().map(|cell| plain(cell.as_str()?).map(str::to_owned)).collect()
    };
    let table = |value: &Value| -> Option<TextTable> {
        let columns = cells(&value["columns"])?;
        let rows: Vec<_> = value["rows"].as_array()?.iter().map(cells).collect::<Option<_>>()?;
        let is_full = rows.iter().all(|row| row.len() == columns.len());
        is_full.then_some(TextTable { columns, rows })
    };
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(table).collect::<Option<_>>().ok_or("`tables` are not of the form".to_owned())
}

/// A text of one line that does not break a table.
fn plain(text: &str) -> Option<&str> {
    (!text.is_empty() && !text.contains(['\n', '|'])).then_some(text)
}

fn case(value: &Value) -> Result<CountedCase, String> {
    let name = words(value, "name")?;
    let number = |key: &str| {
        value[key].as_u64().ok_or_else(|| format!("case `{name}` has no number `{key}`"))
    };
    let (runs, completed) = (number("runs")?, number("completed")?);
    let (refused_clearly, wrong) = (number("refused_clearly")?, number("wrong")?);
    if wrong != 0 {
        return Err(format!("case `{name}` ended wrong {wrong} times"));
    }
    if runs == 0 || completed.checked_add(refused_clearly) != Some(runs) {
        return Err(format!("case `{name}` has {runs} runs, which its ends do not add up to"));
    }
    let counts = match &value["counts"] {
        Value::Null => Vec::new(),
        Value::Array(pairs) => pairs
            .iter()
            .map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_u64()?)))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("case `{name}` has counts that are no pairs"))?,
        _ => return Err(format!("case `{name}` has counts that are no list")),
    };
    Ok(CountedCase { name, runs, completed, refused_clearly, counts })
}

fn words(value: &Value, key: &str) -> Result<String, String> {
    let text = value[key].as_str().ok_or_else(|| format!("no text `{key}`"))?;
    let fault = || format!("`{key}` is empty, or not of one line without `|`");
    plain(text).map(str::to_owned).ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(cases: &str) -> Result<String, String> {
        let text = format!(
            "{{\"suite\": \"kills\", \"what\": \"w\", \"command\": \"c\", \"on\": \"o\", \"cases\": [{cases}]}}"
        );
        page(&[("kills.json".to_owned(), text)])
    }

    #[test]
    fn page_shows_cases_and_sum() {
        let page = result(
            r#"{"name": "one", "runs": 3, "completed": 2, "refused_clearly": 1, "wrong": 0},
               {"name": "two", "runs": 4, "completed": 4, "refused_clearly": 0, "wrong": 0}"#,
        )
        .expect("a page");
        assert!(page.contains("| kills | 7 | 6 | 1 | 0 |"), "{page}");
        assert!(page.contains("\n| one | 3 | 2 | 1 | 0 |\n| two | 4 | 4 | 0 | 0 |\n"), "{page}");
        assert!(page.contains("\n## Kills\n\nw\n\n    c\n\nOn: o.\n"), "{page}");
    }

    #[test]
    fn further_counts_are_further_columns() {
        let case = |name: &str, counts: &str| {
            format!(
                r#"{{"name": "{name}", "runs": 1, "completed": 1, "refused_clearly": 0, "wrong": 0, "counts": {counts}}}"#
            )
        };
        let page = result(&case("a", r#"[["requests", 9]]"#)).expect("a page");
        assert!(page.contains("Wrong | Requests |"), "{page}");
        assert!(page.contains("| a | 1 | 1 | 0 | 0 | 9 |"), "{page}");
        let two = [case("a", r#"[["requests", 9]]"#), case("b", r#"[["runs", 9]]"#)].join(",");
        assert!(result(&two).expect_err("columns differ").contains("other counts"));
    }

    #[test]
    fn tables_come_before_cases() {
        let suite = |rows: &str| {
            let text = format!(
                r#"{{"suite": "s", "what": "w", "command": "c", "on": "o", "tables": [{{"columns": ["asked", "when"],
                "rows": {rows}}}], "cases": [{{"name": "a", "runs": 1, "completed": 1, "refused_clearly": 0, "wrong": 0}}]}}"#
            );
            page(&[("s.json".to_owned(), text)])
        };
        let text = suite(r#"[["is it", "now"]]"#).expect("a page");
        let table = "| Asked | When |\n| --- | --- |\n| is it | now |\n\n| Case |";
        assert!(text.contains(table), "{text}");
        assert!(suite(r#"[["is it"]]"#).expect_err("a cell is missing").contains("tables"));
    }

    #[test]
    fn wrong_counts_make_no_page() {
        for (case, fault) in [
            (
                r#"{"name": "a", "runs": 1, "completed": 0, "refused_clearly": 0, "wrong": 1}"#,
                "wrong 1",
            ),
            (
                r#"{"name": "a", "runs": 2, "completed": 1, "refused_clearly": 0, "wrong": 0}"#,
                "add up",
            ),
            (
                r#"{"name": "a", "runs": 0, "completed": 0, "refused_clearly": 0, "wrong": 0}"#,
                "0 runs",
            ),
            (r#"{"name": "a", "runs": 1, "completed": 1, "wrong": 0}"#, "refused_clearly"),
            (
                r#"{"name": "a|b", "runs": 1, "completed": 1, "refused_clearly": 0, "wrong": 0}"#,
                "`|`",
            ),
            ("", "no case"),
        ] {
            let said = result(case).expect_err(case);
            assert!(said.contains("kills.json") && said.contains(fault), "{said}");
        }
    }
}
