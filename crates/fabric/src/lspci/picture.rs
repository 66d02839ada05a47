//! The tree that `lspci -t` draws: places and bus ranges, and with `-vnn` numbers of devices.
//!
//! A branch hangs from the `+` or `\` in the same column of a line above it.

use std::collections::{BTreeSet, HashMap};

use super::clean::CleanLine;
use super::function::BusRange;
use super::heading;
use crate::{Bdf, pci_names};

/// A device of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PicturedDevice {
    pub(super) address: Bdf,
    pub(super) buses: Option<BusRange>,
    /// Numbers of vendor and device, by `-nn` or by their names with `-v`; classes are not shown.
    pub(super) ids: (Option<u16>, Option<u16>),
    pub(super) line: u32,
}

/// The whole picture.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TreePicture {
    pub(super) devices: Vec<PicturedDevice>,
    /// Domain and number of the root buses.
    pub(super) roots: BTreeSet<(u32, u8)>,
    /// A branch hangs from nothing.
    pub(super) has_cuts: bool,
}

impl TreePicture {
    /// Adds the bridges of a path, each with the bus of the next one.
    pub(super) fn add_path(&mut self, path: &[Bdf], line: u32) {
        let [first, _, ..] = path else { return };
        self.roots.insert((first.domain(), first.bus()));
        for step in path.windows(2) {
            let bus = step[1].bus();
            let buses = Some(BusRange { secondary: bus, subordinate: bus });
            self.devices.push(PicturedDevice { address: step[0], buses, ids: (None, None), line });
        }
    }
}

/// Returns whether a trimmed line has the root of a tree: `-[0000:00]-+-00.0`, `+-[0000:80]`.
pub(super) fn is_root(line: &str) -> bool {
    let Some(inner) = line.trim_start_matches(['-', '+', '\\', '|', ' ']).strip_prefix('[') else {
        return false;
    };
    let Some((bus, rest)) = inner.split_once(']') else { return false };
    line.starts_with(['-', '+', '\\', '|']) && root(bus).is_some() && rest.starts_with('-')
}

/// Returns whether a trimmed line goes on with a tree.
pub(super) fn is_branch(line: &str) -> bool {
    let rest = line.trim_start_matches(['|', ' ']);
    rest.is_empty() || rest.starts_with("+-") || rest.starts_with("\\-")
}

/// Domain and bus of `0000:80`, or of `0000:80-ff` in newer versions.
fn root(text: &str) -> Option<(u32, u8)> {
    let (domain, bus) = text.split_once(':')?;
    let bus = bus.split('-').next()?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_it = (4..=8).contains(&domain.len()) && bus.len() == 2 && is_hex(domain) && is_hex(bus);
    let read = || Some((u32::from_str_radix(domain, 16).ok()?, u8::from_str_radix(bus, 16).ok()?));
    is_it.then(read).flatten()
}

