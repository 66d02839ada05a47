//! The two ends of a transfer in words.

use std::fmt::Write as _;

use peerlane_results::{EndpointFacts, EndpointKind, NetworkFacts};

/// An end with its kind, size, and place.
pub fn endpoint(facts: &EndpointFacts) -> String {
    let kind = match facts.kind {
        EndpointKind::Gpu => return gpu(facts),
        EndpointKind::BlockDevice => "block device".to_owned(),
        EndpointKind::Passthrough => "passthrough node".to_owned(),
        EndpointKind::File => match &facts.file_system {
            Some(file_system) => format!("file on {file_system}"),
            None => "file".to_owned(),
        },
    };
    let mut text = format!("{}, {kind}, {}, blocks of {}", facts.path, facts.size, facts.block);
    let mut on: Vec<&str> = Vec::new();
    for name in [&facts.device, &facts.address, &facts.drive].into_iter().flatten() {
        if !facts.path.ends_with(name) && !on.contains(&name.as_str()) {
            on.push(name);
        }
    }
    if !on.is_empty() {
        let _ = write!(text, " ({})", on.join(", "));
    }
    if let Some(NetworkFacts { transport, address, subsystem }) = &facts.network {
        let _ = write!(text, ", over {transport}");
        let known = [(" at ", address), (", ", subsystem)];
        for (before, what) in
            known.into_iter().filter_map(|(before, it)| Some((before, it.as_ref()?)))
        {
            let _ = write!(text, "{before}{what}");
        }
    }
    text
}

/// A GPU has no size as files have it, and no blocks.
fn gpu(facts: &EndpointFacts) -> String {
    let mut text = format!("{}, memory of a GPU", facts.path);
    if let Some(address) = facts.address.as_ref().filter(|one| !facts.path.contains(*one)) {
        let _ = write!(text, " ({address})");
    }
    text
}
