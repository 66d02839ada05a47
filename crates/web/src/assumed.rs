//! What if: a machine with steps of its plan done, or with settings that were typed.

use std::path::Path;

use peerlane_doctor::{HostFacts, assumed_setting, drop_ins, examine};
use peerlane_fabric::Fabric;
use peerlane_fabric::assume::{BootConfiguration, BootConfigurationError};
use peerlane_results::{AssumedSetting, DoctorRecord, PlanStep};
use serde::Deserialize;

use crate::failure::Failure;

/// Name of the folder of drop-ins in errors.
const PLAN: &str = "the plan";
/// Name of typed settings in errors.
const SETTINGS: &str = "the settings";

/// Boot configuration taken as in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Assumption {
    /// Steps of the plan, by their position.
    #[serde(default)]
    steps: Vec<u32>,
    /// Kernel parameters or module options, as a file would hold them.
    #[serde(default)]
    settings: String,
}

/// A machine with a boot configuration in force.
#[derive(Debug)]
pub(crate) struct AssumedMachine {
    pub fabric: Fabric,
    pub settings: Vec<AssumedSetting>,
}

impl AssumedMachine {
    /// Puts the settings in force on a copy of a machine.
    pub(crate) fn new(fabric: &Fabric, assumption: &Assumption) -> Result<Self, Failure> {
        let record = examine(fabric, &HostFacts::default());
        let is_chosen = |step: &PlanStep| assumption.steps.contains(&step.order);
        let steps = record.steps.iter().filter(|step| is_chosen(step)).cloned().collect();
        let files = drop_ins(&DoctorRecord { steps, ..record });
        let files = files.iter().map(|file| (Path::new(file.path), file.content.as_str()));
        let mut configuration =
            BootConfiguration::of_files(Path::new(PLAN), files).map_err(|error| refused(&error))?;
        if !assumption.settings.trim().is_empty() {
            let typed = BootConfiguration::parse(Path::new(SETTINGS), &assumption.settings)
                .map_err(|error| refused(&error))?;
            configuration.parameters.extend(typed.parameters);
            configuration.options.extend(typed.options);
            configuration.modules.extend(typed.modules);
        }
        let mut fabric = fabric.clone();
        let applied = configuration.apply(&mut fabric);
        let settings = applied.into_iter().map(assumed_setting).collect();
        Ok(Self { fabric, settings })
    }
}

fn refused(error: &BootConfigurationError) -> Failure {
    Failure::new(error, Some(error.hint()))
}
