//! The list of copies of a batch: its lines, combined with the options of the command line.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use peerlane_engine::CopyOptions;
use peerlane_results::Asked;
use peerlane_units::Nanos;
use serde::Deserialize;
use toml::Spanned;

use crate::args::CopyArgs;
use crate::commands::copy;
use crate::error::{Failure, Tried, usage_message};
use crate::small_file;

/// The longest list: each copy is planned and remembered before the first begins.
const JOBS_MAX: usize = 1000;
/// Hint for a file that is not a list.
const FORM: &str = "`peerlane copy --help` says what such a file holds";
/// The longest file that is read.
const FILE_MAX: u64 = 4 << 20;

/// One copy of a batch.
#[derive(Debug, Clone)]
pub(super) struct BatchJob {
    /// Once for each target.
    pub(super) asked: Vec<Asked>,
    /// Its limit is its own rate; that of the command line is for all together.
    pub(super) options: CopyOptions,
    pub(super) timeout: Nanos,
}

/// Keys of a copy: options of the command line, by their names, and its ends.
const KEYS: [&str; 16] = [
    "source",
    "target",
    "targets",
    "route",
    "via",
    "block",
    "depth",
    "offset",
    "length",
    "target-offset",
    "verify",
    "force",
    "sparse",
    "preserve",
    "limit",
    "timeout",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsTable {
    #[serde(default)]
    copy: Vec<JobTable>,
}

/// The values of one copy, with their places in the text.
type JobTable = BTreeMap<String, Spanned<toml::Value>>;

/// Reads the list.
///
/// # Errors
/// When it cannot be read, or a line says something that is unknown; the message has its number.
pub(super) fn read(path: &Path, args: &CopyArgs) -> Result<Vec<BatchJob>, Failure> {
    let tried = || format!("read the jobs file {}", path.display());
    let text = small_file::read(path, FILE_MAX).map_err(Tried::to_read(tried(), path))?;
    let wrong = |what: String| Tried::to(tried())(what).hint(FORM.to_owned());
    let file: JobsTable =
        toml::from_str(&text).map_err(|error| Tried::to(tried())(error).hint(FORM.to_owned()))?;
    match file.copy.len() {
        0 => return Err(wrong("it has no `[[copy]]`".to_owned())),
        count if count > JOBS_MAX => {
            let hint =
                format!("`peerlane copy --batch` takes {JOBS_MAX} at most: make two files of it");
            return Err(
                Tried::to(tried())(format!("{count} copies are more than {JOBS_MAX}")).hint(hint)
            );
        }
        _ => {}
    }
    let jobs = file.copy.iter().enumerate().map(|(number, table)| {
        job(table, args, &text).map_err(|what| wrong(format!("copy {}: {what}", number + 1)))
    });
    jobs.collect()
}

/// One copy: its values replace those of the command line, as options given again would.
fn job(table: &JobTable, args: &CopyArgs, text: &str) -> Result<BatchJob, String> {
    let values = |key: &str| table.get(key).map(|value| words(value.get_ref())).transpose();
    let targets = match (values("target")?, values("targets")?.unwrap_or_default()) {
        (Some(target), targets) if targets.is_empty() => target,
        (None, targets) if !targets.is_empty() => targets,
        (None, _) => return Err("it has no `target`".to_owned()),
        (Some(_), _) => return Err("it has `target` and `targets`".to_owned()),
    };
    let source = values("source")?.ok_or("it has no `source`")?;
    let ends: Vec<String> = ["--".to_owned()].into_iter().chain(source).chain(targets).collect();
    let mut options = Vec::new();
    for (key, value) in table {
        let line = 1 + text[..value.span().start].matches('\n').count();
        let here = |what: String| format!("line {line}: {what}");
        if !KEYS.contains(&key.as_str()) {
            return Err(here(format!("unknown key `{key}`, expected one of {}", KEYS.join(", "))));
        }
        let option = match (key.as_str(), value.get_ref()) {
            ("source" | "target" | "targets", _) => continue,
            ("force", toml::Value::Boolean(_)) => continue,
            (_, value) => format!("--{key}={}", words(value).map_err(here)?.join(",")),
        };
        options.push((line, option));
    }
    let force = table.get("force").and_then(|value| value.get_ref().as_bool());
    let force = force.unwrap_or(args.transfer.force).then(|| "--force".to_owned());
    let all = options.iter().map(|(_, option)| option).chain(&force);
    let mut own = args.clone();
    own.limit = None;
    matches(all.chain(&ends)).and_then(|matches| own.update_from_arg_matches(&matches)).map_err(
        |error| {
            // The first option that is wrong by itself has the line.
            let alone = |(line, option): &(usize, String)| {
                let error = matches([option].into_iter().chain(&ends)).err()?;
                Some(format!("line {line}: {}", usage_message(&error)))
            };
            options.iter().find_map(alone).unwrap_or_else(|| usage_message(&error))
        },
    )?;
    Ok(BatchJob {
        asked: own.transfer.asked(),
        options: copy::options(&own),
        timeout: own.transfer.timeout,
    })
}

/// Reads options as the command line does, without defaults: a value that is left out is not replaced.
fn matches<'a>(words: impl Iterator<Item = &'a String>) -> Result<ArgMatches, clap::Error> {
    let command = CopyArgs::augment_args_for_update(Command::new("copy").no_binary_name(true));
    command.mut_args(|arg| arg.default_value(None)).try_get_matches_from(words)
}

/// The words of a text, a number, or a list of texts.
fn words(value: &toml::Value) -> Result<Vec<String>, String> {
    match value {
        toml::Value::String(text) => Ok(vec![text.clone()]),
        toml::Value::Integer(number) => Ok(vec![number.to_string()]),
        toml::Value::Array(several) => {
            let one = |value: &toml::Value| value.as_str().map(str::to_owned);
            several
                .iter()
                .map(one)
                .collect::<Option<_>>()
                .ok_or("a list holds texts only".to_owned())
        }
        other => Err(format!("a {} has no place here", other.type_str())),
    }
}
