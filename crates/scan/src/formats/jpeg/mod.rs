//! A JPEG at an eighth of its size, out of the means of its blocks alone.
//!
//! The first coefficient of a block of 8 x 8 pixels is eight times their mean (ITU-T T.81, A.3.3), and
//! in a progressive file a first scan holds these alone. So a coarse search needs no transform and no
//! colours: the other coefficients are stepped over bit by bit.
//!
//! Leaves out arithmetic coding, 12 bits, lossless and hierarchical files, and brightness that is
//! stored at less than full resolution: `None`, and the whole image is decoded instead. The one
//! thing to know: damage past the header gives `None` too, so only one decoder reports faults of a
//! file.

mod bits;
mod huffman;
mod multi_picture;
#[cfg(test)]
mod tests;

use bits::Bits;
use huffman::HuffmanTable;
pub(crate) use multi_picture::further_images;

use super::MOST_PIXELS;
use super::orientation::turned;
use crate::reduce::Plane;

/// Means over blocks of 8 x 8 pixels, whole ones only, and the size of the image.
pub(crate) struct Means {
    pub(crate) plane: Plane,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Means {
    /// Squares of the image as people see it: at its edges these may be others, which a search allows for.
    fn turned(self, orientation: u64) -> Self {
        let Plane { width, height, values } = self.plane;
        let (values, (width, height)) = turned(values, (width, height), orientation);
        Self { plane: Plane { width, height, values }, ..self }
    }
}

/// The means of the blocks of brightness; `None` for other files.
pub(crate) fn means(bytes: &[u8]) -> Option<Means> {
    let mut file = JpegFile::default();
    let mut at = 2;
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    loop {
        let (marker, body, next) = segment(bytes, at)?;
        match marker {
            0xc0..=0xc2 => file.frame = Some(JpegFrame::read(body, marker == 0xc2)?),
            0xc4 => file.read_tables(body)?,
            // Other forms of coding, and the end.
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcf | 0xd9 => return None,
            0xdb => file.read_quantisers(body)?,
            // Adobe's segment says 0 where three components are colours (T.872, 6.5.3).
            0xee if body.starts_with(b"Adobe") && body.get(11) == Some(&0) => {
                file.is_adobe_plain = true;
            }
            0xdd => file.restart = u32::from(half(body, 0)?),
            0xda => return Some(file.scan(body, &bytes[next..])?.turned(orientation(bytes))),
            _ => {}
        }
        at = next;
    }
}

/// The orientation in the Exif data of the file; 1, upright, without any.
pub(super) fn orientation(bytes: &[u8]) -> u64 {
    let mut at = 2;
    while let Some((marker, body, next)) = segment(bytes, at) {
        match (marker, body.strip_prefix(b"Exif\0\0")) {
            (0xe1, Some(exif)) => return super::tiff::first_number(exif, 274).unwrap_or(1),
            (0xda | 0xd9, _) => break,
            _ => at = next,
        }
    }
    1
}

/// Tests whether the last scan ends in a proper end marker.
pub(super) fn has_end(bytes: &[u8]) -> bool {
    let last = |mark: [u8; 2]| bytes.windows(2).rposition(|pair| pair == mark);
    last([0xff, 0xd9]) > last([0xff, 0xda])
}

/// The first marker from `at` on, its content, and the place of the next one (T.81 B.1.1.4). Other
/// bytes between them are skipped, as libjpeg does.
fn segment(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff);
    let at = at + bytes.get(at..)?.windows(2).position(is_marker)?;
    let marker = bytes[at + 1];
    let length = usize::from(half(bytes, at + 2)?);
    let end = at + 2 + length;
    Some((marker, bytes.get(at + 4..end)?, end))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

#[derive(Default)]
struct JpegFile {
    frame: Option<JpegFrame>,
    /// Step of the first coefficient, by number of the table.
    first_steps: [u16; 4],
    dc: [Option<HuffmanTable>; 4],
    ac: [Option<HuffmanTable>; 4],
    /// Groups of blocks between restarts; zero for none.
    restart: u32,
    /// Components are stored as they are, without a change to brightness and colours.
    is_adobe_plain: bool,
}

/// T.81 B.2.2.
struct JpegFrame {
    width: usize,
    height: usize,
    is_progressive: bool,
    parts: Vec<Component>,
}

/// A component.
struct Component {
    name: u8,
    across: usize,
    down: usize,
    quantiser: usize,
}

impl JpegFrame {
    fn read(body: &[u8], is_progressive: bool) -> Option<Self> {
        let (height, width) = (half(body, 1)?, half(body, 3)?);
        let count = usize::from(*body.get(5)?);
        let pixels = u64::from(width) * u64::from(height);
        if body[0] != 8 || !matches!(count, 1 | 3) || pixels == 0 || pixels > MOST_PIXELS {
            return None;
        }
        let part = |index: usize| {
            let part = body.get(6 + 3 * index..9 + 3 * index)?;
            let (across, down) = (usize::from(part[1] >> 4), usize::from(part[1] & 15));
            let is_sound = (1..=4).contains(&across) && (1..=4).contains(&down) && part[2] < 4;
            is_sound.then(|| Component { name: part[0], across, down, quantiser: part[2].into() })
        };
        let parts: Vec<Component> = (0..count).map(part).collect::<Option<_>>()?;
        let first = &parts[0];
        if parts.iter().any(|part| part.across > first.across || part.down > first.down) {
            return None;
        }
        Some(Self { width: width.into(), height: height.into(), is_progressive, parts })
    }
}

/// Coding of a component in one scan.
struct Coded<'a> {
    blocks: usize,
    is_brightness: bool,
    dc: &'a HuffmanTable,
    /// `None` where a scan has first coefficients alone.
    ac: Option<&'a HuffmanTable>,
}

