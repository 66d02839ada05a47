//! Ways that files take, for all loaders of a process: cuFile's answers, and its open modes.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use peerlane_memory::cufile::{
    self, Counted, CounterMark, CuFileError, CuFileSession, Mode, NoCounter,
};
use peerlane_results::RouteChoice;
use peerlane_units::Bytes;

use super::{LoadError, Loaded, direct_support};
use crate::io::cufile as evidence;
use crate::io::watch::Watch;

/// File systems that are known to be refused at most; of more the answer is asked for again.
const MOST_REFUSED: usize = 1024;

/// The choice of route, and cuFile's answers, shared by all loaders of a process.
#[derive(Debug)]
pub struct LoadRoutes {
    choice: RouteChoice,
    /// The root of the machine's file system.
    root: PathBuf,
    state: Mutex<LoaderState>,
}

#[derive(Debug, Default)]
struct LoaderState {
    session: Option<(Arc<CuFileSession>, CounterMark)>,
    /// Reason why cuFile does not serve here at all.
    missing: Option<Arc<str>>,
    /// Reasons why it does not serve a file system, by the number of its device.
    refused: HashMap<u64, Arc<str>>,
    /// Results of `direct_support`, by device number.
    direct_support: HashMap<u64, Result<(), Arc<str>>>,
}

impl LoadRoutes {
    /// Ways by choice; nothing is opened yet.
    pub fn new(choice: RouteChoice) -> Self {
        Self::of_machine(choice, Path::new("/"))
    }

    /// The same with another root of the file system, for tests.
    pub fn of_machine(choice: RouteChoice, root: &Path) -> Self {
        Self { choice, root: root.to_owned(), state: Mutex::default() }
    }

    /// Returns the reason if no direct route can exist for a file. Opens no library.
    pub(super) fn check_direct(&self, file: &File) -> Result<(), Arc<str>> {
        let Ok(device) = direct_support::device_of(file) else { return Ok(()) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.direct_support.get(&device) {
            return known.clone();
        }
        let told = direct_support::check(&self.root, device);
        if state.direct_support.len() < MOST_REFUSED {
            state.direct_support.insert(device, told.clone());
        }
        told
    }

    pub(super) fn choice(&self) -> RouteChoice {
        self.choice
    }

    /// cuFile in a direct mode that takes this file.
    pub(super) fn session(&self, file: &File) -> Result<Arc<CuFileSession>, LoadError> {
        let device = file.metadata().map_err(LoadError::file("look at"))?.dev();
        // One at a time: the mode is the process's.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.missing.as_ref().or_else(|| state.refused.get(&device));
        if let Some(reason) = known {
            return Err(LoadError::NotDirect { reason: Arc::clone(reason) });
        }
        if let Some((session, _)) = &state.session {
            let session = Arc::clone(session);
            return match session.file(copy_of(file)?) {
                Ok(_) => Ok(session),
                Err(error) => Err(state.refuse(device, &format!("{}: {error}", session.mode()))),
            };
        }
        let (mut reasons, mut is_missing) = (Vec::new(), true);
        for mode in [Mode::P2pdma, Mode::NvidiaFs] {
            match open(mode, copy_of(file)?) {
                Ok(session) => {
                    let mark = session.mark();
                    self.allowed(mark.check())?;
                    state.session = Some((Arc::clone(&session), mark));
                    return Ok(session);
                }
                Err(error) => {
                    is_missing &= matches!(error, CuFileError::Library { .. });
                    reasons.push(format!("{mode}: {error}"));
                }
            }
        }
        if is_missing {
            reasons.truncate(1);
            let reason: Arc<str> = reasons.concat().into();
            state.missing = Some(Arc::clone(&reason));
            return Err(LoadError::NotDirect { reason });
        }
        Err(state.refuse(device, &reasons.join("; ")))
    }

    /// The mode of cuFile that serves, if one does.
    pub fn mode(&self) -> Option<Mode> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.session.as_ref().map(|(session, _)| session.mode())
    }

    /// Judges the route of requests. Returns cuFile's counts, or why the route is unknown; `None`
    /// if it took no part.
    ///
    /// # Errors
    /// [`LoadError::FellBack`] if some went through host memory; [`LoadError::RouteNotKnown`] if
    /// that was ruled out and is unknown.
    pub fn judge(&self) -> Result<Option<Counted>, LoadError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((session, mark)) = &state.session else { return Ok(None) };
        let counted = session.since(mark);
        match counted {
            Ok(counts) => counts.all_direct()?,
            Err(none) => self.allowed(Err(none))?,
        }
        Ok(Some(counted))
    }

    /// Corrects loaded bytes by cuFile's counters, and sends a notice about the route.
    ///
    /// # Errors
    /// As [`LoadRoutes::judge`].
    pub fn told(&self, loaded: Loaded, watch: &mut dyn Watch) -> Result<Loaded, LoadError> {
        if let Some(reason) = &loaded.reason {
            watch.notice(&format!("not directly into the GPU: {reason}"));
        }
        match self.judge()? {
            Some(Err(none)) if loaded.direct > Bytes::ZERO => {
                watch.notice(&format!("the route into the GPU is unknown: {none}"));
                Ok(Loaded { direct: Bytes::ZERO, ..loaded })
            }
            _ => Ok(loaded),
        }
    }

    /// Refuses a way without counters if no other route is allowed.
    fn allowed(&self, counts: Result<(), NoCounter>) -> Result<(), LoadError> {
        match (self.choice, counts) {
            (RouteChoice::P2p, Err(none)) => Err(LoadError::RouteNotKnown(none)),
            _ => Ok(()),
        }
    }

    /// Direct ways that cuFile has switched on, in words.
    pub fn flags(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = evidence::flags(&state.session.as_ref()?.0)?.evidence;
        Some(format!("{}: {}", flags.looked_at, flags.showed))
    }
}

impl LoaderState {
    fn refuse(&mut self, device: u64, reason: &str) -> LoadError {
        let reason: Arc<str> = reason.into();
        if self.refused.len() < MOST_REFUSED {
            self.refused.insert(device, Arc::clone(&reason));
        }
        LoadError::NotDirect { reason }
    }
}

/// Opens cuFile and registers a file for a moment: the answer is the file system's.
fn open(mode: Mode, file: File) -> Result<Arc<CuFileSession>, CuFileError> {
    let session = cufile::open(mode)?;
    session.file(file)?;
    Ok(session)
}

fn copy_of(file: &File) -> Result<File, LoadError> {
    file.try_clone().map_err(LoadError::file("open"))
}
