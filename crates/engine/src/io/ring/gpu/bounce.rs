//! Pieces in pinned host memory between a drive and a GPU.

use std::collections::VecDeque;
use std::sync::Arc;

use peerlane_memory::cuda::{Copy, CopyDirection, CopyQueue, CudaError, DeviceMemory, Gpu, Pinned};
use peerlane_units::Bytes;
use rustix::io::Errno;

use super::super::{Action, Completion, Operation, PushError, RegionId, Ring, Uring};
use super::RingTags;

/// Slots begin at multiples of this.
const ALIGNMENT: Bytes = Bytes::kib(4);

/// Slots of pinned memory, and a queue for each direction.
pub(super) struct Bounce {
    pinned: Arc<Pinned>,
    region: RegionId,
    stride: u64,
    free: Vec<usize>,
    pieces: Vec<Option<SlotContent>>,
    to_device: CopyQueue,
    to_host: CopyQueue,
    /// Slots whose copy is over and whose write waits for room in the ring.
    ready: VecDeque<usize>,
    broken: bool,
}

/// An operation in a slot, and its state.
struct SlotContent {
    operation: Operation,
    memory: Arc<DeviceMemory>,
    state: BounceState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BounceState {
    /// Between drive and slot.
    Drive,
    /// Between slot and GPU: how many bytes.
    Copy(u32),
}

impl Bounce {
    pub(super) fn new(
        ring: &mut Uring,
        gpu: &Arc<Gpu>,
        slots: u32,
        length: Bytes,
    ) -> Result<Self, CudaError> {
        let stride = length.round_up(ALIGNMENT).unwrap_or(length).0;
        let slots = usize::try_from(slots).unwrap_or(1).max(1);
        let all = Bytes(stride.saturating_mul(slots as u64));
        let pinned = gpu.pin(all)?;
        let region = ring.attach_region(pinned.region());
        Ok(Self {
            pinned,
            region,
            stride,
            free: (0..slots).rev().collect(),
            pieces: (0..slots).map(|_| None).collect(),
            to_device: gpu.copy_queue()?,
            to_host: gpu.copy_queue()?,
            ready: VecDeque::new(),
            broken: false,
        })
    }

    pub(super) fn space(&self) -> u32 {
        u32::try_from(self.free.len()).unwrap_or(u32::MAX)
    }

    /// Copies under way, and writes that wait for room.
    pub(super) fn copies(&self) -> usize {
        self.to_device.in_flight() + self.to_host.in_flight() + self.ready.len()
    }

    /// Operations that the ring below is going to be asked for.
    pub(super) fn writes_to_come(&self) -> u32 {
        u32::try_from(self.to_host.in_flight() + self.ready.len()).unwrap_or(u32::MAX)
    }

    /// Begins an operation. One that fails at once ends at once; its error text is returned.
    pub(super) fn push(
        &mut self,
        ring: &mut Uring,
        operation: Operation,
        memory: Arc<DeviceMemory>,
        ended: &mut VecDeque<Completion>,
    ) -> Result<Option<String>, PushError> {
        if u64::from(operation.length) > self.stride {
            let (length, most) = (operation.length, self.stride);
            return Err(PushError::TooLong { length, most });
        }
        let Some(slot) = self.free.pop() else { return Err(PushError::Full { space: 0 }) };
        let length = operation.length;
        let is_read = operation.action == Action::Read;
        let state = if is_read { BounceState::Drive } else { BounceState::Copy(length) };
        self.pieces[slot] = Some(SlotContent { operation, memory, state });
        if !is_read {
            return Ok(self.copy(slot, length, ended));
        }
        let pushed = self.hand_over(ring, slot);
        if pushed.is_err() {
            self.pieces[slot] = None;
            self.free.push(slot);
        }
        pushed.map(|()| None)
    }

    /// Asks the ring below for the piece of a slot.
    fn hand_over(&mut self, ring: &mut Uring, slot: usize) -> Result<(), PushError> {
        let Some(SlotContent { operation, .. }) = &self.pieces[slot] else { return Ok(()) };
        let region_offset = slot as u64 * self.stride;
        let (region, tag) = (self.region, RingTags::slot(slot));
        ring.push(Operation { region, region_offset, tag, ..*operation })
    }

