//! The beginning of a copy: its target, its journal, and the part that is done already.
//!
//! A copy that resumes goes on only when everything that decides its content is unchanged; any
//! change is named. The journal's place is tried before the first byte moves.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use peerlane_results::{Asked, Refusal, Route, Warning};
use peerlane_units::{Bytes, Nanos};

use super::CopyError;
use super::beside::{first_name, has_both_names};
use super::files::OpenTarget;
use super::ledger::Keeper;
use super::options::{CopyOptions, Start};
use super::pieces::{CopyLayout, Holes};
use super::unfinished;
use crate::endpoints::guard::Surveyor;
use crate::endpoints::machine::Machine;
use crate::endpoints::open::Opened;
use crate::endpoints::{Live, PathNode};
use crate::io::journal::{
    Identity, Journal, JournalDifference, JournalError, JournalOptions, JournalStages, Now,
    Overwritten, Role, Store, beside_file, for_device, identity_of_file, is_partial_of,
    state_directory,
};
use crate::io::ranges::RangeSet;

/// Most journals of other devices that are searched for a device.
const JOURNALS_LOOKED_AT: usize = 256;

/// Input of the start of a copy.
#[derive(Debug, Clone)]
pub(super) struct Beginning<'a, 'm> {
    pub(super) machine: &'m dyn Machine,
    pub(super) asked: &'a Asked,
    pub(super) options: &'a CopyOptions,
    pub(super) source_live: &'a Live,
    pub(super) target_live: &'a Live,
    pub(super) source: &'a Opened,
    pub(super) layout: CopyLayout,
    pub(super) staged: &'a JournalStages,
    /// Refusals that a matching journal overrides.
    pub(super) held: Vec<Refusal>,
    pub(super) route: Route,
    /// Chooses the name of an unfinished file.
    pub(super) seed: u64,
    /// The longest wait for a device.
    pub(super) deadline: Nanos,
    /// Reads the target before the first byte.
    pub(super) surveyor: &'a Surveyor<'a>,
    /// Block size of the target, in bytes.
    pub(super) target_block: u64,
    /// The target as a person knows it.
    pub(super) target_name: String,
}

/// The outcome of [`Beginning::begin`].
#[derive(Debug)]
pub(super) enum BeginOutcome<'a> {
    /// A copy that begins, or goes on.
    Begun(Box<Begun<'a>>),
    /// No journal to go on by; nothing was changed.
    NoJournal {
        /// Expected path of the journal.
        journal: PathBuf,
    },
    /// No journal can be kept, so there is none to go on by; nothing was changed.
    NotResumable { reason: JournalError },
}

/// A copy that may begin.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    pub(super) target: OpenTarget<'a>,
    /// `None` for a copy that cannot be resumed.
    pub(super) keeper: Option<Keeper<'a>>,
    pub(super) source: Identity,
    pub(super) done: RangeSet,
    pub(super) holes: Holes,
    /// True when a journal told the part that is done.
    pub(super) is_resumed: bool,
    /// Identity of the manifest in the journal that was found.
    pub(super) manifest: Option<String>,
    pub(super) warnings: Vec<Warning>,
}

