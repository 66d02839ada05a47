//! Settings of a boot configuration, one by one.

use std::fmt;

use super::command_line::{self, NamedValue};
use super::{BootConfiguration, ModuleOption};

/// One setting, sorted by its reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BootSetting {
    /// One of the options within `pci=`.
    Pci(String),
    /// A parameter of the kernel itself.
    Kernel {
        /// Its name.
        name: String,
        /// Its value, if it has one.
        value: Option<String>,
    },
    /// A parameter of a module, by modprobe or on the kernel command line.
    Module {
        /// Module, parameter and value.
        option: ModuleOption,
        /// Set when it stands on the kernel command line.
        is_parameter: bool,
    },
    /// A module to load.
    Load(String),
}

impl BootSetting {
    /// Every setting: kernel parameters first, options of `pci=` apart, then modules.
    pub(super) fn all(configuration: &BootConfiguration) -> Vec<Self> {
        let parameters =
            configuration.parameters.iter().flat_map(|text| Self::from_parameter(text));
        let options = configuration
            .options
            .iter()
            .map(|option| Self::Module { option: option.clone(), is_parameter: false });
        let modules = configuration.modules.iter().map(|name| Self::Load(name.clone()));
        parameters.chain(options).chain(modules).collect()
    }

    /// The settings in one kernel parameter.
    fn from_parameter(text: &str) -> Vec<Self> {
        let NamedValue { name, value } = NamedValue::new(text);
        if command_line::is_same_name(name, "pci") {
            let options = command_line::pci_options(text);
            return options.map(|option| Self::Pci(option.to_owned())).collect();
        }
        let value = value.map(str::to_owned);
        match name.split_once('.') {
            // `iommu` is not a module: its parameters are the kernel's (drivers/iommu/iommu.c,
            // Linux 7.2).
            Some((module, name)) if module != "iommu" => {
                let (module, name) = (module.to_owned(), name.to_owned());
                let option = ModuleOption { module, name, value };
                vec![Self::Module { option, is_parameter: true }]
            }
            _ => vec![Self::Kernel { name: name.to_owned(), value }],
        }
    }

    /// The option of a module; `None` where the setting belongs to another one.
    pub(super) fn option_of(&self, module: &str) -> Option<&ModuleOption> {
        match self {
            Self::Module { option, .. } if command_line::is_same_name(&option.module, module) => {
                Some(option)
            }
            _ => None,
        }
    }
}

impl fmt::Display for BootSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let assignment = |f: &mut fmt::Formatter<'_>, value: &Option<String>| match value {
            Some(value) => write!(f, "={value}"),
            None => Ok(()),
        };
        match self {
            Self::Pci(option) => write!(f, "pci={option}"),
            Self::Kernel { name, value } => {
                f.write_str(name)?;
                assignment(f, value)
            }
            Self::Module { option: ModuleOption { module, name, value }, is_parameter } => {
                match is_parameter {
                    true => write!(f, "{module}.{name}")?,
                    false => write!(f, "options {module} {name}")?,
                }
                assignment(f, value)
            }
            Self::Load(name) => write!(f, "module {name}"),
        }
    }
}
