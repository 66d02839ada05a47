//! Default routes to a GPU.

use peerlane_bench::workload::{Brief, is_gpu};
use peerlane_engine::endpoints::Notation;
use peerlane_engine::measure::find_gpu;
use peerlane_engine::{DEADLINE, MonotonicClock, Surveyor};
use peerlane_fabric::Fabric;
use peerlane_results::{Asked, Path, Route};

use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

/// Choice to measure also the way that papers compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Classical {
    /// Measured as well.
    Too,
    /// Left out.
    LeftOut,
}

/// True when a brief moves bytes to or from a GPU and names no route.
pub(super) fn has_default_routes(brief: &Brief) -> bool {
    brief.routes.is_empty() && pair(brief).is_some()
}

/// The brief with routes to its GPU: p2p unless the plan excludes it, which is said, and pinned host memory. A
/// brief without a GPU stays as it is.
///
/// # Errors
/// When there is no such GPU to choose a way to.
pub(super) fn with_routes(
    fabric: &Fabric,
    brief: Brief,
    classical: Classical,
    printer: Printer,
) -> Result<Brief, Failure> {
    let Some((source, target)) = pair(&brief) else {
        return match classical {
            Classical::LeftOut => Ok(brief),
            Classical::Too => {
                let hint =
                    "`peerlane bench sweep --routes host-mapped,host-page-cache` has it for files"
                        .to_owned();
                Err(Failure::new("`--classical` is for memory of a GPU").hint(hint))
            }
        };
    };
    let mut routes = brief.routes.clone();
    if routes.is_empty() {
        routes = default_routes(fabric, source, target, printer)?;
    }
    if classical == Classical::Too && !routes.contains(&Path::HostMapped) {
        routes.push(Path::HostMapped);
    }
    Ok(Brief { routes, ..brief })
}

/// Source and target of the first transfer to or from a GPU.
fn pair(brief: &Brief) -> Option<(&str, &str)> {
    let via = brief.via.as_deref().filter(|via| is_gpu(via));
    if let (Some(via), [drive]) = (via, brief.drives.as_slice()) {
        return Some((drive, via));
    }
    let (source, target) = (brief.source.first()?, brief.target.first()?);
    (is_gpu(source) || is_gpu(target)).then_some((source, target))
}

/// Refuses a GPU that CUDA does not show.
fn is_there(typed: &str) -> Result<(), Failure> {
    let Ok(Notation::Gpu(name)) = typed.parse() else { return Ok(()) };
    find_gpu(name).map(|_| ()).map_err(|error| {
        let exit = if error.is_missing() { Exit::NotPossible } else { Exit::Failed };
        let hint = error.hint().map(str::to_owned);
        Tried::to(format!("measure with {typed}"))(error).hint(hint).exit(exit)
    })
}

fn default_routes(
    fabric: &Fabric,
    source: &str,
    target: &str,
    printer: Printer,
) -> Result<Vec<Path>, Failure> {
    for typed in [source, target] {
        is_there(typed)?;
    }
    let asked = Asked { force: true, ..Asked::between(source, target) };
    let clock = MonotonicClock::start();
    let planned = peerlane_engine::plan(fabric, &asked, &Surveyor::new(&clock, DEADLINE));
    let obstacle = match planned {
        Ok(plan) if plan.route == Some(Route::P2p) => None,
        Ok(plan) => Some(plan.reason),
        Err(error) => Some(error.to_string()),
    };
    let Some(reason) = obstacle else { return Ok(vec![Path::P2p, Path::HostPipelined]) };
    printer.note(&format!("p2p is left out: {reason}"));
    Ok(vec![Path::HostPipelined])
}