impl<'m> Beginning<'_, 'm> {
    pub(super) fn begin(self) -> Result<BeginOutcome<'m>, CopyError> {
        let source = self.source_identity()?;
        if let Some(path) = &self.options.journal {
            self.check_place(path)?;
        }
        match self.target_live.node {
            PathNode::Block => self.onto_device(source),
            PathNode::File { .. } | PathNode::NewFile => self.onto_file(source),
        }
    }

    pub(super) fn source_identity(&self) -> Result<Identity, CopyError> {
        self.identity(self.source_live, &self.source.file)
    }

    /// Refuses a place for the journal that a person can only have named by mistake.
    fn check_place(&self, path: &Path) -> Result<(), CopyError> {
        let refuse = |reason: String, hint: &str| {
            let hint = Some(hint.to_owned());
            Err(CopyError::Refused(vec![Refusal { reason, hint, forceable: false }]))
        };
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        let Ok(parent) = parent.canonicalize() else {
            let reason = format!("there is no directory for the journal {}", path.display());
            return refuse(reason, "name a file in a directory that is there");
        };
        for name in path.file_name().into_iter().flat_map(Store::names) {
            let named = parent.join(name);
            for (live, what) in [(self.source_live, "source"), (self.target_live, "target")] {
                if named == live.path {
                    let (path, named) = (path.display(), named.display());
                    let reason = format!("a journal {path} takes {named}, which is the {what}");
                    return refuse(reason, "name another file with `--journal`");
                }
            }
        }
        Ok(())
    }

    fn onto_file(self, source: Identity) -> Result<BeginOutcome<'m>, CopyError> {
        let name = &self.target_live.path;
        if let Some(reason) = not_resumable(&source) {
            if self.options.start == Start::Resume {
                return self.not_resumable(reason);
            }
            let target = self.new_file()?;
            return self.without_journal(target, source, reason);
        }
        let path = match &self.options.journal {
            Some(path) => path.clone(),
            None => beside_file(name)?,
        };
        let store = Store::open(self.machine.small_files(), &path)?;
        let found = self.found(&store, |journal| self.is_of_this_file(journal))?;
        if found.is_none() {
            self.sweep(&store);
        }
        if self.options.start == Start::Resume {
            let Some(journal) = found else { return Ok(BeginOutcome::NoJournal { journal: path }) };
            return self
                .go_on_with_file(store, journal, source)
                .map(|begun| BeginOutcome::Begun(Box::new(begun)));
        }
        if let Some(journal) = found {
            self.forget(&store, &journal)?;
        }
        // Before it is made, so that it is known at every moment.
        store.note(&first_name(&self.target_live.path, self.seed))?;
        if self.options.journal.is_some() {
            // A file next to its journal outlasts a loss of power only together with this lock.
            store.flush_directory()?;
        }
        let target = self.new_file()?;
        let overwrites = self.replaced()?;
        self.with_journal(target, store, source, overwrites)
    }

    fn onto_device(self, source: Identity) -> Result<BeginOutcome<'m>, CopyError> {
        let target = OpenTarget::open_device(self.machine, self.target_live, self.deadline)?;
        let identity = self.identity(self.target_live, target.file())?;
        let place = match (not_resumable(&source).or(not_resumable(&identity)), &identity) {
            (Some(reason), _) => Err(reason),
            (None, Identity::Device(device)) => match &self.options.journal {
                Some(path) => Ok(path.clone()),
                None => state_directory(&self.options.environment)
                    .and_then(|directory| for_device(&directory, device)),
            },
            (None, Identity::File(_)) => {
                Err(JournalError::NoDevice { name: identity.name().into() })
            }
        };
        let path = match place {
            Ok(path) => path,
            Err(reason) if self.options.start == Start::Resume => {
                return self.not_resumable(reason);
            }
            Err(reason) => return self.without_journal(target, source, reason),
        };
        let store = Store::open(self.machine.small_files(), &path)?;
        let found = self.found(&store, |journal| match (&journal.target, &identity) {
            (Identity::Device(then), Identity::Device(now)) => then.is_same_device(now),
            _ => false,
        })?;
        if self.options.start == Start::Resume {
            let Some(journal) = found else { return no_journal(&identity, path) };
            self.compare(&store, &journal, &source, &identity)?;
            return Ok(BeginOutcome::Begun(Box::new(self.go_on(target, store, journal, source))));
        }
        if found.is_some() {
            store.clear()?;
        }
        let overwrites = self.asked.force.then(|| self.ends_of(target.opened())).transpose()?;
        self.with_journal(target, store, source, overwrites)
    }

    /// The journal that is there; one that stands in the way of a new copy is refused. The journal
    /// of another target is the only account of its content, so no force replaces it.
    fn found(
        &self,
        store: &Store<'_>,
        is_ours: impl FnOnce(&Journal) -> bool,
    ) -> Result<Option<Journal>, CopyError> {
        let found = store.load()?;
        match &found {
            Some(journal) if self.options.start == Start::Anew && !is_ours(journal) => {
                let (place, other) = (store.path().display(), journal.target.name());
                let reason = format!("{place} is the journal of an unfinished copy onto {other}");
                let hint = Some("name another file with `--journal`".to_owned());
                Err(CopyError::Refused(vec![Refusal { reason, hint, forceable: false }]))
            }
            Some(journal) if self.options.start == Start::Anew && !self.asked.force => {
                let target = self.target_live.path.display().to_string();
                Err(CopyError::Refused(vec![unfinished::refusal(&target, journal)]))
            }
            _ => Ok(found),
        }
    }

    /// Tells whether a journal is of a copy onto this file; one next to it is, by its name.
    fn is_of_this_file(&self, journal: &Journal) -> bool {
        let Identity::File(then) = &journal.target else { return false };
        let folder = |path: &Path| path.parent().map(Path::to_owned);
        self.options.journal.is_none()
            || self.partial(journal).is_some()
                && folder(Path::new(&then.path)) == folder(&self.target_live.path)
    }

    pub(super) fn partial(&self, journal: &Journal) -> Option<PathBuf> {
        let (target, partial) = (&self.target_live.path, journal.partial.as_ref()?);
        // A journal may be of any user; it must not name other files.
        is_partial_of(target, partial.as_ref()).then(|| target.with_file_name(partial))
    }

    fn go_on_with_file(
        self,
        store: Store<'m>,
        journal: Journal,
        source: Identity,
    ) -> Result<Begun<'m>, CopyError> {
        let Some(partial) = self.partial(&journal) else {
            let (then, now) = (journal.target.kind().to_owned(), "a file".to_owned());
            let differences = vec![JournalDifference::OtherKind { role: Role::Target, then, now }];
            return Err(CopyError::Changed { journal: store.path().into(), differences });
        };
        let name = partial.file_name().unwrap_or_default();
        let has_both = has_both_names(&self.target_live.path, name);
        if journal.is_complete() && (has_both || !partial.exists()) {
            // The copy was complete and had its name when it was ended: only what it had besides was left.
            if has_both {
                self.remove_partial(&partial)?;
            }
            let target = OpenTarget::open_finished(self.machine, self.target_live, self.deadline)?;
            let identity = self.identity(self.target_live, target.file())?;
            self.compare(&store, &journal, &source, &identity)?;
            return Ok(self.go_on(target, store, journal, source));
        }
        if !self.held.is_empty() && !self.may_replace(&journal)? {
            return Err(CopyError::Refused(self.held));
        }
        let mut target =
            OpenTarget::reopen(self.machine, self.target_live, &self.source.file, &partial)?;
        let identity = Identity::File(identity_of_file(self.root(), &partial, target.file())?);
        self.compare(&store, &journal, &source, &identity)?;
        let holes = Holes::at(self.options.sparse, false);
        target.reserve(self.machine, self.layout, holes, &self.source.file)?;
        Ok(self.go_on(target, store, journal, source))
    }

    fn go_on(
        self,
        target: OpenTarget<'m>,
        store: Store<'m>,
        journal: Journal,
        source: Identity,
    ) -> Begun<'m> {
        let (done, manifest) = (journal.done.clone(), journal.staged.manifest.clone());
        Begun {
            target,
            keeper: Some(Keeper::go_on(store, journal, self.options.time_of_day)),
            source,
            done,
            holes: Holes::at(self.options.sparse, false),
            is_resumed: true,
            manifest,
            warnings: Vec::new(),
        }
    }

    fn new_file(&self) -> Result<OpenTarget<'m>, CopyError> {
        if !self.held.is_empty() {
            return Err(CopyError::Refused(self.held.clone()));
        }
        let mut target =
            OpenTarget::beside(self.machine, self.target_live, &self.source.file, self.seed)?;
        let holes = Holes::at(self.options.sparse, true);
        target.reserve(self.machine, self.layout, holes, &self.source.file)?;
        Ok(target)
    }

    fn with_journal(
        self,
        target: OpenTarget<'m>,
        store: Store<'m>,
        source: Identity,
        overwrites: Option<Overwritten>,
    ) -> Result<BeginOutcome<'m>, CopyError> {
        let (identity, partial) = match target.partial() {
            Some(path) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                (Identity::File(identity_of_file(self.root(), &path, target.file())?), name)
            }
            None => (self.identity(self.target_live, target.file())?, None),
        };
        if let (Some(path), true) = (target.partial(), self.options.journal.is_some()) {
            // A journal next to the file makes the file's name durable with its own.
            let directory = path.parent().unwrap_or(Path::new("/"));
            File::open(directory)
                .and_then(|opened| Ok(self.machine.sync(&opened)?))
                .map_err(|source| CopyError::File { action: "make durable", path, source })?;
        }
        if let Some(name) = target.partial().as_deref().and_then(Path::file_name) {
            if name != first_name(&self.target_live.path, self.seed) {
                store.note(name)?;
            }
        }
        let now = (self.options.time_of_day)();
        let journal = Journal {
            program: concat!("peerlane ", env!("CARGO_PKG_VERSION")).to_owned(),
            source: source.clone(),
            target: identity,
            options: self.copied(),
            route: self.route,
            partial,
            done: RangeSet::new(),
            staged: self.staged.clone(),
            overwrites,
            created: now,
            updated: now,
        };
        let time_of_day = self.options.time_of_day;
        // Of a file the lock knows. A device that is not blank any more must be known as this copy's.
        let keeper = match target.partial() {
            Some(_) => Keeper::begin(store, journal, time_of_day)?,
            None => Keeper::claim(store, journal, time_of_day)?,
        };
        let holes = Holes::at(self.options.sparse, target.partial().is_some());
        Ok(BeginOutcome::Begun(Box::new(Begun {
            target,
            keeper: Some(keeper),
            source,
            done: RangeSet::new(),
            holes,
            is_resumed: false,
            manifest: None,
            warnings: Vec::new(),
        })))
    }

    /// Answers a request to resume if no journal can be kept.
    fn not_resumable(&self, reason: JournalError) -> Result<BeginOutcome<'m>, CopyError> {
        match self.options.journal {
            Some(_) => Err(reason.into()),
            None => Ok(BeginOutcome::NotResumable { reason }),
        }
    }

    /// Begins a copy that cannot be resumed.
    fn without_journal(
        self,
        target: OpenTarget<'m>,
        source: Identity,
        reason: JournalError,
    ) -> Result<BeginOutcome<'m>, CopyError> {
        if self.options.journal.is_some() {
            return Err(reason.into());
        }
        let holes = Holes::at(self.options.sparse, target.partial().is_some());
        Ok(BeginOutcome::Begun(Box::new(Begun {
            target,
            keeper: None,
            source,
            done: RangeSet::new(),
            holes,
            is_resumed: false,
            manifest: None,
            warnings: vec![Warning::NotResumable { reason: reason.to_string() }],
        })))
    }

    fn copied(&self) -> JournalOptions {
        JournalOptions {
            source_offset: self.asked.offset,
            target_offset: self.asked.target_offset,
            length: Bytes(self.layout.length),
        }
    }

    fn compare(
        &self,
        store: &Store<'_>,
        journal: &Journal,
        source: &Identity,
        target: &Identity,
    ) -> Result<(), CopyError> {
        let now = Now { source, target, options: self.copied(), staged: self.staged };
        let differences = journal.differences(&now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(CopyError::Changed { journal: store.path().into(), differences })
    }

    pub(super) fn root(&self) -> &Path {
        self.machine.system().root()
    }

    fn identity(&self, live: &Live, file: &File) -> Result<Identity, CopyError> {
        Ok(self.machine.identify(live, file)?)
    }
}

