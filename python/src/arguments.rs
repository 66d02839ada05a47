//! Arguments from Python as values of the library, with the bounds of the program's options.

use std::path::PathBuf;

use peerlane::machines::{self, LookDepth, MachineSource};
use peerlane::{
    Asked, ByteRate, Bytes, CopyOptions, Fabric, Metadatum, Named, Sparse, Start, size,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{ErrorDetails, ExceptionKind};

/// Longest wait for one request, in seconds.
const TIMEOUT_MAX: u64 = 86_400;
/// Most blocks in flight.
const DEPTH_MAX: u32 = 1024;

/// Arguments by name.
pub(crate) struct NamedArguments<'py>(pub(crate) Bound<'py, PyDict>);

fn bad(name: &str, words: impl std::fmt::Display) -> ErrorDetails {
    ErrorDetails::new(ExceptionKind::BadInput, format!("{name}: {words}"))
}

impl<'py> NamedArguments<'py> {
    /// An argument; `None` where it is missing or `None`.
    fn any(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    pub(crate) fn text(&self, name: &str) -> PyResult<Option<String>> {
        let Some(value) = self.any(name)? else { return Ok(None) };
        let text = value.extract().map_err(|_| bad(name, format!("a text is needed, not {value}")));
        Ok(Some(text?))
    }

    pub(crate) fn words(&self, name: &str) -> PyResult<Vec<String>> {
        let Some(value) = self.any(name)? else { return Ok(Vec::new()) };
        Ok(value.extract().map_err(|_| bad(name, "a list of texts is needed"))?)
    }

    pub(crate) fn is_set(&self, name: &str) -> PyResult<bool> {
        self.any(name)?.map_or(Ok(false), |value| value.is_truthy())
    }

    /// A number of bytes, or a text such as `64K`, under a rule of the program.
    fn quantity<T>(
        &self,
        name: &str,
        rule: impl FnOnce(&str) -> Result<T, String>,
    ) -> PyResult<Option<T>> {
        let Some(value) = self.any(name)? else { return Ok(None) };
        let text = match value.extract::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) => value.extract::<String>().map_err(|_| {
                bad(name, format!("a number or a text such as \"1M\" is needed, not {value}"))
            })?,
        };
        Ok(Some(rule(&text).map_err(|words| bad(name, words))?))
    }

    fn number(&self, name: &str, most: u64) -> PyResult<Option<u64>> {
        let Some(value) = self.any(name)? else { return Ok(None) };
        let number = value.extract::<u64>().ok().filter(|number| (1..=most).contains(number));
        Ok(Some(number.ok_or_else(|| bad(name, format!("1 to {most} is needed, not {value}")))?))
    }

    /// One of several words.
    pub(crate) fn choice<T: Named>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        Ok(Some(named(name, &text)?))
    }

    /// Ends of a copy, and how data gets from one to the other.
    pub(crate) fn asked(&self) -> PyResult<Asked> {
        let end = |name| Ok::<_, PyErr>(self.text(name)?.unwrap_or_default());
        let offset = |name| Ok::<_, PyErr>(self.quantity(name, bytes)?.unwrap_or(Bytes::ZERO));
        let usual = Asked::between(&end("source")?, &end("target")?);
        let depth = self.number("depth", DEPTH_MAX.into())?.map(u32::try_from);
        Ok(Asked {
            route: self.choice("route")?.unwrap_or(usual.route),
            via: self.text("via")?,
            block: self.quantity("block", size::block)?.unwrap_or(usual.block),
            depth: depth.map_or(usual.depth, |depth| depth.unwrap_or(DEPTH_MAX)),
            offset: offset("offset")?,
            length: self.quantity("length", size::length)?,
            target_offset: offset("target_offset")?,
            verify: self.choice("verify")?.unwrap_or(usual.verify),
            force: self.is_set("force")?,
            ..usual
        })
    }

    /// Start, journal, holes, witness, rate limit and preserved metadata.
    pub(crate) fn options(&self) -> PyResult<CopyArguments> {
        let preserve = self.words("preserve")?;
        let preserve = preserve.iter().map(|word| named("preserve", word));
        Ok(CopyArguments {
            start: if self.is_set("resume")? { Start::Resume } else { Start::Anew },
            journal: self.text("journal")?.map(PathBuf::from),
            sparse: self.choice("sparse")?,
            watch_dma: self.watches_dma()?,
            limit: self.quantity("limit", size::rate)?,
            preserve: preserve.collect::<Result<_, _>>()?,
        })
    }

    /// True when the DMA of the drives is watched.
    fn watches_dma(&self) -> PyResult<bool> {
        match self.text("evidence")?.as_deref() {
            None => Ok(false),
            Some("dma") => Ok(true),
            Some(text) => Err(no_name("evidence", text, ["dma"].into_iter()).into()),
        }
    }

    /// The longest wait for one request, in seconds.
    pub(crate) fn timeout(&self) -> PyResult<u64> {
        Ok(self.number("timeout", TIMEOUT_MAX)?.unwrap_or(60))
    }

    /// The machine that the caller names.
    pub(crate) fn machine(&self) -> PyResult<MachineArgument> {
        Ok(MachineArgument { described: self.text("machine")?.map(PathBuf::from) })
    }
}

/// Options of a copy that the caller may set.
pub(crate) struct CopyArguments {
    start: Start,
    journal: Option<PathBuf>,
    sparse: Option<Sparse>,
    watch_dma: bool,
    limit: Option<ByteRate>,
    preserve: Vec<Metadatum>,
}

impl CopyArguments {
    pub(crate) fn of_a_copy(self) -> CopyOptions {
        CopyOptions {
            start: self.start,
            journal: self.journal,
            environment: peerlane::environment(),
            sparse: self.sparse.unwrap_or(Sparse::Auto),
            watch_dma: self.watch_dma,
            limit: self.limit,
            preserve: self.preserve,
            ..CopyOptions::default()
        }
    }
}

/// The machine to work on; this one where none is named.
pub(crate) struct MachineArgument {
    described: Option<PathBuf>,
}

impl MachineArgument {
    pub(crate) fn read(&self, look: LookDepth) -> Result<Fabric, ErrorDetails> {
        let place = self.described.as_deref().map_or(MachineSource::Here, MachineSource::Described);
        Ok(machines::read(place, look)?)
    }
}

/// Looks up the value of a name.
///
/// # Errors
/// The names of all values.
pub(crate) fn named<T: Named>(argument: &str, text: &str) -> Result<T, ErrorDetails> {
    T::from_name(text)
        .ok_or_else(|| no_name(argument, text, T::NAMES.iter().map(|(name, _)| *name)))
}

fn no_name<'a>(argument: &str, text: &str, names: impl Iterator<Item = &'a str>) -> ErrorDetails {
    let names: Vec<&str> = names.collect();
    bad(argument, format!("one of {} is needed, not \"{text}\"", names.join(", ")))
}

fn bytes(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: <Bytes as std::str::FromStr>::Err| error.to_string())
}
