//! `peerlane scan`: prints the places of a picture in images.

mod device;
mod method;
mod sheet;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use device::SearchDevice;
use peerlane_results::{HitRecord, ScanMethod};
use peerlane_scan::formats::FormatError;
use peerlane_scan::inputs::{self, InputError};
use peerlane_scan::{Busy, Crops, Hit, ImageAnswer, ScanError, ScanEvent, Underway};
use sheet::{HitSheet, SHEET};

use crate::args::ScanArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::output_file::OutputFile;
use crate::printer::{CountLine, Printer};
use crate::render::counted;
use crate::{signals, small_file};

/// Searches, and prints hits as they are found.
///
/// # Errors
/// When the picture cannot be looked for, or nowhere; images that cannot be searched are told, do not end the search, and
/// change its status.
pub(crate) fn run(args: &ScanArgs, printer: Printer) -> Result<Exit, Failure> {
    let output = args.sheet.as_deref().map(|path| OutputFile::at(path, SHEET)).transpose()?;
    let picture = method::picture(args)?;
    let searcher = method::searcher(args, &picture, printer)?;
    let mut sheet = args.sheet.as_ref().map(|_| HitSheet::new(&args.picture, &picture.0));
    let stop = signals::stop_flag()?;
    let place = SearchDevice::new(args, &searcher)?;
    let start = Instant::now();
    let mut tally = ScanTally { method: args.method, ..ScanTally::default() };
    let mut failure = None;
    let mut count = CountLine::new(printer);
    let crops = if sheet.is_some() { Crops::Kept } else { Crops::Dropped };
    let done = place.scan(inputs::walk(args.images.clone()), crops, |event, busy| {
        tally.busy = busy;
        let mut now = String::new();
        match event {
            ScanEvent::Underway(underway) => now = underway_words(&underway),
            ScanEvent::Answer(answer) => {
                if let (Some(sheet), Ok((_, hits))) = (&mut sheet, &answer.found) {
                    sheet.add(&answer.image, hits, &answer.crops);
                }
                failure = count.aside(|| tell(answer, printer, &mut tally)).err();
            }
        }
        count.set(|| tally.words(start.elapsed(), tally.busy.limit()) + &now);
        failure.is_none() && !stop.load(Ordering::Relaxed)
    });
    count.finish();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let done = done?;
    let summary = tally.words(start.elapsed(), tally.busy.limit());
    if let (Some(sheet), Some(output)) = (sheet, output) {
        sheet.write(output, &summary)?;
    }
    printer.note(&summary);
    place.tell(&done, printer);
    if place.is_refused(&done, tally.images) {
        return Ok(Exit::NotPossible);
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Exit::Interrupted);
    }
    match tally {
        // In none of no images it was not looked for.
        ScanTally { images: 0, failed: 0, .. } => {
            let error = format!("no images found in {}", args.images.join(", "));
            let hint =
                "`file NAME` says what a file is: JPEG, PNG, TIFF, BMP, PGM and WebP are read";
            Err(Failure::new(error).hint(hint.to_owned()))
        }
        ScanTally { failed: 1.., .. } | ScanTally { pages_failed: 1.., .. } => Ok(Exit::Failed),
        ScanTally { hits: 0, .. } => Ok(Exit::Negative),
        ScanTally { .. } => Ok(Exit::Done),
    }
}

/// The image that takes long, for the line that changes.
fn underway_words(Underway { image, share }: &Underway) -> String {
    let image = image.escape_debug();
    match share {
        Some(share) => format!("; in {image}: {:.0} %", share * 100.0),
        None => format!("; in {image}"),
    }
}

fn tell(answer: ImageAnswer, printer: Printer, tally: &mut ScanTally) -> Result<(), Failure> {
    if answer.is_passed_over() {
        tally.passed_over += 1;
        return Ok(());
    }
    let image = &answer.image;
    let hits = match answer.found {
        Ok((pixels, hits)) => {
            tally.images += 1;
            tally.pixels += pixels;
            hits
        }
        Err(error) => {
            tally.failed += 1;
            let hint = match &error {
                ScanError::Input(InputError::Read(error)) => {
                    small_file::hint(Path::new(image), error)
                }
                _ => None,
            };
            printer.failure(&Tried::to(format!("search {image}"))(error).hint(hint));
            return Ok(());
        }
    };
    for (page, error) in answer.left_out {
        tally.pages_failed += 1;
        let what = match &error {
            ScanError::Format(FormatError::Truncated) => format!("all of page {page}"),
            _ => format!("page {page}"),
        };
        printer.failure(&Tried::to(format!("search {what} of {image}"))(error));
    }
    tally.hits += hits.len();
    hits.iter().try_for_each(|hit| show(image, hit, tally.method, printer))
}

fn show(image: &str, hit: &Hit, method: ScanMethod, printer: Printer) -> Result<(), Failure> {
    let record = HitRecord { method, ..hit.record(image) };
    if printer.is_json() {
        return printer.json_line(&record);
    }
    let HitRecord { x, y, width, height, scale, degrees, score, page, .. } = record;
    let mut pose = page.map_or_else(String::new, |page| format!("  page {page}"));
    if scale != 1.0 {
        pose += &format!("  scale {scale}");
    }
    if degrees != 0.0 {
        pose += &format!("  rotated {degrees}");
    }
    // A name with a line end in it forges no hit.
    let image = image.replace('\n', "\\n");
    printer.data(&format!("{image}  {x},{y}  {width} x {height}{pose}  score {score:.3}\n"))
}

/// Totals of the work done so far.
#[derive(Debug, Default)]
struct ScanTally {
    method: ScanMethod,
    images: usize,
    pixels: u64,
    hits: usize,
    failed: usize,
    /// Of images that were searched otherwise.
    pages_failed: usize,
    passed_over: usize,
    busy: Busy,
}

impl ScanTally {
    fn words(&self, elapsed: Duration, limit: &str) -> String {
        let seconds = elapsed.as_secs_f64();
        let rate = self.pixels as f64 / 1e6 / seconds.max(1e-9);
        let mut found =
            format!("{} in {}", counted(self.hits, "hit"), counted(self.images, "image"));
        if self.failed > 0 {
            found += &format!(", {} not searched", self.failed);
        }
        if self.pages_failed > 0 {
            found += &format!(", {} not or not fully searched", counted(self.pages_failed, "page"));
        }
        if self.passed_over > 0 {
            found += &format!(", {} passed over, no image", counted(self.passed_over, "file"));
        }
        format!(
            "{found}; {:.1} Mpixel in {seconds:.2} s, {rate:.0} Mpixel/s, limited by {limit}",
            self.pixels as f64 / 1e6,
        )
    }
}
