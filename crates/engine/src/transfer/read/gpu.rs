//! Reads into lent memory on a GPU.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use peerlane_memory::cuda::{Foreign, GpuTarget};
use peerlane_units::Bytes;

use super::{ReadError, ReadTools, Reader, Reading};
use crate::endpoints::open::reopen;
use crate::io::watch::Phase;
use crate::transfer::load::{
    LoadError, LoadFile, LoadPart, LoadRoutes, LoadSettings, Loaded, Loader, PinnedPool,
};

impl From<&Loaded> for Reading {
    fn from(loaded: &Loaded) -> Self {
        Self {
            bytes: loaded.bytes,
            direct: loaded.direct,
            copied: loaded.through_host,
            page_cache: loaded.page_cache,
            ..Self::default()
        }
    }
}

impl Reader {
    /// Fills memory of a GPU from an offset of the file, up to its end. Bytes that cuFile moved are
    /// `direct`; those that went through pinned host memory are `copied`, or `page_cache` if they
    /// came from there.
    ///
    /// # Errors
    /// [`ReadError`]; the content of the memory is undefined then.
    pub fn read_into_gpu(
        &self,
        offset: Bytes,
        memory: Foreign,
        ways: &LoadRoutes,
        settings: LoadSettings,
        tools: &mut ReadTools<'_>,
    ) -> Result<Reading, ReadError> {
        let there = self.size()?.0.saturating_sub(offset.0);
        let total = Bytes(there.min(memory.length().0));
        tools.watch.phase(Phase::Move);
        tools.watch.begin(Bytes::ZERO, total);
        if total == Bytes::ZERO {
            return Ok(Reading::default());
        }
        // An open file of its own: its flags are others, and this reader is used meanwhile.
        let file = self.again().map_err(|error| self.failed("open", error))?;
        let gpu = Arc::clone(memory.gpu());
        let part = LoadPart {
            file: LoadFile::new(file),
            range: offset.0..offset.0 + total.0,
            memory: GpuTarget::Foreign(Arc::new(memory)),
            offset: 0,
        };
        let mut loader = Loader::new(&gpu, ways, &PinnedPool::of_process(), settings);
        let loaded = loader.load(&[part], tools).and_then(|mut loaded| {
            let loaded = loaded.pop().unwrap_or_else(|| Ok(Default::default()))?;
            ways.told(loaded, tools.watch)
        });
        let loaded = loaded.map_err(|source| match source {
            LoadError::Stopped { done } => ReadError::Interrupted { done, total },
            source => ReadError::Load { path: self.path.clone(), source },
        })?;
        Ok(Reading::from(&loaded))
    }

    /// The same file, opened once more; by its path if there is no `/proc`.
    fn again(&self) -> io::Result<File> {
        let own = &self.opened.file;
        reopen(own).or_else(|error| {
            let file = File::open(&self.path)?;
            let (old, new) = (own.metadata()?, file.metadata()?);
            let is_same = (old.dev(), old.ino()) == (new.dev(), new.ino());
            if is_same { Ok(file) } else { Err(error) }
        })
    }
}
