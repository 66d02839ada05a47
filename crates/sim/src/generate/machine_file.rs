//! Machine files of any size.

use std::fmt::Write as _;

use peerlane_fabric::LinkSpeed;

use super::Draws;

/// Ports of a switch that face away from the root.
const PORTS: usize = 8;
const SWITCH: &str = "kind = \"upstream-port\"";
const DRIVE: &str = "kind = \"nvme\"\nsize = \"4T\"\ncmb = \"64M\"";

/// A machine file, with a port above each link; a topology folds ports into links.
pub(super) struct MachineFile(pub(super) String);

/// A host bridge or switch.
#[derive(Clone)]
struct Upper {
    name: String,
    /// Kind of its ports.
    port: &'static str,
}

impl MachineFile {
    /// A machine with a processor that forwards between its ports; its model changes no rate.
    pub(super) fn new(name: &str) -> Self {
        let processor = "[cpu]\nvendor = \"AuthenticAMD\"\nfamily = 26";
        Self(format!("name = \"{name}\"\niommu = \"off\"\n\n{processor}\n"))
    }

    fn write(&mut self, table: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(table);
    }

    fn bridge(&mut self, name: String, node: u8) -> Upper {
        self.write(format_args!("\n[[host_bridge]]\nname = \"{name}\"\nnuma_node = {node}\n"));
        Upper { name, port: "root-port" }
    }

    fn function(&mut self, above: &Upper, name: &str, function: &str, link: (u32, u8)) {
        let Upper { name: upper, port } = above;
        let link = LinkSpeed { megatransfers: link.0, width: link.1 };
        self.write(format_args!(
            "\n[[function]]\nname = \"{name}-port\"\nkind = \"{port}\"\nunder = \"{upper}\"\n\
             \n[[function]]\nname = \"{name}\"\n{function}\nunder = \"{name}-port\"\nlink = \"{link}\"\n"
        ));
    }

    fn switch(&mut self, above: &Upper, name: String, megatransfers: u32) -> Upper {
        self.function(above, &name, SWITCH, (megatransfers, 16));
        Upper { name, port: "downstream-port" }
    }

    /// Adds one host bridge with as few switches of eight ports as hold these drives, in a tree as flat as possible: Gen4,
    /// 16 lanes between switches, four to drives.
    pub(super) fn tree(&mut self, prefix: &str, drives: usize) {
        let mut level = vec![self.bridge(format!("{prefix}root"), 0)];
        let mut switches = 0..;
        while level.len() * PORTS < drives {
            let uppers = level.iter().flat_map(|upper| std::iter::repeat_n(upper, PORTS));
            let named = uppers.zip(switches.by_ref());
            let add =
                |(upper, number)| self.switch(upper, format!("{prefix}switch{number}"), 16_000);
            level = named.map(add).collect();
        }
        for (drive, upper) in (0..drives).zip(level.iter().cycle()) {
            self.function(upper, &format!("{prefix}d{drive}"), DRIVE, (16_000, 4));
        }
    }

    /// Adds a machine of two sockets. Below each are two switches with four to eight drives, of generations and widths by
    /// seed.
    pub(super) fn pod(&mut self, pod: usize, draws: &mut Draws) {
        for socket in 0..2 {
            let root = self.bridge(format!("p{pod}/root{socket}"), socket);
            for switch in 0..2 {
                let name = format!("p{pod}/s{socket}{switch}");
                let switch = self.switch(&root, name, draws.one_of(&[8_000, 16_000, 32_000]));
                for drive in 0..draws.between(4, 8) {
                    let link = (draws.one_of(&[8_000, 16_000]), draws.one_of(&[4, 4, 4, 8, 16]));
                    self.function(&switch, &format!("{}-d{drive}", switch.name), DRIVE, link);
                }
            }
        }
    }
}
