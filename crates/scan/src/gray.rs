//! A grey image: one byte a pixel, rows without gaps.

use thiserror::Error;

/// A grey image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gray {
    width: usize,
    height: usize,
    /// Bytes before the pixels: the header of the file that they were read with.
    begin: usize,
    bytes: Vec<u8>,
}

/// Reasons why something is not a grey image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrayError {
    /// The count of pixels is not width times height.
    #[error("{width} x {height} pixels need as many bytes, and there are {bytes}")]
    Size {
        /// Pixels in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes given.
        bytes: usize,
    },
}

impl Gray {
    /// An image out of its pixels, row by row from the top.
    ///
    /// # Errors
    /// [`GrayError::Size`] when `pixels` is not `width * height` long.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, GrayError> {
        Self::within(width, height, 0, pixels)
    }

    /// An image out of all bytes from `begin` on, which are not copied.
    ///
    /// # Errors
    /// [`GrayError::Size`] when these are not `width * height`.
    pub fn within(
        width: usize,
        height: usize,
        begin: usize,
        bytes: Vec<u8>,
    ) -> Result<Self, GrayError> {
        let there = bytes.len().saturating_sub(begin);
        if width.checked_mul(height) != Some(there) {
            return Err(GrayError::Size { width, height, bytes: there });
        }
        Ok(Self { width, height, begin, bytes })
    }

    /// An image of one brightness.
    pub fn filled(width: usize, height: usize, value: u8) -> Self {
        Self { width, height, begin: 0, bytes: vec![value; width * height] }
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// All pixels, row by row from the top.
    pub fn pixels(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// All pixels, to be changed.
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..]
    }

    /// The pixels of row `y`.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, y: usize) -> &[u8] {
        &self.pixels()[y * self.width..(y + 1) * self.width]
    }

    /// A copy of a rectangle, as much of it as there is.
    #[must_use]
    pub fn part(&self, x: usize, y: usize, width: usize, height: usize) -> Self {
        let (x, y) = (x.min(self.width), y.min(self.height));
        let (width, height) = (width.min(self.width - x), height.min(self.height - y));
        let bytes = (y..y + height).flat_map(|y| self.row(y)[x..x + width].iter().copied());
        Self { width, height, begin: 0, bytes: bytes.collect() }
    }
}
