//! Compares the bytes read, one by one, and hashes both sides.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::{ComparisonRequest, Digests, Mismatch, Verified};
use crate::io::request::Request;
use peerlane_units::Nanos;

/// Bytes of a mismatch that are kept.
const SHOWN: usize = 16;

/// State of a comparison so far.
pub(super) struct CompareTally {
    pub(super) verified: Verified,
    source_offset: u64,
    page: usize,
    source: Option<XxHash3_64>,
    /// The target's state from the first difference on; before it that of the source.
    target: Option<XxHash3_64>,
}

impl CompareTally {
    pub(super) fn new(comparison: &ComparisonRequest, page: u64) -> Self {
        let verified = Verified {
            bytes: 0,
            mismatches: 0,
            first: None,
            interrupted: false,
            comparing: Nanos(0),
            digests: None,
        };
        Self {
            verified,
            source_offset: comparison.source_offset,
            page: index(page),
            source: (comparison.digests == Digests::Made).then(XxHash3_64::new),
            target: None,
        }
    }

    /// Compares the bytes of a pair of requests; pairs come in the order of their offsets.
    pub(super) fn compare(&mut self, bytes: &[u8], pair: &[Request]) {
        let [source, target] = pair else { return };
        let part = |request: &Request| {
            let start = index(request.region_offset);
            &bytes[start..start + index(request.need)]
        };
        let (expected, found) = (part(source), part(target));
        self.verified.bytes += source.need;
        let is_same = expected == found;
        self.hash(expected, found, is_same);
        if is_same {
            return;
        }
        let pages = expected.chunks(self.page).zip(found.chunks(self.page));
        for (number, (expected, found)) in (0u64..).zip(pages) {
            if expected == found {
                continue;
            }
            self.verified.mismatches += 1;
            if self.verified.first.is_none() {
                let start = source.file_offset - self.source_offset;
                let offset = start + number * self.page as u64;
                self.verified.first = Mismatch::between(expected, found, offset);
            }
        }
    }

    fn hash(&mut self, expected: &[u8], found: &[u8], is_same: bool) {
        let Some(source) = &mut self.source else { return };
        if !is_same && self.target.is_none() {
            self.target = Some(source.clone());
        }
        source.write(expected);
        if let Some(target) = &mut self.target {
            target.write(found);
        }
    }

    pub(super) fn end(self) -> Verified {
        let digests = self.source.map(|source| {
            let source = source.finish();
            [source, self.target.map_or(source, |target| target.finish())]
        });
        Verified { digests, ..self.verified }
    }
}

impl Mismatch {
    fn between(expected: &[u8], found: &[u8], offset: u64) -> Option<Self> {
        let differs = |index: &usize| expected[*index] != found[*index];
        let first = (0..expected.len()).find(differs)?;
        let last = (0..expected.len()).rfind(differs)?;
        let shown = first..expected.len().min(first + SHOWN);
        Some(Self {
            offset: offset + first as u64,
            length: (last - first) as u64 + 1,
            source_bytes: expected[shown.clone()].to_vec(),
            target_bytes: found[shown].to_vec(),
        })
    }
}

/// A number that fits, since it counts bytes in memory.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
