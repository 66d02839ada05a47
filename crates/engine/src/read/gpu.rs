//! Reads into lent memory on a GPU.

use std::fs::File;
use std::os::fd::AsRawFd;

use peerlane_memory::cuda::Foreign;
use peerlane_units::Bytes;

use super::{ReadError, ReadTools, Reader, Reading};
use crate::Phase;
use crate::load::{LoadRings, fill};

impl Reader {
    /// Fills memory of a GPU with what lies at an offset, as far as there is something. Bytes that cuFile moved are
    /// `direct`; those that went through pinned host memory are `copied`, or `page_cache` where they came from there.
    /// All of them are copied once more within the GPU.
    ///
    /// # Errors
    /// [`ReadError`]; what the memory holds is not said then.
    pub fn read_into_gpu(
        &self,
        offset: Bytes,
        memory: &Foreign,
        ways: &LoadRings,
        tools: &mut ReadTools<'_>,
    ) -> Result<Reading, ReadError> {
        let there = self.size()?.0.saturating_sub(offset.0);
        let total = Bytes(there.min(memory.length().0));
        tools.watch.phase(Phase::Move);
        tools.watch.begin(Bytes::ZERO, total);
        if total == Bytes::ZERO {
            return Ok(Reading::default());
        }
        // An open file of its own: its flags change, and others read by this reader meanwhile.
        let same = format!("/proc/self/fd/{}", self.opened.file.as_raw_fd());
        let file = File::open(same).map_err(|error| self.failed("open", error))?;
        let range = offset.0..offset.0 + total.0;
        let filled = fill(&file, &range, memory, ways, tools)
            .map_err(|source| ReadError::Load { path: self.path.clone(), source })?;
        if filled.is_stopped {
            return Err(ReadError::Interrupted { done: filled.bytes, total });
        }
        Ok(Reading {
            bytes: filled.bytes,
            direct: filled.direct,
            copied: filled.through_host,
            page_cache: filled.page_cache,
            ..Reading::default()
        })
    }
}
