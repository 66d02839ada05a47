//! Functions that come, go and move, and that are known again.

use peerlane_fabric::{Bdf, Fabric, RootBus};
use peerlane_reach::ChangeEffect::{Neutral, Worse};
use peerlane_reach::{ChangeKind, MachineDifference, MapType};
use proptest::prelude::*;

use super::{difference, kinds, machine, pairs, text, with};
use crate::random;

/// The text of one function in the machine.
fn block(name: &str) -> String {
    let text = text();
    let (_, rest) = text.split_once(&format!("[[function]]\nname = '{name}'\n")).unwrap();
    let end = rest.find("[[function]]").unwrap_or(rest.len());
    format!("[[function]]\nname = '{name}'\n{}", &rest[..end])
}

#[test]
fn functions_change_with_their_subtree() {
    let gone = with(&[(&block("other"), "")]);
    let found = difference(&gone);
    assert_eq!(kinds(&found), [(ChangeKind::Removed, Worse)]);
    let back = MachineDifference::new(&gone, &machine());
    assert_eq!(kinds(&back), [(ChangeKind::Added, Neutral)]);
    let card = [&block("other")[..], &block("0000:00:03.0")];
    let found = difference(&with(&[(card[0], ""), (card[1], "")]));
    assert_eq!(found.changes[0].functions.len(), 2, "{found:#?}");
}

#[test]
fn functions_missing_from_text_stay() {
    let mut partial = with(&[(&block("other"), "")]);
    partial.bridges[0].root_bus = RootBus::Partial;
    let found = difference(&partial);
    assert_eq!(found.changes, []);
    assert_eq!(found.uncompared[0].kind, ChangeKind::Removed);
    let back = MachineDifference::new(&partial, &machine());
    assert_eq!((back.changes.len(), back.uncompared[0].kind), (0, ChangeKind::Added));
}

#[test]
fn products_in_cut_texts_are_not_matched() {
    // One text lacks the first of two equal cards, the other one the second.
    let cut = |name: &str| {
        let mut fabric = with(&[(&block(name), "")]);
        fabric.bridges[0].root_bus = RootBus::Partial;
        fabric
    };
    let found = MachineDifference::new(&cut("one"), &cut("two"));
    assert_eq!(found.changes, [], "neither moved");
    let kinds: Vec<ChangeKind> = found.uncompared.iter().map(|fact| fact.kind).collect();
    assert_eq!(kinds, [ChangeKind::Removed, ChangeKind::Added]);
}

#[test]
fn moved_drives_match_by_serial() {
    let swapped = with(&[("'S1'", "'S3'"), ("'S2'", "'S1'"), ("'S3'", "'S2'")]);
    let found = difference(&swapped);
    let moved = (ChangeKind::Moved, Neutral);
    // The IOMMU type of each is known at one place alone.
    assert_eq!(kinds(&found), [moved, moved]);
    let change = &found.changes[0];
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    assert!(before != after && before.is_some_and(|at| at.starts_with("0000:0")), "{change:?}");
    let made_up = [("'S1'", "'serial-1'"), ("'S2'", "'serial-2'")];
    let hidden = with(&made_up);
    let hidden_swapped = with(&[("'S1'", "'serial-2'"), ("'S2'", "'serial-1'")]);
    assert_eq!(MachineDifference::new(&hidden, &hidden_swapped).changes, []);
}

#[test]
fn exchanged_drive_is_removal_and_addition() {
    let found = difference(&with(&[("'S1'", "'S9'")]));
    assert_eq!(kinds(&found), [(ChangeKind::Removed, Worse), (ChangeKind::Added, Neutral)]);
}

/// The NIC in the place of the second drive, and the drive gone.
fn nic_at_a_root_port() -> Fabric {
    let nic = block("net").replace("0000:02:02.0", "0000:00:03.0").replace("0000:05:", "0000:07:");
    let fabric = with(&[(&block("net"), ""), (&block("other"), "")]);
    let text = format!("{}{nic}", fabric.to_toml());
    Fabric::from_toml(&text).unwrap()
}

#[test]
fn moved_cards_keep_old_verdicts() {
    let found = difference(&nic_at_a_root_port());
    let moved = found.changes.iter().find(|change| change.kind == ChangeKind::Moved).unwrap();
    let addresses = (moved.before.as_deref(), moved.after.as_deref());
    assert_eq!(addresses, (Some("0000:05:00.0"), Some("0000:07:00.0")));
    let [changed] = pairs(&found)[..] else { panic!("{found:#?}") };
    assert_eq!(changed.count, 2, "the NIC and two memories");
    assert_eq!((changed.before, changed.after), (MapType::BusAddress, MapType::ThroughHostBridge));
}

