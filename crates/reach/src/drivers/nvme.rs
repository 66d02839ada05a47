//! The NVMe driver: memory that a drive lends (`p2pmem`).

use peerlane_fabric::FunctionKind;

use super::ends::DriverEnds;
use super::rdma::without_rdma;
use super::{DriverAnswer, DriverRule};

const DRIVER: &str = "nvme";
const P2PMEM: &str = "Linux 7.2, drivers/nvme/host/pci.c, nvme_map_cmb";
const TARGET: &str = "Linux 7.2, drivers/nvme/target/rdma.c and configfs.c";
const GUP: &str = "Linux 7.2, mm/gup.c and mm/hmm.c";

/// The rules for memory that a drive lends.
pub(super) fn rules(ends: &DriverEnds<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if !DriverEnds::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    if let Some(driver) = without_rdma(initiator).filter(|_| initiator.kind == FunctionKind::Nic) {
        let reason = format!(
            "{driver} carries no NVMe over RDMA, and over TCP the kernel's NVMe target uses no memory of \
             devices"
        );
        let verdict = (DriverAnswer::Refused, reason);
        return vec![DriverRule::new(driver, "NVMe over RDMA", Some(false), verdict, TARGET)];
    }
    let Some(pool) = provider.p2pmem else {
        let reason =
            "whether the drive lends memory is not shown: `ls /sys/bus/pci/devices/*/p2pmem`";
        let verdict = (DriverAnswer::Conditional, reason.to_owned());
        return vec![DriverRule::new(DRIVER, "p2pmem", Some(true), verdict, P2PMEM)];
    };
    match initiator.kind {
        FunctionKind::Nvme => {
            let verdict = if pool.published {
                let reason = format!("the drive lends {}; {}", pool.size, ends.in_words());
                (DriverAnswer::Possible, reason)
            } else {
                let reason = "the drive takes only one direction of data in its memory, which is \
                              therefore not published";
                (DriverAnswer::Conditional, reason.to_owned())
            };
            vec![DriverRule::new(DRIVER, "p2pmem", Some(true), verdict, P2PMEM)]
        }
        FunctionKind::Nic => vec![target(ends), verbs()],
        _ => {
            let reason = "a mapping of p2pmem can be handed to this driver, but no public report says \
                          that it works";
            vec![DriverRule::new(
                DRIVER,
                "p2pmem",
                None,
                (DriverAnswer::NotKnown, reason.to_owned()),
                GUP,
            )]
        }
    }
}

fn target(ends: &DriverEnds<'_>) -> DriverRule {
    let reason = format!(
        "the kernel's NVMe target uses it for RDMA where an export names it (`peerlane export \
         DRIVE --transport rdma --p2pmem cmb:{}`); {}",
        ends.provider().name,
        ends.in_words()
    );
    DriverRule::new("nvmet_rdma", "p2pmem", Some(true), (DriverAnswer::Conditional, reason), TARGET)
}

fn verbs() -> DriverRule {
    let reason = "ibv_reg_mr refuses p2pmem, since it pins memory for long; mlx5 on demand \
                  (IBV_ACCESS_ON_DEMAND) may take it, untested";
    let verdict = (DriverAnswer::NotKnown, reason.to_owned());
    DriverRule::new("ib_core", "RDMA memory region", Some(true), verdict, GUP)
}
