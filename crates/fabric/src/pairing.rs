//! Which FPGA belongs to which drive: the two ends of a SmartSSD, which is one device with a switch in it.

use crate::{Fabric, FunctionId, Kind, Parent};

const VENDOR_XILINX: u16 = 0x10ee;
/// Upstream port of the switch in a SmartSSD (Xilinx UG1382, and `lspci` of one).
const SWITCH: u16 = 0x9134;

impl Fabric {
    /// The drive that shares its SmartSSD with a function of an FPGA card.
    ///
    /// By the topology: both hang from downstream ports of the same switch, and that switch is the one of a
    /// SmartSSD. `None` for a card without a drive of its own, and where a switch has several drives.
    pub fn drive_of_card(&self, card: FunctionId) -> Option<FunctionId> {
        let switch = self.switch_of_card(card)?;
        let is_drive = |id: &FunctionId| self.function(*id).kind == Kind::Nvme;
        let drives = self.iter().map(|(id, _)| id).filter(is_drive);
        let mut there = drives.filter(|&drive| self.port_above(drive) == Some(switch));
        there.next().filter(|_| there.next().is_none())
    }

    fn switch_of_card(&self, card: FunctionId) -> Option<FunctionId> {
        if self.function(card).kind != Kind::Fpga {
            return None;
        }
        let switch = self.port_above(card)?;
        let found = self.function(switch);
        (found.vendor == Some(VENDOR_XILINX) && found.device == Some(SWITCH)).then_some(switch)
    }

    /// The upstream port of the switch that an endpoint hangs from.
    fn port_above(&self, endpoint: FunctionId) -> Option<FunctionId> {
        let Parent::Function(downstream) = self.function(endpoint).parent else { return None };
        let Parent::Function(upstream) = self.function(downstream).parent else { return None };
        (self.function(upstream).kind == Kind::UpstreamPort).then_some(upstream)
    }
}

#[cfg(test)]
mod tests {
    use crate::Fabric;

    /// Switches with what hangs from each: names that begin with `n` are drives, others FPGA functions.
    fn machine(device: &str, switches: &[&[&str]]) -> Fabric {
        let mut text = "name = 'm'\n".to_owned();
        let mut add = |name: &str, kind: &str, under: &str, more: &str| {
            text += &format!(
                "[[function]]\nname = '{name}'\nkind = '{kind}'\nunder = '{under}'\n{more}\n"
            );
        };
        for (index, ends) in switches.iter().enumerate() {
            add(&format!("root{index}"), "root-port", "pci0000:00", "");
            let ids = format!("vendor = '0x10ee'\ndevice = '{device}'");
            add(&format!("up{index}"), "upstream-port", &format!("root{index}"), &ids);
            for end in *ends {
                add(&format!("down-{end}"), "downstream-port", &format!("up{index}"), "");
                let kind = if end.starts_with('n') { "nvme" } else { "fpga" };
                add(end, kind, &format!("down-{end}"), "");
            }
        }
        Fabric::from_toml(&text).unwrap()
    }

    fn drive(fabric: &Fabric, card: &str) -> Option<String> {
        let drive = fabric.drive_of_card(fabric.find(card).unwrap())?;
        Some(fabric.function(drive).name.clone())
    }

    #[test]
    fn a_card_belongs_to_the_drive_below_the_same_switch() {
        let fabric = machine("0x9134", &[&["n0", "f0"], &["f1", "n1"]]);
        assert_eq!(drive(&fabric, "f0").as_deref(), Some("n0"));
        assert_eq!(drive(&fabric, "f1").as_deref(), Some("n1"));
        assert_eq!(drive(&fabric, "n0"), None, "a drive is no card");
    }

    #[test]
    fn other_switches_and_several_drives_say_nothing() {
        assert_eq!(drive(&machine("0x1234", &[&["n0", "f0"]]), "f0"), None);
        assert_eq!(drive(&machine("0x9134", &[&["n0", "f0", "n1"]]), "f0"), None);
        assert_eq!(drive(&machine("0x9134", &[&["f0"], &["n1"]]), "f0"), None);
    }
}
