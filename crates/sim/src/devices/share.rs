//! Flows that share: everybody gets the same until something is full.
//!
//! Leaves out what PCIe really does under congestion, which is the flow engine's part: turns at input ports
//! and back-pressure. The one thing to know: for flows that are alike it gives the same, and that is all
//! it is used for here.

/// One flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    /// Bytes a second that it would take alone, for reasons of its own.
    pub most: f64,
    /// Resources by position, and how much of each a byte of it takes.
    pub takes: Vec<(usize, f64)>,
}

/// What a flow got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Bytes a second.
    pub rate: f64,
    /// The resource that stopped it; `None` where it got all that it would take alone.
    pub stopped_by: Option<usize>,
}

/// Raises all flows together until each is stopped by a full resource or by itself: progressive filling
/// (Bertsekas and Gallager, Data Networks, section 6.5.2).
pub fn fill(capacities: &[f64], demands: &[Demand]) -> Vec<Share> {
    let mut left = capacities.to_vec();
    let mut shares = vec![None; demands.len()];
    let mut level = 0.0;
    while shares.iter().any(Option::is_none) {
        let open = |index: &usize| shares[*index].is_none();
        let mut load = vec![0.0; left.len()];
        for index in (0..demands.len()).filter(open) {
            for &(resource, weight) in &demands[index].takes {
                load[resource] += weight;
            }
        }
        let full = (0..left.len())
            .filter(|&resource| load[resource] > 0.0)
            .map(|resource| (left[resource].max(0.0) / load[resource], resource))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let own = (0..demands.len())
            .filter(open)
            .map(|index| (demands[index].most - level, index))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((own_step, own_index)) = own else { break };
        let step = full.map_or(own_step, |(step, _)| step.min(own_step)).max(0.0);
        level += step;
        for (left, load) in left.iter_mut().zip(&load) {
            *left -= step * load;
        }
        match full {
            Some((full_step, resource)) if full_step < own_step => {
                for (share, demand) in shares.iter_mut().zip(demands) {
                    let takes = demand.takes.iter().any(|&(taken, _)| taken == resource);
                    if share.is_none() && takes {
                        *share = Some(Share { rate: level, stopped_by: Some(resource) });
                    }
                }
            }
            _ => shares[own_index] = Some(Share { rate: level, stopped_by: None }),
        }
    }
    let nothing = Share { rate: 0.0, stopped_by: None };
    shares.into_iter().map(|share| share.unwrap_or(nothing)).collect()
}
