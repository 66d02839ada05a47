//! The little of ELF that packing a program for the guest needs; 64-bit little-endian only.

const PROGRAM_HEADER_LOAD: u32 = 1;
const PROGRAM_HEADER_INTERPRETER: u32 = 3;
const PROGRAM_HEADER_NOTE: u32 = 4;

struct Segment {
    kind: u32,
    offset: usize,
    length: usize,
}

/// Path of the dynamic loader that the program asks for; `None` for a static program or no ELF.
pub(crate) fn interpreter(image: &[u8]) -> Option<String> {
    let segment =
        segments(image).into_iter().find(|segment| segment.kind == PROGRAM_HEADER_INTERPRETER)?;
    let text = image.get(segment.offset..segment.offset.checked_add(segment.length)?)?;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    String::from_utf8(text[..end].to_vec()).ok()
}

/// The program up to its last loaded segment, without section headers, symbols and debug
/// information. Returned unchanged when it is not an ELF.
pub(crate) fn loadable_part(mut image: Vec<u8>) -> Vec<u8> {
    const SECTION_FIELDS: [std::ops::Range<usize>; 2] = [0x28..0x30, 0x3a..0x40];
    let end = segments(&image)
        .iter()
        .filter(|segment| segment.kind == PROGRAM_HEADER_LOAD)
        .filter_map(|segment| segment.offset.checked_add(segment.length))
        .max();
    if let Some(end) = end.filter(|&end| end >= 0x40 && end < image.len()) {
        image.truncate(end);
        for field in SECTION_FIELDS {
            image[field].fill(0);
        }
    }
    image
}

/// Tests for a PVH entry note (`XEN_ELFNOTE_PHYS32_ENTRY`): QEMU's `-kernel` needs one to start an ELF image.
pub(crate) fn has_pvh_entry(image: &[u8]) -> bool {
    const ENTRY: usize = 18;
    segments(image).iter().filter(|segment| segment.kind == PROGRAM_HEADER_NOTE).any(|segment| {
        let end = segment.offset.saturating_add(segment.length).min(image.len());
        let mut rest = image.get(segment.offset..end).unwrap_or_default();
        while let Some((name, kind, after)) = note(rest) {
            if name == b"Xen\0" && kind == ENTRY {
                return true;
            }
            rest = after;
        }
        false
    })
}

/// The name and type of the first of these notes, and the notes after it. Names and descriptions end at multiples of 4.
fn note(notes: &[u8]) -> Option<(&[u8], usize, &[u8])> {
    const HEAD: usize = 12;
    let (name, description) = (number(notes, 0, 4)?, number(notes, 4, 4)?);
    let behind_name = HEAD.checked_add(name.checked_next_multiple_of(4)?)?;
    let end = behind_name.checked_add(description.checked_next_multiple_of(4)?)?;
    Some((notes.get(HEAD..HEAD + name)?, number(notes, 8, 4)?, notes.get(end..)?))
}

fn segments(image: &[u8]) -> Vec<Segment> {
    const MAGIC_64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
    if !image.starts_with(MAGIC_64_LITTLE) {
        return Vec::new();
    }
    let parse = || {
        let table = number(image, 0x20, 8)?;
        let entry = number(image, 0x36, 2)?;
        let count = number(image, 0x38, 2)?;
        (0..count)
            .map(|index| {
                let base = table.checked_add(index.checked_mul(entry)?)?;
                Some(Segment {
                    kind: u32::try_from(number(image, base, 4)?).ok()?,
                    offset: number(image, base.checked_add(8)?, 8)?,
                    length: number(image, base.checked_add(32)?, 8)?,
                })
            })
            .collect::<Option<Vec<_>>>()
    };
    parse().unwrap_or_default()
}

/// A little-endian number of `length` bytes.
fn number(image: &[u8], offset: usize, length: usize) -> Option<usize> {
    let bytes = image.get(offset..offset.checked_add(length)?)?;
    let value = bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    usize::try_from(value).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shrunk_program_keeps_its_interpreter() {
        let image = std::fs::read("/proc/self/exe").expect("own program");
        let loader = interpreter(&image);
        let small = loadable_part(image.clone());
        assert!(small.len() < image.len());
        assert_eq!(interpreter(&small), loader);
    }

    fn note_bytes(name: &[u8], kind: u32) -> Vec<u8> {
        let length = u32::try_from(name.len()).expect("it is short");
        let mut bytes = [length, 5, kind].map(u32::to_le_bytes).concat();
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4) + 8, 7);
        bytes
    }

    /// An ELF image of one segment with these notes, by name and type.
    pub(crate) fn image_with_notes(notes: &[(&[u8], u32)]) -> Vec<u8> {
        let notes: Vec<u8> =
            notes.iter().flat_map(|(name, kind)| note_bytes(name, *kind)).collect();
        let mut image = b"\x7fELF\x02\x01".to_vec();
        image.resize(0x40 + 0x38, 0);
        image[0x20] = 0x40; // program headers
        image[0x36] = 0x38; // length of each
        image[0x38] = 1; // their number
        image[0x40] = 4; // a segment of notes
        image[0x48] = 0x78; // its offset
        image[0x60..0x68].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        image.extend(notes);
        image
    }

    #[test]
    fn pvh_entry_is_found_after_other_notes() {
        let build_id: (&[u8], u32) = (b"GNU\0", 3);
        let other = (&b"Xen\0"[..], 6);
        assert!(has_pvh_entry(&image_with_notes(&[build_id, other, (b"Xen\0", 18)])));
        assert!(!has_pvh_entry(&image_with_notes(&[build_id, other])));
        assert!(!has_pvh_entry(&image_with_notes(&[(b"GNU\0", 18), build_id])));
    }

    proptest! {
        #[test]
        fn damaged_programs_do_not_panic(mut tail: Vec<u8>) {
            let mut image = b"\x7fELF\x02\x01".to_vec();
            image.append(&mut tail);
            let _ = interpreter(&image);
            let _ = has_pvh_entry(&image);
            let _ = note(&image);
            let _ = loadable_part(image);
        }
    }
}
