//! TIFF and BigTIFF: every page, with the codecs of libraries.
//!
//! Leaves out what has no brightness of its own (colour filter arrays) and compression that no
//! library here reads: an error that says so. The `tiff` crate refuses palettes, 2, 4 and 12 bits,
//! and planes of colours, and gives up a file for one bad page; so directories are read here.

mod compression;
mod directory;

use compression::{ChunkShape, uncompress};
use directory::{ByteOrder, Directory, chain, header};
pub(crate) use directory::{first_bytes, first_number, is_tiff};

use super::{FormatError, checked_size};
use crate::Gray;

/// Bytes of numbers that are stretched, at most.
const MOST_STRETCHED: u64 = 2 << 30;

/// Pages of a TIFF file, ready to be decoded.
pub(crate) struct TiffPages<'a> {
    all: Vec<Directory<'a>>,
    /// Error after the last page; there may be more pages.
    broken: Option<FormatError>,
}

impl<'a> TiffPages<'a> {
    /// # Errors
    /// [`FormatError`] when they cannot be counted.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let (all, broken) = chain(bytes);
        match broken {
            Some(error) if all.is_empty() => Err(error),
            broken => Ok(Self { all, broken }),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Takes the reason why pages after the last one are unknown, once.
    pub(crate) fn take_broken(&mut self) -> Option<FormatError> {
        self.broken.take()
    }

    /// A page and its orientation.
    ///
    /// # Errors
    /// [`FormatError`] for unread kinds and broken pages.
    pub(crate) fn decode(&self, index: usize) -> Result<(Gray, u64), FormatError> {
        let directory = &self.all[index];
        Ok((TiffPage::read(directory)?.decode()?, directory.number(274).unwrap_or(1)))
    }
}

/// Meanings of a sample (TIFF 6.0, tag 262).
enum Meaning {
    Gray { is_inverted: bool },
    Colour,
    Ink,
    Palette(Vec<u8>),
}

struct TiffPage<'a> {
    directory: &'a Directory<'a>,
    width: usize,
    height: usize,
    bits: usize,
    /// Samples of a pixel, and those of them that brightness is made of.
    samples: usize,
    used: usize,
    /// 1 whole, 2 signed, 3 floating point.
    kind: u64,
    meaning: Meaning,
    /// Luma samples of a block across and down, if its colours are stored once.
    block: Option<(usize, usize)>,
    is_planar: bool,
    chunk: (usize, usize),
}

fn bright([red, green, blue]: [u8; 3]) -> u8 {
    super::library::bright([red, green, blue])
}