    /// Takes the completion of the ring below for the piece of a slot. Returns the reason if its
    /// copy does not begin.
    pub(super) fn moved(
        &mut self,
        slot: usize,
        result: Result<u32, Errno>,
        ended: &mut VecDeque<Completion>,
    ) -> Option<String> {
        let piece = self.pieces.get_mut(slot)?.as_mut()?;
        match result {
            Ok(moved) if piece.operation.action == Action::Read && moved > 0 => {
                piece.state = BounceState::Copy(moved);
                self.copy(slot, moved, ended)
            }
            result => {
                self.end(slot, result, ended);
                None
            }
        }
    }

    /// Begins the copy of a slot; says why if it does not begin.
    fn copy(
        &mut self,
        slot: usize,
        length: u32,
        ended: &mut VecDeque<Completion>,
    ) -> Option<String> {
        if self.broken {
            // No queue is looked at any more, so that a copy would not be seen to end.
            self.end(slot, Err(Errno::IO), ended);
            return None;
        }
        let Some(Some(piece)) = self.pieces.get(slot) else { return None };
        let is_read = piece.operation.action == Action::Read;
        let (queue, direction) = if is_read {
            (&mut self.to_device, CopyDirection::ToDevice)
        } else {
            (&mut self.to_host, CopyDirection::ToHost)
        };
        let begun = queue.begin(&Copy {
            direction,
            pinned: &self.pinned,
            pinned_offset: slot as u64 * self.stride,
            memory: &piece.memory,
            memory_offset: piece.operation.region_offset,
            length: length.into(),
            tag: slot as u64,
        });
        let error = begun.err()?;
        self.end(slot, Err(Errno::IO), ended);
        Some(error.to_string())
    }

    /// Takes finished copies of the copy engine. Returns the reason for a failure.
    pub(super) fn look(
        &mut self,
        ring: &mut Uring,
        ended: &mut VecDeque<Completion>,
    ) -> Option<String> {
        if self.broken {
            return None;
        }
        let looked = self.look_at_queues(ended);
        while let Some(&slot) = self.ready.front() {
            match self.hand_over(ring, slot) {
                Ok(()) => {}
                Err(PushError::Full { .. }) => break,
                Err(_) => self.end(slot, Err(Errno::INVAL), ended),
            }
            self.ready.pop_front();
        }
        let error = looked.err()?;
        self.broken = true;
        for slot in 0..self.pieces.len() {
            let is_copied =
                self.pieces[slot].as_ref().is_some_and(|piece| piece.state != BounceState::Drive);
            if is_copied {
                // The slot stays taken: the copy engine may still be at work on it.
                self.end_for_good(slot, ended);
            }
        }
        Some(error.to_string())
    }

    fn look_at_queues(&mut self, ended: &mut VecDeque<Completion>) -> Result<(), CudaError> {
        while let Some(tag) = self.to_device.finished()? {
            let slot = usize::try_from(tag).unwrap_or(usize::MAX);
            if let Some(Some(SlotContent { state: BounceState::Copy(moved), .. })) =
                self.pieces.get(slot)
            {
                let moved = *moved;
                self.end(slot, Ok(moved), ended);
            }
        }
        while let Some(tag) = self.to_host.finished()? {
            let slot = usize::try_from(tag).unwrap_or(usize::MAX);
            if let Some(Some(piece)) = self.pieces.get_mut(slot) {
                piece.state = BounceState::Drive;
                self.ready.push_back(slot);
            }
        }
        Ok(())
    }

    fn end(&mut self, slot: usize, result: Result<u32, Errno>, ended: &mut VecDeque<Completion>) {
        if let Some(piece) = self.pieces[slot].take() {
            self.free.push(slot);
            ended.push_back(Completion { tag: piece.operation.tag, result });
        }
    }

    fn end_for_good(&mut self, slot: usize, ended: &mut VecDeque<Completion>) {
        if let Some(piece) = self.pieces[slot].take() {
            let (tag, result) = (piece.operation.tag, Err(Errno::IO));
            ended.push_back(Completion { tag, result });
        }
    }
}
