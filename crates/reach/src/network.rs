//! A network controller and a drive: the memory that payload may rest in between them, and the command.
//!
//! Neither end needs to own that memory. A controller lends none, and most drives lend none; the kernel's
//! NVMe target takes that of any drive that lends some (`p2pmem`, Linux 7.2 drivers/nvme/target), and a
//! program takes that of a GPU.

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind, Origin};

use crate::drivers::{imports_memory, without_rdma};
use crate::{MapType, decide};

/// Memory that payload between a network controller and a drive may rest in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkDriveMemory {
    /// Owner of memory that is neither of the two; `None` where one of them owns it, or there is
    /// none.
    pub third: Option<FunctionId>,
    /// The facts, each a sentence with its command.
    pub advice: Vec<String>,
}

impl NetworkDriveMemory {
    /// Looks for memory between two functions; `None` unless they are a network controller and a drive.
    pub fn new(fabric: &Fabric, one: FunctionId, other: FunctionId) -> Option<Self> {
        let kinds = [one, other].map(|id| fabric.function(id).kind);
        let (nic, drive) = match kinds {
            [FunctionKind::Nic, FunctionKind::Nvme] => (one, other),
            [FunctionKind::Nvme, FunctionKind::Nic] => (other, one),
            _ => return None,
        };
        if !fabric.are_in_one_machine(nic, drive) {
            return None;
        }
        if let Some(driver) = without_rdma(fabric.function(nic)) {
            let software = fabric.rdma_devices_of(nic).next();
            let (transport, also) = match software {
                Some(rdma) => ("rdma", format!(" and over {}, a software RDMA device,", rdma.name)),
                None => ("tcp", String::new()),
            };
            let fact = format!(
                "{driver} carries no NVMe over RDMA; over TCP{also} the kernel copies payload through \
                 host memory: `peerlane export {} --transport {transport} --listen ADDRESS --allow \
                 HOSTNQN`",
                device_node(fabric.function(drive))
            );
            return Some(Self { third: None, advice: vec![fact] });
        }
        let lenders = lenders(fabric, drive);
        let is_refused = |lender: FunctionId, end: FunctionId| {
            end != lender && decide(fabric, lender, end).map == MapType::NotSupported
        };
        let usable = lenders
            .iter()
            .find(|&&lender| [nic, drive].into_iter().all(|end| !is_refused(lender, end)));
        Some(match (usable, lenders.first()) {
            (Some(&lender), _) => Self {
                third: Some(lender).filter(|&lender| lender != drive),
                advice: vec![by_memory_of(fabric, lender, (nic, drive))],
            },
            (None, Some(&lender)) => {
                Self { third: None, advice: vec![refused(fabric, lender, (nic, drive))] }
            }
            (None, None) => {
                let gpu = gpu_for(fabric, nic);
                let advice = vec![nobody_lends(fabric), by_gpu(fabric, gpu, (nic, drive))];
                Self { third: gpu, advice }
            }
        })
    }
}

/// Drives that lend memory, the drive itself first.
fn lenders(fabric: &Fabric, drive: FunctionId) -> Vec<FunctionId> {
    let lends = |id: &FunctionId| {
        let one = fabric.function(*id);
        one.kind == FunctionKind::Nvme && one.p2pmem.is_some_and(|pool| pool.published)
    };
    let others = fabric.iter().map(|(id, _)| id).filter(|&id| id != drive);
    std::iter::once(drive).chain(others).filter(lends).collect()
}

fn by_memory_of(
    fabric: &Fabric,
    lender: FunctionId,
    (nic, drive): (FunctionId, FunctionId),
) -> String {
    format!(
        "over RDMA the kernel's NVMe target can put payload into memory of {}, which {} reads and \
         writes: `peerlane export {} --transport rdma --p2pmem cmb:{} --listen ADDRESS --allow HOSTNQN`",
        fabric.device_word(lender),
        fabric.device_word(nic),
        device_node(fabric.function(drive)),
        fabric.function(lender).name
    )
}

fn refused(fabric: &Fabric, lender: FunctionId, (nic, drive): (FunctionId, FunctionId)) -> String {
    let [lender, nic, drive] = [lender, nic, drive].map(|id| fabric.device_word(id));
    format!(
        "{lender} lends memory, and the kernel refuses that between {nic} and {drive}, so NVMe over \
         Fabrics goes through host memory: `peerlane plan {nic} {lender}`"
    )
}

