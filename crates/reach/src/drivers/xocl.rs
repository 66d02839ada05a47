//! The driver of Xilinx cards: the window of its memory for peers.

use peerlane_fabric::Kind;

use super::ends::Ends;
use super::{Answer, DriverRule};

const DRIVER: &str = "xocl";
const SOURCE: &str = "XRT 2.25, xocl/subdev/p2p.c; XRT documentation, PCIe Peer-to-Peer";

/// The rules for memory of a Xilinx card.
pub(super) fn rules(ends: &Ends<'_>) -> Vec<DriverRule> {
    let (provider, initiator) = (ends.provider(), ends.initiator());
    if !Ends::may_be(provider, DRIVER) {
        return vec![ends.not_known()];
    }
    let switch = |answer, reason: String| {
        vec![DriverRule::new(DRIVER, "P2P BAR", Some(true), (answer, reason), SOURCE)]
    };
    match (provider.fpga_p2p, initiator.kind) {
        (Some(false), _) => {
            let reason = format!(
                "p2p_enable of {} is 0: `echo 1 | sudo tee /sys/bus/pci/devices/{}/p2p.*/p2p_enable`",
                ends.word(provider),
                provider.name
            );
            switch(Answer::Refused, reason)
        }
        (None, Kind::Nvme) => {
            switch(Answer::Conditional, "whether p2p_enable is 1 is not shown".to_owned())
        }
        (Some(true), Kind::Nvme) => {
            let reason = format!("p2p_enable is 1, and drives take its pages; {}", ends.in_words());
            switch(Answer::Possible, reason)
        }
        (_, Kind::Fpga) => {
            let reason = "one card imports the buffer of the other and copies it; whether the driver \
                          asks the kernel is not known";
            let verdict = (Answer::Conditional, reason.to_owned());
            vec![DriverRule::new(DRIVER, "buffer import", None, verdict, SOURCE)]
        }
        _ => vec![ends.not_known()],
    }
}
