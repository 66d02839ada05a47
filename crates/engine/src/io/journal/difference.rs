//! Differences between a journal and the present. Any of them forbids resuming.

use std::fmt;

use peerlane_units::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) use crate::io::failure::Role;

use super::{
    DeviceIdentity, FileIdentity, Identity, Journal, JournalOptions, JournalStages, PartitionRange,
};

/// An option that decides which byte goes where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyOption {
    /// Offset in the source at which the copy begins.
    SourceOffset,
    /// Offset in the target at which the copy begins.
    TargetOffset,
    /// Bytes to copy.
    Length,
}

impl fmt::Display for CopyOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SourceOffset => "offset in the source",
            Self::TargetOffset => "offset in the target",
            Self::Length => "length",
        })
    }
}

/// The ends, options and stages of the present run.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// The source that a person named.
    pub source: &'a Identity,
    /// The target as named; for an unfinished file next to it, that file.
    pub target: &'a Identity,
    /// Options that a person asked for.
    pub options: JournalOptions,
    /// The stages of the copy.
    pub staged: &'a JournalStages,
}

/// Something that is not as the journal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum JournalDifference {
    /// A file then and a device now, or the other way round.
    OtherKind {
        /// Source or target.
        role: Role,
        /// Kind in the journal.
        then: String,
        /// Kind now.
        now: String,
    },
    /// Another device, perhaps behind the same name.
    OtherDevice {
        /// Source or target.
        role: Role,
        /// Name of the device now.
        name: String,
        /// Name in the journal.
        then: String,
        /// Name now.
        now: String,
    },
    /// The device has nothing to be known by again.
    NoStableId {
        /// Source or target.
        role: Role,
        /// Name of the device.
        name: String,
    },
    /// The same device with another size.
    DeviceSize {
        /// Source or target.
        role: Role,
        /// Size in the journal.
        then: Bytes,
        /// Size now.
        now: Bytes,
    },
    /// Another part of the same device.
    OtherPartition {
        /// Source or target.
        role: Role,
        /// Partition in the journal; `None` for the whole device.
        then: Option<PartitionRange>,
        /// Partition now; `None` for the whole device.
        now: Option<PartitionRange>,
    },
    /// Another file, perhaps behind the same path, or on another file system.
    OtherFile {
        /// Source or target.
        role: Role,
        /// Path of the file now.
        path: String,
        /// True when it also lies on another file system.
        other_file_system: bool,
    },
    /// The source has another size.
    SourceSize {
        /// Size in the journal.
        then: Bytes,
        /// Size now.
        now: Bytes,
    },
    /// The content of the source was changed.
    SourceModified {
        /// Time of the last change that the journal has, nanoseconds since 1970, UTC.
        then_ns: i64,
        /// Time of the last change now, nanoseconds since 1970, UTC.
        now_ns: i64,
    },
    /// Size and time of modification of the source are as they were, but something was changed: its
    /// attributes, or its content with the time set back.
    SourceTouched {
        /// Time of the last change that the journal has, nanoseconds since 1970, UTC.
        then_ns: i64,
        /// Time of the last change now, nanoseconds since 1970, UTC.
        now_ns: i64,
    },
    /// The target ends before bytes that the journal says are in it.
    TargetCut {
        /// Bytes that it must have.
        needed: Bytes,
        /// Bytes that it has.
        now: Bytes,
    },
    /// Other bytes, or to another place.
    OptionChanged {
        /// The option.
        option: CopyOption,
        /// Value in the journal.
        then: Bytes,
        /// Value asked for now.
        now: Bytes,
    },
    /// Other stages, or other chunks.
    OtherStages {
        /// Stages in the journal.
        then: String,
        /// Stages asked for now.
        now: String,
    },
}

impl JournalDifference {
    /// Returns true if the target is another device or file than that of the journal.
    pub(crate) fn is_of_another_target(&self) -> bool {
        matches!(
            self,
            Self::OtherDevice { role: Role::Target, .. }
                | Self::OtherFile { role: Role::Target, .. }
        )
    }
}

