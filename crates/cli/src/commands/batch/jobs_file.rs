//! The list of copies of a batch: its lines, combined with the options of the command line.

use std::path::Path;

use peerlane_engine::{CopyOptions, Metadatum, Sparse};
use peerlane_results::{Asked, RouteChoice, VerifyMode};
use peerlane_units::{ByteRate, Bytes, Nanos};
use serde::{Deserialize, Deserializer};

use crate::args::{CopyArgs, size};
use crate::commands::copy;
use crate::error::{Failure, Tried};
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsTable {
    #[serde(default)]
    copy: Vec<JobEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct JobEntry {
    source: String,
    target: Option<String>,
    #[serde(default)]
    targets: Vec<String>,
    route: Option<RouteChoice>,
    via: Option<String>,
    #[serde(default, deserialize_with = "block")]
    block: Option<Bytes>,
    #[serde(default, deserialize_with = "depth")]
    depth: Option<u32>,
    offset: Option<Bytes>,
    #[serde(default, deserialize_with = "length")]
    length: Option<Bytes>,
    target_offset: Option<Bytes>,
    verify: Option<VerifyMode>,
    force: Option<bool>,
    sparse: Option<Sparse>,
    preserve: Option<Vec<Metadatum>>,
    #[serde(default, deserialize_with = "rate")]
    limit: Option<ByteRate>,
    #[serde(default, deserialize_with = "timeout")]
    timeout: Option<Nanos>,
}

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
    let jobs = file.copy.into_iter().enumerate().map(|(number, entry)| {
        entry.job(args).map_err(|what| wrong(format!("copy {}: {what}", number + 1)))
    });
    jobs.collect()
}

impl JobEntry {
    fn job(self, args: &CopyArgs) -> Result<BatchJob, String> {
        let targets = match (self.target, self.targets) {
            (Some(target), targets) if targets.is_empty() => vec![target],
            (None, targets) if !targets.is_empty() => targets,
            (None, _) => return Err("it has no `target`".to_owned()),
            (Some(_), _) => return Err("it has `target` and `targets`".to_owned()),
        };
        let defaults = args.transfer.defaults();
        let asked = Asked {
            source: self.source,
            target: String::new(),
            route: self.route.unwrap_or(defaults.route),
            via: self.via.or(defaults.via),
            block: self.block.unwrap_or(defaults.block),
            depth: self.depth.unwrap_or(defaults.depth),
            offset: self.offset.unwrap_or(defaults.offset),
            length: self.length.or(defaults.length),
            target_offset: self.target_offset.unwrap_or(defaults.target_offset),
            verify: self.verify.unwrap_or(defaults.verify),
            force: self.force.unwrap_or(defaults.force),
            stages: Vec::new(),
        };
        Ok(BatchJob {
            asked: (targets.into_iter()).map(|target| Asked { target, ..asked.clone() }).collect(),
            options: CopyOptions {
                sparse: self.sparse.unwrap_or(args.sparse),
                preserve: self.preserve.unwrap_or_else(|| args.preserve.clone()),
                limit: self.limit,
                ..copy::options(args)
            },
            timeout: self.timeout.unwrap_or(args.transfer.timeout),
        })
    }
}

/// A number or a text, as on the command line.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u64),
    Text(String),
}

fn word<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = match Word::deserialize(deserializer)? {
        Word::Number(number) => number.to_string(),
        Word::Text(text) => text,
    };
    read(&text).map(Some).map_err(serde::de::Error::custom)
}

fn block<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    word(deserializer, size::block)
}

fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    word(deserializer, size::length)
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteRate>, D::Error> {
    word(deserializer, size::rate)
}

fn depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    word(deserializer, |text| match text.parse() {
        Ok(depth @ 1..=1024) => Ok(depth),
        _ => Err(format!("`{text}` is not a number from 1 to 1024")),
    })
}

fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    word(deserializer, size::duration)
}
