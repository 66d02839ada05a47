//! The unpacked kernel. A bzImage would unpack itself under emulation, a third of a boot.
//!
//! The header names the payload (`payload_offset`, Documentation/arch/x86/boot.rst of the kernel, protocol 2.08 and
//! later). QEMU's `-kernel` starts an ELF image by its PVH entry (`XEN_ELFNOTE_PHYS32_ENTRY`,
//! include/xen/interface/elfnote.h), present in kernels with `CONFIG_PVH`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{LabError, elf, tools};

/// Magic numbers of compressed payloads, with the program and its package that unpacks them.
const PACKERS: [(&[u8], &str, &str); 3] = [
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd"),
    (b"\xfd7zXZ\0", "xz", "xz-utils"),
    (b"\x1f\x8b", "gzip", "gzip"),
];

/// Returns the file for QEMU's `-kernel`: the kernel unpacked into `folder`, or the bzImage itself if its payload cannot
/// be unpacked or started.
pub(crate) fn unpacked(image: &Path, folder: &Path) -> Result<PathBuf, LabError> {
    let bytes = fs::read(image).map_err(LabError::io("read kernel image", image))?;
    let Some((payload, program, package)) = payload(&bytes) else { return Ok(image.to_owned()) };
    let packed = folder.join("vmlinux.packed");
    fs::write(&packed, payload).map_err(LabError::io("write", &packed))?;
    let kernel = tools::decompress(program, package, &packed);
    fs::remove_file(&packed).map_err(LabError::io("remove", &packed))?;
    match kernel {
        Ok(kernel) if elf::has_pvh_entry(&kernel) => {
            let path = folder.join("vmlinux");
            fs::write(&path, kernel).map_err(LabError::io("write", &path))?;
            Ok(path)
        }
        Ok(_) => Ok(image.to_owned()),
        Err(error) => {
            tracing::debug!(%error, "the kernel unpacks itself");
            Ok(image.to_owned())
        }
    }
}

/// The compressed kernel in a bzImage, and the program and its package that unpack it.
fn payload(image: &[u8]) -> Option<(&[u8], &'static str, &'static str)> {
    const SECTOR: usize = 512;
    /// The length of the unpacked content, behind the payload.
    const TAIL: usize = 4;
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    // Zero stands for four (boot.rst, `setup_sects`).
    let setup = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let begin = (setup + 1).checked_mul(SECTOR)?.checked_add(word(0x248)?)?;
    let end = begin.checked_add(word(0x24c)?)?.checked_sub(TAIL)?;
    let payload = image.get(begin..end)?;
    let (_, program, package) =
        PACKERS.into_iter().find(|(magic, ..)| payload.starts_with(magic))?;
    Some((payload, program, package))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A bzImage with a setup of one sector, whose payload begins at its third.
    fn image_with(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        let length = u32::try_from(payload.len() + 4).expect("it is short");
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        image.extend([9, 0, 0, 0]);
        image
    }

    #[test]
    fn payload_is_what_the_header_says() {
        let image = image_with(b"\x28\xb5\x2f\xfdsomething");
        assert_eq!(payload(&image), Some((&b"\x28\xb5\x2f\xfdsomething"[..], "zstd", "zstd")));
        assert_eq!(payload(&image[..image.len() - 5]), None, "cut off");
        assert_eq!(payload(&image_with(b"BZh9")), None, "of a kind that is not unpacked");
        assert_eq!(payload(b"MZ"), None);
    }

    #[test]
    fn kernel_with_pvh_entry_is_unpacked() {
        let folder = tempfile::tempdir().expect("a folder");
        let [image, plain] = ["bzImage", "plain"].map(|name| folder.path().join(name));
        let kernel = elf::tests::image_with_notes(&[(b"Xen\0", 18)]);
        fs::write(&plain, &kernel).expect("room");
        let packed = std::process::Command::new("gzip").arg("-c").arg(&plain).output();
        fs::write(&image, image_with(&packed.expect("gzip").stdout)).expect("room");
        let unpacked = unpacked(&image, folder.path()).expect("a kernel");
        assert_ne!(unpacked, image);
        assert_eq!(fs::read(unpacked).expect("it"), kernel);
    }

    #[test]
    fn kernel_without_pvh_entry_is_booted_packed() {
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("bzImage");
        for payload in [&b"\x1f\x8bnot gzip"[..], b"no payload"] {
            fs::write(&image, image_with(payload)).expect("room");
            assert_eq!(unpacked(&image, folder.path()).expect("a kernel"), image);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 1, "something is left");
    }

    proptest! {
        #[test]
        fn damaged_images_do_not_panic(mut image in prop::collection::vec(any::<u8>(), 0x260..0x800)) {
            image[0x202..0x206].copy_from_slice(b"HdrS");
            let _ = payload(&image);
        }
    }
}
