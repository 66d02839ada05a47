//! The way that payload takes, function by function.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::MapType;
use peerlane_results::MemoryFacts;

use super::candidates::memory_function;
use super::shape::PlanEnds;

/// From the source by way of the memory to the target, by name; the way between a drive and host
/// memory ends at the host bridge. Empty if an end has no function.
pub(super) fn of_payload(
    fabric: &Fabric,
    ends: PlanEnds<'_>,
    memory: Option<&MemoryFacts>,
) -> Vec<String> {
    let (Some(facts), Some(source), Some(target)) =
        (memory, ends.source.initiator, ends.target.initiator)
    else {
        return Vec::new();
    };
    let leg = |end: FunctionId| match memory_function(fabric, facts) {
        Some(owner) => to_memory(fabric, end, owner),
        None => to_host(fabric, end),
    };
    let mut way = leg(source);
    way.push(facts.name.clone());
    way.extend(leg(target).into_iter().rev());
    way
}

/// From an end to the function that lends the memory, which is left out: the memory stands for it.
fn to_memory(fabric: &Fabric, end: FunctionId, owner: FunctionId) -> Vec<String> {
    let reach = peerlane_reach::decide(fabric, owner, end);
    let turns_below = reach.map == MapType::BusAddress;
    if turns_below {
        let below = reach.path.into_iter().rev().filter(|&id| id != owner);
        return below.map(|id| fabric.function(id).name.clone()).collect();
    }
    let mut way = to_host(fabric, end);
    let down = to_host(fabric, owner).into_iter().skip(1).rev();
    let is_one_bridge = fabric.bridge_of(end) == fabric.bridge_of(owner);
    way.extend(down.skip(usize::from(is_one_bridge)));
    way
}

/// From a function up to the host bridge, both included.
fn to_host(fabric: &Fabric, end: FunctionId) -> Vec<String> {
    let upward = fabric.upward(end).map(|id| fabric.function(id).name.clone());
    upward.chain([fabric.bridges[fabric.bridge_of(end).0].name.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::Fabric;
    use peerlane_results::Asked;

    use crate::endpoints::guard::Surveyor;

    /// Drives `a` to `d` below one switch; those of `cmbs` lend memory.
    fn machine(cpu: &str, acs: &str, cmbs: &[&str]) -> Fabric {
        let mut text = format!("name = 'm'\n{cpu}\n");
        for (name, kind, under) in [("root", "root-port", ""), ("up", "upstream-port", "root")] {
            let under =
                if under.is_empty() { String::new() } else { format!("under = '{under}'\n") };
            text +=
                &format!("[[function]]\nname = '{name}'\nkind = '{kind}'\n{under}acs = 'absent'\n");
        }
        for drive in ["a", "b", "c", "d"] {
            let cmb = if cmbs.contains(&drive) { "cmb = '4M'\n" } else { "" };
            text += &format!(
                "[[function]]\nname = 'down-{drive}'\nkind = 'downstream-port'\nunder = 'up'\n\
                 acs = '{acs}'\n[[function]]\nname = '{drive}'\nkind = 'nvme'\nsize = '64M'\n\
                 under = 'down-{drive}'\nacs = 'absent'\n{cmb}"
            );
        }
        Fabric::from_toml(&text).expect("a machine")
    }

    /// The way from `a` to `b` through memory of `c`.
    fn way(cpu: &str, acs: &str) -> String {
        let (fabric, asked) = (machine(cpu, acs, &["c"]), super::super::tests::asked());
        crate::plan(&fabric, &asked, &Surveyor::for_tests()).expect("a plan").way.join(" ")
    }

    #[test]
    fn targets_of_one_copy_share_the_memory_on_their_way() {
        let fabric = machine("[cpu]\nvendor = 'AuthenticAMD'\nfamily = 25", "absent", &["c", "d"]);
        let asked = ["b", "d"].map(|target| Asked::between("a", target));
        let plan = crate::plan_fan_out(&fabric, &asked, &Surveyor::for_tests()).expect("a plan");
        for one in &plan {
            let memory = one.memory.as_ref().expect("memory").name.as_str();
            assert!(one.way.iter().any(|name| name == memory), "{memory}: {:?}", one.way);
        }
    }

    #[test]
    fn payload_turns_where_kernel_allows() {
        let zen = "[cpu]\nvendor = 'AuthenticAMD'\nfamily = 25";
        assert_eq!(way(zen, "absent"), "a down-a up down-c cmb:c down-c up down-b b");
        assert_eq!(
            way(zen, "redirect"),
            "a down-a up root pci0000:00 root up down-c cmb:c down-c up root pci0000:00 root up down-b b",
            "the ports send it up to the root complex"
        );
        let other = "[cpu]\nvendor = 'GenuineIntel'\nfamily = 6\n[[function]]\nname = 'h'\n\
                     kind = 'other'\naddress = '0000:00:00.0'\nvendor = '0x8086'\ndevice = '0x29c0'";
        assert_eq!(
            way(other, "redirect"),
            "a down-a up root pci0000:00 host pci0000:00 root up down-b b",
            "through host memory"
        );
    }
}
