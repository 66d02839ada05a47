//! Kinds of images, made here byte by byte: each has the mark of the tests at one place, as people see it.
#![allow(clippy::unwrap_used)]

use peerlane_scan::formats::{Encoding, decode, decode_with_opacity, encode};
use peerlane_scan::{Crops, Gray, Hit, Picture, Pose, ScanEvent, Searcher, inputs, look, scan};

/// A mark of 64 x 48 pixels in an image of 200 x 150, at 90, 70.
fn scene() -> (Gray, Gray) {
    let mut image = Gray::filled(200, 150, 60);
    for y in 0..150_usize {
        for x in 0..200_usize {
            image.pixels_mut()[y * 200 + x] = u8::try_from(40 + (x * 7 + y * 3) % 32).unwrap();
        }
    }
    for y in 0..48_usize {
        for x in 0..64_usize {
            let shade =
                if (x / 16 + y / 12 * 3) % 4 < 2 || x * 3 > y * 4 && x < 40 { 16 } else { 240 };
            image.pixels_mut()[(y + 70) * 200 + x + 90] = shade;
        }
    }
    (image.part(90, 70, 64, 48), image)
}

fn searcher(mark: &Gray) -> Searcher {
    Searcher::new(vec![Picture::new(mark, None, Pose::default()).unwrap()], 0.9)
}

fn places(bytes: Vec<u8>) -> Vec<Place> {
    let (_, hits) = look(bytes, &searcher(&scene().0)).unwrap();
    hits.iter().map(|hit: &Hit| (hit.page, hit.x, hit.y)).collect()
}

/// A tag with its whole numbers: 3 short, 4 long, 16 eight bytes.
type Tag = (u16, u16, Vec<u64>);

/// A TIFF of little-endian pages, each with its tags and one strip.
fn tiff(pages: &[(Vec<Tag>, Vec<u8>)], is_big: bool) -> Vec<u8> {
    let wide = if is_big { 8 } else { 4 };
    let mut out = if is_big { b"II+\0\x08\0\0\0".to_vec() } else { b"II*\0".to_vec() };
    let mut link = out.len();
    out.extend(vec![0; wide]);
    for (tags, pixels) in pages {
        let mut tags = tags.clone();
        tags.push((273, 16_u16.min(if is_big { 16 } else { 4 }), vec![out.len() as u64]));
        tags.push((279, 4, vec![pixels.len() as u64]));
        tags.sort();
        out.extend(pixels);
        let values = |kind: u16, numbers: &[u64]| -> Vec<u8> {
            let size = match kind {
                3 => 2,
                4 => 4,
                _ => 8,
            };
            numbers.iter().flat_map(|number| number.to_le_bytes()[..size].to_vec()).collect()
        };
        let mut directory = Vec::new();
        for (tag, kind, numbers) in &tags {
            directory.extend(tag.to_le_bytes());
            directory.extend(kind.to_le_bytes());
            directory.extend(&(numbers.len() as u64).to_le_bytes()[..wide]);
            let mut value = values(*kind, numbers);
            if value.len() > wide {
                let at = out.len() as u64;
                out.extend(value);
                value = at.to_le_bytes()[..wide].to_vec();
            }
            value.resize(wide, 0);
            directory.extend(value);
        }
        let at = (out.len() as u64).to_le_bytes();
        out[link..link + wide].copy_from_slice(&at[..wide]);
        let count = (tags.len() as u64).to_le_bytes();
        out.extend(if is_big { &count[..] } else { &count[..2] });
        out.extend(directory);
        link = out.len();
        out.extend(vec![0; wide]);
    }
    out
}

fn tags(bits: u64, samples: usize, photometric: u64) -> Vec<Tag> {
    let one = |tag, value| (tag, 3, vec![value]);
    let depths = (258, 3, vec![bits; samples]);
    vec![
        one(256, 200),
        one(257, 150),
        depths,
        one(259, 1),
        one(262, photometric),
        one(277, samples as u64),
    ]
}

/// Shades of few bits, packed row by row.
fn packed(image: &Gray, bits: usize) -> Vec<u8> {
    let row = |y: usize| {
        let mut row = vec![0_u8; (image.width() * bits).div_ceil(8)];
        for (x, pixel) in image.row(y).iter().enumerate() {
            let value = (usize::from(*pixel) * ((1 << bits) - 1) + 127) / 255;
            for bit in (0..bits).filter(|bit| value >> (bits - 1 - bit) & 1 == 1) {
                row[(x * bits + bit) / 8] |= 0x80 >> ((x * bits + bit) % 8);
            }
        }
        row
    };
    (0..image.height()).flat_map(row).collect()
}

