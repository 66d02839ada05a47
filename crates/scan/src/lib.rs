//! Finds a picture in many images as they stream from storage.
//!
//! Leaves out where the bytes come from and how hits are shown. An image is searched at a coarse
//! level first, and only what looks like the picture there is looked at in full resolution; every
//! hit that is reported was checked in full resolution. [`Donard`] is another search, for
//! comparison.
#![forbid(unsafe_code)]

mod correlate;
pub mod cuda;
mod donard;
mod effort;
mod follow;
pub mod formats;
mod fourier;
mod gray;
pub mod haystack;
pub mod inputs;
mod picture;
mod pipeline;
mod pose;
mod prune;
mod reduce;
mod search;
mod waiting;

pub use donard::{DONARD_THRESHOLD, Donard};
pub use effort::Underway;
pub use gray::{Gray, GrayError};
pub use picture::{Hit, Picture, PictureError, pictures};
pub use pipeline::{Busy, Crops, ImageAnswer, ScanError, ScanEvent, look, scan};
pub use pose::Pose;
pub use search::Searcher;