fn nobody_lends(fabric: &Fabric) -> String {
    if fabric.origin == Origin::Text {
        return "the text does not show which drives lend memory (CMB): `sudo peerlane capture -o \
                machine.tar.zst`; where one does, NVMe over RDMA can use it: `peerlane export DRIVE \
                --transport rdma --p2pmem auto --listen ADDRESS --allow HOSTNQN`"
            .to_owned();
    }
    "a network controller lends no memory, and no drive here does (CMB), so NVMe over Fabrics goes \
     through host memory"
        .to_owned()
}

fn device_node(drive: &Function) -> String {
    let mut namespaces = drive.nvme.iter().flat_map(|nvme| &nvme.namespaces);
    let name = namespaces.next().and_then(|namespace| namespace.name.as_ref());
    name.map_or_else(|| "DRIVE".to_owned(), |name| format!("/dev/{name}"))
}

/// The nearest GPU whose memory a network controller could register; `None` where its driver imports
/// none, or is unknown.
fn gpu_for(fabric: &Fabric, nic: FunctionId) -> Option<FunctionId> {
    fabric.function(nic).driver.name().is_some_and(imports_memory).then_some(())?;
    let gpus = fabric
        .iter()
        .filter(|(id, one)| one.kind == FunctionKind::Gpu && fabric.memory(*id).is_some())
        .map(|(id, _)| id);
    gpus.min_by_key(|&gpu| decide(fabric, gpu, nic).distance.unwrap_or(u32::MAX))
}

