//! One copy that is ended, perhaps several times, and goes on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::program::names;
use peerlane_testing::Scratch;
use rustix::process::Signal;

use super::random::Random;
use super::strike::{EndedProcess, Moment, strike};

/// Longest source; what is copied of it is drawn.
const LENGTH: u64 = 24 << 20;
const TARGET: &str = "the target";
/// Content of the target before the copy.
const BEFORE: &[u8] = b"what was there before";
/// Attempts until a signal finds the program running.
const TRIES: u32 = 20;

/// Source and earlier target of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KillKind {
    New,
    Replaced,
    Holes,
    Repeated,
    Stopped,
}

impl KillKind {
    pub(crate) const ALL: [Self; 5] =
        [Self::New, Self::Replaced, Self::Holes, Self::Repeated, Self::Stopped];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "SIGKILL, a new file",
            Self::Replaced => "SIGKILL, a file that replaces another",
            Self::Holes => "SIGKILL, a file with holes",
            Self::Repeated => "SIGKILL, two to four times in one copy",
            Self::Stopped => "SIGINT, SIGTERM or SIGHUP, once or twice at a time",
        }
    }
}

/// Sources and their content.
pub(crate) struct Sources {
    folder: Scratch,
    full: Vec<u8>,
    sparse: Vec<u8>,
}

impl Sources {
    pub(crate) fn make() -> Self {
        let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
        let mut random = Random(7);
        let mut full = Vec::new();
        while (full.len() as u64) < LENGTH {
            full.extend(random.next().to_le_bytes());
        }
        let mut sparse = vec![0; full.len()];
        let file = File::create_new(folder.at("sparse")).expect("a source");
        file.set_len(LENGTH).expect("room");
        // Data and holes of 512 KiB each.
        for start in (0..full.len()).step_by(1 << 20) {
            let range = start..start + (512 << 10);
            sparse[range.clone()].copy_from_slice(&full[range.clone()]);
            file.write_all_at(&full[range], start as u64).expect("room");
        }
        folder.write("full", &full);
        Self { folder, full, sparse }
    }

    fn file(&self, kind: KillKind) -> (PathBuf, &[u8]) {
        let (name, content) = match kind {
            KillKind::Holes => ("sparse", &self.sparse),
            _ => ("full", &self.full),
        };
        (self.folder.at(name), content)
    }
}

/// Outcome of a case that broke no promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillOutcome {
    /// True when the copy was resumed by a journal.
    pub(crate) resumed: bool,
    /// Signals that found the program running.
    pub(crate) strikes: u64,
}

/// A drawn case.
#[derive(Debug)]
pub(crate) struct KillCase {
    pub(crate) seed: u64,
    pub(crate) kind: KillKind,
}

impl KillCase {
    pub(crate) fn draw(seed: u64) -> Self {
        let kinds = KillKind::ALL;
        Self { seed, kind: kinds[usize::try_from(seed).expect("an index") % kinds.len()] }
    }

    /// Runs copies until the signals of the case have found one running.
    ///
    /// # Errors
    /// The promise that was broken.
    pub(crate) fn run(&self, sources: &Sources) -> Result<KillOutcome, String> {
        let mut random = Random(self.seed);
        for _ in 0..TRIES {
            let copy = KilledCopy::draw(self.kind, sources, &mut random);
            let signals = copy.draw_signals(&mut random);
            let wanted = match self.kind {
                KillKind::Repeated => random.within(2, 5),
                _ => 1,
            };
            let outcome = copy.run(&signals, wanted, &mut random)?;
            if outcome.strikes == wanted {
                return Ok(outcome);
            }
        }
        Err(format!("in {TRIES} copies no signal came in between"))
    }
}

/// A copy in a folder of its own.
struct KilledCopy<'a> {
    folder: Scratch,
    kind: KillKind,
    source: PathBuf,
    content: &'a [u8],
    words: Vec<String>,
    /// Seconds that it takes by its limit.
    seconds: u64,
    limit: u64,
}

