//! Warnings from drives: wrong claims of a case, and states that will not last.

use peerlane_fabric::{Fabric, Temperature};
use peerlane_results::{CaseRecord, Warning};
use peerlane_units::Bytes;

use super::{DriveSurroundings, Nonsense, RequestDirection, SourceContent, Surroundings};
use peerlane_evidence::{CaseDrive, DriveBytes, Requests, Root};

impl DriveSurroundings {
    /// Reads the state of a drive from sysfs and from the fabric.
    pub(super) fn read(fabric: &Fabric, root: &Root, drive: &CaseDrive) -> Self {
        let disk = root.disk_of(&drive.name);
        let at = |file: &str| format!("sys/class/block/{disk}/{file}");
        let cache = root.text(&at("queue/write_cache")).ok();
        // Blocks as the namespace counts them (NVM Command Set, "Namespace Utilization").
        let block: Option<u64> = root.number(&at("queue/logical_block_size")).ok();
        let in_use: Option<u64> = root.number(&at("nuse")).ok();
        let sectors: Option<u64> = root.number(&at("size")).ok();
        Self {
            drive: drive.clone(),
            claimed: DriveBytes::default(),
            counted: None,
            temperature: temperature(fabric, drive),
            has_write_cache: cache.and_then(|text| match text.as_str() {
                "write back" => Some(true),
                "write through" => Some(false),
                _ => None,
            }),
            content: SourceContent::NotLookedAt,
            in_use: in_use.zip(block).and_then(|(used, block)| used.checked_mul(block)).map(Bytes),
            size: sectors.and_then(|sectors| sectors.checked_mul(512)).map(Bytes),
        }
    }
}

fn temperature(fabric: &Fabric, drive: &CaseDrive) -> Option<Temperature> {
    let found = drive.address.and_then(|address| {
        fabric.functions.iter().find(|function| function.address == Some(address))
    });
    found?.nvme.as_ref()?.temperature
}

/// Every byte of direct I/O was asked of its drive.
pub(super) fn check(case: &CaseRecord, drives: &[DriveSurroundings]) -> Result<(), Nonsense> {
    for around in drives.iter().filter(|around| around.drive.requests == Requests::Direct) {
        let Some(counted) = around.counted else { continue };
        let claimed = around.claimed;
        for (direction, claimed, counted) in [
            (RequestDirection::Read, claimed.read, counted.read),
            (RequestDirection::Written, claimed.written, counted.written),
        ] {
            if counted < claimed {
                let (case, drive) = (case.asked.name.clone(), around.drive.name.clone());
                return Err(Nonsense::AboveCompleted { case, drive, direction, claimed, counted });
            }
        }
    }
    Ok(())
}

/// A rate that ends below this share of where it began, in percent, has left a cache behind.
const FALLEN_TO_PERCENT: u128 = 80;
/// So close to where it warns, in thousandths of a degree, a drive gets there while it works.
const CLOSE: i32 = 3_000;

pub(super) fn warnings(_case: &CaseRecord, around: &Surroundings) -> Vec<Warning> {
    around.drives.iter().flat_map(|drive| drive_warnings(drive, around)).collect()
}

fn drive_warnings(one: &DriveSurroundings, around: &Surroundings) -> Vec<Warning> {
    let drive = || one.drive.name.clone();
    let hot = one.temperature.and_then(|found| {
        let limit = found.warning.or(found.critical)?;
        let is_hot = found.current >= limit.saturating_sub(CLOSE);
        is_hot.then(|| Warning::DriveHot { drive: drive(), temperature: found.current, limit })
    });
    let cached =
        sign_of_cache(one, around).map(|sign| Warning::InWriteCache { drive: drive(), sign });
    let empty = sign_of_emptiness(one).map(|sign| Warning::NeverWritten { drive: drive(), sign });
    hot.into_iter().chain(cached).chain(empty).collect()
}

fn sign_of_cache(one: &DriveSurroundings, around: &Surroundings) -> Option<String> {
    if one.claimed.written == Bytes::ZERO {
        return None;
    }
    let fell = around.pace.filter(|pace| {
        u128::from(pace.last.0) * 100 < u128::from(pace.first.0) * FALLEN_TO_PERCENT
    });
    if let Some(pace) = fell {
        return Some(format!("the rate fell from {} to {} while it ran", pace.first, pace.last));
    }
    let is_on = one.has_write_cache == Some(true);
    is_on.then(|| "its volatile write cache is on (`queue/write_cache`)".to_owned())
}

fn sign_of_emptiness(one: &DriveSurroundings) -> Option<String> {
    if one.claimed.read == Bytes::ZERO {
        return None;
    }
    if one.content == SourceContent::AllZero {
        return Some("all that was looked at is zero".to_owned());
    }
    let in_use = one.in_use.filter(|&used| used < one.claimed.read && Some(used) < one.size);
    in_use.map(|used| format!("its namespace says that {used} of it are in use (`nuse`)"))
}
