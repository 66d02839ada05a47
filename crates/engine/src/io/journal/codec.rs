//! A journal as text, and back.
//!
//! The text is one JSON object: schema, checksum, and the journal, whose bytes the checksum covers as
//! they stand. The checksum is XXH3 with 64 bits (`twox-hash`: MIT, no dependency of its own, no build
//! script; a 32-bit CRC would let one torn file in four thousand million pass). It finds torn and
//! edited files, but is not a signature: the store checks who may write the file.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use twox_hash::XxHash3_64;

use super::{JOURNAL_SCHEMA, Journal, JournalError};

/// Largest journal that is read or written, in bytes: several times a full set of ranges.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize)]
struct WrittenJournal<'a> {
    schema: &'a str,
    checksum: &'a str,
    journal: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read<'a> {
    #[serde(rename = "schema")]
    _schema: IgnoredAny,
    checksum: String,
    #[serde(borrow)]
    journal: &'a RawValue,
}

/// The part that tells the format of the rest, which may be of another version.
#[derive(Deserialize)]
struct JournalHeader {
    schema: String,
}

/// Writes a journal as text.
///
/// # Errors
/// `JournalError::Contradiction` when the journal could not be read back;
/// `JournalError::TooLong` when it is larger than `JOURNAL_BYTES_MAX`.
pub fn encode(journal: &Journal) -> Result<Vec<u8>, JournalError> {
    journal.check().map_err(JournalError::Contradiction)?;
    let content = serde_json::value::to_raw_value(journal).map_err(JournalError::Malformed)?;
    let checksum = checksum(content.get());
    let whole = WrittenJournal { schema: JOURNAL_SCHEMA, checksum: &checksum, journal: &content };
    let mut text = serde_json::to_vec(&whole).map_err(JournalError::Malformed)?;
    text.push(b'\n');
    let size = text.len() as u64;
    if size > JOURNAL_BYTES_MAX {
        return Err(JournalError::TooLong { size, limit: JOURNAL_BYTES_MAX });
    }
    Ok(text)
}

/// Reads a journal from text of any writer.
///
/// # Errors
/// `JournalError::Malformed`, `JournalError::Schema`, `JournalError::Checksum` and
/// `JournalError::Contradiction`.
pub fn decode(text: &[u8]) -> Result<Journal, JournalError> {
    let header: JournalHeader = serde_json::from_slice(text).map_err(JournalError::Malformed)?;
    if header.schema != JOURNAL_SCHEMA {
        return Err(JournalError::Schema { found: header.schema, known: JOURNAL_SCHEMA });
    }
    let whole: Read<'_> = serde_json::from_slice(text).map_err(JournalError::Malformed)?;
    let computed = checksum(whole.journal.get());
    if whole.checksum != computed {
        return Err(JournalError::Checksum { found: whole.checksum, computed });
    }
    let journal: Journal =
        serde_json::from_str(whole.journal.get()).map_err(JournalError::Malformed)?;
    journal.check().map_err(JournalError::Contradiction)?;
    Ok(journal)
}

fn checksum(content: &str) -> String {
    format!("xxh3-64:{:016x}", XxHash3_64::oneshot(content.as_bytes()))
}
