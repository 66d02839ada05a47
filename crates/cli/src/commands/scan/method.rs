//! Prepares the picture for the chosen method of search.

use peerlane_results::ScanMethod;
use peerlane_scan::formats::decode_with_opacity;
use peerlane_scan::{DONARD_THRESHOLD, Donard, Gray, PictureError, Pose, Searcher, pictures};

use crate::args::ScanArgs;
use crate::error::{Failure, Tried};
use crate::printer::Printer;
use crate::small_file;

/// The longest file of the picture: decoded it has 2^28 pixels at most.
const PICTURE_MAX: u64 = 1 << 30;

/// The threshold of normalised cross-correlation, and those that make sense of it.
const USUAL: f32 = 0.9;
const CORRELATIONS: std::ops::RangeInclusive<f32> = 0.3..=1.0;

/// The search that is asked for.
///
/// # Errors
/// When the picture cannot be looked for in that way.
pub(super) fn searcher(
    args: &ScanArgs,
    picture: &Picture,
    printer: Printer,
) -> Result<Searcher, Failure> {
    match args.method {
        ScanMethod::Ncc => ncc(args, picture),
        ScanMethod::Donard => donard(args, picture, printer),
    }
}

fn ncc(args: &ScanArgs, (gray, opacity): &Picture) -> Result<Searcher, Failure> {
    let threshold = args.threshold.unwrap_or(USUAL);
    if !CORRELATIONS.contains(&threshold) {
        let (low, high) = (CORRELATIONS.start(), CORRELATIONS.end());
        let error = format!("`--threshold {threshold}` is not a correlation from {low} to {high}");
        return Err(Failure::new(error).hint("`--method donard` has other scores".to_owned()));
    }
    let poses = args.scales.iter().flat_map(|scale| {
        args.rotations.iter().map(|degrees| Pose { scale: *scale, degrees: *degrees })
    });
    let pictures = pictures(gray, opacity.as_ref(), poses).map_err(Tried::to(tried(args)))?;
    Ok(Searcher::new(pictures, threshold))
}

fn donard(
    args: &ScanArgs,
    (gray, opacity): &Picture,
    printer: Printer,
) -> Result<Searcher, Failure> {
    let is_posed = |given: &[f32], own: f32| given.iter().any(|number| *number != own);
    if is_posed(&args.scales, 1.0) || is_posed(&args.rotations, 0.0) {
        let error =
            "`--method donard` looks for the picture as it is, in no other size or rotation";
        let hint = "leave `--scales` and `--rotations` out, or `--method`".to_owned();
        return Err(Failure::new(error).hint(hint));
    }
    let threshold = args.threshold.unwrap_or(DONARD_THRESHOLD);
    let donard = Donard::new(gray, opacity.as_ref(), threshold).map_err(|error| {
        let hint = match &error {
            PictureError::Unreachable { most, .. } if *most > 0.0 => {
                Some(format!("`--threshold {:.0}` is half of that", (most / 2.0).max(1.0)))
            }
            _ => None,
        };
        Tried::to(tried(args))(error).hint(hint)
    })?;
    let (own, most) = (donard.own_score(), donard.most());
    printer.note(&format!(
        "by Donard's method the picture itself scores {own:.2}, and no image more than {most:.2}; \
         hits have more than {threshold}"
    ));
    Ok(Searcher::by_donard(donard))
}

/// The picture to look for, and its opacity where it has one.
pub(super) type Picture = (Gray, Option<Gray>);

/// Reads the picture.
///
/// # Errors
/// When it cannot be read, or is not an image.
pub(super) fn picture(args: &ScanArgs) -> Result<Picture, Failure> {
    let what = format!("read picture {}", args.picture.display());
    let path = &args.picture;
    let bytes = small_file::bytes(path, PICTURE_MAX).map_err(Tried::to_read(what.clone(), path))?;
    decode_with_opacity(bytes).map_err(Tried::to(what))
}

fn tried(args: &ScanArgs) -> String {
    format!("look for picture {}", args.picture.display())
}
