//! Parameters of the modules `nvme` and `nvme_core`.

use super::SettingEffect::{Changed, NoChange, NotHonoured};
use super::setting::BootSetting;
use super::{SettingEffect, command_line};
use crate::{CmbRegisters, Fabric};

/// A change by a yes or a no.
type Switch = fn(bool, &mut Fabric) -> SettingEffect;

/// Module, parameter and its change.
const SWITCHES: [(&str, &str, Switch); 2] =
    [("nvme", "use_cmb_sqes", set_use_cmb_sqes), ("nvme_core", "multipath", set_multipath)];

/// Changes CMBs and multipath heads.
pub(super) fn apply(setting: &BootSetting, fabric: &mut Fabric) -> Option<SettingEffect> {
    let (option, switch) = SWITCHES.iter().find_map(|(module, name, switch)| {
        let option = setting.option_of(module)?;
        command_line::is_same_name(&option.name, name).then_some((option, switch))
    })?;
    Some(match command_line::truth(option.value.as_deref()) {
        Some(value) => switch(value, fabric),
        None => NotHonoured(format!(
            "`{}` is neither yes nor no, so that the module refuses it",
            option.value.as_deref().unwrap_or_default()
        )),
    })
}

/// `use_cmb_sqes`: submission queues lie in a CMB that takes them (`nvme_alloc_sq_cmds` in
/// drivers/nvme/host/pci.c, Linux 7.2).
fn set_use_cmb_sqes(value: bool, fabric: &mut Fabric) -> SettingEffect {
    if fabric.kernel.use_cmb_sqes == Some(value) {
        return NoChange("it is set so already".to_owned());
    }
    fabric.kernel.use_cmb_sqes = Some(value);
    if value {
        return Changed(
            "submission queues lie in CMBs that take them, and leave the rest to peers".to_owned(),
        );
    }
    for function in &mut fabric.functions {
        let registers = function.nvme.as_ref().and_then(|nvme| nvme.cmb);
        let held_queues = registers.is_some_and(CmbRegisters::takes_submission_queues);
        if let Some(memory) = function.p2pmem.as_mut().filter(|_| held_queues) {
            memory.available = memory.size;
        }
    }
    Changed("submission queues lie in host memory, and CMBs are whole for peers".to_owned())
}

/// `multipath`: one block device stands for the paths of a namespace (drivers/nvme/host/multipath.c).
fn set_multipath(value: bool, fabric: &mut Fabric) -> SettingEffect {
    if fabric.kernel.nvme_multipath == Some(value) {
        return NoChange("it is set so already".to_owned());
    }
    fabric.kernel.nvme_multipath = Some(value);
    if value {
        return Changed(
            "namespaces of subsystems with several controllers get multipath heads; which these are \
             is unknown here"
                .to_owned(),
        );
    }
    let drives = fabric.functions.iter_mut().filter_map(|function| function.nvme.as_mut());
    let namespaces = drives.flat_map(|drive| &mut drive.namespaces);
    let heads: Vec<_> = namespaces.filter(|namespace| namespace.is_multipath_head).collect();
    let count = heads.len();
    for head in heads {
        head.is_multipath_head = false;
    }
    match count {
        0 => Changed("no namespace has a multipath head, and none gets one".to_owned()),
        _ => Changed(format!(
            "{count} multipath heads become a block device for each path; they may have other names \
             than here"
        )),
    }
}
