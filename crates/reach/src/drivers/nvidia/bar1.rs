//! The window (BAR1) that peers use to reach memory of an NVIDIA GPU.
//!
//! Two GPUs reach each other over PCIe by mailboxes, or by a static BAR1. The driver takes BAR1 where
//! `RMPcieP2PType` asks for it, both windows are static, and reads pass the processor
//! (`_kp2pCapsGetStatusOverPcieBar1`, `kbusIsPcieBar1P2PMappingSupported_GH100`).

use peerlane_fabric::{Bar, Cpu, Function, NvidiaDriver};
use peerlane_units::Bytes;

use super::chip;
use super::storage::dword;
use super::switches::CommonSwitch;
use crate::drivers::ends::DriverEnds;

/// Register of the window, as `nvidia-smi` and the driver count it.
const WINDOW: u8 = 1;
/// The window of a GPU without resizable BAR: smaller than the memory of any since Ampere.
pub(super) const FIXED_WINDOW: Bytes = Bytes(256 << 20);

/// Registry key for the way over PCIe: 0 mailboxes (default), 1 BAR1, 2 BAR1 where the chip has it by
/// default (`NV_REG_STR_RM_PCIEP2P_TYPE`, from 575 on).
const WAY: &str = "RMPcieP2PType";
/// Chips with `PDB_PROP_KBUS_SUPPORT_BAR1_P2P_BY_DEFAULT` (g_kern_bus_nvoc.c).
const BY_DEFAULT: [&str; 7] = ["GB202", "GB203", "GB205", "GB206", "GB207", "GB20B", "GB20C"];
/// Further chips with BAR1 for peers where the key is 1.
const BY_KEY: [&str; 6] = ["GH100", "GB100", "GB102", "GB10B", "GB110", "GB112"];

/// Model number of Sapphire Rapids, the only Intel processor that the driver lets BAR1 reads pass.
const SAPPHIRE_RAPIDS: u32 = 143;
/// First family of AMD's Zen.
const ZEN: u32 = 0x17;

/// The window of a GPU; `None` where it is unknown.
pub(super) fn window(gpu: &Function) -> Option<&Bar> {
    gpu.bars.iter().find(|bar| bar.index == WINDOW)
}

/// Returns whether a window shows all memory of a GPU; `None` where a size is unknown.
pub(super) fn shows_all(gpu: &Function) -> Option<bool> {
    let size = window(gpu)?.size;
    match gpu.memory_size {
        Some(memory) => Some(size >= memory),
        None => (size <= FIXED_WINDOW).then_some(false),
    }
}

/// The GPU whose window is too small for its memory, in words.
pub(super) fn small_window(ends: &DriverEnds<'_>) -> Option<String> {
    let gpu = ends.both().into_iter().find(|gpu| shows_all(gpu) == Some(false))?;
    let bar = window(gpu)?;
    let of = gpu.memory_size.map(|memory| format!(" of {memory}")).unwrap_or_default();
    let more = match bar.largest.filter(|largest| *largest > bar.size) {
        Some(largest) => format!(" (resizable to {largest})"),
        None => String::new(),
    };
    Some(format!("BAR1 of {} shows {}{of}{more}", ends.word(gpu), bar.size))
}

/// First driver with the key.
const SINCE: u32 = 575;

/// The way of payload between two GPUs of one chip over PCIe, in words; `None` for chips that have
/// mailboxes alone.
pub(super) fn way(ends: &DriverEnds<'_>) -> Option<String> {
    let chips = ends.both().map(chip);
    let is_of = |list: &[&str]| chips.iter().all(|one| one.is_some_and(|one| list.contains(&one)));
    let driver = ends.fabric.nvidia.as_ref();
    if driver.and_then(NvidiaDriver::major_version).is_some_and(|major| major < SINCE) {
        return None;
    }
    let key = driver.and_then(|driver| dword(driver, WAY));
    let is_default = is_of(&BY_DEFAULT);
    match key {
        Some(1) if is_default || is_of(&BY_KEY) => Some(with_key(ends)),
        Some(2) if is_default => Some(with_key(ends)),
        _ => is_default.then(|| without_key(ends)),
    }
}

fn with_key(ends: &DriverEnds<'_>) -> String {
    match obstacle(ends) {
        Obstacle::Known(why) => {
            format!("{why}, so it falls back to mailboxes, which may be slower")
        }
        Obstacle::Open(what) => format!("payload goes by BAR1 or falls back to mailboxes: {what}"),
        Obstacle::Absent => {
            format!("{WAY} lets payload go by BAR1 where that is static: as large as the memory")
        }
    }
}

fn without_key(ends: &DriverEnds<'_>) -> String {
    let default = "by default payload goes by mailboxes";
    match obstacle(ends) {
        Obstacle::Known(why) => format!("{default}, and {WAY}=2 would not change it: {why}"),
        Obstacle::Open(what) => format!("{default}; whether {WAY}=2 changes it is open: {what}"),
        Obstacle::Absent => format!("{default}, which may be slower than BAR1 ({WAY}=2)"),
    }
}

/// A fact that keeps the driver from BAR1.
enum Obstacle {
    Known(String),
    Open(String),
    Absent,
}

fn obstacle(ends: &DriverEnds<'_>) -> Obstacle {
    let driver = ends.fabric.nvidia.as_ref();
    if driver.and_then(|driver| dword(driver, "RMForceStaticBar1")) == Some(0) {
        return Obstacle::Known("RMForceStaticBar1=0 forbids a static BAR1".to_owned());
    }
    if let Some(small) = small_window(ends) {
        return Obstacle::Known(format!("{small}, and BAR1 has to show all"));
    }
    if matches!(CommonSwitch::new(ends), CommonSwitch::Listed) {
        return Obstacle::Absent;
    }
    let cpu = &ends.fabric.cpu;
    let needed = "reads by BAR1 need a switch of the driver's list, AMD Zen or Intel's model 143 (Sapphire \
                  Rapids)";
    match reads(cpu) {
        Some(true) => Obstacle::Absent,
        Some(false) => {
            let vendor = cpu.vendor.as_deref().unwrap_or_default();
            let model = cpu.model_number.map(|model| format!(" model {model}"));
            Obstacle::Known(format!("{needed}, and this is {vendor}{}", model.unwrap_or_default()))
        }
        None => Obstacle::Open(format!(
            "{needed}, and which processor this is, is unknown (not in this input)"
        )),
    }
}

/// Returns whether the driver reads through a processor (`_p2pCapsGetHostSystemStatusOverPcieBar1`,
/// cpu.c); `None` where its number is unknown.
fn reads(cpu: &Cpu) -> Option<bool> {
    match cpu.vendor.as_deref()? {
        "AuthenticAMD" => Some(cpu.family? >= ZEN),
        "GenuineIntel" if cpu.family.is_some_and(|family| family != 6) => Some(false),
        "GenuineIntel" => Some(cpu.model_number? == SAPPHIRE_RAPIDS),
        _ => Some(false),
    }
}
