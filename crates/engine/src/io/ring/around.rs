//! Rings around another ring that replace a few of its calls.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use peerlane_units::Nanos;

use super::{Completion, FileId, Operation, PushError, RegionId, Ring};

/// A ring around another: every call goes on to that one, unless this one takes it for itself.
pub trait Around {
    /// The ring within.
    type Inner: Ring;

    /// The ring within.
    fn inner(&self) -> &Self::Inner;

    /// The ring within, to be changed.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// Takes [`Ring::push`].
    ///
    /// # Errors
    /// As it has.
    fn on_push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.inner_mut().push(operation)
    }

    /// Takes [`Ring::submit`].
    ///
    /// # Errors
    /// As it has.
    fn on_submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        self.inner_mut().submit(wait, timeout)
    }

    /// Takes [`Ring::pop`].
    fn on_pop(&mut self) -> Option<Completion> {
        self.inner_mut().pop()
    }

    /// Takes [`Ring::in_flight`].
    fn on_in_flight(&self) -> u32 {
        self.inner().in_flight()
    }

    /// Is told of [`Ring::host_range`] before it is answered.
    fn on_host_bytes(&mut self) {}
}

impl<T: Around> Ring for T {
    type File = <T::Inner as Ring>::File;
    type Region = <T::Inner as Ring>::Region;

    fn attach_file(&mut self, file: Self::File) -> io::Result<FileId> {
        self.inner_mut().attach_file(file)
    }

    fn attach_region(&mut self, region: Self::Region) -> RegionId {
        self.inner_mut().attach_region(region)
    }

    fn region_length(&self, region: RegionId) -> Option<u64> {
        self.inner().region_length(region)
    }

    fn space(&self) -> u32 {
        self.inner().space()
    }

    fn push(&mut self, operation: Operation) -> Result<(), PushError> {
        self.on_push(operation)
    }

    fn submit(&mut self, wait: u32, timeout: Nanos) -> io::Result<()> {
        self.on_submit(wait, timeout)
    }

    fn pop(&mut self) -> Option<Completion> {
        self.on_pop()
    }

    fn in_flight(&self) -> u32 {
        self.on_in_flight()
    }

    fn host_range(&mut self, region: RegionId, range: Range<u64>) -> Option<&mut [u8]> {
        self.on_host_bytes();
        self.inner_mut().host_range(region, range)
    }

    fn watch(&mut self, descriptor: BorrowedFd<'_>) -> bool {
        self.inner_mut().watch(descriptor)
    }
}
