//! Values of the model in the words of records.

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{self as reach, Condition, MapType, RouteState};

use crate::{Answer, DriverRule, EndpointFacts, ReachCondition, ReachVerdict, Use, UseState};

impl EndpointFacts {
    /// The function that serves this end; `None` where the fabric has none by its names.
    pub fn function(&self, fabric: &Fabric) -> Option<FunctionId> {
        [self.address.as_deref(), self.device.as_deref(), Some(self.path.as_str())]
            .into_iter()
            .flatten()
            .find_map(|name| fabric.find_device(name))
    }
}

impl From<RouteState> for UseState {
    fn from(state: RouteState) -> Self {
        match state {
            RouteState::Direct => Self::Direct,
            RouteState::Expected => Self::Expected,
            RouteState::ViaCpu => Self::ViaCpu,
            RouteState::Unknown => Self::Unknown,
            RouteState::Host => Self::Host,
            RouteState::Impossible => Self::No,
        }
    }
}

impl From<reach::Use> for Use {
    fn from(of_use: reach::Use) -> Self {
        match of_use {
            reach::Use::StorageToGpu => Self::StorageGpu,
            reach::Use::NetworkToGpu => Self::NetworkGpu,
            reach::Use::GpuToGpu => Self::GpuGpu,
            reach::Use::DriveToDrive => Self::DriveDrive,
            reach::Use::NetworkToDrive => Self::NetworkDrive,
            reach::Use::StorageToFpga => Self::StorageFpga,
        }
    }
}

impl From<MapType> for ReachVerdict {
    fn from(map: MapType) -> Self {
        match map {
            MapType::BusAddress => Self::BusAddress,
            MapType::ThroughHostBridge => Self::ThroughHostBridge,
            MapType::NotSupported => Self::Refused,
            MapType::Conditional => Self::Conditional,
            MapType::Unknown => Self::Unknown,
        }
    }
}

impl From<&Condition> for ReachCondition {
    fn from(condition: &Condition) -> Self {
        Self {
            fact: condition.fact.name().to_owned(),
            equals: condition.equals.to_owned(),
            verdict: condition.verdict.into(),
        }
    }
}

impl From<reach::DriverAnswer> for Answer {
    fn from(answer: reach::DriverAnswer) -> Self {
        match answer {
            reach::DriverAnswer::Possible => Self::Possible,
            reach::DriverAnswer::Expected => Self::Expected,
            reach::DriverAnswer::Refused => Self::Refused,
            reach::DriverAnswer::Conditional => Self::Conditional,
            reach::DriverAnswer::NotKnown => Self::NotKnown,
        }
    }
}

impl From<reach::DriverRule> for DriverRule {
    fn from(rule: reach::DriverRule) -> Self {
        Self {
            driver: rule.driver,
            mechanism: rule.mechanism,
            asks_kernel: rule.asks_kernel,
            answer: rule.answer.into(),
            reason: rule.reason,
            source: rule.source,
        }
    }
}
