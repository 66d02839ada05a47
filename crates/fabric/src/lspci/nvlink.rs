//! NVLink connections in the matrix of `nvidia-smi topo -m`.

use super::clean::CleanLine;
use crate::{Fabric, GpuLink, gpu};

/// Returns whether a trimmed line is the first of the matrix: its columns begin with GPUs.
pub(super) fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("GPU0")
        && words.next().is_some_and(|word| is_column(word) || word == "CPU")
}

/// Returns whether a trimmed line is a row of the matrix.
pub(super) fn is_row(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(is_column)
}

fn is_column(word: &str) -> bool {
    let is_numbered = |front: &str| {
        word.strip_prefix(front).is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    is_numbered("GPU") || is_numbered("NIC") || is_numbered("mlx5_") || is_numbered("mlx4_")
}

/// Reads the matrix. GPUs are counted as `nvidia-smi` does; where the text has another number of them than
/// the matrix, none can be assigned.
pub(super) fn read(lines: &[CleanLine<'_>], fabric: &Fabric) -> Option<Vec<GpuLink>> {
    let mut lines = lines.iter().map(|line| line.text.trim());
    let columns: Vec<&str> =
        lines.next()?.split_whitespace().take_while(|word| is_column(word)).collect();
    let gpus = fabric.gpus();
    let is_gpu = |word: &&str| word.starts_with("GPU");
    let count = columns.iter().take_while(|word| is_gpu(word)).count();
    let is_nvidia = gpus.iter().all(|&id| fabric.function(id).vendor == Some(gpu::VENDOR_NVIDIA));
    if count == 0 || count != gpus.len() || !is_nvidia {
        return None;
    }
    let mut links = Vec::new();
    let mut rows = 0;
    for row in lines {
        let mut cells = row.split_whitespace();
        let name = cells.next().filter(is_gpu).and_then(|name| name[3..].parse::<usize>().ok());
        let Some(own) = name.filter(|&own| own < count) else { continue };
        let cells: Vec<&str> = cells.take(count).collect();
        if cells.len() < count || cells.get(own) != Some(&"X") {
            return None;
        }
        rows += 1;
        for (other, cell) in cells.iter().enumerate().skip(own + 1) {
            let Some(number) = cell.strip_prefix("NV") else { continue };
            let (one, other) = (gpus[own].min(gpus[other]), gpus[own].max(gpus[other]));
            links.push(GpuLink { gpus: (one, other), links: number.parse().ok() });
        }
    }
    (rows == count).then_some(links)
}
