//! Values of the model in the words of records.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::Condition;

use crate::{EndpointFacts, ReachCondition};

impl EndpointFacts {
    /// The function that serves this end; `None` where the fabric has none by its names.
    pub fn function(&self, fabric: &Fabric) -> Option<FunctionId> {
        [self.address.as_deref(), self.device.as_deref(), Some(self.path.as_str())]
            .into_iter()
            .flatten()
            .find_map(|name| fabric.find_device(name))
    }
}

impl From<&Condition> for ReachCondition {
    fn from(condition: &Condition) -> Self {
        Self {
            fact: condition.fact.name().to_owned(),
            equals: condition.equals.to_owned(),
            verdict: condition.verdict,
        }
    }
}
