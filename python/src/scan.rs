//! `peerlane.scan`: finds a picture in images.

use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Instant;

use peerlane::Watch;
use peerlane_scan::formats::{Encoding, decode_with_opacity};
use peerlane_scan::haystack::{HaystackError, Recipe, store};
use peerlane_scan::inputs::{FoundInput, InputOrigin};
use peerlane_scan::{
    Busy, Crops, ImageAnswer, Pose, ScanError, ScanEvent, Searcher, inputs, pictures,
    scan as search,
};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::arguments::named;
use crate::error::{ErrorDetails, ExceptionKind};
use crate::machine::json as text;
use crate::watch::PyWatch;

/// Searches; returns hits, counts and times as JSON.
#[pyfunction]
pub(crate) fn scan(
    py: Python<'_>,
    picture: PathBuf,
    images: Vec<String>,
    poses: Vec<(f32, f32)>,
    threshold: f32,
    threads: Option<usize>,
) -> PyResult<String> {
    search_all(py, &picture, inputs::walk(images), poses, threshold, threads)
}

/// Files that the arguments name, each with its kind: `named`, `within`, `archive` or `nothing`.
#[pyfunction]
pub(crate) fn image_files(py: Python<'_>, images: Vec<String>) -> PyResult<Vec<(String, String)>> {
    let mut watched = PyWatch::new(None, None);
    let watch = &mut watched;
    let result = py.detach(move || {
        let mut files = Vec::new();
        for found in inputs::walk(images) {
            if watch.stop_requested() {
                let words = format!("interrupted after {} files", files.len());
                return Err(ErrorDetails::new(ExceptionKind::Interrupted, words));
            }
            let (kind, path) = match found {
                FoundInput::File(path, InputOrigin::Named) => ("named", path.display().to_string()),
                FoundInput::File(path, InputOrigin::Within) => {
                    ("within", path.display().to_string())
                }
                FoundInput::Archive(path) => ("archive", path.display().to_string()),
                FoundInput::Nothing(name, _) => ("nothing", name),
            };
            files.push((kind.to_owned(), path));
        }
        Ok(files)
    });
    watched.end(result)
}

/// Searches files as [`image_files`] names them; the result as that of [`scan`].
#[pyfunction]
pub(crate) fn scan_files(
    py: Python<'_>,
    picture: PathBuf,
    files: Vec<(String, String)>,
    poses: Vec<(f32, f32)>,
    threshold: f32,
    threads: Option<usize>,
) -> PyResult<String> {
    let found = files.into_iter().flat_map(|(kind, name)| -> Vec<FoundInput> {
        match kind.as_str() {
            "named" => vec![FoundInput::File(name.into(), InputOrigin::Named)],
            "within" => vec![FoundInput::File(name.into(), InputOrigin::Within)],
            "archive" => vec![FoundInput::Archive(name.into())],
            // The reason is found again where it is reported.
            _ => inputs::walk(vec![name]).collect(),
        }
    });
    search_all(py, &picture, found, poses, threshold, threads)
}

fn search_all(
    py: Python<'_>,
    picture: &PathBuf,
    files: impl Iterator<Item = FoundInput> + Send + 'static,
    poses: Vec<(f32, f32)>,
    threshold: f32,
    threads: Option<usize>,
) -> PyResult<String> {
    let mut watched = PyWatch::new(None, None);
    let watch = &mut watched;
    let result = py.detach(move || {
        let searcher = searcher(picture, poses, threshold)?;
        let threads = threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let start = Instant::now();
        let mut found = ScanResults::default();
        let mut is_whole = true;
        search(files, &searcher, threads, Crops::Dropped, |event, busy| {
            found.busy = busy;
            if let ScanEvent::Answer(answer) = event {
                found.add(answer);
            }
            is_whole = !watch.stop_requested();
            is_whole
        });
        let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if !is_whole {
            let words = format!("interrupted after {} images", found.images);
            return Err(ErrorDetails::new(ExceptionKind::Interrupted, words));
        }
        text(&found.object(elapsed, threads))
    });
    watched.end(result)
}

fn searcher(
    picture: &PathBuf,
    poses: Vec<(f32, f32)>,
    threshold: f32,
) -> Result<Searcher, ErrorDetails> {
    let what = format!("read picture {}", picture.display());
    let bytes = std::fs::read(picture)
        .map_err(|error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error))?;
    let (gray, opacity) = decode_with_opacity(bytes)
        .map_err(|error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error))?;
    let poses = poses.into_iter().map(|(scale, degrees)| Pose { scale, degrees });
    let what = format!("look for picture {}", picture.display());
    let pictures = pictures(&gray, opacity.as_ref(), poses)
        .map_err(|error| ErrorDetails::tried(ExceptionKind::BadInput, &what, &error))?;
    Ok(Searcher::new(pictures, threshold))
}

/// Results so far.
#[derive(Default)]
struct ScanResults {
    hits: Vec<Value>,
    failed: Vec<Value>,
    images: u64,
    pixels: u64,
    busy: Busy,
}

/// The error of an image with its causes, on one line.
fn reason(error: &ScanError) -> String {
    ErrorDetails::from_error(ExceptionKind::Failed, error).line()
}

impl ScanResults {
    fn add(&mut self, answer: ImageAnswer) {
        for (page, error) in &answer.left_out {
            let error = reason(error);
            self.failed.push(json!({ "image": answer.image, "page": page, "error": error }));
        }
        match answer.found {
            Ok((pixels, hits)) => {
                self.images += 1;
                self.pixels += pixels;
                self.hits.extend(hits.iter().map(|hit| json!(hit.record(&answer.image))));
            }
            Err(error) => {
                self.failed.push(json!({ "image": answer.image, "error": reason(&error) }));
            }
        }
    }

    fn object(self, elapsed: u64, threads: usize) -> Value {
        let Busy { load, decode, search } = self.busy;
        json!({
            "hits": self.hits,
            "failed": self.failed,
            "images": self.images,
            "pixels": self.pixels,
            "threads": threads,
            "elapsed_ns": elapsed,
            "busy": { "load_ns": load.0, "decode_ns": decode.0, "search_ns": search.0 },
            "limited_by": self.busy.limit(),
        })
    }
}

/// Makes images with a picture hidden in some; returns the number of those.
#[pyfunction]
pub(crate) fn make_haystack(
    py: Python<'_>,
    folder: PathBuf,
    images: u32,
    seed: u64,
    side: usize,
    per_mille: u32,
    format: String,
) -> PyResult<u32> {
    let format: Encoding = named("format", &format)?;
    let mut watched = PyWatch::new(None, None);
    let watch = &mut watched;
    let result = py.detach(move || {
        let recipe = Recipe {
            seed,
            images,
            side,
            planted_per_mille: per_mille,
            scales: vec![1.0],
            rotations: vec![0.0],
        };
        match store(&recipe, &folder, format, || watch.stop_requested()) {
            Ok(Some(planted)) => Ok(planted),
            Ok(None) => Err(ErrorDetails::new(ExceptionKind::Interrupted, "interrupted")),
            Err(error @ HaystackError::Used { .. }) => {
                Err(ErrorDetails::from_error(ExceptionKind::Refused, &error)
                    .hint(Some("name another folder")))
            }
            Err(error) => Err(ErrorDetails::from_error(ExceptionKind::Failed, &error)),
        }
    });
    watched.end(result)
}