#[test]
fn tiff_depths_and_layouts_are_read() {
    let (_, image) = scene();
    let gray = image.pixels().to_vec();
    let with = |mut all: Vec<Tag>, more: Tag| {
        all.push(more);
        all
    };
    let inverted: Vec<u8> = gray.iter().map(|value| 255 - value).collect();
    let palette = (
        320,
        3,
        [0, 1, 2].iter().flat_map(|_| (0..256).map(|shade| (255 - shade) * 257)).collect(),
    );
    let floats: Vec<u8> =
        gray.iter().flat_map(|value| (f32::from(*value) * 9.0).to_le_bytes()).collect();
    // Luma of 2 x 2 pixels, and two samples of colour.
    let blocks: Vec<u8> = (0..75 * 100)
        .flat_map(|block| {
            let (x, y) = (block % 100 * 2, block / 100 * 2);
            let at = |x: usize, y: usize| gray[y * 200 + x];
            [at(x, y), at(x + 1, y), at(x, y + 1), at(x + 1, y + 1), 90, 170]
        })
        .collect();
    let fill = with(tags(1, 1, 1), (266, 3, vec![2]));
    let reversed: Vec<u8> = packed(&image, 1).iter().map(|byte| byte.reverse_bits()).collect();
    let planar = with(tags(8, 3, 2), (284, 3, vec![2]));
    for (name, is_big, tags, pixels) in [
        ("BigTIFF", true, tags(8, 1, 1), gray.clone()),
        ("1 bit", false, tags(1, 1, 1), packed(&image, 1)),
        ("2 bit", false, tags(2, 1, 1), packed(&image, 2)),
        ("4 bit", false, tags(4, 1, 1), packed(&image, 4)),
        ("12 bit", false, tags(12, 1, 1), packed(&image, 12)),
        ("16 bit", false, tags(16, 1, 1), gray.iter().flat_map(|value| [*value, *value]).collect()),
        ("white is zero", false, tags(8, 1, 0), inverted.clone()),
        ("palette", false, with(tags(8, 1, 3), palette), inverted),
        ("YCbCr", false, tags(8, 3, 6), blocks),
        ("bits reversed", false, fill, reversed),
        ("floats", false, with(tags(32, 1, 1), (339, 3, vec![3])), floats),
    ] {
        assert_eq!(places(tiff(&[(tags, pixels)], is_big)), [(None, 90, 70)], "{name}");
    }
    // Planes lie in strips of their own: here one after the other, with three offsets.
    let mut bytes = tiff(&[(planar.clone(), gray.repeat(3))], false);
    let error = look(bytes.clone(), &searcher(&image.part(90, 70, 64, 48))).unwrap_err();
    assert!(error.to_string().contains("fewer strips"), "{error}");
    let length = gray.len() as u64;
    let offsets = vec![8, 8 + length, 8 + 2 * length];
    let directory = [planar, vec![(273, 4, offsets), (279, 4, vec![length; 3])]].concat();
    bytes = tiff_with_offsets(directory, &gray.repeat(3));
    assert_eq!(places(bytes), [(None, 90, 70)], "planar");
}

/// A TIFF whose pixels follow the header at once.
fn tiff_with_offsets(mut tags: Vec<Tag>, pixels: &[u8]) -> Vec<u8> {
    tags.sort();
    let mut out = b"II*\0\0\0\0\0".to_vec();
    out.extend(pixels);
    let mut directory = (tags.len() as u64).to_le_bytes()[..2].to_vec();
    for (tag, kind, numbers) in &tags {
        let size = if *kind == 3 { 2 } else { 4 };
        let mut value: Vec<u8> =
            numbers.iter().flat_map(|number| number.to_le_bytes()[..size].to_vec()).collect();
        directory.extend(tag.to_le_bytes());
        directory.extend(kind.to_le_bytes());
        directory.extend(&(numbers.len() as u64).to_le_bytes()[..4]);
        if value.len() > 4 {
            let at = out.len() as u64;
            out.extend(&value);
            value = at.to_le_bytes()[..4].to_vec();
        }
        value.resize(4, 0);
        directory.extend(value);
    }
    let at = (out.len() as u64).to_le_bytes();
    out[4..8].copy_from_slice(&at[..4]);
    out.extend(directory);
    out.extend([0; 4]);
    out
}

