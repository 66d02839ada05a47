//! Rules of drivers on machines of any shape: no panic, and none without reason and source.

use peerlane_reach::{PeerMemory, environment_notes, gpu_link, guest, nature, rules};
use proptest::prelude::*;

use crate::random;

proptest! {
    #[test]
    fn rules_have_reason_and_source((fabric, owner, initiator) in random::fabric_and_pair()) {
        let found = rules(&fabric, owner, initiator);
        for rule in &found {
            let parts = [&rule.mechanism, &rule.reason, &rule.source];
            prop_assert!(parts.iter().all(|part| !part.is_empty()), "{rule:?}");
        }
        if PeerMemory::new(&fabric, owner) == PeerMemory::Absent {
            prop_assert!(found.is_empty(), "{found:?}");
        }
        let verdict = guest(&fabric, owner, initiator);
        prop_assert!(!verdict.reasons.is_empty(), "{verdict:?}");
        prop_assert_eq!(gpu_link(&fabric, owner, initiator), gpu_link(&fabric, initiator, owner));
        for (id, function) in fabric.iter() {
            let is_part = function.physical_function.is_some()
                || function.mig_instances.is_some_and(|count| count > 0);
            prop_assert_eq!(nature(&fabric, id).is_some(), is_part);
        }
        prop_assert!(environment_notes(&fabric).len() <= 3);
    }
}
