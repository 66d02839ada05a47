//! `peerlane scan` and `peerlane haystack`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use peerlane_engine::endpoints::{GpuName, Notation};
use peerlane_results::{RouteChoice, ScanMethod};
use peerlane_scan::formats::Encoding;
use peerlane_units::Nanos;

use super::named::named;
use super::size;

/// Arguments of `peerlane scan`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every hit was checked in full resolution. Images may be JPEG, PNG, TIFF, BMP, PGM or WebP; IMAGES \
are files, folders, patterns in quotes, tar archives, or @FILE with one path a line. Files of \
folders and archives that are no images are passed over and counted. An image that cannot be \
searched is an error and does not stop the scan. The exit status is 0 when the picture is found, 1 \
when it is in none of the images, 2 when an image could not be searched, whatever is found in \
others, or when there is no image.

A GPU finds the same, score for score. PGM, BMP and TIFF with plain grey pixels go from storage \
into its memory by --route; others are decoded by the processor and copied up. Where the machine or \
file system has no direct route, --route p2p ends with status 77 before the search.

Examples:
  peerlane scan logo.png /data/photos
  peerlane scan logo.png '/data/*.jpg' --scales 0.5,0.71,1,1.41 --json
  peerlane scan logo.png /data/photos --on gpu --route p2p
  peerlane haystack make --seed 7 --images 100 --format pgm -o hay
  peerlane scan hay/picture.png hay/images")]
pub(crate) struct ScanArgs {
    /// The picture to look for; transparent parts of it match anything
    #[arg(value_name = "PICTURE")]
    pub(crate) picture: PathBuf,
    /// Images to search: files, folders, patterns, archives or @FILE
    #[arg(value_name = "IMAGES", required = true)]
    pub(crate) images: Vec<String>,
    /// Search these sizes, relative to the picture's own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = scale)]
    pub(crate) scales: Vec<f32>,
    /// Search these rotations, in degrees counter-clockwise
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = degrees, allow_hyphen_values = true)]
    pub(crate) rotations: Vec<f32>,
    /// Choose the search; donard is for comparison
    ///
    /// ncc is normalised cross-correlation, coarse to fine. donard is linear correlation with the
    /// picture's edges by Fourier transform, as in Donard's program: of one size, and its scores are not
    /// normalised.
    #[arg(long, value_name = "METHOD", value_parser = named::<ScanMethod>(), default_value = "ncc")]
    pub(crate) method: ScanMethod,
    /// Set the least score of a hit [default: 0.9, by donard 250]
    ///
    /// By ncc the score is the correlation, and 1 is the picture itself; by donard a hit is above the
    /// threshold.
    #[arg(long, value_name = "SCORE", value_parser = threshold)]
    pub(crate) threshold: Option<f32>,
    /// Write the hits as a page with pictures to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) sheet: Option<PathBuf>,
    /// Decode and search with N threads
    ///
    /// The default is all processors. For a search on a GPU they read and decode.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Search on cpu, gpu, or a GPU such as gpu:1
    ///
    /// gpu is gpu:0, the first NVIDIA GPU; gpu:0000:41:00.0 names one by its address. cuda and cuda:N
    /// mean the same as gpu and gpu:N.
    #[arg(long, value_name = "WHERE", default_value = "cpu", value_parser = on)]
    pub(crate) on: ScanOn,
    /// Choose the route; auto falls back to host memory, p2p refuses instead
    ///
    /// It is that of images to a GPU. The default is auto.
    #[arg(long, value_name = "ROUTE", value_parser = named::<RouteChoice>())]
    pub(crate) route: Option<RouteChoice>,
    /// Treat a request as stuck after TIME without an answer
    #[arg(long, value_name = "TIME", value_parser = size::duration)]
    pub(crate) timeout: Option<Nanos>,
}

/// Processor of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanOn {
    Cpu,
    Gpu(GpuName),
}

fn on(text: &str) -> Result<ScanOn, String> {
    let alias = text.strip_prefix("cuda:").map(|name| format!("gpu:{name}"));
    match (text, alias.as_deref().unwrap_or(text).parse()) {
        ("cpu", _) => Ok(ScanOn::Cpu),
        ("gpu" | "cuda", _) => Ok(ScanOn::Gpu(GpuName::Index(0))),
        (_, Ok(Notation::Gpu(gpu))) => Ok(ScanOn::Gpu(gpu)),
        _ => Err("cpu, gpu, or a GPU such as gpu:0 or gpu:0000:41:00.0 is needed".to_owned()),
    }
}

/// Arguments of `peerlane haystack`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HaystackArgs {
    /// The command to run
    #[command(subcommand)]
    pub(crate) command: HaystackCommand,
}

/// Commands for haystacks.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum HaystackCommand {
    /// Make images by seed, hide a picture in some, and write down where
    Make(MakeArgs),
}

/// Arguments of `peerlane haystack make`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Writes DIR/picture.png, DIR/images/ and DIR/answers.jsonl. The same seed makes the same haystack.

Example:
  peerlane haystack make --seed 1 --images 1000 --format jpeg -o hay")]
pub(crate) struct MakeArgs {
    /// Derive all images from seed N
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Make N images
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) images: u32,
    /// Choose the format of the images
    #[arg(long, value_name = "FORMAT", value_parser = named::<Encoding>(), default_value = "pgm")]
    pub(crate) format: Encoding,
    /// Set the mean width and height of images
    #[arg(long, value_name = "PIXELS", default_value = "2048", value_parser = clap::value_parser!(u32).range(640..=16_384))]
    pub(crate) side: u32,
    /// Hide the picture in N of 1000 images
    ///
    /// At least one has it, unless N is 0.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) per_mille: u32,
    /// Hide the picture at these sizes, relative to its own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = scale)]
    pub(crate) scales: Vec<f32>,
    /// Hide the picture at these rotations, in degrees counter-clockwise
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = degrees, allow_hyphen_values = true)]
    pub(crate) rotations: Vec<f32>,
    /// Write to a new or empty folder DIR
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

fn scale(text: &str) -> Result<f32, String> {
    within(text, 0.05, 20.0)
}

fn degrees(text: &str) -> Result<f32, String> {
    within(text, -360.0, 360.0)
}

fn threshold(text: &str) -> Result<f32, String> {
    match within(text, 0.0, 1e9) {
        Ok(value) if value > 0.0 => Ok(value),
        _ => Err("a number above 0 is needed".to_owned()),
    }
}

fn within(text: &str, low: f32, high: f32) -> Result<f32, String> {
    match text.trim().parse::<f32>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(format!("a number from {low} to {high} is needed")),
    }
}
