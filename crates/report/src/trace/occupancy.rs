//! Times at which each slot of a memory was in use.

use std::collections::BTreeMap;

use peerlane_results::{Action, Span, Trace};

/// A slot with a block in it, or memory under a request that does not carry payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied {
    /// Index into [`Trace::memories`].
    pub memory: usize,
    /// The slot; `None` for a proof, a check, a tail or zeroes.
    pub slot: Option<u64>,
    /// Offset in the source of its first content, in bytes.
    pub offset: u64,
    /// From the submission of the read to the end of the last write out of it.
    pub span: Span,
}

/// Returns the times at which each slot was in use, in the order of their starts.
pub fn occupied(trace: &Trace) -> Vec<Occupied> {
    let mut requests: Vec<_> = trace.requests.iter().collect();
    requests.sort_by_key(|one| one.span.begin);
    let mut open: BTreeMap<(usize, u64), Occupied> = BTreeMap::new();
    let mut ended = Vec::new();
    for request in requests {
        let Some(memory) = request.memory else { continue };
        let (slot, offset, span) = (request.slot, request.offset, request.span);
        let now = Occupied { memory, slot, offset, span };
        let Some(number) = slot else {
            ended.push(now);
            continue;
        };
        match open.get_mut(&(memory, number)) {
            Some(one) if request.action != Action::Read || span.begin < one.span.end => {
                one.span.end = one.span.end.max(span.end);
            }
            _ => ended.extend(open.insert((memory, number), now)),
        }
    }
    ended.extend(open.into_values());
    ended.sort_by_key(|one| one.span.begin);
    ended
}
