//! The picture on the GPU: every layer of every pose, one after the other.

use std::sync::Arc;

use peerlane_memory::cuda::{DeviceMemory, Gpu};
use peerlane_units::{Bytes, Nanos};

use super::GpuScanError;
use super::staging::Staging;
use crate::Searcher;

/// Bytes of a number in single precision.
pub(super) const SINGLE: u64 = 4;

/// Every layer in memory of the GPU.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) memory: Arc<DeviceMemory>,
    /// By picture and level.
    places: Vec<Vec<LayerPlace>>,
}

/// Offsets of the numbers of a layer, counted in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerPlace {
    pub(super) taps: u64,
    /// `None` where all pixels count alike.
    pub(super) weights: Option<u64>,
}

impl Layers {
    pub(super) fn copy_up(
        gpu: &Arc<Gpu>,
        searcher: &Searcher,
        deadline: Nanos,
    ) -> Result<Self, GpuScanError> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut add = |numbers: &[f32]| {
            let place = bytes.len() as u64 / SINGLE;
            bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
            place
        };
        let mut places = Vec::new();
        for picture in searcher.pictures() {
            let layers = picture.layers().iter().map(|layer| LayerPlace {
                taps: add(&layer.centred),
                weights: layer.weights.as_deref().map(&mut add),
            });
            places.push(layers.collect());
        }
        let memory = gpu.allocate(Bytes((bytes.len() as u64).max(SINGLE)))?;
        Staging::new(gpu, deadline)?.copy_up(&bytes, &memory, 0)?;
        Ok(Self { memory, places })
    }

    /// The layer of a picture at a level.
    pub(super) fn place(&self, picture: usize, level: u32) -> Option<LayerPlace> {
        self.places.get(picture)?.get(usize::try_from(level).ok()?).copied()
    }
}
