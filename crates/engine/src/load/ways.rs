//! Which way files take, for all who load: what cuFile said, and by which of its modes it is open.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use peerlane_memory::cufile::{self, Counts, CuFileError, Mode, Session};
use peerlane_results::RouteChoice;

use super::LoadError;

/// File systems that are known to be refused at most; of more the answer is asked for again.
const MOST_REFUSED: usize = 1024;

/// The ways that are open to all loaders of a process.
#[derive(Debug)]
pub struct Ways {
    choice: RouteChoice,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<(Arc<Session>, Option<Counts>)>,
    /// Why cuFile serves nobody here.
    missing: Option<Arc<str>>,
    /// Why it does not serve a file system, by the number of its device.
    refused: HashMap<u64, Arc<str>>,
}

impl Ways {
    /// Ways by choice; nothing is opened yet.
    pub fn new(choice: RouteChoice) -> Self {
        Self { choice, state: Mutex::default() }
    }

    pub(super) fn choice(&self) -> RouteChoice {
        self.choice
    }

    /// cuFile in a direct mode that takes this file.
    pub(super) fn session(&self, file: &File) -> Result<Arc<Session>, LoadError> {
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
                    let before = session.counts();
                    state.session = Some((Arc::clone(&session), before));
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

    /// The mode of cuFile that serves, where one does.
    pub fn mode(&self) -> Option<Mode> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.session.as_ref().map(|(session, _)| session.mode())
    }

    /// What cuFile counted, where it served and counts.
    ///
    /// # Errors
    /// [`LoadError::FellBack`] where some went through host memory.
    pub fn judge(&self) -> Result<Option<Counts>, LoadError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((session, Some(before))) = &state.session else { return Ok(None) };
        let Some(after) = session.counts() else { return Ok(None) };
        let counts = after.since(before);
        counts.all_direct()?;
        Ok(Some(counts))
    }
}

impl State {
    fn refuse(&mut self, device: u64, reason: &str) -> LoadError {
        let reason: Arc<str> = reason.into();
        if self.refused.len() < MOST_REFUSED {
            self.refused.insert(device, Arc::clone(&reason));
        }
        LoadError::NotDirect { reason }
    }
}

/// Opens cuFile and registers a file for a moment: the answer is the file system's.
fn open(mode: Mode, file: File) -> Result<Arc<Session>, CuFileError> {
    let session = cufile::open(mode)?;
    session.file(file)?;
    Ok(session)
}

fn copy_of(file: &File) -> Result<File, LoadError> {
    file.try_clone().map_err(LoadError::file("open"))
}
