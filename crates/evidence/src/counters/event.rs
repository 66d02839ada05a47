//! Events of a unit as sysfs describes them
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-events` and `-format`).

use std::collections::BTreeSet;

use peerlane_memory::perf::CounterEvent;

use super::super::root::short;
use super::super::{Root, Unread};
use super::{UNITS, WantedEvent};

/// CPUs that one unit is read on: one a socket or die.
const MOST_CPUS: usize = 256;

/// An event on one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CpuEvent {
    pub(super) counter: CounterEvent,
    /// Bytes that one count stands for.
    pub(super) bytes_each: f64,
}

impl CpuEvent {
    /// Finds the wanted events of a unit, each on every CPU that reads it.
    pub(super) fn find(
        root: &Root,
        unit: &str,
        wanted: &[WantedEvent],
    ) -> Result<Vec<Self>, Unread> {
        let folder = format!("{UNITS}/{unit}");
        let number = root.number(&format!("{folder}/type"))?;
        let cpus = cpus(root, &folder)?;
        let mut events = Vec::new();
        for want in wanted {
            let Some((code, bytes_each)) = described(root, &folder, *want)? else { continue };
            let config = encode(root, &folder, &code)?;
            let on = |&cpu| CounterEvent { unit: number, config, cpu };
            events.extend(cpus.iter().map(on).map(|counter| Self { counter, bytes_each }));
        }
        Ok(events)
    }
}

/// The code of an event and the bytes that it counts; `None` where the unit does not list it.
fn described(
    root: &Root,
    folder: &str,
    want: WantedEvent,
) -> Result<Option<(String, f64)>, Unread> {
    let name = match want {
        WantedEvent::Coded(code, bytes) => return Ok(Some((code.to_owned(), bytes as f64))),
        WantedEvent::Named(name) => name,
    };
    let path = format!("{folder}/events/{name}");
    let Ok(code) = root.text(&path) else { return Ok(None) };
    let scale_at = format!("{path}.scale");
    let scale: f64 = root.number(&scale_at)?;
    let unit = root.text(&format!("{path}.unit"))?;
    let bytes = match unit.as_str() {
        "MiB" => scale * 1_048_576.0,
        "KiB" => scale * 1024.0,
        "Bytes" | "B" => scale,
        other => {
            return Err(Unread::new(
                &scale_at,
                format!("`{}` is not a unit of bytes", short(other)),
            ));
        }
    };
    let is_plausible = bytes.is_finite() && bytes > 0.0 && bytes <= 1_048_576.0;
    if is_plausible {
        Ok(Some((code, bytes)))
    } else {
        Err(Unread::new(&scale_at, "it is not a size"))
    }
}

/// `0,24` and `0-3`.
fn cpus(root: &Root, folder: &str) -> Result<BTreeSet<u32>, Unread> {
    let path = format!("{folder}/cpumask");
    let text = root.text(&path)?;
    parse_list(&text)
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| Unread::new(&path, format!("`{}` is not a list of CPUs", short(&text))))
}

fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || (last - first) as usize >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
        if cpus.len() > MOST_CPUS {
            return None;
        }
    }
    Some(cpus)
}

/// `event=0x04,umask=0x03` in the words of the system call.
fn encode(root: &Root, folder: &str, code: &str) -> Result<[u64; 3], Unread> {
    let mut config = [0; 3];
    for term in code.split(',') {
        let (name, value) = term.trim().split_once('=').unwrap_or((term.trim(), "1"));
        let path = format!("{folder}/format/{name}");
        let is_word = name.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'_');
        if !is_word || name.is_empty() {
            return Err(Unread::new(folder, format!("`{}` is not a term", short(name))));
        }
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        };
        let format = root.text(&path)?;
        number.and_then(|number| place(&mut config, &format, number)).ok_or_else(|| {
            Unread::new(&path, format!("`{}` has no place for it", short(&format)))
        })?;
    }
    Ok(config)
}

/// Puts a number into the bits that a format names, lowest first: `config:0-7,32-35`, `config1:5`.
fn place(config: &mut [u64; 3], format: &str, mut number: u64) -> Option<()> {
    let (word, ranges) = format.split_once(':')?;
    let word = match word {
        "config" => &mut config[0],
        "config1" => &mut config[1],
        "config2" => &mut config[2],
        _ => return None,
    };
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 63 {
            return None;
        }
        let width = last - first + 1;
        let mask = u64::MAX >> (64 - width);
        *word |= (number & mask) << first;
        number = number.checked_shr(width).unwrap_or(0);
    }
    (number == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use peerlane_testing::Scratch;

    #[test]
    fn memory_controller_event_matches_kernel() {
        let tree = Scratch::new();
        let unit = format!("{UNITS}/uncore_imc_0");
        for (file, text) in [
            ("type", "14\n"),
            ("cpumask", "0,24\n"),
            ("format/event", "config:0-7\n"),
            ("format/umask", "config:8-15\n"),
            ("events/cas_count_write", "event=0x04,umask=0x0c\n"),
            ("events/cas_count_write.scale", "6.103515625e-5\n"),
            ("events/cas_count_write.unit", "MiB\n"),
        ] {
            tree.write(format!("{unit}/{file}"), text);
        }
        let wanted = [WantedEvent::Named("cas_count_read"), WantedEvent::Named("cas_count_write")];
        let found = CpuEvent::find(&Root::at(tree.path()), "uncore_imc_0", &wanted).unwrap();
        let on = |cpu| CpuEvent {
            counter: CounterEvent { unit: 14, config: [0x0c04, 0, 0], cpu },
            bytes_each: 64.0,
        };
        assert_eq!(found, [on(0), on(24)]);
    }

    #[test]
    fn bits_go_where_the_format_says() {
        let of = |format: &str, number| {
            let mut config = [0; 3];
            place(&mut config, format, number).map(|()| config)
        };
        assert_eq!(of("config:0-7,32-35", 0xabc), Some([0xa_0000_00bc, 0, 0]));
        assert_eq!(of("config1:5", 1), Some([0, 32, 0]));
        assert_eq!(of("config2:0-63", u64::MAX), Some([0, 0, u64::MAX]));
        assert_eq!(of("config:0-7", 0x100), None, "it does not fit");
        for wrong in ["config:7-0", "config:60-64", "config3:0", "config", "", "config:x"] {
            assert_eq!(of(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn a_list_of_cpus_is_bounded() {
        assert_eq!(parse_list("0,24"), Some([0, 24].into()));
        assert_eq!(parse_list("0-2"), Some([0, 1, 2].into()));
        for wrong in ["", "a", "3-1", "0-4294967295", "-1"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[config0-9:,x-]{0,40}", number: u64) {
            let _ = place(&mut [0; 3], &text, number);
            let _ = parse_list(&text);
        }
    }
}
