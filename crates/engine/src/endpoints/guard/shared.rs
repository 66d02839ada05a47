//! Namespaces that another host can write to: by another controller, or as another host.
//!
//! NMIC only says that a namespace may be shared: every dual-port drive and every namespace of Linux's NVMe
//! target says so. Only a controller of another machine, or a reservation, counts.

use std::collections::BTreeSet;

use peerlane_results::{Refusal, Warning};

use super::{SurveyError, Surveyor, refuse, refuse_unless_forced};
use crate::endpoints::{Endpoint, Live, PathNode};
use crate::io::ring::{Sharing, is_no_answer, sharing};
use crate::io::system::System;

/// Returns refusals and warnings for a target that others can write to.
pub(super) fn check_target(
    system: &System,
    surveyor: &Surveyor<'_>,
    target: &Endpoint,
) -> (Vec<Refusal>, Vec<Warning>) {
    let nothing = (Vec::new(), Vec::new());
    let Some(live) = target.live.as_ref().filter(|live| live.node == PathNode::Block) else {
        return nothing;
    };
    let Some(device) = &live.device else { return nothing };
    let disk = device.partition.as_ref().map_or(&device.name, |part| &part.disk);
    let controllers = system.controllers_of(disk);
    // Only NVMe has this, and only a namespace that is there on this machine can be asked.
    if controllers.is_empty() || surveyor.is_stuck() {
        return nothing;
    }
    // The kernel answers for no partition.
    let whole = Live { path: live.guarded_path().with_file_name(disk), ..live.clone() };
    let asked = surveyor.open(&whole).map_err(|error| match error {
        SurveyError::Open(error) => error,
        other => std::io::Error::other(other),
    });
    match asked.and_then(|opened| sharing(&opened.file, surveyor.deadline())) {
        Ok(sharing) => judge(&target.facts.path, &sharing, &numbers_of(system, &controllers)),
        Err(error) if is_no_answer(&error) => nothing,
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            surveyor.note_stuck();
            let reason = format!("{} does not answer: {error}", target.facts.path);
            let hint = "`dmesg | tail` names the drive; `--timeout` sets the wait".to_owned();
            (vec![refuse(reason, Some(hint))], Vec::new())
        }
        Err(error) => {
            tracing::info!(%error, disk, "cannot tell who else can write to it");
            nothing
        }
    }
}

/// Identifiers of controllers in their subsystem.
fn numbers_of(system: &System, controllers: &BTreeSet<String>) -> BTreeSet<u16> {
    let number =
        |name: &String| system.line(&format!("sys/class/nvme/{name}/cntlid"))?.parse().ok();
    controllers.iter().filter_map(number).collect()
}

fn judge(path: &str, sharing: &Sharing, own: &BTreeSet<u16>) -> (Vec<Refusal>, Vec<Warning>) {
    let (mut refusals, mut warnings) = (Vec::new(), Vec::new());
    let foreign = |all: &[u16]| -> Vec<String> {
        all.iter().filter(|id| !own.contains(id)).map(ToString::to_string).collect()
    };
    if let Some(reservation) = &sharing.reservation {
        let holders = foreign(&reservation.holders);
        if !holders.is_empty() || reservation.holders.is_empty() {
            let by = match holders.as_slice() {
                [] => "a host that is not connected".to_owned(),
                some => format!("the host of controller {}", some.join(", ")),
            };
            let kind = reservation.kind_in_words();
            refusals.push(refuse(
                format!("{path} is reserved ({kind}) by {by}, which is not this machine"),
                Some(format!("nvme resv-report {path} --eds")),
            ));
        }
    }
    match &sharing.controllers {
        _ if !sharing.is_shared => {}
        Some(all) => {
            let others = foreign(all);
            if !others.is_empty() && !own.is_empty() {
                refusals.push(refuse_unless_forced(
                    format!(
                        "{path} is a shared namespace: controller {}, not of this machine, can write to \
                         it, too",
                        others.join(", ")
                    ),
                    "`--force` does not ask who uses it; `nvme list-ctrl` of the drive shows them".to_owned(),
                ));
            }
        }
        None => warnings.push(Warning::SharedTarget { path: path.to_owned() }),
    }
    (refusals, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ring::Reservation;

    fn judged(sharing: &Sharing) -> (Vec<(bool, String)>, usize) {
        let (refusals, warnings) = judge("/dev/nvme1n1", sharing, &BTreeSet::from([1, 2]));
        let said = refusals.into_iter().map(|one| (one.forceable, one.reason)).collect();
        (said, warnings.len())
    }

    fn shared(controllers: Option<Vec<u16>>) -> Sharing {
        Sharing { is_shared: true, controllers, reservation: None }
    }

    #[test]
    fn private_namespaces_are_free() {
        assert_eq!(judged(&Sharing::default()), (Vec::new(), 0));
        assert_eq!(judged(&shared(Some(vec![1, 2]))), (Vec::new(), 0), "both are ours");
    }

    #[test]
    fn foreign_controllers_refuse_a_shared_namespace() {
        let (refusals, warnings) = judged(&shared(Some(vec![1, 5])));
        assert_eq!((refusals.len(), refusals[0].0, warnings), (1, true, 0));
        assert!(refusals[0].1.contains("controller 5"), "{refusals:?}");
    }

    #[test]
    fn silent_drives_with_shared_namespaces_warn() {
        assert_eq!(judged(&shared(None)), (Vec::new(), 1));
    }

    #[test]
    fn reservations_of_other_hosts_are_never_forced() {
        let reserved = |holders| Sharing {
            reservation: Some(Reservation { kind: 1, holders }),
            ..Sharing::default()
        };
        for holders in [vec![5], vec![1, 5], Vec::new()] {
            let (refusals, _) = judged(&reserved(holders));
            assert_eq!((refusals.len(), refusals[0].0), (1, false));
        }
        assert_eq!(judged(&reserved(vec![2])), (Vec::new(), 0), "this machine holds it");
    }
}