impl<'a> KilledCopy<'a> {
    fn draw(kind: KillKind, sources: &'a Sources, random: &mut Random) -> Self {
        let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
        let (source, content) = sources.file(kind);
        let length = random.within(LENGTH / 2, LENGTH);
        let content = &content[..usize::try_from(length).expect("an index")];
        let mut words: Vec<String> = ["--length", &length.to_string()].map(Into::into).into();
        for (option, values) in [
            ("--block", &["64K", "256K", "1M"][..]),
            ("--depth", &["2", "16"]),
            ("--verify", &["none", "sample", "full"]),
        ] {
            words.extend([option, random.one_of(values)].map(Into::into));
        }
        let is_replaced =
            kind == KillKind::Replaced || (kind != KillKind::New && random.within(0, 2) == 0);
        if is_replaced {
            folder.write(TARGET, BEFORE);
            words.push("--force".into());
        }
        // A copy saves its first journal after 2 s: about half are ended before that.
        let seconds = random.within(2, 6);
        Self { folder, kind, source, content, words, seconds, limit: length / seconds }
    }

    fn draw_signals(&self, random: &mut Random) -> Vec<Signal> {
        if self.kind != KillKind::Stopped {
            return vec![Signal::KILL];
        }
        let signal = random.one_of(&[Signal::INT, Signal::TERM, Signal::HUP]);
        vec![signal; if random.within(0, 4) == 0 { 2 } else { 1 }]
    }

    fn draw_moment(&self, random: &mut Random) -> Moment {
        let length = self.content.len() as u64;
        let milliseconds = self.seconds * 1000;
        match random.within(0, 4) {
            0 => Moment::Time(Duration::from_millis(random.within(0, milliseconds + 300))),
            1 => Moment::Names(u32::try_from(random.within(1, 14)).expect("a small number")),
            _ => Moment::Moved {
                bytes: random.within(0, length),
                then: Duration::from_millis(random.within(0, 500)),
            },
        }
    }

    fn command(&self) -> Command {
        let mut command = peerlane_testing::heeding(env!("CARGO_BIN_EXE_peerlane"));
        command.arg("copy").arg(&self.source).arg(TARGET).args(&self.words).env("NO_COLOR", "1");
        command
    }

    /// Ends the copy `wanted` times, and lets it go on to its end then.
    fn run(
        &self,
        signals: &[Signal],
        wanted: u64,
        random: &mut Random,
    ) -> Result<KillOutcome, String> {
        let folder = self.folder.path();
        let mut outcome = KillOutcome { resumed: false, strikes: 0 };
        // What the program said is to be typed next, where it said that.
        let mut printed: Option<String> = None;
        while outcome.strikes < wanted {
            let mut command = self.next_command(printed.as_deref(), &mut outcome);
            let limit = self.limit.to_string();
            if printed.is_none() {
                command.args(["--json-progress", "--limit", &limit]);
            }
            let ended = strike(&mut command, folder, self.draw_moment(random), signals);
            self.check_after(&ended)?;
            if ended.status.success() || self.is_there(&ended) {
                return self.check_end(&ended, outcome);
            }
            if !ended.is_struck {
                return Err(format!("{}: {}", ended.status, ended.said));
            }
            outcome.strikes += 1;
            printed = self.check_advice(&ended, signals)?;
        }
        self.finish(printed.as_deref(), outcome)
    }

    /// The copy as it was begun, or as the program advised to go on.
    fn next_command(&self, printed: Option<&str>, outcome: &mut KillOutcome) -> Command {
        if let Some(printed) = printed {
            outcome.resumed = true;
            let mut shell = peerlane_testing::heeding("sh");
            shell.args(["-c", printed]);
            return shell;
        }
        let mut command = self.command();
        if self.journal().exists() {
            outcome.resumed = true;
            command.arg("--resume");
        }
        command
    }