impl fmt::Display for JournalDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Option<PartitionRange>| {
            part.map_or_else(|| "the whole device".to_owned(), |part| part.to_string())
        };
        match self {
            Self::OtherKind { role, then, now } => {
                write!(f, "the {role} was {then} and is {now}")
            }
            Self::OtherDevice { role, name, then, now } => {
                write!(f, "another device is behind the {role} {name}: it was {then}; it is {now}")
            }
            Self::NoStableId { role, name } => write!(
                f,
                "the {role} {name} has no serial, WWID, NGUID, EUI-64 or UUID to be known by again"
            ),
            Self::DeviceSize { role, then, now } => {
                write!(f, "the {role} had {} bytes and has {}", then.0, now.0)
            }
            Self::OtherPartition { role, then, now } => {
                write!(f, "the {role} was {} and is {}", part(then), part(now))
            }
            Self::OtherFile { role, path, other_file_system: false } => {
                write!(f, "the {role} {path} is another file than before")
            }
            Self::OtherFile { role, path, other_file_system: true } => {
                write!(f, "the {role} {path} lies on another file system than before")
            }
            Self::SourceSize { then, now } => {
                write!(f, "the source had {} bytes and has {}", then.0, now.0)
            }
            Self::SourceModified { .. } => {
                f.write_str("the source was modified after the copy began")
            }
            Self::SourceTouched { .. } => f.write_str(
                "the source was changed after the copy began: its attributes, or its content with \
                 the time of modification set back",
            ),
            Self::TargetCut { needed, now } => write!(
                f,
                "the target was cut: it has {} bytes, {} are done according to the journal",
                now.0, needed.0
            ),
            Self::OtherStages { then, now } => {
                write!(f, "the stages were {then} and are {now}")
            }
            Self::OptionChanged { option, then, now } => {
                write!(f, "the {option} was {} bytes and is {}", then.0, now.0)
            }
        }
    }
}

impl Journal {
    /// Lists differences from the journal; empty when the copy may be resumed.
    pub fn differences(&self, now: &Now<'_>) -> Vec<JournalDifference> {
        let mut found = Vec::new();
        compare_ends(Role::Source, &self.source, now.source, &mut found);
        compare_ends(Role::Target, &self.target, now.target, &mut found);
        self.compare_size_of_target(now.target, &mut found);
        compare_options(&self.options, &now.options, &mut found);
        if !self.staged.is_same_work(now.staged) {
            let (then, now) = (self.staged.to_string(), now.staged.to_string());
            found.push(JournalDifference::OtherStages { then, now });
        }
        found
    }

    fn compare_size_of_target(&self, now: &Identity, found: &mut Vec<JournalDifference>) {
        let Identity::File(file) = now else { return };
        if self.done.is_empty() {
            return;
        }
        let needed = Bytes(self.options.target_offset.0.saturating_add(self.done.end()));
        if file.size < needed {
            found.push(JournalDifference::TargetCut { needed, now: file.size });
        }
    }
}

fn compare_ends(role: Role, then: &Identity, now: &Identity, found: &mut Vec<JournalDifference>) {
    match (then, now) {
        (Identity::Device(then), Identity::Device(now)) => compare_devices(role, then, now, found),
        (Identity::File(then), Identity::File(now)) => compare_files(role, then, now, found),
        _ => found.push(JournalDifference::OtherKind {
            role,
            then: then.kind().to_owned(),
            now: now.kind().to_owned(),
        }),
    }
}

fn compare_devices(
    role: Role,
    then: &DeviceIdentity,
    now: &DeviceIdentity,
    found: &mut Vec<JournalDifference>,
) {
    if then.primary_id().is_none() || now.primary_id().is_none() {
        found.push(JournalDifference::NoStableId { role, name: now.name.clone() });
    } else if !then.is_same_device(now) {
        found.push(JournalDifference::OtherDevice {
            role,
            name: now.name.clone(),
            then: then.described_beside(now),
            now: now.described_beside(then),
        });
    }
    if then.size != now.size {
        found.push(JournalDifference::DeviceSize { role, then: then.size, now: now.size });
    }
    if then.partition != now.partition {
        found.push(JournalDifference::OtherPartition {
            role,
            then: then.partition,
            now: now.partition,
        });
    }
}

fn compare_files(
    role: Role,
    then: &FileIdentity,
    now: &FileIdentity,
    found: &mut Vec<JournalDifference>,
) {
    if !then.is_same_file(now) {
        let other_file_system = !then.is_same_file_system(now);
        let path = now.path.clone();
        found.push(JournalDifference::OtherFile { role, path, other_file_system });
    }
    if role == Role::Target {
        // The copy itself writes the target: its size and times tell nothing.
        return;
    }
    if then.size != now.size {
        found.push(JournalDifference::SourceSize { then: then.size, now: now.size });
    }
    if then.modified_ns != now.modified_ns {
        let (then_ns, now_ns) = (then.modified_ns, now.modified_ns);
        found.push(JournalDifference::SourceModified { then_ns, now_ns });
    } else if then.changed_ns != now.changed_ns {
        let (then_ns, now_ns) = (then.changed_ns, now.changed_ns);
        found.push(JournalDifference::SourceTouched { then_ns, now_ns });
    }
}

fn compare_options(
    then: &JournalOptions,
    now: &JournalOptions,
    found: &mut Vec<JournalDifference>,
) {
    let pairs = [
        (CopyOption::SourceOffset, then.source_offset, now.source_offset),
        (CopyOption::TargetOffset, then.target_offset, now.target_offset),
        (CopyOption::Length, then.length, now.length),
    ];
    for (option, then, now) in pairs {
        if then != now {
            found.push(JournalDifference::OptionChanged { option, then, now });
        }
    }
}
