//! An export in words, and the list of them.

use peerlane_fabric::host_and_port;
use peerlane_results::{ExportList, ExportRecord, MemoryKind};

use super::{LabelSheet, counted};

/// The drive, its address, its hosts, and the command for another machine.
pub(crate) fn export(record: &ExportRecord) -> String {
    let mut sheet = LabelSheet::default();
    sheet.line(format_args!("exporting {}", record.drive.path));
    sheet.row("drive", super::endpoint(&record.drive));
    let listen = &record.listen;
    let at = match (&listen.address, listen.port) {
        (Some(address), Some(port)) => {
            format!(" at {}", host_and_port(address, Some(&port.to_string())))
        }
        _ => ", this machine only".to_owned(),
    };
    sheet.row("network", format_args!("{}{at}", listen.transport));
    let namespace = record.namespace;
    sheet.row("name", format_args!("{}, namespace {namespace}", record.subsystem));
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
    sheet.0
}

/// One export a line.
pub(crate) fn exports(list: &ExportList) -> String {
    let mut sheet = LabelSheet::default();
    for export in &list.exports {
        let who = match export.process {
            Some(process) => format!("served by process {process}"),
            None => format!("left; `peerlane export --remove {}` removes it", export.subsystem),
        };
        sheet.line(format_args!("{} of {} ({})", export.subsystem, export.drive, export.listen));
        sheet.more(who);
    }
    sheet.line(format_args!("{} of Peerlane", counted(list.exports.len(), "export")));
    sheet.0
}
