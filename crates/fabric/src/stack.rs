//! Stacks of block devices in a fabric: device mapper and md, to any height.
//!
//! A capture or a description may claim circles; a walk through one ends all the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Fabric, StackedDevice};

/// The block devices that are stacked on others, in both directions.
#[derive(Debug, Clone)]
pub struct Stack<'a> {
    devices: BTreeMap<&'a str, &'a StackedDevice>,
    above: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Stack<'a> {
    /// The stack of a fabric.
    pub fn new(fabric: &'a Fabric) -> Self {
        let mut above: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for device in &fabric.stacked {
            for below in &device.below {
                above.entry(below).or_default().push(&device.name);
            }
        }
        let devices = fabric.stacked.iter().map(|device| (device.name.as_str(), device)).collect();
        Self { devices, above }
    }

    /// Names of devices, and of all that is stacked on them.
    pub fn up(&self, names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
        walk(names, |name| self.above.get(name).into_iter().flatten().copied())
    }

    /// The stacked devices that a device lies on, with itself where it is one.
    pub fn down(&self, name: &'a str) -> Vec<&'a StackedDevice> {
        let below = |name: &str| {
            let device = self.devices.get(name).copied();
            device.into_iter().flat_map(|device| device.below.iter().map(String::as_str))
        };
        let names = walk([name], below);
        names.into_iter().filter_map(|name| self.devices.get(name).copied()).collect()
    }
}

fn walk<'a, I: Iterator<Item = &'a str>>(
    from: impl IntoIterator<Item = &'a str>,
    next: impl Fn(&str) -> I,
) -> BTreeSet<&'a str> {
    let mut ahead: Vec<&str> = from.into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = ahead.pop() {
        if seen.insert(name) {
            ahead.extend(next(name));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_through_circular_stacks_end() {
        let layer = |name: &str, below: &str| {
            format!("[[stacked]]\nname = '{name}'\nkind = 'lvm'\nbelow = ['{below}']\n")
        };
        let text = format!(
            "name = 'm'\n{}{}{}{}",
            layer("md0", "nvme0n1"),
            layer("dm-0", "md0"),
            layer("dm-1", "dm-2"),
            layer("dm-2", "dm-1")
        );
        let fabric = Fabric::from_toml(&text).expect("a machine");
        let stack = Stack::new(&fabric);
        assert_eq!(stack.up(["nvme0n1"]), BTreeSet::from(["nvme0n1", "md0", "dm-0"]));
        assert_eq!(stack.up(["dm-1"]), BTreeSet::from(["dm-1", "dm-2"]));
        let below = stack.down("dm-0");
        assert_eq!(below.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["dm-0", "md0"]);
    }
}
