//! Text of `lspci`, as people paste it, read into a fabric.
//!
//! The full form is that of `sudo lspci -Dvvvnn`; shorter forms say less. Text that was cut, wrapped or
//! quoted is read as far as it goes. A register that is not in the text is unknown, never off.

mod account;
mod acs;
mod blocks;
mod clean;
mod cuts;
mod error;
mod function;
mod gdscheck;
mod heading;
mod links;
mod numbering;
mod nvidia_proc;
mod nvlink;
mod peer_access;
mod picture;
mod smi;
mod surroundings;
mod topology;
mod windows;

use crate::{Fabric, Origin, tunnel};

pub use crate::model::account::{Key, KeyCount, SetAside, SetAsideReason, TextAccount};
pub use error::LspciError;

/// Returns whether a text is meant as output of `lspci`, or as lines that people paste in its place.
pub fn is_lspci(text: &str) -> bool {
    /// Lines looked at: a long preamble may stand before the listing.
    const LINES: usize = 4000;
    let mut headings = 0;
    for line in clean::lines(text).take(LINES) {
        let line = line.text.trim();
        headings += usize::from(heading::is_heading(line));
        if headings > 0
            || picture::is_root(line)
            || acs::is_control(line)
            || nvlink::is_header(line)
            || smi::is_header(line)
            || gdscheck::is_line(line)
            || line
                .strip_prefix("Slot:")
                .is_some_and(|slot| slot.trim().parse::<crate::Bdf>().is_ok())
        {
            return true;
        }
    }
    false
}

/// Reads the text of `lspci`, with other known facts of the machine in the same text.
///
/// # Errors
/// When no PCI function is in it, or functions of two machines are.
pub fn read(text: &str) -> Result<Fabric, LspciError> {
    let mut found = blocks::split(text);
    let mut picture = picture::read(&found.picture);
    found.blocks.iter().for_each(|block| picture.add_path(&block.path, block.line));
    let (mut functions, has_cuts) = function::functions(&mut found, &picture)?;
    if functions.is_empty() {
        return Err(error::refusal(&found));
    }
    let kernel = surroundings::kernel(&found);
    let has_groups = functions.iter().any(|one| one.function.iommu_group.is_some());
    let placed = topology::place(&mut functions);
    let root_buses = cuts::root_buses(&functions, &placed, &found, &picture, has_cuts);
    let (bridges, functions) = topology::build(functions, &placed, &root_buses);
    let thunderbolt: Vec<bool> = functions.iter().map(|one| one.is_thunderbolt).collect();
    let mut fabric = Fabric {
        cpu: surroundings::cpu(&found)
            .unwrap_or_else(|| surroundings::cpu_of_host_bridge(&functions)),
        iommu: surroundings::iommu(kernel.parameters.as_deref(), has_groups),
        kernel,
        bridges,
        functions: functions.into_iter().map(|one| one.function).collect(),
        ..Fabric::unknown("lspci", Origin::Text)
    };
    tunnel::forget_rates(&mut fabric.functions, |at| thunderbolt[at]);
    fabric.account = Some(account::account(&found.lines, &found.ledger, fabric.functions.len()));
    gdscheck::apply(&found.gdscheck, &mut fabric);
    smi::apply(&found.smi, &mut fabric);
    nvidia_proc::apply(&found.nvidia_proc, &mut fabric);
    for matrix in &found.matrices {
        match peer_access::read(matrix, &fabric) {
            Some(answers) => fabric.peer_access.extend(answers),
            None => fabric.nvlinks = fabric.nvlinks.take().or(nvlink::read(&matrix.lines, &fabric)),
        }
    }
    Ok(fabric)
}