/// Explains a missing journal of a device: there is none, or it is of another device of the same
/// name.
fn no_journal<'m>(now: &Identity, path: PathBuf) -> Result<BeginOutcome<'m>, CopyError> {
    let beside = path.parent().and_then(|directory| fs::read_dir(directory).ok());
    let journals = beside.into_iter().flatten().flatten().take(JOURNALS_LOOKED_AT);
    for entry in journals {
        let journal = Store::read(&entry.path());
        let Ok(Journal { target: Identity::Device(then), .. }) = journal else { continue };
        if let (true, Identity::Device(now)) = (then.name == now.name(), now) {
            // What a loss of power left of a journal that was being written is of the same device.
            if then.is_same_device(now) {
                continue;
            }
            return Err(CopyError::Changed {
                journal: entry.path(),
                differences: vec![JournalDifference::OtherDevice {
                    role: Role::Target,
                    name: now.name.clone(),
                    then: then.to_string(),
                    now: now.to_string(),
                }],
            });
        }
    }
    Ok(BeginOutcome::NoJournal { journal: path })
}

/// Returns the reason against resuming a copy from or to this, if any.
fn not_resumable(identity: &Identity) -> Option<JournalError> {
    match identity {
        Identity::Device(device) if device.primary_id().is_none() => {
            Some(JournalError::NoStableId { name: device.name.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::machine::host;
    use crate::io::journal::tests::sample;

    #[test]
    fn unfinished_journal_is_of_same_device() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = sample();
        journal.target = journal.source.clone();
        let left = directory.path().join("journal.new");
        Store::open(host(), &left).unwrap().save(&journal).unwrap();
        let path = directory.path().join("journal");
        let found = no_journal(&journal.target, path.clone());
        assert!(matches!(found, Ok(BeginOutcome::NoJournal { .. })), "{found:?}");
        let mut other = journal.target.clone();
        let Identity::Device(device) = &mut other else { panic!("a device") };
        device.ids.iter_mut().for_each(|id| id.value.push('x'));
        let found = no_journal(&other, path);
        assert!(matches!(found, Err(CopyError::Changed { .. })), "{found:?}");
    }
}
