//! The calls that let one GPU use memory of another.

use std::fmt;
use std::sync::Arc;

use crate::cuda::ffi::check;
use crate::cuda::{CudaError, DeviceMemory, Gpu};

/// The right of one GPU to use memory of another; given up when dropped.
pub struct PeerAccess {
    from: Arc<Gpu>,
    to: Arc<Gpu>,
}

impl Gpu {
    /// Whether the driver says that it can use memory of another GPU.
    ///
    /// # Errors
    /// The driver's error.
    pub fn can_access(&self, other: &Self) -> Result<bool, CudaError> {
        let mut answer = 0;
        let (own, peer) = (self.facts.device.0, other.facts.device.0);
        // SAFETY: writes one int to a local; the driver checks both numbers.
        let code = unsafe { (self.context.table().peer_can)(&raw mut answer, own, peer) };
        check("cuDeviceCanAccessPeer", code)?;
        Ok(answer != 0)
    }

    /// Takes the right to use memory of another GPU, all of it.
    ///
    /// # Errors
    /// The driver's error: it has no such path, or this process has the right already.
    pub fn access(self: &Arc<Self>, other: &Arc<Self>) -> Result<Arc<PeerAccess>, CudaError> {
        self.make_current()?;
        let enable = self.context.table().peer_enable;
        // SAFETY: a context is current; the other one is retained until the access is dropped. The flags must be zero.
        check("cuCtxEnablePeerAccess", unsafe { enable(other.context.handle(), 0) })?;
        Ok(Arc::new(PeerAccess { from: Arc::clone(self), to: Arc::clone(other) }))
    }
}

impl PeerAccess {
    /// Refuses memory or a GPU that this right does not cover.
    pub(in crate::cuda) fn check(&self, gpu: &Gpu, memory: &DeviceMemory) -> Result<(), CudaError> {
        if self.from.is_same(gpu) && self.to.is_same(memory.gpu()) {
            return Ok(());
        }
        let (kernel, memory) = (gpu.facts().address, memory.gpu().facts().address);
        Err(CudaError::OtherGpu { kernel, memory })
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        if self.from.make_current().is_ok() {
            // SAFETY: enabled by `access` and disabled once, here; a launch under way holds an `Arc` of it.
            let _ = unsafe { (self.from.context.table().peer_disable)(self.to.context.handle()) };
        }
    }
}

impl fmt::Debug for PeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from.facts().address, self.to.facts().address);
        f.debug_struct("PeerAccess").field("from", &from).field("to", &to).finish()
    }
}