    fn finish(
        &self,
        printed: Option<&str>,
        mut outcome: KillOutcome,
    ) -> Result<KillOutcome, String> {
        let mut command = self.next_command(printed, &mut outcome);
        let ended = strike(
            &mut command,
            self.folder.path(),
            Moment::Time(Duration::from_secs(100)),
            &[Signal::KILL],
        );
        if !ended.status.success() && !self.is_there(&ended) {
            return Err(format!("does not go on: {}: {}", ended.status, ended.said));
        }
        self.check_end(&ended, outcome)
    }

    /// True when there was nothing to do: the run before was ended when the target had its name.
    fn is_there(&self, ended: &EndedProcess) -> bool {
        ended.said.contains("the target already exists") && self.is_complete()
    }

    fn journal(&self) -> PathBuf {
        self.folder.at(format!(".{TARGET}.peerlane-journal"))
    }

    fn target(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.at(TARGET)).ok()
    }

    fn is_complete(&self) -> bool {
        self.target().is_some_and(|target| target == self.content)
    }

    fn is_replaced(&self) -> bool {
        self.words.iter().any(|word| word == "--force")
    }

    /// Checks the invariants that hold whatever ended the program.
    fn check_after(&self, ended: &EndedProcess) -> Result<(), String> {
        let target = self.target();
        let is_before = target.as_deref() == self.is_replaced().then_some(BEFORE);
        if !is_before && !self.is_complete() {
            let length = target.map(|target| target.len());
            return Err(format!("the target is neither old nor new: {length:?} bytes"));
        }
        if ended.status.success() && !self.is_complete() {
            return Err("reported complete and is not".into());
        }
        let mut unfinished = 0;
        for name in names(self.folder.path()) {
            let journal = format!(".{TARGET}.peerlane-journal");
            let rest = name.strip_prefix(&format!(".{TARGET}.peerlane-"));
            match rest {
                None if name == TARGET => {}
                Some("journal" | "journal.lock" | "journal.new") => {}
                Some(digits) if digits.len() == 8 => unfinished += 1,
                _ => return Err(format!("{name} beside the target, not {journal}")),
            }
        }
        if unfinished > 1 {
            return Err(format!("{unfinished} unfinished files"));
        }
        Ok(())
    }

    /// Checks the program's last message, and returns the command that it advised.
    fn check_advice(
        &self,
        ended: &EndedProcess,
        signals: &[Signal],
    ) -> Result<Option<String>, String> {
        let is_killed = ended.status.signal() == Some(Signal::KILL.as_raw());
        match (signals, ended.status.code()) {
            ([Signal::KILL], None) if is_killed => return Ok(None),
            // Before it listens for signals, one ends it as it ends any program.
            (_, None) if !is_killed && ended.said.is_empty() => return Ok(None),
            // The second ends it at once.
            ([_, _], Some(130)) => {}
            ([_], Some(130)) if ended.said.contains("interrupted") => {}
            _ => return Err(format!("{}: {}", ended.status, ended.said)),
        }
        let command = ended.said.split('`').find(|part| part.contains("--resume"));
        if command.is_none() && signals.len() == 1 && self.journal().exists() {
            return Err(format!("does not say how to go on: {}", ended.said));
        }
        Ok(command.map(str::to_owned))
    }

    fn check_end(&self, ended: &EndedProcess, outcome: KillOutcome) -> Result<KillOutcome, String> {
        let mut names = names(self.folder.path());
        if self.is_there(ended) {
            // A copy that finds nothing to do takes no lock, and so removes none.
            names.retain(|name| *name != format!(".{TARGET}.peerlane-journal.lock"));
        }
        if !self.is_complete() {
            return Err("the target is not equal to the source".into());
        }
        if names != [TARGET] {
            return Err(format!("left behind: {names:?}"));
        }
        Ok(outcome)
    }
}
