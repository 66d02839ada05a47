//! The kernel's answer to a plan, step by step, with the kernel function that gives each.
//!
//! For `plan --explain`. It repeats the walk for every memory and both ends, and states the known
//! facts of the queues and the size of a request; the plan itself holds only the facts behind the
//! choice.

use peerlane_fabric::{Fabric, Origin};
use peerlane_memory::cufile::Mode;
use peerlane_results::{EndpointFacts, Explanation, ExplanationStep, Plan};

use super::candidates::memory_function;
use super::gpu::{GpuWay, way_of};

/// Explains a plan that was made for `fabric`: the queue of either end, then every memory for both.
pub fn explain(fabric: &Fabric, plan: &Plan) -> Vec<Explanation> {
    let ends = [&plan.source, &plan.target];
    let mut all: Vec<Explanation> = ends.iter().map(|end| queue(fabric, end)).collect();
    for candidate in &plan.candidates {
        // nvidia-fs maps by itself, and asks the kernel for no route.
        let asks_nobody = way_of(&candidate.memory) == Some(GpuWay::CuFile(Mode::NvidiaFs));
        let memory = memory_function(fabric, &candidate.memory).filter(|_| !asks_nobody);
        let Some(memory) = memory else { continue };
        let name = &candidate.memory.name;
        for (end, does) in ends.iter().zip(["write into", "read out of"]) {
            let question = format!("may {} {does} {name}?", end.path);
            let steps = match end.function(fabric) {
                Some(initiator) => peerlane_reach::explain(fabric, memory, initiator),
                None => vec![ExplanationStep::new(
                    "no PCI function serves it, so the kernel has none to ask",
                    "",
                )],
            };
            all.push(Explanation { question, steps });
        }
    }
    all
}

/// Explains whether the queue below an end takes peer-to-peer pages, and how many bytes at once.
fn queue(fabric: &Fabric, end: &EndpointFacts) -> Explanation {
    let question = format!("does {} take peer-to-peer pages?", end.path);
    if let Some(refusal) = &end.refusal {
        let steps =
            vec![ExplanationStep::new(refusal.as_str(), "block/bio.c bio_iov_iter_get_pages()")];
        return Explanation { question, steps };
    }
    let mut steps = vec![ExplanationStep::new(
        "NVMe over PCI says yes, unless its DMA is neither direct nor through a common IOMMU driver",
        "drivers/nvme/host/pci.c nvme_pci_supports_pci_p2pdma()",
    )];
    if let Some(request) = end.request_p2p {
        let limits = match fabric.origin {
            Origin::Description | Origin::Text => "what the queue takes",
            Origin::ThisMachine | Origin::Tree(_) | Origin::Assumed => {
                "max_sectors_kb, max_segments pages"
            }
        };
        let finding = format!(
            "one request carries {request}: the least of {limits} and 256 pages, since each peer-to-peer page is a segment of its own"
        );
        steps.push(ExplanationStep::new(finding, "lib/iov_iter.c iov_iter_extract_bvecs()"));
    }
    Explanation { question, steps }
}