#[test]
fn ambiguous_cards_are_not_called_moved() {
    // Two drives without serial numbers leave, and two of the same product come.
    let hidden: &[(&str, &str)] = &[("serial = 'S1'\n", ""), ("serial = 'S2'\n", "")];
    let before = with(hidden);
    let mut moved = hidden.to_vec();
    moved.extend([("0000:00:02.0", "0000:00:06.0"), ("0000:00:03.0", "0000:00:07.0")]);
    moved.extend([("0000:06:00.0", "0000:16:00.0"), ("0000:07:00.0", "0000:17:00.0")]);
    let found = MachineDifference::new(&before, &with(&moved));
    let count = |kind| found.changes.iter().filter(|change| change.kind == kind).count();
    // The two root ports are products of their own, and take what is below them along.
    assert_eq!((count(ChangeKind::Moved), count(ChangeKind::Removed)), (2, 0), "{found:#?}");
    let alike: Vec<(&str, &str)> =
        moved.iter().copied().chain([("device = '0x3c03'", "device = '0x3c02'")]).collect();
    let mut before_alike = hidden.to_vec();
    before_alike.push(("device = '0x3c03'", "device = '0x3c02'"));
    let found = MachineDifference::new(&with(&before_alike), &with(&alike));
    let count = |kind| found.changes.iter().filter(|change| change.kind == kind).count();
    assert_eq!((count(ChangeKind::Moved), count(ChangeKind::Removed)), (0, 2), "{found:#?}");
}

/// The fabric with every bus but root buses one higher.
fn shifted(fabric: &Fabric) -> Fabric {
    let mut shifted = fabric.clone();
    for (id, function) in fabric.iter() {
        if matches!(function.parent, peerlane_fabric::Parent::Function(_)) {
            let at = function.address.unwrap();
            let moved = Bdf::new(at.domain(), at.bus() + 1, at.device(), at.function());
            shifted.functions[id.0].address = moved;
        }
    }
    shifted
}

#[test]
fn renumbered_buses_are_one_change() {
    let found = difference(&shifted(&machine()));
    assert_eq!(kinds(&found), [(ChangeKind::Renumbered, Neutral)]);
    assert_eq!(found.changes[0].functions.len(), 9);
    assert_eq!(found.changes[0].before.as_deref(), Some("0000:01:00.0"));
}

#[test]
fn shifted_root_buses_match_in_order() {
    let two = |bus: &str| {
        peerlane_testing::machine(&format!(
            "
            pci0000:{bus} host-bridge
              01.0 nvme @0000:{bus}:01.0 144d:a80a
              02.0 nvme @0000:{bus}:02.0 144d:a80a"
        ))
    };
    let found = MachineDifference::new(&two("80"), &two("97"));
    assert_eq!(kinds(&found), [(ChangeKind::Renumbered, Neutral)]);
    assert_eq!(found.matching.both.len(), 2);
}

#[test]
fn cards_below_exchanged_switch_match() {
    let found = difference(&with(&[("device = '0xc030'", "device = '0xc040'")]));
    let of_kind = |kind| found.changes.iter().filter(move |change| change.kind == kind);
    assert_eq!(of_kind(ChangeKind::Removed).map(|change| change.functions.len()).sum::<usize>(), 4);
    assert_eq!(of_kind(ChangeKind::Moved).count(), 0, "the place has the same address and path");
    assert_eq!(found.matching.both.len(), machine().functions.len() - 4);
}

proptest! {
    #[test]
    fn random_machines_equal_themselves(fabric in random::fabric()) {
        let found = MachineDifference::new(&fabric, &fabric.clone());
        prop_assert_eq!(&found.changes, &[]);
        prop_assert_eq!(found.matching.both.len(), fabric.functions.len());
    }

    #[test]
    fn changes_of_random_machines_turn_round(one in random::fabric(), other in random::fabric()) {
        let there = MachineDifference::new(&one, &other);
        let back = MachineDifference::new(&other, &one);
        let count = |found: &MachineDifference, kind| {
            let of_kind = found.changes.iter().filter(|change| change.kind == kind);
            of_kind.map(|change| change.functions.len()).sum::<usize>()
        };
        for (kind, reverse) in [
            (ChangeKind::Removed, ChangeKind::Added),
            (ChangeKind::Moved, ChangeKind::Moved),
            (ChangeKind::Renumbered, ChangeKind::Renumbered),
        ] {
            prop_assert_eq!(count(&there, kind), count(&back, reverse));
        }
    }
}
