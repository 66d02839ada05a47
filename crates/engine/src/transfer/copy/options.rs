//! Options of a copy for resuming, holes and metadata.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane_units::{ByteRate, Named};
use serde::Deserialize;

use super::preserve::Metadatum;
use crate::endpoints::guard::Surveys;
use crate::io::journal::{Cadence, StateEnvironment};
use crate::io::trace::Tracer;
use crate::transfer::shares::Share;
use crate::transfer::stages::Stages;

/// Options of a copy for its journal, holes, metadata and stages.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// Begin or go on.
    pub start: Start,
    /// Path of the journal; `None` for the place that belongs to the target.
    pub journal: Option<PathBuf>,
    /// Decides the folder for journals of devices.
    pub environment: StateEnvironment,
    /// Intervals between flushes of the target and saves of the journal.
    pub cadence: Cadence,
    /// Treatment of holes of the source.
    pub sparse: Sparse,
    /// The most payload that is moved in a second; `None` for as fast as it goes. Proof and verification
    /// do not count.
    pub limit: Option<ByteRate>,
    /// The copy's place among others that run at the same time; `None` for a copy by itself.
    pub share: Option<Arc<Share>>,
    /// Watches the DMA of the drives, which needs root.
    pub watch_dma: bool,
    /// Tracer of the copy's requests; `None` for no trace.
    pub trace: Option<Tracer>,
    /// Metadata of the source file that a target file gets besides content.
    pub preserve: Vec<Metadatum>,
    /// The manifest of the stages, and the program that computes their work for verification.
    pub stages: Stages,
    /// Surveys of targets that were made for the plan.
    pub surveys: Surveys,
    /// Tells the time of day, for the journal: seconds since 1970, UTC.
    pub time_of_day: fn() -> u64,
}

impl Default for CopyOptions {
    /// Begins, keeps the journal in the usual place, and leaves holes out.
    fn default() -> Self {
        Self {
            start: Start::Anew,
            journal: None,
            environment: StateEnvironment::default(),
            cadence: Cadence::default(),
            sparse: Sparse::Auto,
            limit: None,
            share: None,
            watch_dma: false,
            trace: None,
            preserve: Vec::new(),
            stages: Stages::default(),
            surveys: Surveys::default(),
            time_of_day,
        }
    }
}

fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// Start of a copy: from its beginning, or by its journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// From the start.
    #[default]
    Anew,
    /// From where the journal says that it stopped.
    Resume,
}

/// Treatment of holes of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparse {
    /// They are left out if the file system tells them; at a target that already exists they are
    /// made zero.
    #[default]
    Auto,
    /// They are read and written like data.
    Never,
}

impl Named for Sparse {
    const NAMES: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("never", Self::Never)];
}
