//! Answers of cuFile about itself and its route, as evidence for a record.

use std::fs::File;
use std::io;
use std::ops::Range;

use peerlane_memory::cufile::{Counted, CuFileSession, Mode, Version};
use peerlane_results::{Evidence, Route, RouteEvidence, RouteVerdict};

use crate::io::extents;

/// The counters, which are the library's word on each request.
pub(crate) fn counters(counted: &Counted, route: Route) -> RouteEvidence {
    let showed = match counted {
        Ok(counts) => format!("{counts}, which is the library's word"),
        Err(none) => none.to_string(),
    };
    let evidence = Evidence { looked_at: "cuFile's counters of this process".to_owned(), showed };
    evidence.says(verdict(counted, route))
}

fn verdict(counted: &Counted, route: Route) -> RouteVerdict {
    let Ok(counts) = counted else { return RouteVerdict::NotKnown };
    let direct = counts.p2pdma.saturating_add(counts.nvidia_fs);
    let (by_route, others) = match route {
        Route::P2p => (direct, counts.posix),
        Route::Host => (counts.posix, direct),
    };
    match (by_route, others) {
        (0, 0) => RouteVerdict::NotKnown,
        // The library's word is no proof.
        (_, 0) => RouteVerdict::Consistent,
        _ => RouteVerdict::Contradicted,
    }
}

/// Direct ways that the library has switched on, though requests need not take them; `None` if it
/// does not tell.
pub(crate) fn flags(session: &CuFileSession) -> Option<RouteEvidence> {
    let flags = session.p2p_flags();
    if flags.is_empty() {
        return None;
    }
    let version = session.version().map(|version| format!(" {version}")).unwrap_or_default();
    let all: Vec<String> = flags.iter().map(|(kind, flags)| format!("{kind}: {flags}")).collect();
    let looked_at = format!("the P2P flags of cuFile{version}");
    Some(Evidence { looked_at, showed: all.join("; ") }.says(RouteVerdict::NotKnown))
}

/// True when the library reads holes through host memory, whatever its mode is.
pub(crate) fn reads_holes_by_host(session: &CuFileSession) -> bool {
    let is_new = session.version().is_some_and(|version| version >= Version::HOLES_BY_HOST);
    session.mode() == Mode::P2pdma && is_new
}

/// True when reads of a range by this session touch a hole and go through host memory for that.
///
/// # Errors
/// When the file does not tell about itself.
pub(crate) fn meets_hole(
    session: &CuFileSession,
    file: &File,
    within: Range<u64>,
) -> io::Result<bool> {
    Ok(reads_holes_by_host(session) && extents::has_hole(file, within)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RouteVerdict::{Consistent, Contradicted, NotKnown};
    use peerlane_memory::cufile::{Counts, NoCounter};

    #[test]
    fn counters_judge_the_route_asked_for() {
        let counts = |p2pdma, posix| Ok(Counts { p2pdma, posix, ..Counts::default() });
        for (counted, p2p, host) in [
            (counts(3, 0), Consistent, Contradicted),
            (counts(3, 1), Contradicted, Contradicted),
            (counts(0, 2), Contradicted, Consistent),
            (counts(0, 0), NotKnown, NotKnown),
            (Err(NoCounter::Absent), NotKnown, NotKnown),
        ] {
            assert_eq!(counters(&counted, Route::P2p).says, p2p, "{counted:?}");
            assert_eq!(counters(&counted, Route::Host).says, host, "{counted:?}");
        }
    }
}
