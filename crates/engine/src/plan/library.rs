//! The libraries of a GPU's maker, asked by registration: cuFile with a file and a piece of the GPU's memory, CUDA with
//! a piece of host memory. Nothing moves, and all of it is given back.

use std::error::Error;
use std::fs::File;
use std::sync::Arc;

use peerlane_memory::cuda::Gpu;
use peerlane_memory::cufile::Mode;
use peerlane_results::{MemoryFacts, MemoryKind, ProbeAnswer};
use peerlane_units::Bytes;

use super::gpu::{GpuWay, way_of};
use super::probe::LibraryQuestion;
use crate::endpoints::{Notation, find_gpu};
use crate::io::cufile;
use crate::io::failure::error_in_words;
use crate::io::ring::open_cufile;

/// Memory that is registered: cuFile takes no less than a page of the GPU, which has 64 KiB.
const PIECE: Bytes = Bytes::kib(64);

/// Answers a question about a way to a GPU by opening it, in this process.
pub fn ask_library(question: LibraryQuestion) -> ProbeAnswer {
    let LibraryQuestion { memory, file } = question;
    let Some((gpu, way)) = read(&memory) else {
        return ProbeAnswer::NotAsked { reason: format!("`{memory}` is no way to a GPU") };
    };
    let asked = opened(&gpu).and_then(|opened| match (way, file) {
        (GpuWay::Pinned, _) => pin(&opened),
        (GpuWay::CuFile(mode), Some(file)) => register(&opened, mode, file),
        (GpuWay::CuFile(_), None) => Err("there is no file to register".into()),
    });
    match asked {
        Ok(showed) => ProbeAnswer::Registered { showed },
        Err(error) => ProbeAnswer::Refused { reason: error_in_words(&*error) },
    }
}

/// The GPU and the way of a memory's name.
fn read(memory: &str) -> Option<(Notation, GpuWay)> {
    let facts = MemoryFacts {
        name: memory.to_owned(),
        kind: MemoryKind::Gpu,
        address: None,
        size: None,
        available: None,
    };
    let gpu = memory.split_once(" by ")?.0.parse().ok()?;
    Some((gpu, way_of(&facts)?))
}

fn opened(gpu: &Notation) -> Result<Arc<Gpu>, Box<dyn Error>> {
    let Notation::Gpu(name) = gpu else { return Err("it is no GPU".into()) };
    let (cuda, facts) = find_gpu(*name)?;
    Ok(cuda.open(&facts)?)
}

fn pin(gpu: &Arc<Gpu>) -> Result<String, Box<dyn Error>> {
    let pinned = gpu.pin(PIECE)?;
    drop(pinned);
    Ok(format!("CUDA pinned {PIECE} of host memory"))
}

fn register(gpu: &Arc<Gpu>, mode: Mode, file: File) -> Result<String, Box<dyn Error>> {
    let session = open_cufile(mode)?;
    let file = session.file(file)?;
    let memory = session.memory(gpu.allocate(PIECE)?)?;
    drop((file, memory));
    let version = session.version().map(|version| format!(" {version}")).unwrap_or_default();
    let flags = cufile::flags(&session).map(|flags| flags.evidence.showed);
    let flags = flags.map(|flags| format!("; its P2P flags: {flags}")).unwrap_or_default();
    Ok(format!("cuFile{version} registered the file and {PIECE} of the GPU{flags}"))
}