impl JpegFile {
    /// T.81 B.2.4.2.
    fn read_tables(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((kind, rest)) = body.split_first() {
            let (counts, rest) = rest.split_at_checked(16)?;
            let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, rest) = rest.split_at_checked(total)?;
            let tables = if kind >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            *tables.get_mut(usize::from(kind & 15))? =
                Some(HuffmanTable::new(counts.try_into().ok()?, symbols, kind >> 4 != 0)?);
            body = rest;
        }
        Some(())
    }

    /// T.81 B.2.4.1.
    fn read_quantisers(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((kind, rest)) = body.split_first() {
            let (size, first) = match kind >> 4 {
                0 => (64, u16::from(*rest.first()?)),
                _ => (128, half(rest, 0)?),
            };
            *self.first_steps.get_mut(usize::from(kind & 15))? = first;
            body = rest.split_at_checked(size)?.1;
        }
        Some(())
    }

    /// The first scan: of all components together, or of brightness alone (T.81 B.2.3).
    fn scan(&self, header: &[u8], data: &[u8]) -> Option<Means> {
        let frame = self.frame.as_ref()?;
        if frame.parts.len() == 3 && (self.is_adobe_plain || frame.parts[0].name == b'R') {
            return None;
        }
        let count = usize::from(*header.first()?);
        let [first, last, steps] = *header.get(1 + 2 * count..)? else { return None };
        if first != 0 || (frame.is_progressive && (last != 0 || steps >> 4 != 0)) {
            return None;
        }
        let coded: Vec<Coded<'_>> = (0..count)
            .map(|index| {
                let named = header.get(1 + 2 * index..3 + 2 * index)?;
                let at = frame.parts.iter().position(|part| part.name == named[0])?;
                let part = &frame.parts[at];
                // A component alone in its scan is stored block by block (A.2.2).
                let blocks = if count == 1 { 1 } else { part.across * part.down };
                let dc = self.dc.get(usize::from(named[1] >> 4))?.as_ref()?;
                let ac = if frame.is_progressive {
                    None
                } else {
                    Some(self.ac.get(usize::from(named[1] & 15))?.as_ref()?)
                };
                Some(Coded { blocks, is_brightness: at == 0, dc, ac })
            })
            .collect::<Option<_>>()?;
        if !coded.iter().any(|coded| coded.is_brightness) {
            return None;
        }
        let shift = if frame.is_progressive { steps & 15 } else { 0 };
        self.blocks(frame, &coded, shift.into(), data)
    }

    fn blocks(
        &self,
        frame: &JpegFrame,
        coded: &[Coded<'_>],
        shift: u32,
        data: &[u8],
    ) -> Option<Means> {
        let brightness = &frame.parts[0];
        let group =
            |across: usize, down: usize| if coded.len() == 1 { (1, 1) } else { (across, down) };
        let (across, down) = group(brightness.across, brightness.down);
        let columns = frame.width.div_ceil(8 * across);
        let rows = frame.height.div_ceil(8 * down);
        let (width, height) = (frame.width / 8, frame.height / 8);
        let mut values = vec![0.0; width * height];
        let step = f32::from(self.first_steps[brightness.quantiser]) / 8.0;
        let mut bits = Bits::new(data);
        let mut before = [0_i32; 4];
        let groups = columns * rows;
        let interval = if self.restart == 0 { groups } else { self.restart as usize };
        for index in 0..groups {
            if index > 0 && index % interval == 0 {
                bits = bits.restarted()?;
                before = [0; 4];
            }
            for (coded, before) in coded.iter().zip(&mut before) {
                for block in 0..coded.blocks {
                    let size = u32::from(coded.dc.symbol(&mut bits)?);
                    *before = before.checked_add(bits.signed(size)?)?;
                    if let Some(ac) = coded.ac {
                        ac.skip_block(&mut bits)?;
                    }
                    if coded.is_brightness {
                        let x = index % columns * across + block % across;
                        let y = index / columns * down + block / across;
                        if x < width && y < height {
                            let mean = before.checked_shl(shift)? as f32 * step + 128.0;
                            values[y * width + x] = mean.clamp(0.0, 255.0);
                        }
                    }
                }
            }
        }
        let plane = Plane { width, height, values };
        Some(Means { plane, width: frame.width, height: frame.height })
    }
}
