//! Plain max-min fairness over flows: what the fixpoint is compared with, never what it reports.
//!
//! Leaves out arbiters and buffers, which is why it is wrong for PCIe: a switch port takes turns among
//! its inputs, however many flows stand behind each.

use crate::flow::network::Network;

/// Rates of the classes when all flows are raised together and each stops at its first full resource
/// (Bertsekas, Gallager, "Data Networks", 1992, section 6.5.2).
pub fn max_min(network: &Network) -> Vec<f64> {
    let mut rates = vec![0.0; network.classes.len()];
    let mut is_frozen = vec![false; network.classes.len()];
    let mut free: Vec<f64> = network.resources.iter().map(|resource| resource.capacity).collect();
    while is_frozen.contains(&false) {
        let mut slope = vec![0.0; free.len()];
        let mut step = f64::INFINITY;
        for (index, class) in
            network.classes.iter().enumerate().filter(|&(index, _)| !is_frozen[index])
        {
            step = step.min(class.demand - rates[index]);
            for hop in class.legs.iter().flatten() {
                slope[hop.resource as usize] += hop.cost * f64::from(class.count);
            }
        }
        for (free, slope) in free.iter().zip(&slope).filter(|(_, slope)| **slope > 0.0) {
            step = step.min(free / slope);
        }
        let step = step.max(0.0);
        for (free, slope) in free.iter_mut().zip(&slope) {
            *free -= slope * step;
        }
        let is_full = |resource: u32| {
            free[resource as usize] <= network.resources[resource as usize].capacity * 1e-12
        };
        for (index, class) in
            network.classes.iter().enumerate().filter(|(_, class)| class.demand > 0.0)
        {
            if !is_frozen[index] {
                rates[index] += step;
                is_frozen[index] = rates[index] >= class.demand * (1.0 - 1e-12)
                    || class.legs.iter().flatten().any(|hop| is_full(hop.resource));
            }
        }
    }
    rates
}
