//! Checks for the direct route before a search that allows no other.

use std::fs::File;
use std::sync::Arc;

use peerlane_engine::load::LoadError;
use peerlane_results::RouteChoice;

use super::frames::FrameMemory;
use super::load::{FrameLoader, FramePart};
use super::staging::Staging;
use super::{GpuScanError, GpuSearch};
use crate::formats::{FileExcerpts, PlainPixels, find};
use crate::inputs::{FoundInput, regular};

/// Inputs that are looked at for one with plain pixels.
const MOST_INPUTS: usize = 1024;

/// Loads a byte of the first file with plain pixels directly, if no other route is allowed. Returns the inputs that it
/// took.
///
/// # Errors
/// [`GpuScanError::NotDirect`] if the file system or the machine rules the route out.
pub(super) fn ask(
    found: &mut impl Iterator<Item = FoundInput>,
    search: &GpuSearch<'_>,
) -> Result<Vec<FoundInput>, GpuScanError> {
    let mut taken = Vec::new();
    if search.options.route != RouteChoice::P2p {
        return Ok(taken);
    }
    for input in found.take(MOST_INPUTS) {
        let plain = plain_file(&input);
        taken.push(input);
        if let Some((file, pixels)) = plain {
            load_first(search, file, &pixels)?;
            break;
        }
    }
    Ok(taken)
}

fn plain_file(input: &FoundInput) -> Option<(File, PlainPixels)> {
    let FoundInput::File(path, _) = input else { return None };
    let (file, size) = regular(path).ok()?;
    let pixels = find(&FileExcerpts::new(&file, size)).ok()??;
    Some((file, pixels))
}

fn load_first(
    search: &GpuSearch<'_>,
    file: File,
    pixels: &PlainPixels,
) -> Result<(), GpuScanError> {
    let mut staging = Staging::new(&search.gpu, search.options.deadline)?;
    let mut loader = FrameLoader::new(search)?;
    let mut frames = FrameMemory::new(&search.gpu, 0, &mut staging)?;
    let begin = pixels.range().start;
    let range = begin..begin + 1;
    let Some(offset) = frames.reserve(&range, &mut staging)? else { return Ok(()) };
    let memory = Arc::clone(frames.memory());
    let part = FramePart { file, range, memory, offset };
    let loaded = loader.load(vec![part], &|| false);
    staging.clear(frames.memory())?;
    match loaded?.into_iter().next() {
        // One file may have an obstacle of its own. Without a mode cuFile has served no file at all.
        Some(Err(error @ LoadError::NotDirect { .. })) if search.ways.mode().is_none() => {
            Err(GpuScanError::NotDirect(error))
        }
        Some(Err(error)) if !error.is_of_one_file() => Err(error.into()),
        _ => Ok(()),
    }
}
