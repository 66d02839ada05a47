//! The memory between drive and network, chosen before anything is made.

use peerlane_engine::export::memories;
use peerlane_fabric::{Fabric, FunctionId, RdmaDevice};
use peerlane_memory::provider::PROVIDERS;
use peerlane_nvmet::{Listen, PayloadMemory};
use peerlane_results::{ExportMemory, MapType, MemoryKind};

use crate::args::AskedMemory;
use crate::error::Failure;

/// The memory of an export, and the candidates.
#[derive(Debug)]
pub(super) struct MemoryPlan {
    pub(super) memory: PayloadMemory,
    pub(super) reason: String,
    /// The RDMA device that has the address.
    pub(super) rdma_device: Option<RdmaDevice>,
    /// P2P memories, judged; empty unless the transport is RDMA.
    pub(super) memories: Vec<ExportMemory>,
}

impl MemoryPlan {
    /// Judges the memories of the machine for a drive and the RDMA device of an address.
    ///
    /// # Errors
    /// When a memory that was asked for is not there, or does not reach drive and network.
    pub(super) fn new(
        fabric: &Fabric,
        drive: Option<FunctionId>,
        asked: &AskedMemory,
        listen: Listen,
    ) -> Result<Self, Failure> {
        let nic = match listen {
            Listen::Rdma(address) => fabric.rdma_port_at(address.ip()).map(|(device, _)| device),
            Listen::Tcp(_) | Listen::Loop => None,
        };
        let mut plan = Self {
            memory: PayloadMemory::Host,
            reason: String::new(),
            rdma_device: nic.cloned(),
            memories: Vec::new(),
        };
        if let (Listen::Rdma(_), Some(drive), None) = (listen, drive, plan.software()) {
            plan.memories = memories(fabric, drive, nic.and_then(|nic| nic.function));
        }
        match asked {
            AskedMemory::Named(typed) => {
                plan.refuse_software(typed)?;
                plan.choose(address_of(fabric, typed)?, typed, listen)?;
            }
            AskedMemory::Off => plan.reason = "requested".to_owned(),
            AskedMemory::Auto => plan.choose_any(listen),
        }
        match listen {
            Listen::Tcp(_) if plan.memory == PayloadMemory::Host => {
                plan.reason = "over tcp payload goes through host memory on both sides".to_owned();
            }
            Listen::Loop if plan.memory == PayloadMemory::Host => {
                plan.reason = "by loop payload goes through host memory".to_owned();
            }
            _ => {}
        }
        Ok(plan)
    }

    /// The kind of memory, for the record.
    pub(super) fn kind(&self) -> MemoryKind {
        match self.memory {
            PayloadMemory::Host => MemoryKind::Host,
            PayloadMemory::AnyP2p | PayloadMemory::P2p(_) => MemoryKind::P2pmem,
        }
    }

    /// Name of the RDMA device if it is a software device.
    fn software(&self) -> Option<&str> {
        self.rdma_device.as_ref().filter(|nic| nic.function.is_none()).map(|nic| nic.name.as_str())
    }

    /// Refuses every memory where the RDMA device is software: the kernel would take it, and not use it.
    fn refuse_software(&self, typed: &str) -> Result<(), Failure> {
        let Some(name) = self.software() else { return Ok(()) };
        let error = format!(
            "cannot keep payload in {typed}: {name} is a software RDMA device and does no DMA; the \
             kernel accepts the memory, and copies payload through host memory"
        );
        let hint = "leave --p2pmem out; `rdma link show` lists RDMA devices".to_owned();
        Err(Failure::new(error).hint(hint))
    }

    /// Takes one memory. With another transport than RDMA the making of the export refuses it.
    fn choose(&mut self, address: String, typed: &str, listen: Listen) -> Result<(), Failure> {
        let is_it = |memory: &&ExportMemory| memory.address.as_deref() == Some(address.as_str());
        let judged = self.memories.iter().find(is_it);
        let is_refused = |judged: &&ExportMemory| {
            [Some(judged.drive), judged.nic].contains(&Some(MapType::NotSupported))
        };
        if let Some(judged) = judged.filter(is_refused) {
            let error = format!("cannot keep payload in {typed}: {}", judged.reason);
            let hint = "`--p2pmem auto` takes host memory where no other fits; `peerlane doctor` \
                        explains the way";
            return Err(Failure::new(error).hint(hint.to_owned()));
        }
        self.reason = format!("{address} was requested{}", self.nic_clause(listen));
        self.memory = PayloadMemory::P2p(address);
        Ok(())
    }

