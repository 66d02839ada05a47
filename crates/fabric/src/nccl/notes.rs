//! Notes on addresses of a topology XML that no real machine has.

use std::collections::BTreeMap;

use super::topology::is_made_up;
use crate::{Bdf, Fabric, Function, FunctionKind, Origin};

/// Most lines that a note lists.
const MOST_LINES: usize = 3;

impl Fabric {
    /// Notes on addresses of a topology XML: those that stand in several places, and those of switches that no
    /// machine has. Empty for other machines.
    pub fn topology_notes(&self) -> Vec<String> {
        if self.origin != Origin::Text {
            return Vec::new();
        }
        let mut notes = self.repeated();
        notes.extend(self.made_up());
        notes
    }

    fn repeated(&self) -> Vec<String> {
        let mut places: BTreeMap<&str, (u32, Vec<u32>)> = BTreeMap::new();
        for function in &self.functions {
            let lines = function.lines.unwrap_or_default();
            // The reader appends the number of the place to the address.
            if let (Some(first), Some((address, _))) =
                (lines.repeats, function.name.rsplit_once('-'))
            {
                places.entry(address).or_insert((first, Vec::new())).1.push(lines.heading);
            }
        }
        let note = |(address, (first, others)): (&str, (u32, Vec<u32>))| {
            let listed: Vec<String> =
                others.iter().take(MOST_LINES).map(ToString::to_string).collect();
            let more = match others.len().saturating_sub(MOST_LINES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let plural = if others.len() == 1 { "" } else { "s" };
            format!(
                "{address} stands in line {first} and again in line{plural} {}{more}: each place is kept, and only \
                 the first has the address; dump the topology again",
                listed.join(", ")
            )
        };
        places.into_iter().map(note).collect()
    }

    fn made_up(&self) -> Option<String> {
        let is_it = |one: &Function| {
            let has = |is: fn(Bdf) -> bool| one.address.is_some_and(is);
            one.kind == FunctionKind::UpstreamPort
                && (has(is_made_up) || has(|address| address.bus() == 0))
        };
        let mut found = self.functions.iter().filter(|one| is_it(one));
        let first = found.next()?.address_or_name();
        let (switches, them) = match found.count() {
            0 => (format!("{first} is a switch"), "it"),
            more => (format!("{first} and {more} more are switches"), "them"),
        };
        Some(format!(
            "{switches} by the word of this file alone: a virtual machine does not show {them}, and its kernel \
             decides without {them}; run `peerlane doctor` there"
        ))
    }
}
