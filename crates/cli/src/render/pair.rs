//! Two devices in words: the answer first, then each layer by itself.

use peerlane_results::{
    DriverAnswer, DriverRule, GuestVerdict, MapType, PairDevice, PairDirection, PairRecord, Turn,
};

use super::LabelSheet;

/// The pair: the answer, both directions, notes on both, and the commands that show missing facts.
///
/// Without a headline, a plan stands above, which has it.
pub(crate) fn pair(record: &PairRecord, headline: Option<&str>, no_plan: Option<&str>) -> String {
    let mut sheet = LabelSheet::default();
    if let Some(guest) = &record.guest {
        let names = format!("{} -> {}", record.first.name, record.second.name);
        sheet.line(format_args!("{names}: in one virtual machine {}", of_guest(guest)));
        sheet.line("");
    } else if let Some(headline) = headline {
        sheet.line(headline);
        sheet.line("");
    }
    for (label, device) in [("first", &record.first), ("second", &record.second)] {
        sheet.row(label, self::device(device));
    }
    if let Some(one) = record.forward.as_ref().or(record.backward.as_ref()) {
        path(&mut sheet, one);
        kernel(&mut sheet, one);
    }
    for (word, links) in [("nvlink", &record.nvlink), ("xgmi", &record.xgmi)] {
        if let Some(links) = links {
            sheet.row(word, links);
        }
    }
    for (index, note) in record.notes.iter().enumerate() {
        if index == 0 { sheet.row("note", note) } else { sheet.more(note) }
    }
    for (initiator, provider, one) in [
        (&record.first, &record.second, &record.forward),
        (&record.second, &record.first, &record.backward),
    ] {
        sheet.line("");
        match one {
            Some(one) => direction(&mut sheet, one),
            None => sheet.line(format_args!(
                "{} to memory of {}: it has none for peers",
                initiator.name, provider.name
            )),
        }
    }
    guest(&mut sheet, record);
    if let Some(reason) = no_plan {
        sheet.line("");
        sheet.line(format_args!("nothing to copy: {reason}"));
    }
    hints(&mut sheet, record);
    sheet.0
}

/// The answer for both in one virtual machine, with the number of steps.
fn of_guest(guest: &GuestVerdict) -> String {
    let answer = match guest.verdict {
        DriverAnswer::Possible | DriverAnswer::Expected => "peer-to-peer is possible",
        DriverAnswer::Conditional => "peer-to-peer depends on the reasons below",
        DriverAnswer::Refused => "no peer-to-peer",
        DriverAnswer::NotKnown => "unknown",
    };
    match guest.needs.len() {
        0 => answer.to_owned(),
        1 => format!("{answer}; 1 step"),
        count => format!("{answer}; {count} steps"),
    }
}

fn device(device: &PairDevice) -> String {
    let address = device.address.as_deref().filter(|address| *address != device.name);
    let parts = [address, device.product.as_deref()];
    let driver = device.driver.as_ref().map(|driver| format!("driver {driver}"));
    let parts: Vec<String> = parts.into_iter().flatten().map(str::to_owned).chain(driver).collect();
    match parts.join(", ") {
        parts if parts.is_empty() => device.name.clone(),
        parts => format!("{}: {parts}", device.name),
    }
}

fn path(sheet: &mut LabelSheet, one: &PairDirection) {
    // Between two machines there is none.
    if one.turn.is_none() && one.verdict == MapType::NotSupported {
        return;
    }
    let turn = match (one.turn, &one.turn_at) {
        (Some(Turn::Device), _) => "packets stay inside the device".to_owned(),
        (Some(Turn::Switch), Some(at)) => format!("packets turn in the switch at {at}"),
        (Some(Turn::Switch), None) => "packets turn in a switch".to_owned(),
        (Some(Turn::RootComplex), _) => "packets turn in the root complex".to_owned(),
        (Some(Turn::SocketLink), _) => {
            "packets cross the root complex and the link between sockets".to_owned()
        }
        (None, _) => "where packets turn is unknown".to_owned(),
    };
    let class = one.class.as_ref().map(|class| format!("{class} for nvidia-smi"));
    let distance = one.distance.map(|hops| format!("{hops} hops"));
    let parts: Vec<String> = [Some(turn), class, distance].into_iter().flatten().collect();
    sheet.row("path", parts.join("; "));
    if !one.ports.is_empty() {
        sheet.row("decides", format_args!("{} (ACS redirection)", one.ports.join(", ")));
    }
    if let Some(link) = &one.slowest_link {
        let downgraded = if link.downgraded { ", below what both ends support" } else { "" };
        sheet.row(
            "link",
            format_args!(
                "the slowest, above {}: {}{downgraded}; at most {} in each direction",
                link.function, link.speed, link.bytes_per_second
            ),
        );
    }
    if !one.unknown_links.is_empty() {
        let text = format!("speed unknown above {}", one.unknown_links.join(", "));
        if one.slowest_link.is_some() { sheet.more(text) } else { sheet.row("link", text) }
    }
}

/// The decision, which is the same for both directions.
fn kernel(sheet: &mut LabelSheet, one: &PairDirection) {
    sheet.row("kernel", one.verdict);
    for reason in &one.kernel.reasons {
        sheet.more(reason);
    }
    if let Some(version) = &one.kernel.assumed_kernel {
        sheet.more(format_args!("kernel version unknown: the list of Linux {version} applies"));
    }
}

fn direction(sheet: &mut LabelSheet, one: &PairDirection) {
    let size = one.memory.map(|size| format!(" (window of {size})")).unwrap_or_default();
    let if_any = if one.memory.is_none() { ", if it lends any" } else { "" };
    sheet.line(format_args!("{} to memory of {}{size}{if_any}", one.initiator, one.provider));
    for rule in &one.drivers {
        driver(sheet, rule);
    }
}

fn driver(sheet: &mut LabelSheet, rule: &DriverRule) {
    let asks = match rule.asks_kernel {
        Some(true) => "asks the kernel",
        Some(false) => "does not ask the kernel",
        None => "unknown whether it asks the kernel",
    };
    let answer = match rule.answer {
        DriverAnswer::Conditional => "depends".to_owned(),
        answer => answer.to_string(),
    };
    sheet.row("driver", format_args!("{}, {}: {answer}; {asks}", rule.driver, rule.mechanism));
    sheet.more(&rule.reason);
    sheet.more(format_args!("[{}]", rule.source));
}

fn guest(sheet: &mut LabelSheet, record: &PairRecord) {
    let Some(guest) = &record.guest else { return };
    sheet.line("");
    sheet.line("both passed to one virtual machine");
    sheet.row("guest", guest.verdict);
    for reason in &guest.reasons {
        sheet.more(reason);
    }
    for need in &guest.needs {
        sheet.more(format_args!("step: {need}"));
    }
}

fn hints(sheet: &mut LabelSheet, record: &PairRecord) {
    let mut commands: Vec<&String> = Vec::new();
    for one in record.forward.iter().chain(&record.backward) {
        commands.extend(
            one.kernel
                .commands
                .iter()
                .filter(|command| !commands.contains(command))
                .collect::<Vec<_>>(),
        );
    }
    if commands.is_empty() {
        return;
    }
    sheet.line("");
    for command in commands {
        sheet.line(format_args!("hint: add the output of `{command}`"));
    }
}
