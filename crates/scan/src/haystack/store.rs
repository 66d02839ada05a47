//! A haystack as a folder: `picture.png`, `images/`, `answers.jsonl`.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Recipe;
use crate::Gray;
use crate::formats::{Encoding, encode};

/// Reasons why a haystack was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HaystackError {
    /// There is something in the folder.
    #[error("folder {} is not empty", folder.display())]
    Used {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or folder could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Path of it.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Makes a haystack in a folder that is missing or empty; returns the number of images with the
/// picture, or `None` where it was asked to stop.
///
/// # Errors
/// [`HaystackError`], with the finished files left there.
pub fn store(
    recipe: &Recipe,
    folder: &Path,
    encoding: Encoding,
    is_stopped: impl Fn() -> bool,
) -> Result<Option<u32>, HaystackError> {
    let images = folder.join("images");
    if fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_some()) {
        return Err(HaystackError::Used { folder: folder.to_owned() });
    }
    fs::create_dir_all(&images).map_err(writing(&images))?;
    let picture = recipe.picture();
    write(&folder.join("picture.png"), &picture, Encoding::Png)?;
    let answers = folder.join("answers.jsonl");
    let mut lines = BufWriter::new(File::create(&answers).map_err(writing(&answers))?);
    let mut planted = 0;
    for index in 0..recipe.images {
        if is_stopped() {
            return Ok(None);
        }
        let name = format!("{index:06}.{}", encoding.extension());
        let (image, answer) = recipe.image(&picture, index, name.clone());
        write(&images.join(name), &image, encoding)?;
        planted += u32::from(answer.planted);
        let line = serde_json::to_string(&answer).map_err(writing(&answers))?;
        writeln!(lines, "{line}").map_err(writing(&answers))?;
    }
    lines.flush().map_err(writing(&answers))?;
    Ok(Some(planted))
}

fn write(path: &Path, image: &Gray, encoding: Encoding) -> Result<(), HaystackError> {
    let bytes = encode(image, encoding).map_err(writing(path))?;
    fs::write(path, bytes).map_err(writing(path))
}

fn writing<E>(path: &Path) -> impl FnOnce(E) -> HaystackError
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let path = path.to_owned();
    move |source| HaystackError::Write { path, source: source.into() }
}
