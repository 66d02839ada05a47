//! Parameters of a file that nothing of a machine has a use for: most likely a name misspelt.
//!
//! Leaves out whether a number makes sense. The one thing to know: a device has several names, and each will do.

use peerlane_fabric::Fabric;

use super::of_devices::Names;
use super::setting::parameters;
use crate::parameters::Parameters;

/// The names of parameters that change nothing: neither built in, nor of a device of the machine.
pub fn strangers<'a>(given: &'a Parameters, fabric: &Fabric) -> Vec<&'a str> {
    let built_in = parameters(None).unwrap_or_default();
    let devices = Names::of(fabric);
    let names = given.iter().map(|parameter| parameter.name.as_str());
    let is_known = |name: &str| built_in.position(name).is_ok() || devices.own_name(name).is_some();
    names.filter(|name| !is_known(name)).collect()
}