impl<'a> TiffPage<'a> {
    fn read(directory: &'a Directory<'a>) -> Result<Self, FormatError> {
        let one = |tag: u16, default: u64| directory.number(tag).unwrap_or(default);
        let (width, height) = checked_size(one(256, 0), one(257, 0))?;
        if width == 0 || height == 0 {
            return Err(header("there are no pixels"));
        }
        let all_bits = directory.numbers(258);
        let bits = all_bits.first().copied().unwrap_or(1);
        if all_bits.iter().any(|other| *other != bits) {
            return Err(header("samples of different depths are not read"));
        }
        let (samples, method, kind) = (one(277, 1), one(259, 1), one(339, 1));
        if !matches!((kind, bits), (1 | 4, 1..=32 | 64) | (2, 8 | 16 | 32 | 64) | (3, 16 | 32 | 64))
        {
            return Err(header(&format!("samples of {bits} bits (format {kind}) are not read")));
        }
        let samples = usize::try_from(samples).ok().filter(|count| (1..=64).contains(count));
        let samples = samples.ok_or_else(|| header("a pixel has no samples, or more than 64"))?;
        let photometric =
            one(262, if samples >= 3 { 2 } else { u64::from(!matches!(method, 2..=4)) });
        let meaning = match photometric {
            0 | 1 | 4 | 6 | 8..=10 | 32_844 | 34_892 => {
                Meaning::Gray { is_inverted: photometric == 0 }
            }
            2 => Meaning::Colour,
            3 => Meaning::Palette(palette(directory, bits)?),
            5 => Meaning::Ink,
            other => {
                return Err(header(&format!(
                    "pixels of kind {other} have no brightness that is read"
                )));
            }
        };
        let used = match meaning {
            Meaning::Gray { .. } | Meaning::Palette(_) => 1,
            Meaning::Colour => 3,
            Meaning::Ink => 4,
        };
        if samples < used {
            return Err(header(&format!(
                "pixels of {samples} samples need {used} for their colours"
            )));
        }
        let is_planar = one(284, 1) == 2 && samples > 1;
        let subsampling = directory.numbers(530);
        let block = match (photometric, method, subsampling.as_slice()) {
            (6, 7, _) | (6, _, [1, 1, ..]) => None,
            (6, _, [across @ (1 | 2 | 4), down @ (1 | 2 | 4), ..]) if !is_planar && bits == 8 => {
                Some((usize::try_from(*across).unwrap_or(1), usize::try_from(*down).unwrap_or(1)))
            }
            (6, _, []) if !is_planar && bits == 8 => Some((2, 2)),
            (6, ..) if !is_planar => return Err(header("its sampling of colours is not read")),
            _ => None,
        };
        let side = |tag: u16, whole: usize| {
            let side = directory.number(tag).and_then(|side| usize::try_from(side).ok());
            side.unwrap_or(whole)
        };
        let chunk = match directory.number(322) {
            Some(_) => (side(322, width), side(323, height)),
            None => (width, side(278, height).min(height)),
        };
        if chunk.0 == 0 || chunk.1 == 0 || checked_size(chunk.0 as u64, chunk.1 as u64).is_err() {
            return Err(header("a strip or tile has no pixels, or too many"));
        }
        let bits = usize::try_from(bits).unwrap_or(0);
        Ok(Self {
            directory,
            width,
            height,
            bits,
            samples,
            used,
            kind,
            meaning,
            block,
            is_planar,
            chunk,
        })
    }

    fn decode(&self) -> Result<Gray, FormatError> {
        let pixels =
            if self.kind == 1 || self.kind == 4 { self.whole()? } else { self.stretched()? };
        Ok(Gray::new(self.width, self.height, pixels)?)
    }

    /// Planes of bytes, scaled from the range of the depth, as brightness.
    fn whole(&self) -> Result<Vec<u8>, FormatError> {
        // Of more than 32 bits the first ones are enough.
        let spare = self.bits.saturating_sub(32);
        let most = (1_u64 << (self.bits - spare)) - 1;
        let is_palette = matches!(self.meaning, Meaning::Palette(_));
        let mut planes = vec![vec![0_u8; self.width * self.height]; self.used];
        self.each_sample(|plane, at, value| {
            let scaled = match &self.meaning {
                Meaning::Palette(shades) => usize::try_from(value)
                    .ok()
                    .and_then(|index| shades.get(index).copied())
                    .unwrap_or(0),
                // To the nearest of 256 steps.
                _ => (((value >> spare) * 255 + most / 2) / most).to_be_bytes()[7],
            };
            planes[plane][at] = scaled;
        })?;
        if is_palette {
            return Ok(planes.swap_remove(0));
        }
        Ok(self.brightness(planes))
    }

    /// Numbers without an end of their scale: the lowest is black and the highest white. A search is told nothing else
    /// by it, since its score is the same under any gain and offset.
    fn stretched(&self) -> Result<Vec<u8>, FormatError> {
        let count = self.width * self.height;
        let bytes = count as u64 * self.used as u64 * 4;
        if bytes > MOST_STRETCHED {
            let (width, height) = (self.width as u64, self.height as u64);
            return Err(FormatError::Large { width, height, most: MOST_STRETCHED / 4 });
        }
        let mut planes = vec![vec![0_f32; count]; self.used];
        self.each_sample(|plane, at, value| planes[plane][at] = self.number(value))?;
        let all = || planes.iter().flatten().copied().filter(|value| value.is_finite());
        let (low, high) = all()
            .fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let range = (f64::from(high) - f64::from(low)).max(f64::MIN_POSITIVE);
        let byte = |value: &f32| {
            let share = ((f64::from(*value) - f64::from(low)) / range).clamp(0.0, 1.0);
            // Not a number is black.
            (0..=255_u8)
                .nth(crate::pose::whole(crate::correlate::single(share * 255.0)))
                .unwrap_or(0)
        };
        let planes = planes.iter().map(|plane| plane.iter().map(byte).collect()).collect();
        Ok(self.brightness(planes))
    }

