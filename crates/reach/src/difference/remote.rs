//! Drives of other machines: connected, lost, or in another state.

use peerlane_fabric::{Fabric, Origin, RemoteDrive, capture};

use super::collector::Collector;
use super::{ChangeEffect, ChangeKind, UncomparedReason};

/// State of a connection that works.
const LIVE: &str = "live";

/// Compares the drives of both machines.
pub(super) fn compare(found: &mut Collector, before: &Fabric, after: &Fabric) {
    match (shows_drives(before), shows_drives(after)) {
        (true, true) => drives(found, &before.remote_drives, &after.remote_drives),
        (false, true) if !after.remote_drives.is_empty() => {
            found.uncompared(ChangeKind::RemoteDrive, UncomparedReason::UnknownBefore, None);
        }
        (true, false) if !before.remote_drives.is_empty() => {
            found.uncompared(ChangeKind::RemoteDrive, UncomparedReason::UnknownAfter, None);
        }
        _ => {}
    }
}

/// Returns whether a machine without such drives has none, rather than not showing them.
fn shows_drives(fabric: &Fabric) -> bool {
    matches!(fabric.origin, Origin::ThisMachine | Origin::Tree(_))
        || !fabric.remote_drives.is_empty()
}

fn drives(found: &mut Collector, before: &[RemoteDrive], after: &[RemoteDrive]) {
    // Names that a capture made up mean nothing beside those of another machine.
    let by_name = before.iter().chain(after).any(is_scrubbed);
    let is_same = |one: &RemoteDrive, other: &RemoteDrive| {
        if by_name { one.name == other.name } else { one.location == other.location }
    };
    let kind = ChangeKind::RemoteDrive;
    for one in before {
        let Some(other) = after.iter().find(|other| is_same(one, other)) else {
            found.change((kind, ChangeEffect::Worse), Some(in_words(one)), None, None);
            continue;
        };
        let (Some(then), Some(now)) = (&one.state, &other.state) else { continue };
        if then != now {
            let is_live = [then, now].map(|state| state == LIVE);
            let effect = ChangeEffect::of_growth(&is_live[0], &is_live[1]);
            let before = format!("{} {then}", in_words(one));
            found.change((kind, effect), Some(before), Some(now.clone()), None);
        }
    }
    for other in after {
        if !before.iter().any(|one| is_same(one, other)) {
            found.change((kind, ChangeEffect::Neutral), None, Some(in_words(other)), None);
        }
    }
}

fn is_scrubbed(drive: &RemoteDrive) -> bool {
    drive.location.subsystem.as_deref().is_some_and(capture::is_made_up_subsystem)
}

fn in_words(drive: &RemoteDrive) -> String {
    let location = &drive.location;
    let address = location.address().map(|address| format!(" at {address}"));
    let subsystem = location.subsystem.as_ref().map(|nqn| format!(" ({nqn})"));
    let more = [address, subsystem].into_iter().flatten().collect::<String>();
    format!("{} over {}{more}", drive.name, location.transport)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use peerlane_fabric::NetworkLocation;

    use super::super::{MachineChange, MachineDifference};
    use super::*;

    fn drive(name: &str, subsystem: &str, state: &str) -> RemoteDrive {
        RemoteDrive {
            name: name.to_owned(),
            location: NetworkLocation {
                transport: "tcp".to_owned(),
                host: Some("10.0.0.1".to_owned()),
                port: Some("4420".to_owned()),
                subsystem: Some(subsystem.to_owned()),
                interface: None,
            },
            state: Some(state.to_owned()),
            namespaces: Vec::new(),
        }
    }

    fn machine(drives: Vec<RemoteDrive>) -> Fabric {
        let fabric = Fabric::from_toml("name = 'm'").expect("a machine");
        Fabric { origin: Origin::Tree(PathBuf::new()), remote_drives: drives, ..fabric }
    }

    fn changes(before: &Fabric, after: &Fabric) -> Vec<MachineChange> {
        let found = MachineDifference::new(before, after).changes;
        found.into_iter().filter(|one| one.kind == ChangeKind::RemoteDrive).collect()
    }

    #[test]
    fn connected_and_lost_drives_are_changes() {
        let (none, one) = (machine(Vec::new()), machine(vec![drive("nvme5", "nqn.a", "live")]));
        let words = "nvme5 over tcp at 10.0.0.1:4420 (nqn.a)".to_owned();
        let found = changes(&none, &one);
        assert_eq!((&found[0].before, &found[0].after), (&None, &Some(words.clone())));
        assert_eq!((found.len(), found[0].effect), (1, ChangeEffect::Neutral));
        let found = changes(&one, &none);
        assert_eq!((&found[0].before, &found[0].after), (&Some(words), &None));
        assert_eq!((found.len(), found[0].effect), (1, ChangeEffect::Worse));
    }

    #[test]
    fn renamed_controller_is_the_same_drive() {
        let before = machine(vec![drive("nvme5", "nqn.a", "live")]);
        let after = machine(vec![drive("nvme7", "nqn.a", "live")]);
        assert_eq!(changes(&before, &after), []);
    }

    #[test]
    fn state_that_is_lost_is_worse() {
        let before = machine(vec![drive("nvme5", "nqn.a", "live")]);
        let after = machine(vec![drive("nvme5", "nqn.a", "connecting")]);
        let found = changes(&before, &after);
        assert_eq!(
            (found[0].effect, found[0].after.as_deref()),
            (ChangeEffect::Worse, Some("connecting"))
        );
        assert_eq!(changes(&after, &before)[0].effect, ChangeEffect::Better);
    }

    #[test]
    fn scrubbed_names_are_no_change() {
        let live = machine(vec![drive("nvme5", "nqn.a", "live")]);
        let captured = machine(vec![drive("nvme5", "nqn-1", "live")]);
        assert_eq!(changes(&live, &captured), []);
    }

    #[test]
    fn text_without_drives_is_not_compared() {
        let text = Fabric { origin: Origin::Text, ..machine(Vec::new()) };
        let one = machine(vec![drive("nvme5", "nqn.a", "live")]);
        assert_eq!(changes(&text, &one), []);
        let found = MachineDifference::new(&text, &one).uncompared;
        let reason = found.iter().find(|fact| fact.kind == ChangeKind::RemoteDrive);
        assert_eq!(reason.map(|fact| fact.reason), Some(UncomparedReason::UnknownBefore));
    }
}