#[test]
fn every_tiff_page_is_searched_and_named() {
    let (mark, image) = scene();
    let plain = (tags(8, 1, 1), vec![90; 200 * 150]);
    let marked = (tags(8, 1, 1), image.pixels().to_vec());
    // A page with half of its pixels costs no other its answer.
    let cut = (tags(8, 1, 1), vec![90; 100 * 150]);
    let mut odd = (tags(8, 1, 1), vec![0; 9]);
    odd.0[3].2[0] = 34_712;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages.tif");
    std::fs::write(&path, tiff(&[plain, marked.clone(), odd, marked], false)).unwrap();
    let mut told = Vec::new();
    let all = inputs::walk(vec![path.display().to_string()]);
    scan(all, &searcher(&mark), 1, Crops::Kept, |event, _| {
        if let ScanEvent::Answer(answer) = event {
            let (pixels, hits) = answer.found.unwrap();
            let pages: Vec<_> = hits.iter().map(|hit| hit.page).collect();
            let left_out: Vec<_> =
                answer.left_out.iter().map(|(page, error)| (*page, error.to_string())).collect();
            told.push((pixels, pages, answer.crops.len(), left_out));
        }
        true
    });
    let [(pixels, pages, crops, left_out)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((*pixels, *crops), (3 * 200 * 150, 2));
    assert_eq!(pages, &[Some(2), Some(4)]);
    assert!(
        matches!(left_out.as_slice(), [(3, error)] if error.contains("JPEG 2000")),
        "{left_out:?}"
    );
    assert!(look(tiff(&[cut], false), &searcher(&mark)).is_err());
}

/// An image as a camera stores it that was held in an orientation.
fn stored(image: &Gray, orientation: u16) -> Gray {
    let (width, height) = (image.width(), image.height());
    let is_turned = orientation >= 5;
    let size = if is_turned { (height, width) } else { (width, height) };
    let mut out = Gray::filled(size.0, size.1, 0);
    for y in 0..height {
        for x in 0..width {
            let (column, row) = match orientation {
                2 => (width - 1 - x, y),
                3 => (width - 1 - x, height - 1 - y),
                4 => (x, height - 1 - y),
                5 => (y, x),
                6 => (y, width - 1 - x),
                7 => (height - 1 - y, width - 1 - x),
                8 => (height - 1 - y, x),
                _ => (x, y),
            };
            out.pixels_mut()[row * size.0 + column] = image.row(y)[x];
        }
    }
    out
}

/// A JPEG with Exif data that has an orientation alone.
fn exif(image: &Gray, orientation: u16) -> Vec<u8> {
    let jpeg = encode(image, Encoding::Jpeg).unwrap();
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01".to_vec();
    exif.extend(orientation.to_be_bytes());
    exif.extend([0; 6]);
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, &exif, &jpeg[2..]].concat()
}

/// A lossless WebP in the form that may have Exif data (RFC 9649, section 2.7).
fn webp(image: &Gray, exif: &[u8]) -> Vec<u8> {
    let plain = encode(image, Encoding::Webp).unwrap();
    let side = |pixels: usize| (u32::try_from(pixels).unwrap() - 1).to_le_bytes();
    let header =
        [&[8, 0, 0, 0][..], &side(image.width())[..3], &side(image.height())[..3]].concat();
    let chunk = |name: &[u8], body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [name, &length, body, &vec![0; body.len() % 2]].concat()
    };
    let chunks = [chunk(b"VP8X", &header), plain[12..].to_vec(), chunk(b"EXIF", exif)].concat();
    let body = [&b"WEBP"[..], &chunks].concat();
    chunk(b"RIFF", &body)
}