/// The way through memory of a GPU, or the reason why there is none.
fn by_gpu(
    fabric: &Fabric,
    gpu: Option<FunctionId>,
    (nic, drive): (FunctionId, FunctionId),
) -> String {
    let Some(gpu) = gpu else {
        return "a direct path needs a drive with a CMB, or a GPU and a controller that registers \
                its memory"
            .to_owned();
    };
    let [gpu, nic, drive] = [gpu, nic, drive].map(|id| fabric.device_word(id));
    format!(
        "memory of {gpu} can lie between them, by GPUDirect RDMA or dma-buf on one side and \
         GPUDirect Storage on the other: `peerlane plan {nic} {gpu}`, `peerlane plan {drive} {gpu}`"
    )
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{RdmaDevice, RdmaPort};

    use super::*;

    const LENDER: &str = "p2pmem = { size = '64M', available = '64M', published = true }";

    fn machine(nic: &str, drive: &str, more: &str) -> Fabric {
        peerlane_testing::machine(&format!("eth nic {nic}\nnvme0 nvme {drive}\n{more}"))
    }

    fn between(fabric: &Fabric) -> NetworkDriveMemory {
        let [nic, drive] = ["eth", "nvme0"].map(|name| fabric.find(name).expect("a function"));
        let found = NetworkDriveMemory::new(fabric, nic, drive);
        assert_eq!(found, NetworkDriveMemory::new(fabric, drive, nic), "the order does not matter");
        found.expect("a controller and a drive")
    }

    fn advice(fabric: &Fabric) -> String {
        between(fabric).advice.join("\n")
    }

    const MLX5: &str = "driver = 'mlx5_core'";
    const GPU: &str = "g gpu 10de: bars = [{ index = 1, size = '64G', prefetchable = true }]";

    #[test]
    fn lending_drive_exports_through_cmb() {
        let fabric = machine(MLX5, LENDER, "");
        assert_eq!(between(&fabric).third, None, "the drive owns it");
        let said = advice(&fabric);
        let command = "`peerlane export DRIVE --transport rdma --p2pmem cmb:nvme0 \
                       --listen ADDRESS --allow HOSTNQN`";
        assert!(said.contains(command) && !said.contains("GPU"), "{said}");
    }

    #[test]
    fn cmb_of_another_drive_serves() {
        let fabric = machine(MLX5, "", &format!("nvme1 nvme {LENDER}"));
        assert_eq!(between(&fabric).third, fabric.find("nvme1"));
        let said = advice(&fabric);
        assert!(said.contains("into memory of nvme1, which eth reads"), "{said}");
        assert!(said.contains("--p2pmem cmb:nvme1"), "{said}");
    }

    #[test]
    fn gpu_lies_between_where_nobody_lends() {
        let fabric = machine(MLX5, "", GPU);
        assert_eq!(between(&fabric).third, fabric.find("g"));
        let said = advice(&fabric);
        assert!(said.contains("lends no memory") && !said.contains("peerlane export"), "{said}");
        assert!(said.contains("`peerlane plan eth gpu:0`, `peerlane plan nvme0 gpu:0`"), "{said}");
        let said = advice(&machine(MLX5, "", ""));
        assert!(said.contains("needs a drive with a CMB, or a GPU"), "{said}");
    }

    #[test]
    fn unpublished_memory_is_not_lent() {
        let closed = "p2pmem = { size = '64M', available = '64M', published = false }";
        let said = advice(&machine(MLX5, closed, ""));
        assert!(said.contains("lends no memory"), "{said}");
    }

    #[test]
    fn controller_without_rdma_copies_over_tcp() {
        for driver in ["virtio-pci", "e1000e", "igb"] {
            let said = advice(&machine(&format!("driver = '{driver}'"), LENDER, GPU));
            assert!(said.starts_with(driver) && said.contains("--transport tcp"), "{said}");
            assert!(said.contains("through host memory") && !said.contains("rdma --"), "{said}");
        }
    }

    #[test]
    fn software_rdma_is_offered_with_its_route() {
        let nic = "driver = 'virtio-pci'; kernel_names = ['eth0']";
        let port = RdmaPort { netdev: Some("eth0".to_owned()), ..RdmaPort::default() };
        let device = RdmaDevice { name: "rxe0".to_owned(), function: None, ports: vec![port] };
        let fabric = Fabric { rdma_devices: vec![device], ..machine(nic, LENDER, "") };
        let said = advice(&fabric);
        assert!(said.contains("over TCP and over rxe0, a software RDMA device, the kernel copies"));
        assert!(said.contains("--transport rdma") && !said.contains("p2pmem"), "{said}");
    }

    #[test]
    fn refused_memory_is_not_offered() {
        let said = advice(&peerlane_testing::machine(&format!(
            "cpu = {{ vendor = 'GenuineIntel', family = 6 }}
             root-1 root-port 8086:1901 @0000:00:01.0 acs = 'absent'
               eth nic acs = 'absent'; {MLX5}
             root-2 root-port 8086:1901 @0000:00:02.0 acs = 'absent'
               nvme0 nvme acs = 'absent'; {LENDER}"
        )));
        assert!(
            said.contains("the kernel refuses") && said.contains("`peerlane plan eth nvme0`"),
            "{said}"
        );
        assert!(!said.contains("peerlane export"), "{said}");
    }

    #[test]
    fn older_rdma_cannot_use_gpu() {
        let fabric = machine("driver = 'mlx4_core'", "", GPU);
        assert_eq!(between(&fabric).third, None);
        assert!(advice(&fabric).contains("a controller that registers"), "{fabric:?}");
    }

    #[test]
    fn text_asks_for_a_capture() {
        let fabric = Fabric { origin: Origin::Text, ..machine("", "", "") };
        let said = advice(&fabric);
        assert!(said.contains("peerlane capture") && said.contains("--p2pmem auto"), "{said}");
        assert!(!said.contains("no drive here"), "{said}");
    }

    #[test]
    fn other_pairs_get_no_advice() {
        let fabric = machine(MLX5, "", GPU);
        let [nic, gpu] = ["eth", "g"].map(|name| fabric.find(name).expect("a function"));
        assert_eq!(NetworkDriveMemory::new(&fabric, nic, gpu), None);
        let text = include_str!("../../../machines/two-servers.toml");
        let fabric = Fabric::from_toml(text).expect("a machine file");
        let [nic, drive] =
            ["store/nic", "compute/drive"].map(|name| fabric.find(name).expect("a function"));
        assert_eq!(NetworkDriveMemory::new(&fabric, nic, drive), None, "they are in two machines");
        assert_eq!(crate::Pair::new(&fabric, nic, drive).path, crate::PacketPath::default());
    }
}
