//! An export in words, and the list of them.

use peerlane_results::{Export, ExportRecord, MemoryKind, ServedExport};

use super::{LabelSheet, counted};

/// The export that begins in full, else one export a line.
pub(crate) fn exports(record: &ExportRecord) -> String {
    let mut sheet = LabelSheet::default();
    if let [export @ Export { served: Some(served), .. }] = record.exports.as_slice() {
        begun(&mut sheet, export, served);
        return sheet.0;
    }
    for export in &record.exports {
        let who = match export.process {
            Some(process) => format!("served by process {process}"),
            None => format!("left; `peerlane export --remove {}` removes it", export.subsystem),
        };
        sheet.line(format_args!("{} of {} ({})", export.subsystem, export.drive, export.listen));
        sheet.more(who);
    }
    sheet.line(format_args!("{} of Peerlane", counted(record.exports.len(), "export")));
    sheet.0
}

/// The drive, its address, its hosts, and the command for another machine.
fn begun(sheet: &mut LabelSheet, export: &Export, record: &ServedExport) {
    sheet.line(format_args!("exporting {}", record.drive.path));
    sheet.row("drive", super::endpoint(&record.drive));
    match export.listen.split_once(' ') {
        Some((transport, address)) => {
            sheet.row("network", format_args!("{transport} at {address}"));
        }
        None => sheet.row("network", format_args!("{}, this machine only", export.listen)),
    }
    let namespace = record.namespace;
    sheet.row("name", format_args!("{}, namespace {namespace}", export.subsystem));
    sheet.row("uuid", &record.uuid);
    match &record.hosts {
        None => sheet.row("hosts", "any"),
        Some(hosts) => {
            for (index, host) in hosts.iter().enumerate() {
                sheet.row(if index == 0 { "hosts" } else { "" }, host);
            }
        }
    }
    let memory = if record.memory == MemoryKind::Host { "host" } else { "p2pmem" };
    sheet.row("memory", format_args!("{memory}: {}", record.reason));
    for (index, judged) in record.memories.iter().enumerate() {
        let label = if index == 0 { "judged" } else { "" };
        let word = if judged.is_permitted { "permitted" } else { "no" };
        sheet.row(label, format_args!("{}: {word}; {}", judged.memory, judged.reason));
    }
    if let Some(name) = &record.remote_name {
        sheet.row("there", format_args!("peerlane copy FILE {name}"));
    }
    sheet.row("connect", &record.connect);
    sheet.warnings(&record.warnings);
    sheet.line("serving until Ctrl-C or a signal");
}