/// Reads the lines of a picture.
pub(super) fn read(lines: &[CleanLine<'_>]) -> TreePicture {
    let mut reader = TreeReader::default();
    for line in lines {
        reader.line(line);
    }
    reader.picture
}

#[derive(Default)]
struct TreeReader {
    picture: TreePicture,
    /// The bus whose devices hang from the fork in a column; `None` above root buses.
    forks: HashMap<usize, Option<(u32, u8)>>,
}

impl TreeReader {
    fn line(&mut self, line: &CleanLine<'_>) {
        let text = line.text.as_bytes();
        let Some(mut at) = text.iter().position(|byte| !matches!(byte, b' ' | b'|' | b'\t')) else {
            return;
        };
        let mut bus = match text[at] {
            b'-' => None,
            b'+' | b'\\' => match self.forks.get(&at) {
                Some(&bus) => bus,
                None if is_root(line.text.trim()) => {
                    self.forks.insert(at, None);
                    None
                }
                None => return self.picture.has_cuts = true,
            },
            _ => return,
        };
        let mut last = None;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'-' | b'\\' => at += 1,
                b'+' => {
                    self.forks.insert(at, bus);
                    at += 1;
                }
                b'[' => {
                    let inner = &line.text[at + 1..];
                    let Some(end) = inner.find(']') else { return self.picture.has_cuts = true };
                    bus = match last {
                        None => root(&inner[..end]),
                        Some(device) => self.secondary(device, &inner[..end]),
                    };
                    let Some(found) = bus else { return self.picture.has_cuts = true };
                    if last.is_none() {
                        self.picture.roots.insert(found);
                    }
                    at += end + 2;
                }
                b'0'..=b'9' | b'a'..=b'f' => {
                    let Some(device) = bus.and_then(|bus| self.device(bus, line, at)) else {
                        return self.picture.has_cuts = true;
                    };
                    last = Some(device);
                    at += "00.0".len();
                }
                // A name follows.
                _ => {
                    if let Some(device) = last {
                        let name = line.text[at..].trim();
                        self.picture.devices[device].ids = match heading::ids(name) {
                            Some((vendor, device)) => (Some(vendor), Some(device)),
                            None => pci_names::numbers(name),
                        };
                    }
                    return;
                }
            }
        }
    }

    /// Adds the device whose number stands at a place; its position.
    fn device(
        &mut self,
        (domain, bus): (u32, u8),
        line: &CleanLine<'_>,
        at: usize,
    ) -> Option<usize> {
        let word = line.text.get(at..at + "00.0".len())?;
        let (device, function) = word.split_once('.')?;
        let number = |text| u8::from_str_radix(text, 16).ok();
        let address = Bdf::new(domain, bus, number(device)?, number(function)?)?;
        let device = PicturedDevice { address, buses: None, ids: (None, None), line: line.number };
        self.picture.devices.push(device);
        Some(self.picture.devices.len() - 1)
    }

    /// Gives a device the buses behind it, `01` or `01-05`; the first of them.
    fn secondary(&mut self, device: usize, text: &str) -> Option<(u32, u8)> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| (text.len() == 2).then(|| u8::from_str_radix(text, 16).ok())?;
        // Virtual functions on the next bus are drawn on the first one.
        let (secondary, subordinate) = (number(first)?, number(last)?);
        let device = &mut self.picture.devices[device];
        device.buses = (secondary <= subordinate).then_some(BusRange { secondary, subordinate });
        Some((device.address.domain(), secondary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(text: &str) -> Vec<String> {
        let lines: Vec<CleanLine<'_>> = super::super::clean::lines(text).collect();
        let picture = read(&lines);
        assert!(!picture.has_cuts, "{text}");
        let show = |device: &PicturedDevice| match device.buses {
            Some(range) => {
                format!("{} {:02x}-{:02x}", device.address, range.secondary, range.subordinate)
            }
            None => device.address.to_string(),
        };
        picture.devices.iter().map(show).collect()
    }

    #[test]
    fn nested_bridges_are_placed() {
        let text = "-[0000:00]-+-00.0  Intel Corporation Device [x] - 1\n           \
                    +-01.0-[01-04]----00.0-[02-04]--+-00.0-[03]--+-00.0  A\n           \
                    |                               |            \\-00.1  B\n           \
                    |                               \\-01.0-[04]--\n           \
                    \\-1f.3  Audio\n";
        assert_eq!(
            devices(text),
            [
                "0000:00:00.0",
                "0000:00:01.0 01-04",
                "0000:01:00.0 02-04",
                "0000:02:00.0 03-03",
                "0000:03:00.0",
                "0000:03:00.1",
                "0000:02:01.0 04-04",
                "0000:00:1f.3",
            ]
        );
    }

    #[test]
    fn several_root_buses_are_placed() {
        let text =
            "-+-[10000:e0]---06.0-[e1]----00.0\n \\-[0000:00]-+-00.0\n             \\-02.0\n";
        assert_eq!(
            devices(text),
            ["10000:e0:06.0 e1-e1", "10000:e1:00.0", "0000:00:00.0", "0000:00:02.0"]
        );
    }
}
