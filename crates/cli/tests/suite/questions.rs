//! The answers in `docs/questions.md` are those that the program gives.

use std::path::Path;

use crate::program;

/// End of a command whose exit status is not 0.
const STATUS: &str = "# exit status ";
/// Lines that are left out, and at the end of a line its rest.
const CUT: &str = "...";

/// Head of the table of short questions.
const TABLE: &str = "| ENDS | NAME | Answer |";
/// Lines at the beginning that hold the answer to a short question.
const FIRST_LINES: usize = 3;

/// A question of the page, with its command and the quoted part of the answer.
#[derive(Debug)]
struct PageQuestion<'a> {
    heading: &'a str,
    command: &'a str,
    status: i32,
    answer: Vec<&'a str>,
}

/// The questions of a page. The last line of the first block runs as it stands; the second block quotes its answer.
fn questions(page: &str) -> Vec<PageQuestion<'_>> {
    let sections = page.split("\n## ").skip(1);
    sections.filter(|section| !section.contains(TABLE)).map(question).collect()
}

fn question(section: &str) -> PageQuestion<'_> {
    let heading = section.lines().next().expect("a heading");
    let mut fences = section.split("\n```");
    let commands = fences.nth(1).and_then(|block| block.strip_prefix("sh\n"));
    let answer = fences.nth(1).and_then(|block| block.strip_prefix("text\n"));
    let last = commands.and_then(|block| block.lines().last());
    let line = last.unwrap_or_else(|| panic!("{heading}: no command"));
    let command = line.split(" #").next().unwrap_or_default().trim_end();
    PageQuestion {
        heading,
        command,
        status: line.split_once(STATUS).map_or(0, |(_, status)| status.parse().expect("a status")),
        answer: answer.unwrap_or_else(|| panic!("{heading}: no answer")).lines().collect(),
    }
}

/// Returns the first quoted line that is not printed; the lines in between are those that `...` stands for.
fn missing<'a>(answer: &[&'a str], printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines();
    let mut is_cut = false;
    for &quoted in answer {
        if quoted == CUT {
            is_cut = true;
            continue;
        }
        let is_it = |line: &str| match quoted.strip_suffix(CUT) {
            Some(start) => line.starts_with(start),
            None => line == quoted,
        };
        let is_found = if is_cut { lines.any(is_it) } else { lines.next().is_some_and(is_it) };
        if !is_found {
            return Some(quoted);
        }
        is_cut = false;
    }
    (!is_cut && lines.next().is_some()).then_some("(the end of the answer)")
}

#[test]
fn answers_on_page_are_printed() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(repository.join("docs/questions.md")).expect("a page");
    let questions = questions(&page);
    assert!(questions.len() >= 10, "{} questions", questions.len());
    for PageQuestion { heading, command, status, answer } in questions {
        let words = command.strip_prefix("peerlane ").unwrap_or_else(|| panic!("{command}"));
        let output = program::typed(&repository, words);
        let printed = String::from_utf8(output.stdout.clone()).expect("text");
        let said = program::said(&output);
        assert_eq!(output.status.code(), Some(status), "{heading}: {command}: {said}");
        assert_eq!(missing(&answer, &printed), None, "{heading}: {command} printed\n{printed}");
    }
}

#[test]
fn short_questions_are_answered_first() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(repository.join("docs/questions.md")).expect("a page");
    let rows = page.lines().skip_while(|line| !line.contains(TABLE)).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
    assert!(rows.len() >= 17, "{} questions", rows.len());
    for row in rows {
        let [question, ends, name, answer] = row[..] else { panic!("{row:?}") };
        let ends = ends.trim_matches('`');
        let machine = format!("fixtures/questions/{name}.toml");
        let output = program::typed(&repository, &format!("doctor {ends} --machine {machine}"));
        let printed = String::from_utf8(output.stdout.clone()).expect("text");
        let first: Vec<&str> = printed.lines().take(FIRST_LINES).collect();
        let said = program::said(&output);
        assert!(first.join("\n").contains(answer), "{question}: {name}:\n{printed}{said}");
    }
}

#[test]
fn quoted_lines_are_printed_in_order() {
    const PRINTED: &str = "first\nsecond\nthird\nfourth";
    assert_eq!(missing(&["first", "...", "third", "..."], PRINTED), None);
    assert_eq!(missing(&["fir...", "second", "..."], PRINTED), None);
    assert_eq!(missing(&["second", "..."], PRINTED), Some("second"));
    assert_eq!(missing(&["first", "third", "..."], PRINTED), Some("third"));
    assert_eq!(missing(&["...", "third", "...", "second", "..."], PRINTED), Some("second"));
    assert_eq!(missing(&["first", "second"], PRINTED), Some("(the end of the answer)"));
}

#[test]
fn last_command_of_block_is_run() {
    let page = "# Title\n\n## Why?\n\n```sh\npeerlane a\npeerlane b c   # exit status 1\n```\n\n\
                ```text\nno\n...\n```\n\nBecause.\n";
    let found = &questions(page)[0];
    assert_eq!((found.heading, found.command, found.status), ("Why?", "peerlane b c", 1));
    assert_eq!(found.answer, ["no", "..."]);
}