#[test]
fn eight_orientations_are_searched_upright() {
    let (_, image) = scene();
    for orientation in 1..=8 {
        let seen = stored(&image, orientation);
        let bytes = exif(&seen, orientation);
        let upright = decode(bytes.clone()).unwrap();
        assert_eq!((upright.width(), upright.height()), (200, 150), "{orientation}");
        assert_eq!(places(bytes.clone()), [(None, 90, 70)], "{orientation}");
        assert!(decode_with_opacity(bytes).unwrap().0 == upright, "{orientation}");
        let mut tags = tags(8, 1, 1);
        tags[0].2[0] = seen.width() as u64;
        tags[1].2[0] = seen.height() as u64;
        tags.push((274, 3, vec![u64::from(orientation)]));
        let bytes = tiff(&[(tags, seen.pixels().to_vec())], false);
        assert!(decode(bytes.clone()).unwrap().pixels() == image.pixels(), "{orientation}");
        assert_eq!(places(bytes), [(None, 90, 70)], "{orientation}");
    }
    assert!(
        places(encode(&stored(&image, 6), Encoding::Jpeg).unwrap()).is_empty(),
        "it shows nothing upright"
    );
    // Programs begin the block of a WebP as that of a JPEG, or leave the mark out.
    let block = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    for mark in [&b"Exif\0\0"[..], b""] {
        let bytes = webp(&stored(&image, 6), &[mark, block].concat());
        assert_eq!(places(bytes), [(None, 90, 70)], "{} bytes of mark", mark.len());
    }
}

#[test]
fn jpeg_with_stray_bytes_is_read() {
    let jpeg = encode(&scene().1, Encoding::Jpeg).unwrap();
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    for stray in [&[0_u8][..], &[1, 2, 3, 4, 5], &[0; 40]] {
        let bytes = [&jpeg[..frame], stray, &jpeg[frame..]].concat();
        assert_eq!(places(bytes), [(None, 90, 70)], "{} bytes", stray.len());
    }
}

#[test]
fn truncated_jpeg_is_searched_and_named() {
    let (mark, image) = scene();
    let jpeg = encode(&image, Encoding::Jpeg).unwrap();
    let without_end = &jpeg[..jpeg.len() - 2];
    assert_eq!(answers(without_end, &mark), (vec![(None, 90, 70)], vec![]));
    let (hits, left_out) = answers(&jpeg[..jpeg.len() * 19 / 20], &mark);
    assert_eq!(hits, [(None, 90, 70)]);
    assert!(matches!(left_out.as_slice(), [error] if error.contains("ends early")), "{left_out:?}");
    assert!(look(jpeg[..60].to_vec(), &searcher(&mark)).is_err());
}

/// Page, x and y of a hit.
type Place = (Option<u32>, usize, usize);

/// Returns the hits of an image and the reasons for leaving out pages.
fn answers(bytes: &[u8], mark: &Gray) -> (Vec<Place>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, bytes).unwrap();
    let mut found = (Vec::new(), Vec::new());
    let all = inputs::walk(vec![path.display().to_string()]);
    scan(all, &searcher(mark), 1, Crops::Dropped, |event, _| {
        if let ScanEvent::Answer(answer) = event {
            let (_, hits) = answer.found.unwrap();
            found.0.extend(hits.iter().map(|hit| (hit.page, hit.x, hit.y)));
            found.1.extend(answer.left_out.iter().map(|(_, error)| error.to_string()));
        }
        true
    });
    found
}

#[test]
fn other_kinds_are_named() {
    for (bytes, name) in [
        (&b"GIF89a"[..], "GIF"),
        (b"8BPS\0\x01", "Photoshop"),
        (b"\0\0\0\x20ftypavif", "AVIF"),
        (b"\0\0\0\x20ftypheic", "HEIF"),
        (b"\xff\x4f\xff\x51", "JPEG 2000"),
    ] {
        let error = look(bytes.to_vec(), &searcher(&scene().0)).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn further_images_of_jpeg_are_pages() {
    let (_, image) = scene();
    let (plain, marked) = (
        encode(&Gray::filled(200, 150, 90), Encoding::Jpeg).unwrap(),
        encode(&image, Encoding::Jpeg).unwrap(),
    );
    let mut index =
        b"MPF\0MM\0*\0\0\0\x08\0\x01\xb0\x02\0\x07\0\0\0\x20\0\0\0\x1a\0\0\0\0".to_vec();
    let length = u16::try_from(index.len() + 32 + 2).unwrap();
    let end = plain.len() + usize::from(length) + 2;
    // Offsets count from the byte order, ten bytes from the start.
    let offset = u32::try_from(end - 10).unwrap();
    index.extend([0; 16]);
    for number in [0, u32::try_from(marked.len()).unwrap(), offset, 0] {
        index.extend(number.to_be_bytes());
    }
    let bytes =
        [&plain[..2], &[0xff, 0xe2], &length.to_be_bytes(), &index, &plain[2..], &marked].concat();
    assert_eq!(places(bytes), [(Some(2), 90, 70)]);
}