    /// Lets the kernel choose where there is something to choose from.
    fn choose_any(&mut self, listen: Listen) {
        let Listen::Rdma(_) = listen else { return };
        if let Some(name) = self.software() {
            self.reason =
                format!("{name} is a software RDMA device: it does no DMA, the processor copies");
        } else if self.memories.iter().any(|memory| memory.is_permitted) {
            self.memory = PayloadMemory::AnyP2p;
            let clause = self.nic_clause(listen);
            self.reason = format!("the kernel chooses, and does not say which{clause}");
        } else if self.memories.is_empty() {
            self.reason = "no device of this machine lends P2P memory".to_owned();
        } else {
            self.reason = "no P2P memory is known to reach drive and network".to_owned();
        }
    }

    fn nic_clause(&self, listen: Listen) -> String {
        match (self.rdma_device.as_ref(), listen.address()) {
            (None, Some(address)) => {
                format!("; whether the RDMA device of {} reaches it is unknown", address.ip())
            }
            _ => String::new(),
        }
    }
}

/// The PCI address of a memory as `--via` names it; the kernel takes PCI addresses.
fn address_of(fabric: &Fabric, typed: &str) -> Result<String, Failure> {
    let function = PROVIDERS.find(fabric, typed).map(|id| fabric.function(id));
    let Some(function) = function else {
        let hint = "`peerlane topo` lists memories: --p2pmem cmb:nvme0, auto or off".to_owned();
        return Err(Failure::new(format!("cannot find the memory {typed}")).hint(hint));
    };
    match function.address.filter(|_| function.p2pmem.is_some()) {
        Some(address) => Ok(address.to_string()),
        None => {
            let error = format!("cannot use {typed}: {} has no P2P memory", function.name);
            Err(Failure::new(error).hint("`peerlane topo` lists memories".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{RdmaGid, RdmaPort};

    use super::*;

    const MACHINE: &str = include_str!("../../../../../machines/pair.toml");

    fn plan(
        asked: &str,
        transport: fn(std::net::SocketAddr) -> Listen,
    ) -> Result<MemoryPlan, Failure> {
        plan_with(asked, transport, Vec::new())
    }

    fn plan_with(
        asked: &str,
        transport: fn(std::net::SocketAddr) -> Listen,
        rdma_devices: Vec<RdmaDevice>,
    ) -> Result<MemoryPlan, Failure> {
        let fabric = Fabric { rdma_devices, ..Fabric::from_toml(MACHINE).unwrap() };
        let asked = match asked {
            "auto" => AskedMemory::Auto,
            "off" => AskedMemory::Off,
            name => AskedMemory::Named(name.to_owned()),
        };
        let listen = transport("10.0.0.1:4420".parse().unwrap());
        MemoryPlan::new(&fabric, fabric.find_device("b"), &asked, listen)
    }

    #[test]
    fn auto_uses_p2p_memory_for_rdma() {
        let by_rdma = plan("auto", Listen::Rdma).unwrap();
        assert_eq!(by_rdma.kind(), MemoryKind::P2pmem);
        assert!(by_rdma.reason.contains("10.0.0.1 reaches it is unknown"), "{}", by_rdma.reason);
        assert!(by_rdma.memories[0].is_permitted, "{by_rdma:?}");
        let by_tcp = plan("auto", Listen::Tcp).unwrap();
        assert_eq!(by_tcp.kind(), MemoryKind::Host);
        assert!(by_tcp.reason.starts_with("over tcp"), "{}", by_tcp.reason);
        assert!(by_tcp.memories.is_empty());
        assert_eq!(plan("off", Listen::Rdma).unwrap().reason, "requested");
    }

    #[test]
    fn software_device_takes_host_memory() {
        let gid = RdmaGid { index: 1, address: "::ffff:10.0.0.1".to_owned(), kind: None };
        let port = RdmaPort { gids: vec![gid], ..RdmaPort::default() };
        let rxe = vec![RdmaDevice { name: "rxe0".to_owned(), function: None, ports: vec![port] }];
        let auto = plan_with("auto", Listen::Rdma, rxe.clone()).unwrap();
        assert_eq!((auto.kind(), auto.memories.len()), (MemoryKind::Host, 0));
        assert!(auto.reason.starts_with("rxe0 is a software RDMA device"), "{}", auto.reason);
        let failure = plan_with("cmb:c", Listen::Rdma, rxe).unwrap_err();
        let said = failure.chain().next().unwrap();
        assert!(said.contains("cmb:c: rxe0 is a software RDMA device and does no DMA"), "{said}");
    }

    #[test]
    fn unknown_memory_is_refused() {
        let failure = plan("cmb:nothing", Listen::Rdma).unwrap_err();
        assert_eq!(failure.chain().next().unwrap(), "cannot find the memory cmb:nothing");
    }
}
