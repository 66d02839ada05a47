//! Content of a device, in words that are safe to print.
//!
//! Labels and identifiers are bytes that anybody may have written. They are cleaned when a
//! [`DeviceContent`] is made: control characters, escape sequences and changes of writing direction
//! become visible escapes.

use std::fmt::{self, Write};

use super::phrases;

/// Most characters of a label or an identifier, escapes counted in full.
const MAX_CHARACTERS: usize = 128;

/// The use of a kind of content, as libblkid groups them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentUsage {
    /// A file system.
    FileSystem,
    /// A member of an array, a pool or a volume group.
    Raid,
    /// An encrypted volume.
    Crypto,
    /// Something else: swap space, a cache, a log, an image of a virtual disk.
    Other,
    /// A table of partitions.
    PartitionTable,
}

impl ContentUsage {
    /// The group that libblkid names.
    pub(super) fn from_name(name: &[u8]) -> Self {
        match name {
            b"filesystem" => Self::FileSystem,
            b"raid" => Self::Raid,
            b"crypto" => Self::Crypto,
            _ => Self::Other,
        }
    }
}

/// State of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// Right, absent or not looked at.
    NotWrong,
    /// Wrong: the content is damaged, or only looks like its kind.
    Wrong,
}

/// Something that a device carries; prints as a phrase, such as `an ext4 file system labelled "data"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceContent {
    kind: String,
    usage: ContentUsage,
    label: Option<String>,
    uuid: Option<String>,
    checksum: Checksum,
}

impl DeviceContent {
    pub(super) fn new(kind: &[u8], usage: ContentUsage) -> Option<Self> {
        let kind = clean(kind)?;
        Some(Self { kind, usage, label: None, uuid: None, checksum: Checksum::NotWrong })
    }

    pub(super) fn with_label(self, label: Option<&[u8]>) -> Self {
        Self { label: label.and_then(clean), ..self }
    }

    pub(super) fn with_uuid(self, uuid: Option<&[u8]>) -> Self {
        Self { uuid: uuid.and_then(clean), ..self }
    }

    pub(super) fn with_wrong_checksum(self) -> Self {
        Self { checksum: Checksum::Wrong, ..self }
    }

    /// The type by libblkid's name: `ext4`, `LVM2_member`, `gpt`. Kinds that it has no name for are named alike.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its use.
    pub fn usage(&self) -> ContentUsage {
        self.usage
    }

    /// The label that a person gave it, with escapes for characters that are not safe to print.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The identifier: a UUID, a serial number of a volume, the identifier of a partition table.
    pub fn uuid(&self) -> Option<&str> {
        self.uuid.as_deref()
    }

    /// State of its checksum.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// The kind as a phrase, without label and identifier: `an ext4 file system`.
    pub fn phrase(&self) -> String {
        phrases::phrase(&self.kind, self.usage)
    }
}

impl fmt::Display for DeviceContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.phrase())?;
        if let Some(label) = &self.label {
            write!(f, " labelled \"{label}\"")?;
        }
        if let Some(uuid) = &self.uuid {
            let word =
                if self.usage == ContentUsage::PartitionTable { "identifier" } else { "UUID" };
            write!(f, ", {word} {uuid}")?;
        }
        if self.checksum == Checksum::Wrong {
            f.write_str(", with a wrong checksum")?;
        }
        Ok(())
    }
}

/// Text up to the first zero byte, without blanks around it, safe to print between double quotes; `None` where nothing
/// is left.
fn clean(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let mut text = String::new();
    for chunk in bytes[..end].trim_ascii().utf8_chunks() {
        chunk.valid().chars().for_each(|character| push_escaped(&mut text, character));
        for byte in chunk.invalid() {
            // Writing to a text cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS) {
        text.truncate(end);
        text.push_str("...");
    }
    (!text.is_empty()).then_some(text)
}

/// A character as it is when it is plain; the others as Rust writes them: `\u{1b}`, `\n`, `\"`.
fn push_escaped(text: &mut String, character: char) {
    match character {
        '\'' => text.push('\''),
        _ => text.extend(character.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(label: &[u8]) -> DeviceContent {
        let content = DeviceContent::new(b"ext4", ContentUsage::FileSystem).expect("a kind");
        content.with_label(Some(label))
    }

    #[test]
    fn content_prints_label_and_identifier() {
        let content = labelled(b"data").with_uuid(Some(b"0123-abcd"));
        assert_eq!(content.to_string(), "an ext4 file system labelled \"data\", UUID 0123-abcd");
        let table = DeviceContent::new(b"gpt", ContentUsage::PartitionTable).expect("a kind");
        let table = table.with_uuid(Some(b"77")).with_wrong_checksum();
        let expected = "a GPT partition table, identifier 77, with a wrong checksum";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn hostile_label_prints_escaped() {
        let hostile =
            "\x1b]0;x\x07\r\n\"q\"\\ \u{202e}\u{200b}\u{2028}\u{feff}\u{85}\u{9b}z".as_bytes();
        let content = labelled(hostile);
        let label = content.label().expect("a label");
        assert!(label.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{label}");
        assert!(label.starts_with(r"\u{1b}]0;x\u{7}\r\n\"), "{label}");
        assert_eq!(labelled(b"a\xff\x9bz").label(), Some(r"a\xff\x9bz"));
        assert_eq!(labelled("Gr\u{fc}n \u{6f22}".as_bytes()).label(), Some("Gr\u{fc}n \u{6f22}"));
    }

    #[test]
    fn long_label_is_cut() {
        let content = labelled(&[0x1b; 4096]);
        assert_eq!(content.label().map(str::len), Some(MAX_CHARACTERS + 3));
    }

    #[test]
    fn blank_label_is_none() {
        for blank in [b"".as_slice(), b"  \n", b"\0data"] {
            assert_eq!(labelled(blank).label(), None);
        }
        assert_eq!(labelled(b"  a b \0c").label(), Some("a b"));
    }
}
