//! The driver's answers on peer access in the matrices of `nvidia-smi topo -p2p`.

use super::blocks::Matrix;
use crate::{Fabric, PeerAccess, PeerCapability, gpu};

/// Answers of `nvidia-smi topo -p2p`, as its legend has them: allowed, chipset, GPU, topology, capability not
/// supported, disabled by the registry, unknown.
const ANSWERS: [&str; 7] = ["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"];

/// Reads a matrix; `None` for one of links, or of another number of GPUs than the text lists.
///
/// GPUs are counted as `nvidia-smi` does.
pub(super) fn read(matrix: &Matrix<'_>, fabric: &Fabric) -> Option<Vec<PeerAccess>> {
    let mut lines = matrix.lines.iter().map(|line| line.text.trim());
    let count = lines.next()?.split_whitespace().take_while(|word| word.starts_with("GPU")).count();
    let gpus = fabric.gpus();
    let is_nvidia = gpus.iter().all(|&id| fabric.function(id).vendor == Some(gpu::VENDOR_NVIDIA));
    let rows: Vec<Vec<&str>> = lines.map(|row| row.split_whitespace().collect()).collect();
    let cells = || rows.iter().flat_map(|row| row.iter().skip(1).take(count));
    let is_of_answers = cells().all(|cell| *cell == "X" || ANSWERS.contains(cell))
        && cells().any(|cell| ANSWERS.contains(cell));
    if !is_of_answers {
        return None;
    }
    let capability = matrix.command.as_deref().map_or(PeerCapability::Unstated, capability);
    let mut answers = Vec::new();
    for row in rows.iter().filter(|_| is_nvidia && count == gpus.len()) {
        let own = row.first().and_then(|name| name.strip_prefix("GPU")?.parse::<usize>().ok());
        let Some(&own) = own.and_then(|own| gpus.get(own)) else { continue };
        for (&other, cell) in gpus.iter().zip(row.iter().skip(1)).filter(|(_, cell)| **cell != "X")
        {
            answers.push(PeerAccess { gpus: (own, other), capability, status: (*cell).to_owned() });
        }
    }
    Some(answers)
}

/// The capability that a command asks for.
fn capability(command: &str) -> PeerCapability {
    let word = command.split_once("-p2p").and_then(|(_, rest)| rest.split_whitespace().next());
    match word.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphabetic())) {
        Some("r") => PeerCapability::Read,
        Some("w") => PeerCapability::Write,
        Some("n") => PeerCapability::NvLink,
        Some("a") => PeerCapability::Atomics,
        Some("p") => PeerCapability::Pcie,
        _ => PeerCapability::Unstated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FunctionId;

    const TWO: &str = "\
0000:01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]
0000:02:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]

";
    const LINKS: &str = "        GPU0    GPU1    CPU Affinity\n GPU0     X      NV18    0-63\n GPU1    NV18     X      0-63\n\n";
    const READS: &str = "$ nvidia-smi topo -p2p r\n        GPU0    GPU1\n GPU0   X       CNS\n GPU1   OK      X\n\nLegend:\n\n  X    = Self\n";

    #[test]
    fn answers_are_read_after_links() {
        let fabric = super::super::read(&format!("{TWO}{LINKS}{READS}")).expect("a machine");
        let (first, second) = (FunctionId(0), FunctionId(1));
        let answer = |gpus, status: &str| PeerAccess {
            gpus,
            capability: PeerCapability::Read,
            status: status.to_owned(),
        };
        let expected = [answer((first, second), "CNS"), answer((second, first), "OK")];
        assert_eq!(fabric.peer_access, expected);
        assert_eq!(fabric.nvlinks.map(|links| links.len()), Some(1));
    }

    #[test]
    fn matrix_of_other_gpus_says_nothing() {
        let one = TWO.lines().next().unwrap_or_default();
        let fabric = super::super::read(&format!("{one}\n\n{READS}")).expect("a machine");
        assert_eq!((fabric.peer_access.len(), fabric.nvlinks), (0, None));
    }
}
