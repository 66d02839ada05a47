//! `peerlane haystack make`: a set of images with a picture hidden in some.

use std::sync::atomic::Ordering;

use peerlane_scan::haystack::{HaystackError, Recipe, store};

use crate::args::{HaystackArgs, HaystackCommand, MakeArgs};
use crate::error::Failure;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::render::counted;
use crate::signals;

/// Makes a haystack.
///
/// # Errors
/// When the folder is in use or cannot be written to.
pub(crate) fn run(args: &HaystackArgs, printer: Printer) -> Result<Exit, Failure> {
    let HaystackCommand::Make(args) = &args.command;
    make(args, printer)
}

fn make(args: &MakeArgs, printer: Printer) -> Result<Exit, Failure> {
    let folder = &args.output;
    let stop = signals::stop_flag()?;
    let made = store(&recipe(args), folder, args.format, || stop.load(Ordering::Relaxed));
    let Some(planted) = made.map_err(failure)? else { return Ok(Exit::Interrupted) };
    if planted == 0 && args.per_mille > 0 {
        printer.warning("no image is large enough for the picture: `--side` makes larger ones");
    }
    let images = folder.join("images");
    printer.note(&format!(
        "{} in {}, the picture in {planted}; search with `peerlane scan {} {}`",
        counted(args.images, "image"),
        images.display(),
        folder.join("picture.png").display(),
        images.display(),
    ));
    Ok(Exit::Done)
}

fn failure(error: HaystackError) -> Failure {
    let hint = match error {
        HaystackError::Used { .. } => Some("name another folder with `-o`"),
        HaystackError::Write { .. } => Some(
            "name a folder with `-o` where you may write and there is room; what was written so far is \
             left there",
        ),
        _ => None,
    };
    Failure::new(error).hint(hint.map(str::to_owned))
}

fn recipe(args: &MakeArgs) -> Recipe {
    Recipe {
        seed: args.seed,
        images: args.images,
        side: args.side as usize,
        planted_per_mille: args.per_mille,
        scales: args.scales.clone(),
        rotations: args.rotations.clone(),
    }
}
