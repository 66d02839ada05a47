//! Target devices of a case, held exclusively while its transfers open them too; several may write
//! to one device.

use std::path::PathBuf;

use super::{MeasureError, Result};
use peerlane_units::Nanos;

use super::planned::PlannedFlow;
use crate::endpoints::open::Opened;
use crate::endpoints::{Live, PathNode};
use crate::transfer::copy::{Claim, open_in_place};

/// Keeps other programs from opening the target devices exclusively, and from mounting them, until
/// it is dropped.
#[derive(Debug, Default)]
pub struct Hold(Vec<(PathBuf, Opened)>);

impl Hold {
    /// Takes the target devices of these flows, each once.
    ///
    /// # Errors
    /// When one is in use or may not be opened.
    pub fn new(flows: &[PlannedFlow], deadline: Nanos) -> Result<Self> {
        let mut held: Vec<(PathBuf, Opened)> = Vec::new();
        for flow in flows {
            let live = flow.target.storage().and_then(|end| end.live.as_ref());
            let Some(live) = live.filter(|live| live.node == PathNode::Block) else { continue };
            let path = live.guarded_path().to_owned();
            if held.iter().any(|(one, _)| *one == path) {
                continue;
            }
            let opened = open_in_place(live, 0, Claim::Exclusive, deadline)
                .map_err(|error| MeasureError::Open(Box::new(error)))?;
            held.push((path, opened));
        }
        Ok(Self(held))
    }

    /// Returns the kind of open for a flow's target next to these holds.
    pub(super) fn claim(&self, live: &Live) -> Claim {
        let is_held = self.0.iter().any(|(path, _)| path == live.guarded_path());
        if is_held { Claim::Shared } else { Claim::Exclusive }
    }
}
