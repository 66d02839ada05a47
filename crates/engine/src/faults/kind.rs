//! Kinds of faults.

/// A fault, as the reader of the table knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Nothing.
    None,
    /// The kernel answers short, late, and asks to try again.
    Difficult,
    /// A sector of the source cannot be read, the first time.
    ReadErrorOnce,
    /// A sector of the source cannot be read until it is repaired.
    ReadErrorStays,
    /// A sector of the target cannot be written, the first time.
    WriteErrorOnce,
    /// A sector of the target cannot be written until it is repaired.
    WriteErrorStays,
    /// The target does not flush.
    FlushError,
    /// One flush of the target fails and loses its writes; the next one succeeds.
    FlushErrorOnce,
    /// Bytes that the source writes into device memory do not arrive, and every request succeeds.
    ReadsLost,
    /// Bytes that the target reads out of device memory are not those in it, and every request
    /// succeeds.
    WritesLost,
    /// Writes out of device memory change nothing, and every request succeeds.
    WholeWritesLost,
    /// The same begins at any operation after the proof.
    LostLater,
    /// A sector of the target keeps its old content, and every request succeeds.
    SectorLost,
    /// The kernel refuses the route.
    RouteRefused,
    /// The source is unplugged at any operation.
    SourceGone,
    /// The target is unplugged at any operation, and loses its cache.
    TargetGone,
    /// The device whose memory is used is unplugged at any operation.
    MemoryGone,
    /// A read is never answered.
    ReadStuck,
    /// A write is never answered.
    WriteStuck,
    /// A flush is never answered.
    FlushStuck,
    /// The target is full from a sector on.
    TargetFull,
    /// The source becomes shorter at any operation.
    SourceShrinks,
    /// Power is lost at any operation, several times in one copy.
    PowerCut,
    /// Power is lost at any change of a journal, a name or a length.
    PowerCutAtSave,
    /// The program is killed at any operation, several times in one copy.
    Killed,
    /// A person stops the copy at any operation.
    Stopped,
    /// The target cannot make zeroes by itself.
    ZeroRefused,
    /// The journal cannot be saved.
    JournalFull,
    /// The journal is damaged between two runs.
    JournalDamaged,
    /// A drive, a file or the content of the source is exchanged between two runs.
    Exchanged,
    /// A person changes options between two runs.
    OptionsChanged,
}

impl FaultKind {
    /// Every kind, in the order of the table.
    pub const ALL: [Self; 31] = [
        Self::None,
        Self::Difficult,
        Self::ReadErrorOnce,
        Self::ReadErrorStays,
        Self::WriteErrorOnce,
        Self::WriteErrorStays,
        Self::FlushError,
        Self::FlushErrorOnce,
        Self::ReadsLost,
        Self::WritesLost,
        Self::WholeWritesLost,
        Self::LostLater,
        Self::SectorLost,
        Self::RouteRefused,
        Self::SourceGone,
        Self::TargetGone,
        Self::MemoryGone,
        Self::ReadStuck,
        Self::WriteStuck,
        Self::FlushStuck,
        Self::TargetFull,
        Self::SourceShrinks,
        Self::PowerCut,
        Self::PowerCutAtSave,
        Self::Killed,
        Self::Stopped,
        Self::ZeroRefused,
        Self::JournalFull,
        Self::JournalDamaged,
        Self::Exchanged,
        Self::OptionsChanged,
    ];

    /// True when content is lost while every request succeeds: only verification finds that.
    pub(super) fn loses_silently(self) -> bool {
        matches!(self, Self::LostLater | Self::SectorLost)
    }

    /// The fault in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Difficult => "short completions, EAGAIN, EINTR, waits that end early",
            Self::ReadErrorOnce => "a sector of the source cannot be read, once",
            Self::ReadErrorStays => "a sector of the source cannot be read, until repaired",
            Self::WriteErrorOnce => "a sector of the target cannot be written, once",
            Self::WriteErrorStays => "a sector of the target cannot be written, until repaired",
            Self::FlushError => "the target does not flush",
            Self::FlushErrorOnce => "a flush of the target fails, and the next one succeeds",
            Self::ReadsLost => "what is read into device memory is lost, silently",
            Self::WritesLost => "what is written out of device memory is wrong, silently",
            Self::WholeWritesLost => "writes out of device memory are lost, silently",
            Self::LostLater => "the same from an operation after the proof on",
            Self::SectorLost => "a sector of the target keeps what it held, silently",
            Self::RouteRefused => "the kernel refuses the route",
            Self::SourceGone => "the source is unplugged",
            Self::TargetGone => "the target is unplugged, with its cache",
            Self::MemoryGone => "the device that lends memory is unplugged",
            Self::ReadStuck => "a read is never answered",
            Self::WriteStuck => "a write is never answered",
            Self::FlushStuck => "a flush is never answered",
            Self::TargetFull => "the target is full",
            Self::SourceShrinks => "the source becomes shorter",
            Self::PowerCut => "power is lost, several times",
            Self::PowerCutAtSave => "power is lost while a journal or a name changes",
            Self::Killed => "the program is killed, several times",
            Self::Stopped => "a person stops the copy",
            Self::ZeroRefused => "the target cannot make zeroes",
            Self::JournalFull => "the journal cannot be saved",
            Self::JournalDamaged => "the journal is damaged between two runs",
            Self::Exchanged => "an end is exchanged between two runs",
            Self::OptionsChanged => "options change between two runs",
        }
    }

    /// The flag of the example that selects it.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}
