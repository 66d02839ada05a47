//! Text of `lspci`, as people paste it, read into a fabric.
//!
//! The full form is that of `sudo lspci -Dvvvnn`; shorter forms say less. Text that was cut, wrapped or
//! quoted is read as far as it goes. A register that is not in the text is unknown, never off.

mod acs;
mod blocks;
mod clean;
mod cuts;
mod error;
mod function;
mod gdscheck;
mod heading;
mod links;
mod nvlink;
mod picture;
mod surroundings;
mod topology;
mod windows;

use crate::{Environment, Fabric, Origin};

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

/// Reads the text of `lspci`, with what else is known of the machine in the same text.
///
/// # Errors
/// When no PCI function is in it, or functions of two machines are.
pub fn read(text: &str) -> Result<Fabric, LspciError> {
    let found = blocks::split(text);
    let picture = picture::read(&found.picture);
    let (mut functions, has_cuts) = function::functions(&found, &picture)?;
    if functions.is_empty() {
        return Err(error::refusal(&found));
    }
    let kernel = surroundings::kernel(&found);
    let has_groups = functions.iter().any(|one| one.function.iommu_group.is_some());
    let placed = topology::place(&mut functions);
    let root_buses = cuts::root_buses(&functions, &placed, &found, &picture, has_cuts);
    let (bridges, functions) = topology::build(functions, &placed, &root_buses);
    let mut fabric = Fabric {
        name: "lspci".to_owned(),
        origin: Origin::Text,
        cpu: surroundings::cpu(&found)
            .unwrap_or_else(|| surroundings::cpu_of_host_bridge(&functions)),
        iommu: surroundings::iommu(kernel.parameters.as_deref(), has_groups),
        kernel,
        bridges,
        functions: functions.into_iter().map(|one| one.function).collect(),
        product: None,
        libraries: None,
        remote_drives: Vec::new(),
        stacked: Vec::new(),
        mounts: None,
        nvlinks: None,
        nvidia: None,
        cufile: None,
        environment: Environment::default(),
        lab: None,
    };
    gdscheck::apply(&found.gdscheck, &mut fabric);
    fabric.nvlinks = nvlink::read(&found.matrix, &fabric);
    Ok(fabric)
}
