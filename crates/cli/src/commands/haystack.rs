//! `peerlane haystack make`: a set of images with a picture hidden in some.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use peerlane_scan::Gray;
use peerlane_scan::formats::{Encoding, encode};
use peerlane_scan::haystack::Recipe;

use crate::args::{HayFormat, HaystackArgs, HaystackCommand, MakeArgs};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;
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
    let images = folder.join("images");
    let is_used = fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_some());
    if is_used {
        let error = format!("folder {} is not empty", folder.display());
        return Err(Failure::new(error).hint("name another folder with `-o`".to_owned()));
    }
    fs::create_dir_all(&images).map_err(writing(&images))?;
    let stop = signals::stop_flag()?;
    let recipe = recipe(args);
    let picture = recipe.picture();
    store(&folder.join("picture.png"), &picture, Encoding::Png)?;
    let answers = folder.join("answers.jsonl");
    let mut lines = BufWriter::new(File::create(&answers).map_err(writing(&answers))?);
    let mut planted = 0;
    for index in 0..args.images {
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
        let name = format!("{index:06}.{}", args.format.extension());
        let (image, answer) = recipe.image(&picture, index, name.clone());
        store(&images.join(name), &image, encoding(args.format))?;
        planted += u32::from(answer.planted);
        let line = serde_json::to_string(&answer).map_err(Tried::to("write an answer as JSON"))?;
        writeln!(lines, "{line}").map_err(writing(&answers))?;
    }
    lines.flush().map_err(writing(&answers))?;
    printer.note(&format!(
        "{} images in {}, the picture in {planted}; search with `peerlane scan {} {}`",
        args.images,
        images.display(),
        folder.join("picture.png").display(),
        images.display(),
    ));
    Ok(Exit::Done)
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

fn encoding(format: HayFormat) -> Encoding {
    match format {
        HayFormat::Pgm => Encoding::Pgm,
        HayFormat::Bmp => Encoding::Bmp,
        HayFormat::Tiff => Encoding::Tiff,
        HayFormat::Jpeg => Encoding::Jpeg,
        HayFormat::Png => Encoding::Png,
        HayFormat::Webp => Encoding::Webp,
    }
}

fn store(path: &Path, image: &Gray, encoding: Encoding) -> Result<(), Failure> {
    let bytes = encode(image, encoding).map_err(writing(path))?;
    fs::write(path, bytes).map_err(writing(path))
}

fn writing<E>(path: &Path) -> impl FnOnce(E) -> Failure
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Tried::to(format!("write {}", path.display()))
}
