//! The question whether a copy may overwrite its target.

use peerlane_engine::overwrite_summary::{DeviceSummary, OverwriteSummary, TargetSummary};
use peerlane_results::Plan;
use peerlane_units::Bytes;

use super::LabelSheet;

/// Seconds in a day; the time of the kernel has no leap seconds.
const DAY: i64 = 86_400;

/// The summary and the question, without a line end: the answer stands behind it.
pub(crate) fn question(plan: &Plan, summary: &OverwriteSummary) -> String {
    let path = &plan.target.path;
    let mut sheet = LabelSheet::default();
    let verb = match &summary.target {
        TargetSummary::Device(device) => {
            sheet.line(format_args!("{path} would be overwritten:"));
            show_device(&mut sheet, device);
            if let Some(shape) = &plan.shape {
                let (length, start) = (shape.length, plan.asked.target_offset);
                sheet.row("written", format_args!("{length}, from offset {} on", start.0));
            }
            "Overwrite"
        }
        TargetSummary::File { size, modified, .. } => {
            sheet.line(format_args!("{path} would be replaced:"));
            sheet.row("size", exact(*size));
            sheet.row("changed", utc(*modified));
            "Replace"
        }
    };
    if let Some((done, total)) = summary.unfinished {
        sheet.row(
            "begun",
            format_args!("a copy onto it, with {done} of {total} done: `--resume` continues it"),
        );
    }
    format!("{}{verb} it? `yes` continues, anything else stops: ", sheet.0)
}

fn show_device(sheet: &mut LabelSheet, device: &DeviceSummary) {
    let model = device.identity.model.as_deref().unwrap_or("of no known model");
    match device.serial() {
        Some(serial) => sheet.row("drive", format_args!("{model}, serial {serial}")),
        None => sheet.row("drive", format_args!("{model}, without a serial number")),
    }
    sheet.row("size", exact(device.size));
    sheet.row("carries", in_words(device.content.as_deref()));
    for (index, part) in device.partitions.iter().enumerate() {
        let label = if index == 0 { "parts" } else { "" };
        let content = in_words(part.content.as_deref());
        sheet.row(label, format_args!("{}, {}: {content}", part.name, part.size));
    }
}

fn exact(size: Bytes) -> String {
    format!("{size} ({} bytes)", size.0)
}

fn in_words(content: Option<&[String]>) -> String {
    match content {
        None => "unknown: it cannot be read".to_owned(),
        Some([]) => "blank, as far as it was read".to_owned(),
        Some(names) => names.join(", "),
    }
}

/// A time as `2026-11-21 02:24:51 UTC`, from seconds since 1970.
fn utc(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

/// Year, month and day of a number of days since 1970, in the proleptic Gregorian calendar (H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day)
}

#[cfg(test)]
mod tests {
    use peerlane_engine::journal::{DeviceIdentity, IdKind, StableId};
    use peerlane_engine::overwrite_summary::PartitionSummary;
    use peerlane_engine::{MonotonicClock, Surveyor};
    use peerlane_fabric::Fabric;
    use peerlane_results::Asked;
    use peerlane_units::Nanos;

    use super::*;

    const MACHINE: &str = include_str!("../../../../machines/pair.toml");

    fn plan() -> Plan {
        let fabric = Fabric::from_toml(MACHINE).unwrap();
        let asked = Asked {
            length: Some(Bytes::mib(16)),
            target_offset: Bytes::mib(1),
            ..Asked::between("a", "b")
        };
        let clock = MonotonicClock::start();
        let surveyor = Surveyor::new(&clock, Nanos::seconds(60));
        peerlane_engine::plan(&fabric, &asked, &surveyor).unwrap()
    }

    #[test]
    fn drive_shows_names_partitions_and_journal() {
        let id = StableId { kind: IdKind::Serial, value: "S5H9NS0N".into() };
        let identity = DeviceIdentity {
            name: "nvme1n1".into(),
            model: Some("Lab drive".into()),
            ids: vec![id],
            size: Bytes::mib(64),
            partition: None,
        };
        let part = |name: &str, content: Option<&str>| PartitionSummary {
            name: name.into(),
            size: Bytes::mib(30),
            content: content.map(|what| vec![what.into()]),
        };
        let partitions = vec![
            part("nvme1n1p1", Some("an XFS file system labelled data")),
            PartitionSummary { content: Some(Vec::new()), ..part("nvme1n1p2", None) },
            part("nvme1n1p3", None),
        ];
        let content = ["a GPT partition table", "a backup GPT partition table"];
        let content = Some(content.map(str::to_owned).to_vec());
        let device = DeviceSummary { identity, size: Bytes::mib(64), content, partitions };
        let summary = OverwriteSummary {
            target: TargetSummary::Device(Box::new(device)),
            unfinished: Some((Bytes::mib(4), Bytes::mib(16))),
        };
        let expected = "\
b would be overwritten:
  drive     Lab drive, serial S5H9NS0N
  size      64 MiB (67108864 bytes)
  carries   a GPT partition table, a backup GPT partition table
  parts     nvme1n1p1, 30 MiB: an XFS file system labelled data
            nvme1n1p2, 30 MiB: blank, as far as it was read
            nvme1n1p3, 30 MiB: unknown: it cannot be read
  written   16 MiB, from offset 1048576 on
  begun     a copy onto it, with 4 MiB of 16 MiB done: `--resume` continues it
Overwrite it? `yes` continues, anything else stops: ";
        let mut plan = plan();
        plan.target.path = "b".into();
        assert_eq!(question(&plan, &summary), expected);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