    fn number(&self, value: u64) -> f32 {
        let low = u32::try_from(value & 0xffff_ffff).unwrap_or(0);
        match (self.kind, self.bits) {
            (3, 32) => f32::from_bits(low),
            (3, 16) => half(value),
            (3, _) => crate::correlate::single(f64::from_bits(value)),
            (_, bits) => {
                let sign = 1_i128 << (bits - 1);
                ((i128::from(value) ^ sign) - sign) as f32
            }
        }
    }

    fn brightness(&self, mut planes: Vec<Vec<u8>>) -> Vec<u8> {
        match (&self.meaning, planes.as_slice()) {
            (Meaning::Colour, [red, green, blue]) => {
                let colours = red.iter().zip(green).zip(blue);
                colours.map(|((red, green), blue)| bright([*red, *green, *blue])).collect()
            }
            (Meaning::Ink, [cyan, magenta, yellow, black]) => {
                let light = |ink: u8, black: u8| {
                    (u16::from(255 - ink) * u16::from(255 - black) / 255).to_be_bytes()[1]
                };
                let inks = cyan.iter().zip(magenta).zip(yellow).zip(black);
                inks.map(|(((c, m), y), k)| bright([light(*c, *k), light(*m, *k), light(*y, *k)]))
                    .collect()
            }
            _ => {
                let mut plane = planes.swap_remove(0);
                if matches!(self.meaning, Meaning::Gray { is_inverted: true }) {
                    plane.iter_mut().for_each(|value| *value = 255 - *value);
                }
                plane
            }
        }
    }

