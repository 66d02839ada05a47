//! From an expression to a machine file, and to the ACS values that root writes on kernels without
//! the parameter.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use super::machines::AgreementMachine;

/// ACS control as the kernel sets it once it finds an IOMMU (`pci_std_enable_acs`).
const AS_THE_KERNEL_SETS_IT: u16 = 0x1d;

/// Source of the values in the ports' ACS control registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcsBy {
    /// By a parameter of the kernel, which Linux 6.8 does not know.
    Parameter,
    /// By root, before the memory is used for the first time.
    Hand,
}

/// A machine in all its forms.
#[derive(Debug, Default)]
pub(crate) struct MachineForms {
    /// The machine file.
    pub(crate) toml: String,
    /// Names of all drives.
    pub(crate) drives: Vec<String>,
    /// Names of those that lend memory.
    pub(crate) memories: Vec<String>,
    /// Ports by a pattern for their folders in sysfs, with the ACS control to write.
    pub(crate) writes: Vec<(String, u16)>,
}

/// Reads the machine's expression.
pub(crate) fn describe(machine: &AgreementMachine, acs_by: AcsBy) -> MachineForms {
    let mut description = MachineForms { toml: head(machine), ..MachineForms::default() };
    for index in 0..machine.tree.split('|').count() {
        let name = bridge_name(index);
        writeln!(description.toml, "[[host_bridge]]\nname = \"{name}\"").expect("a string");
    }
    description.toml.push_str(
        "[[function]]\nname = \"host-bridge\"\nkind = \"other\"\nunder = \"pci0000:00\"\n\
         address = \"0000:00:00.0\"\nvendor = \"0x8086\"\ndevice = \"0x29c0\"\n",
    );
    // With an IOMMU the kernel itself sets ACS.
    let acs_by = if machine.iommu == "off" { acs_by } else { AcsBy::Parameter };
    let mut reader = NotationReader { description, acs_by, ports: 0 };
    for (index, tree) in machine.tree.split('|').enumerate() {
        // The lab's first free slot of a root bus, see its placing of functions.
        let first = if index == 0 { 2 } else { 0 };
        let name = bridge_name(index);
        let folder = format!("/sys/devices/{name}");
        reader.siblings(&mut tree.trim().chars().peekable(), &name, &folder, Bus::Root(first));
    }
    reader.description
}

fn bridge_name(index: usize) -> String {
    format!("pci0000:{:02x}", index * 0x20)
}

fn head(machine: &AgreementMachine) -> String {
    let parameters = match machine.parameter {
        "" => String::new(),
        parameter => format!("kernel_args = [\"{parameter}\"]\n"),
    };
    format!(
        "name = \"{}\"\niommu = \"{}\"\n[cpu]\nvendor = \"{}\"\nfamily = {}\n\
         [lab]\ncpu = \"{}\"\ncpus = 1\nmemory = \"256M\"\n{parameters}",
        machine.name, machine.iommu, machine.cpu.vendor, machine.cpu.family, machine.cpu.model
    )
}

/// Addresses for functions without a place of their own.
#[derive(Debug, Clone, Copy)]
enum Bus {
    /// Slots from this one on.
    Root(usize),
    /// Slots of a switch's bus.
    Switch,
    /// Function numbers of the one slot that a link leads to.
    Link,
}

struct NotationReader {
    description: MachineForms,
    acs_by: AcsBy,
    ports: usize,
}

impl NotationReader {
    /// Reads functions up to the end of their bracket.
    fn siblings(&mut self, text: &mut Peekable<Chars<'_>>, under: &str, folder: &str, bus: Bus) {
        let mut index = 0;
        while let Some(letter) = text.next() {
            match letter {
                ' ' => {}
                ')' => return,
                _ => {
                    let place = match bus {
                        Bus::Root(first) => format!("{:02x}.0", first + index),
                        Bus::Switch => format!("{index:02x}.0"),
                        Bus::Link => format!("00.{index}"),
                    };
                    self.function(letter, text, under, folder, place);
                    index += 1;
                }
            }
        }
    }

    fn function(
        &mut self,
        letter: char,
        text: &mut Peekable<Chars<'_>>,
        under: &str,
        folder: &str,
        mut place: String,
    ) {
        let (kind, ids, bus) = match letter {
            'R' => ("root-port", "vendor = \"0x1b36\"\ndevice = \"0x000c\"\n", Bus::Link),
            'U' => ("upstream-port", "", Bus::Switch),
            'D' => ("downstream-port", "", Bus::Link),
            _ => ("nvme", "vendor = \"0x1b36\"\ndevice = \"0x0010\"\nsize = \"1M\"\n", Bus::Link),
        };
        let name = if kind == "nvme" { letter.to_string() } else { self.port_name(letter) };
        let mut more = ids.to_owned();
        let (mut acs, mut has_children) = (None, false);
        while let Some(&mark) = text.peek() {
            match mark {
                '+' => {
                    more.push_str("cmb = \"4M\"\n");
                    self.description.memories.push(name.clone());
                }
                '!' => acs = Some(AS_THE_KERNEL_SETS_IT),
                '~' => acs = Some(0),
                '=' => acs = Some(control(text)),
                '@' => place = address(text, under, &mut more),
                '(' => has_children = true,
                _ => break,
            }
            if !matches!(mark, '=' | '@') {
                text.next();
            }
            if has_children {
                break;
            }
        }
        let folder = format!("{folder}/*:{place}");
        if let Some(control) = acs {
            more.push_str(&self.acs(&folder, control));
        }
        let toml = &mut self.description.toml;
        write!(
            toml,
            "[[function]]\nname = \"{name}\"\nkind = \"{kind}\"\nunder = \"{under}\"\n{more}"
        )
        .expect("a string");
        if kind == "nvme" {
            self.description.drives.push(name.clone());
        }
        if has_children {
            self.siblings(text, &name, &folder, bus);
        }
    }

    fn port_name(&mut self, letter: char) -> String {
        self.ports += 1;
        format!("{letter}{}", self.ports)
    }

    fn acs(&mut self, folder: &str, control: u16) -> String {
        let described = match self.acs_by {
            AcsBy::Parameter => control,
            AcsBy::Hand => {
                if control != 0 {
                    self.description.writes.push((folder.to_owned(), control));
                }
                0
            }
        };
        format!("acs = {{ control = \"0x{described:04x}\" }}\n")
    }
}

/// `=53`, two digits.
fn control(text: &mut Peekable<Chars<'_>>) -> u16 {
    text.next();
    let digits: String = text.by_ref().take(2).collect();
    u16::from_str_radix(&digits, 16).expect("two hexadecimal digits")
}

/// `@1.0`; the address in the machine file is complete.
fn address(text: &mut Peekable<Chars<'_>>, under: &str, more: &mut String) -> String {
    text.next();
    let place: String = text.by_ref().take(3).collect();
    let (domain_and_bus, place) = (&under["pci".len()..], format!("0{place}"));
    writeln!(more, "address = \"{domain_and_bus}:{place}\"").expect("a string");
    place
}
