//! The route between a path and a device, or between two devices: one word and its reason.
//!
//! Between a path and a GPU, a drive or device memory the plan of a copy decides. Between two devices
//! that exchange no files the kernel's decision and the drivers' own rules decide. Nothing is opened for
//! data, and no drive gets a command, so the answer comes in milliseconds and without root.

mod devices;

use std::fmt;
use std::path::Path;

use peerlane_fabric::{Fabric, FunctionId, FunctionKind};
use peerlane_memory::provider::PROVIDERS;
use peerlane_reach::RouteState;
use peerlane_results::{Asked, Route};

use crate::endpoints::{
    EndError, Endpoint, Notation, look_to_read, no_function, strip_device_directory,
};
use crate::io::failure::{Role, error_in_words};
use crate::io::system::System;
use crate::plan::{PlanError, PlannedRoute, find_gpu, route_only};

/// The route between two ends, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteAnswer {
    /// The route.
    pub word: RouteWord,
    /// The facts that decide, in one sentence or a few joined by semicolons.
    pub reason: String,
}

/// A route in one word, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteWord {
    /// Between the devices; no payload in host memory.
    P2p,
    /// A fact that is unknown decides.
    Unknown,
    /// Through host memory.
    Host,
    /// Neither.
    None,
}

impl fmt::Display for RouteWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::P2p => "p2p",
            Self::Unknown => "unknown",
            Self::Host => "host",
            Self::None => "none",
        })
    }
}

impl From<RouteState> for RouteWord {
    fn from(state: RouteState) -> Self {
        match state {
            RouteState::Direct | RouteState::Expected | RouteState::ViaCpu => Self::P2p,
            RouteState::Unknown => Self::Unknown,
            RouteState::Host => Self::Host,
            RouteState::Impossible => Self::None,
        }
    }
}

impl RouteAnswer {
    fn new(word: RouteWord, reason: impl Into<String>) -> Self {
        Self { word, reason: reason.into() }
    }
}

impl From<PlannedRoute> for RouteAnswer {
    fn from(planned: PlannedRoute) -> Self {
        let word = match planned.route {
            Some(Route::P2p) if planned.is_uncertain => RouteWord::Unknown,
            Some(Route::P2p) => RouteWord::P2p,
            Some(Route::Host) => RouteWord::Host,
            None => RouteWord::None,
        };
        Self::new(word, planned.reason)
    }
}

/// Returns the route between a path or device and a device, in either order.
///
/// # Errors
/// When a word names nothing on the machine, or a path is not a file or block device.
pub fn route_answer(fabric: &Fabric, path: &str, device: &str) -> Result<RouteAnswer, PlanError> {
    match (TypedEnd::new(fabric, path)?, TypedEnd::new(fabric, device)?) {
        (TypedEnd::Path(source), TypedEnd::Path(target)) => {
            let asked = Asked::between(&source, &target);
            planned_or(fabric, &asked, || pair_of_drives(fabric, &source, &target))
        }
        (TypedEnd::Path(path), TypedEnd::Memory(memory, _))
        | (TypedEnd::Memory(memory, _), TypedEnd::Path(path)) => {
            let asked = Asked { via: Some(memory), ..Asked::between(&path, &path) };
            planned_or(fabric, &asked, || None)
        }
        (TypedEnd::Path(path), TypedEnd::Device(device))
        | (TypedEnd::Device(device), TypedEnd::Path(path)) => {
            path_and_device(fabric, &path, device)
        }
        (
            TypedEnd::Memory(_, one) | TypedEnd::Device(one),
            TypedEnd::Memory(_, other) | TypedEnd::Device(other),
        ) => Ok(devices::answer(fabric, one, other)),
    }
}

/// An end, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TypedEnd {
    /// A file or block device here, or a drive, as a plan takes it.
    Path(String),
    /// Memory that payload can rest in, as `--via` takes it, and its provider.
    Memory(String, FunctionId),
    /// Any other function, GPUs among them.
    Device(FunctionId),
}