    /// Hands on the plane, place and value of every sample that brightness is made of.
    fn each_sample(&self, mut take: impl FnMut(usize, usize, u64)) -> Result<(), FormatError> {
        // Some programs file tiles as strips.
        let either = |tile: u16, strip: u16| match self.directory.numbers(tile) {
            numbers if numbers.is_empty() => self.directory.numbers(strip),
            numbers => numbers,
        };
        let (begins, sizes) = (either(324, 273), either(325, 279));
        let (across, down) =
            (self.width.div_ceil(self.chunk.0), self.height.div_ceil(self.chunk.1));
        let (planes, samples) = if self.is_planar { (self.used, 1) } else { (1, self.samples) };
        for index in 0..planes * across * down {
            let plane = index / (across * down);
            let (left, top) = (index % across * self.chunk.0, index / across % down * self.chunk.1);
            let begin = *begins
                .get(index)
                .ok_or_else(|| header("it has fewer strips or tiles than its size needs"))?;
            let (wide, tall) =
                (self.chunk.0.min(self.width - left), self.chunk.1.min(self.height - top));
            let shape = self.shape(samples, tall);
            let length = sizes.get(index).copied().filter(|size| *size > 0).unwrap_or(u64::MAX);
            let data = self.chunk_bytes(begin, length, shape, index)?;
            let used = if self.is_planar { 1 } else { self.used };
            for y in 0..tall {
                for x in 0..wide {
                    for sample in 0..used {
                        let value = match self.block {
                            None => self.sample(&data[y * shape.stride..], x * samples + sample),
                            Some(block) => u64::from(data[luma_at(block, shape.stride, x, y)]),
                        };
                        take(plane + sample, (top + y) * self.width + left + x, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn shape(&self, samples: usize, rows: usize) -> ChunkShape {
        let width = self.chunk.0;
        match self.block {
            None => {
                let stride = (width * samples * self.bits).div_ceil(8);
                ChunkShape { width, rows, stride, samples }
            }
            // A row of blocks: the luma of each, and two samples of colour.
            Some((across, down)) => {
                let stride = width.div_ceil(across) * (across * down + 2);
                ChunkShape { width, rows: rows.div_ceil(down), stride, samples }
            }
        }
    }

    fn chunk_bytes(
        &self,
        begin: u64,
        length: u64,
        shape: ChunkShape,
        index: usize,
    ) -> Result<Vec<u8>, FormatError> {
        let directory = self.directory;
        let one = |tag: u16| directory.number(tag).unwrap_or(1);
        let method = one(259);
        let mut data = directory.part(begin, length);
        let reversed: Vec<u8>;
        if one(266) == 2 && method != 7 {
            reversed = data.iter().map(|byte| byte.reverse_bits()).collect();
            data = &reversed;
        }
        if method == 3 && one(292) & 1 == 1 && directory.number(292).is_some() {
            return Err(header("fax of group 3 in two dimensions is not read"));
        }
        let mut out = uncompress(data, method, shape, directory.bytes(347))?;
        let needed = shape.stride * shape.rows;
        if out.len() < needed {
            let what = format!("strip or tile {index} has {} bytes of {needed}", out.len());
            return Err(header(&what));
        }
        match one(317) {
            1 => {}
            2 if matches!(self.bits, 8 | 16 | 32) => self.add_differences(&mut out, shape),
            3 if self.kind == 3 => self.add_float_differences(&mut out, shape),
            other => {
                return Err(header(&format!(
                    "predictor {other} of {} bits is not read",
                    self.bits
                )));
            }
        }
        Ok(out)
    }

    /// TIFF 6.0 section 14.
    fn add_differences(&self, data: &mut [u8], shape: ChunkShape) {
        let size = self.bits / 8;
        for row in data.chunks_exact_mut(shape.stride.max(1)) {
            for at in (shape.samples * size..row.len()).step_by(size) {
                let before = self.directory.order.number(&row[at - shape.samples * size..][..size]);
                let sum = before.wrapping_add(self.directory.order.number(&row[at..][..size]));
                let bytes = sum.to_be_bytes();
                row[at..at + size].copy_from_slice(&bytes[8 - size..]);
                if self.directory.order == ByteOrder::LittleEndian {
                    row[at..at + size].reverse();
                }
            }
        }
    }

    /// Adds differences of bytes; the first bytes of all numbers come first (TIFF Technical Note 3).
    fn add_float_differences(&self, data: &mut [u8], shape: ChunkShape) {
        let size = self.bits / 8;
        for row in data.chunks_exact_mut(shape.stride.max(1)) {
            for at in shape.samples..row.len() {
                row[at] = row[at].wrapping_add(row[at - shape.samples]);
            }
            let (sorted, count) = (row.to_vec(), row.len() / size);
            for (index, number) in row.chunks_exact_mut(size).enumerate() {
                let bytes = (0..size).map(|byte| sorted[byte * count + index]);
                number.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
                if self.directory.order == ByteOrder::LittleEndian {
                    number.reverse();
                }
            }
        }
    }

    fn sample(&self, row: &[u8], index: usize) -> u64 {
        if self.bits % 8 == 0 {
            let size = self.bits / 8;
            return self.directory.order.number(&row[index * size..][..size]);
        }
        // Samples of other depths are packed, first bit first, whatever the order of bytes.
        let begin = index * self.bits;
        let bit = |at: usize| u64::from(row[at / 8] >> (7 - at % 8) & 1);
        (begin..begin + self.bits).fold(0, |value, at| value << 1 | bit(at))
    }
}

/// A number of IEEE 754's binary16.
fn half(bits: u64) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 31, (bits & 1023) as f32 / 1024.0);
    let power = |exponent: u64| (exponent as f32 - 15.0).exp2();
    let amount = match exponent {
        0 => fraction * power(1),
        31 => f32::NAN,
        _ => (1.0 + fraction) * power(exponent),
    };
    if bits >> 15 & 1 == 1 { -amount } else { amount }
}

/// Returns the index of the luma of a pixel among blocks.
fn luma_at((across, down): (usize, usize), stride: usize, x: usize, y: usize) -> usize {
    y / down * stride + x / across * (across * down + 2) + y % down * across + x % across
}

/// The brightness of every colour of a palette; sixteen bits each, or eight by programs that know no better.
fn palette(directory: &Directory<'_>, bits: u64) -> Result<Vec<u8>, FormatError> {
    let colours = directory.numbers(320);
    let count = 1_usize << bits.min(16);
    if colours.len() < 3 * count {
        return Err(header("its palette is shorter than its depth needs"));
    }
    let is_short = colours.iter().all(|part| *part < 256);
    let byte = |part: u64| if is_short { part.to_be_bytes()[7] } else { part.to_be_bytes()[6] };
    Ok((0..count)
        .map(|at| bright([0, 1, 2].map(|part| byte(colours[part * count + at]))))
        .collect())
}
