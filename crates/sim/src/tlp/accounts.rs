//! Accounts of every run: once it has drained, bytes, credits, tags and trains add up, and no link has carried more
//! than it can. A broken account makes all figures of a run void.

use super::engine::PacketEngine;
use super::outcome::TlpError;

/// Checks the accounts of a run that has drained.
pub(super) fn check(engine: &PacketEngine, links: usize) -> Result<(), TlpError> {
    let mut broken = Vec::new();
    for (number, leg) in engine.legs.iter().enumerate() {
        let (sent, arrived) = (leg.injected, leg.arrived);
        if sent != arrived {
            broken.push(format!("leg {number} sent {sent} bytes, of which {arrived} arrived"));
        }
    }
    for (number, pool) in engine.net.pools.iter().enumerate() {
        let free = (pool.headers, pool.units);
        if free != pool.full {
            let full = pool.full;
            broken.push(format!("receiver {number} has {free:?} credits free of {full:?}"));
        }
    }
    for tags in engine.net.tags.iter().filter(|tags| tags.free != tags.full) {
        broken.push(format!("an initiator has {} tags free of {}", tags.free, tags.full));
    }
    if engine.slab.live > 0 {
        broken.push(format!("{} trains never arrived", engine.slab.live));
    }
    for (number, port) in engine.net.ports.iter().enumerate().take(2 * links) {
        // Times of trains are rounded to picoseconds.
        let busy = (u128::from(port.wire_bytes) * u128::from(port.picos_per_kib)) >> 10;
        let elapsed = u128::from(port.free_at);
        if busy > elapsed + elapsed / 10_000 {
            let link = number / 2;
            broken.push(format!("link {link} was busy for {busy} ps of {elapsed} ps"));
        }
    }
    match broken.first() {
        None => Ok(()),
        Some(first) => Err(TlpError::Account { count: broken.len(), first: first.clone() }),
    }
}
