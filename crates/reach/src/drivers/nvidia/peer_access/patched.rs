//! Drivers that were patched to give GeForce cards peer access over PCIe: tinygrad's and aikitoria's.
//!
//! They leave no name in `/proc/driver/nvidia`. Two signs show them: a yes of the driver for cards
//! that the stock one refuses, and registry keys that only they need.

use super::{Verdict, is_kept_geforce};
use crate::drivers::DriverAnswer;
use crate::drivers::ends::DriverEnds;
use crate::drivers::nvidia::storage::dword;
use crate::drivers::nvidia::{bar1, listed};

const PATCHED: &str = "noonghunna/club-3090 #873 and #875; tinygrad/open-gpu-kernel-modules #13 and #18; \
                       aikitoria/open-gpu-kernel-modules #14 and #25";

/// Registry keys that were set where such drivers worked.
const KEYS: [(&str, u32); 2] = [("RMForceStaticBar1", 1), ("PeerMappingOverride", 1)];

/// The verdict where the driver was patched, by its keys.
pub(super) fn by_keys(ends: &DriverEnds<'_>) -> Verdict {
    let are_kept = ends.both().into_iter().all(is_kept_geforce);
    let is_set = |name: &str| dword(ends.fabric.nvidia.as_ref()?, name);
    // Static BAR1 alone is for GPUDirect Storage, too.
    if !are_kept || is_set("PeerMappingOverride") != Some(1) {
        return None;
    }
    let (answer, reason, source) = granted(ends);
    Some((answer, format!("registry keys of a patched driver are set; {reason}"), source))
}

/// The verdict on GeForce cards that a driver lets reach each other over PCIe.
pub(super) fn granted(ends: &DriverEnds<'_>) -> (DriverAnswer, String, &'static str) {
    let reason = match obstacle(ends) {
        Some(obstacle) => format!(
            "only a patched driver does that for GeForce cards, and it may hang or lose data here: \
             {obstacle}"
        ),
        None => {
            let open = needs(ends);
            let needs = if open.is_empty() {
                String::new()
            } else {
                format!("; it needs {}", listed(&open))
            };
            format!(
                "only a patched driver does that for GeForce cards: possible, prove it by comparing data \
                 after a copy{needs}"
            )
        }
    };
    (DriverAnswer::Conditional, reason, PATCHED)
}

/// The fact that defeats a patched driver.
fn obstacle(ends: &DriverEnds<'_>) -> Option<String> {
    if let Some(small) = bar1::small_window(ends) {
        return Some(format!("{small}, and it has to show all of the memory"));
    }
    if ends.is_translated() {
        return Some("the IOMMU translates: boot with iommu=pt".to_owned());
    }
    let driver = ends.fabric.nvidia.as_ref()?;
    driver.parameters.get("RegistryDwords")?;
    let is_missing = |(key, value): &(&str, u32)| dword(driver, key) != Some(*value);
    KEYS.iter().any(is_missing).then(|| {
        "`NVreg_RegistryDwords=\"RMForceStaticBar1=1;PeerMappingOverride=1\"` is not set \
         (`grep Registry /proc/driver/nvidia/params`)"
            .to_owned()
    })
}

/// The conditions that are unknown to hold.
fn needs(ends: &DriverEnds<'_>) -> Vec<&'static str> {
    let shows_all = ends.both().iter().all(|gpu| bar1::shows_all(gpu) == Some(true));
    let has_keys =
        ends.fabric.nvidia.as_ref().is_some_and(|driver| {
            KEYS.iter().all(|(key, value)| dword(driver, key) == Some(*value))
        });
    let conditions = [
        (has_keys, "`RMForceStaticBar1=1;PeerMappingOverride=1`"),
        (shows_all, "BAR1 as large as the memory"),
        (ends.translates() == Some(false), "an IOMMU that is off or in passthrough mode"),
    ];
    conditions.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}
