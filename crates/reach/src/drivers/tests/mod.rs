//! Small machines, one fact each, and the drivers' rules for them.

mod amdgpu;
mod gpus;
mod guests;
mod nvidia;
mod nvidia_network;
mod nvidia_peers;
mod others;
mod xe;

use peerlane_fabric::{Fabric, FunctionId};

use super::{DriverAnswer, DriverRule, rules};

/// PLX PEX 8747, which NVIDIA's driver has on its list.
const SWITCH: &str = "10b5:8747";

/// A switch below a root port with ports `p0` to `p2`, and a second root port `apart`; device lines follow.
pub(super) fn machine(system: &str, devices: &str) -> Fabric {
    with_switch(SWITCH, system, devices)
}

/// The same with other numbers of the switch.
pub(super) fn with_switch(switch: &str, system: &str, devices: &str) -> Fabric {
    let text = peerlane_testing::machine_text(&format!(
        "{system}
         root root-port
           up upstream-port {switch}
             p0 downstream-port {switch}
             p1 downstream-port {switch}
             p2 downstream-port {switch}
         apart root-port"
    ));
    Fabric::from_toml(&(text + devices)).unwrap_or_else(|error| panic!("{error}"))
}

/// A device in a port.
pub(super) fn device(name: &str, under: &str, kind: &str, rest: &str) -> String {
    let rest = rest.replace(';', "\n");
    format!("[[function]]\nname = '{name}'\nkind = '{kind}'\nunder = '{under}'\n{rest}\n")
}

pub(super) fn id(fabric: &Fabric, name: &str) -> FunctionId {
    fabric.find(name).unwrap_or_else(|| panic!("{name}"))
}

/// The rules for `b` as it reaches memory of `a`.
pub(super) fn rules_of(fabric: &Fabric) -> Vec<DriverRule> {
    let found = rules(fabric, id(fabric, "a"), id(fabric, "b"));
    for rule in &found {
        assert!(!rule.source.is_empty() && !rule.reason.is_empty(), "{rule:?}");
        assert!(!rule.reason.ends_with('.') && !rule.reason.contains("  "), "{rule:?}");
    }
    found
}

/// Driver and answer of each rule.
pub(super) fn answers(fabric: &Fabric) -> Vec<(String, DriverAnswer)> {
    rules_of(fabric).into_iter().map(|rule| (rule.driver, rule.answer)).collect()
}

/// The only rule, with this answer and these words in its reason.
#[track_caller]
pub(super) fn only(fabric: &Fabric, answer: DriverAnswer, words: &str) -> DriverRule {
    let mut found = rules_of(fabric);
    assert_eq!(found.len(), 1, "{found:?}");
    let rule = found.remove(0);
    assert_eq!(rule.answer, answer, "{}", rule.reason);
    assert!(rule.reason.contains(words), "{}", rule.reason);
    rule
}