impl TypedEnd {
    /// Finds an end; a file comes before a device of the same name.
    fn new(fabric: &Fabric, typed: &str) -> Result<Self, PlanError> {
        let is_there = fabric.is_this_machine() && Path::new(typed).exists();
        let notation = typed.parse();
        if is_there && !typed.starts_with("/dev/") && matches!(notation, Ok(Notation::Path(_))) {
            return Ok(Self::Path(typed.to_owned()));
        }
        if let Ok(Notation::Gpu(name)) = notation {
            return find_gpu(fabric, name, typed).map(Self::Device);
        }
        let unknown = || {
            let machine = fabric.name.clone();
            PlanError::UnknownDevice { typed: typed.to_owned(), machine }
        };
        let found =
            PROVIDERS.find(fabric, typed).or_else(|| fabric.find(strip_device_directory(typed)));
        if let Ok(Notation::Device(_)) = notation {
            return found.map(|id| Self::Memory(typed.to_owned(), id)).ok_or_else(unknown);
        }
        match found {
            Some(id) if fabric.function(id).kind == FunctionKind::Nvme => {
                Ok(Self::Path(drive(fabric, id, typed, is_there)))
            }
            Some(id) => Ok(Self::from_function(fabric, id)),
            None if is_there => Ok(Self::Path(typed.to_owned())),
            None => Err(unknown()),
        }
    }

    fn from_function(fabric: &Fabric, id: FunctionId) -> Self {
        let function = fabric.function(id);
        match PROVIDERS.for_function(function) {
            Some((provider, name))
                if function.kind != FunctionKind::Gpu && provider.lends(fabric, id) =>
            {
                Self::Memory(name, id)
            }
            _ => Self::Device(id),
        }
    }
}

/// A drive as a plan finds it: as typed, else by its address.
fn drive(fabric: &Fabric, id: FunctionId, typed: &str, is_there: bool) -> String {
    let is_found =
        !fabric.is_this_machine() && fabric.find(strip_device_directory(typed)).is_some();
    let address = fabric.function(id).address.filter(|_| !is_there && !is_found);
    address.map_or_else(|| typed.to_owned(), |address| address.to_string())
}

/// The route of a plan; `otherwise` judges ends that no copy has.
fn planned_or(
    fabric: &Fabric,
    asked: &Asked,
    otherwise: impl FnOnce() -> Option<RouteAnswer>,
) -> Result<RouteAnswer, PlanError> {
    answer_or(route_only(fabric, asked), otherwise)
}

fn answer_or(
    planned: Result<PlannedRoute, PlanError>,
    otherwise: impl FnOnce() -> Option<RouteAnswer>,
) -> Result<RouteAnswer, PlanError> {
    match planned {
        Ok(planned) => Ok(planned.into()),
        Err(error) if error.is_of_the_machine() => {
            Ok(RouteAnswer::new(RouteWord::None, error_in_words(&error)))
        }
        Err(error) if error.is_of_an_end() => otherwise().ok_or(error),
        Err(error) => Err(error),
    }
}

/// Two drives as functions; `None` if an end is a file.
fn pair_of_drives(fabric: &Fabric, one: &str, other: &str) -> Option<RouteAnswer> {
    let (one, other) = (PROVIDERS.find(fabric, one)?, PROVIDERS.find(fabric, other)?);
    Some(devices::answer(fabric, one, other))
}

fn path_and_device(
    fabric: &Fabric,
    path: &str,
    device: FunctionId,
) -> Result<RouteAnswer, PlanError> {
    let as_function =
        || PROVIDERS.find(fabric, path).map(|drive| devices::answer(fabric, drive, device));
    if fabric.function(device).kind == FunctionKind::Gpu {
        let asked = Asked::between(path, &fabric.device_word(device));
        return match route_only(fabric, &asked) {
            Ok(planned) if planned.is_uncertain => {
                let mut answer = RouteAnswer::from(planned);
                let drive = look(fabric, path)?.initiator;
                let open = drive.map(|drive| devices::open_facts(fabric, device, drive));
                answer.reason.extend(open.iter().flatten().map(|fact| format!("; {fact}")));
                Ok(answer)
            }
            other => answer_or(other, as_function),
        };
    }
    let end = match look(fabric, path) {
        Ok(end) => end,
        Err(error) => return as_function().ok_or_else(|| error.into()),
    };
    if let Some(reason) = &end.facts.refusal {
        let reason = format!("{} cannot take part: {reason}", end.facts.path);
        return Ok(RouteAnswer::new(RouteWord::Host, reason));
    }
    let drives = end.initiator.iter().chain(&end.further);
    let answers = drives.map(|&drive| devices::answer(fabric, drive, device));
    Ok(answers
        .max_by_key(|answer| answer.word)
        .unwrap_or_else(|| RouteAnswer::new(RouteWord::Host, no_function(&end.facts.path))))
}

/// Looks at a path as the source of a copy.
fn look(fabric: &Fabric, path: &str) -> Result<Endpoint, EndError> {
    look_to_read(&System::at(Path::new("/")), fabric, path, Role::Source)
}

#[cfg(test)]
mod tests;
