//! Adds the totals of the lab's recorder of DMA to records of the runs that it watched.
//!
//! The recorder has one total from the begin of the guest's command to its end, and no marks between cases.
//! So it is judged against all payload of all records together, and only where all of that took one route:
//! a total without a byte of the other is one for each run.

use peerlane_results::{BenchRecord, BytesByRoute, CaseRecord, RouteVerdict};
use peerlane_units::Bytes;

use peerlane_evidence::{DmaTally, least_certain, verdict};

/// Reasons why a recorder's total cannot be attached to records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecorderAttachError {
    /// There is nothing that could have been watched.
    #[error("there is no run to attach it to")]
    NoRuns,
    /// A record that was not measured in the lab; it has no recorder.
    #[error("the record `{0}` is not of an emulated machine")]
    NotEmulated(String),
    /// Runs that are in the total and in no record.
    #[error("runs of `{0}` that warmed up are in the recorder's total and not in the record")]
    WarmUp(String),
    /// A total over both routes belongs to neither.
    #[error("the recorder has one total, and there are runs of both routes")]
    BothRoutes,
    /// The runs are no results.
    #[error("the route is contradicted by {looked_at}: {showed}")]
    Contradicted {
        /// Place that was looked at.
        looked_at: String,
        /// Finding there.
        showed: String,
    },
}

impl RecorderAttachError {
    /// Returns advice for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoRuns | Self::Contradicted { .. } => None,
            Self::NotEmulated(_) => Some("`peerlane lab run --dma FILE -- COMMAND` has a recorder"),
            Self::WarmUp(_) => Some("measure with `--warm-up 0`"),
            Self::BothRoutes => Some("measure each route in a `lab run` of its own"),
        }
    }
}

/// Adds the total to every run of all the records that were measured while it was taken.
///
/// # Errors
/// Where the total cannot be told apart, or contradicts the runs; nothing is changed then.
pub fn attach(records: &mut [BenchRecord], tally: &DmaTally) -> Result<(), RecorderAttachError> {
    for record in records.iter() {
        let name = || record.asked.name.clone();
        if record.basis != peerlane_results::Basis::Emulated {
            return Err(RecorderAttachError::NotEmulated(name()));
        }
        if record.asked.repeats.warm_up > 0 {
            return Err(RecorderAttachError::WarmUp(name()));
        }
    }
    let all = || records.iter().flat_map(|record| &record.cases);
    let sum = |of: fn(&BytesByRoute) -> Bytes| {
        Bytes(all().map(|run| of(&run.bytes_by_route).0).fold(0, u64::saturating_add))
    };
    let asked = BytesByRoute { p2p: sum(|one| one.p2p), host: sum(|one| one.host) };
    if asked == BytesByRoute::default() {
        return Err(RecorderAttachError::NoRuns);
    }
    if asked.p2p > Bytes::ZERO && asked.host > Bytes::ZERO {
        return Err(RecorderAttachError::BothRoutes);
    }
    let mut found = tally.evidence(asked);
    if found.says == RouteVerdict::Contradicted {
        let (looked_at, showed) = (found.evidence.looked_at, found.evidence.showed);
        return Err(RecorderAttachError::Contradicted { looked_at, showed });
    }
    let count = all().count();
    found.evidence.showed = format!("{} in all {count} runs together", found.evidence.showed);
    let is_one = count == 1;
    for record in records {
        for run in &mut record.cases {
            run.evidence.retain(|item| item.evidence.looked_at != found.evidence.looked_at);
            run.evidence.push(found.clone());
            run.verdict = verdict(&run.evidence);
            let total = tally.host_memory();
            if is_one || total.bytes == Some(Bytes::ZERO) {
                run.host_memory = total;
            }
        }
        sum_up(record);
    }
    Ok(())
}

fn sum_up(record: &mut BenchRecord) {
    for summary in &mut record.summaries {
        let own = || record.cases.iter().filter(|run| run.asked.name == summary.case);
        summary.verdict = least_certain(own().map(|run| run.verdict));
        let counted = |run: &CaseRecord| run.host_memory.bytes.map(|bytes| bytes.0);
        let host: Option<u64> = own().map(counted).sum();
        let payload: u64 = own().map(|run| run.bytes.0).sum();
        summary.host_bytes_per_byte =
            host.filter(|_| payload > 0).map(|host| host as f64 / payload as f64);
    }
}

#[cfg(test)]
mod tests {
    use peerlane_results::{Basis, Path};

    use super::*;
    use crate::testing;

    fn watched(path: Path) -> BenchRecord {
        let mut record = testing::record(&[("one", vec![1e9, 1e9])]);
        record.basis = Basis::Emulated;
        record.asked.repeats.warm_up = 0;
        let time = peerlane_units::Nanos::seconds(1);
        record.cases = vec![testing::run("one", path, Bytes(1000), time); 2];
        record
    }

    fn tally(host: u64, peer: u64) -> DmaTally {
        DmaTally {
            guest_memory_bytes: Bytes(host),
            peer_bytes: Bytes(peer),
            unknown_bytes: Bytes(0),
        }
    }

    #[test]
    fn single_route_total_shows_every_run() {
        let mut records = [watched(Path::P2p), watched(Path::P2p)];
        attach(&mut records, &tally(0, 8000)).unwrap();
        for run in records.iter().flat_map(|record| &record.cases) {
            assert_eq!((run.verdict, run.host_memory.bytes), (RouteVerdict::Shown, Some(Bytes(0))));
        }
        attach(&mut records, &tally(0, 8000)).unwrap();
        assert_eq!(records[0].cases[0].evidence.len(), 1, "it is there once");
    }

    #[test]
    fn a_total_that_does_not_fit_changes_nothing() {
        let mut records = [watched(Path::P2p)];
        let before = records.clone();
        let found = attach(&mut records, &tally(4, 4000));
        assert!(matches!(found, Err(RecorderAttachError::Contradicted { .. })), "{found:?}");
        assert!(records == before);
        let mut both = [watched(Path::P2p), watched(Path::HostPipelined)];
        assert_eq!(attach(&mut both, &tally(4000, 4000)), Err(RecorderAttachError::BothRoutes));
        let mut warm = [watched(Path::P2p)];
        warm[0].asked.repeats.warm_up = 1;
        assert!(matches!(attach(&mut warm, &tally(0, 4000)), Err(RecorderAttachError::WarmUp(_))));
        assert_eq!(attach(&mut [], &tally(0, 0)), Err(RecorderAttachError::NoRuns));
    }
}
