//! Archives as other tools write them: other compressions, folders on top, records of pax, hard links.

use std::io::Write as _;
use std::path::Path;

use peerlane_fabric::capture::{self, ArchiveError};
use peerlane_fabric::{Fabric, FunctionKind, Snapshot};
use tar::EntryType;

const AT: &str = "sys/devices/pci0000:00/0000:00:05.0";

/// An archive with one drive below `top`.
fn one_drive(top: &str) -> Vec<u8> {
    let mut archive = Archive::new();
    for (name, text) in [("vendor", "0x1b36\n"), ("device", "0x0010\n"), ("class", "0x010802\n")] {
        archive.file(&format!("{top}{AT}/{name}"), text.as_bytes());
    }
    archive.finish()
}

/// A tar archive in the making, without the checks of names that a careful writer has.
struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn entry(&mut self, kind: EntryType, name: &str, link: &str, content: &[u8]) {
        let mut header = tar::Header::new_gnu();
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o444);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(EntryType::Regular, name, "", content);
    }

    /// Records of pax for the entry that follows.
    fn records(&mut self, records: &[(&str, &str)]) {
        let mut text = String::new();
        for (key, value) in records {
            let rest = format!(" {key}={value}\n");
            let mut length = rest.len();
            while length != rest.len() + length.to_string().len() {
                length = rest.len() + length.to_string().len();
            }
            text += &format!("{length}{rest}");
        }
        self.entry(EntryType::XHeader, "PaxHeaders/x", "", text.as_bytes());
    }

    fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    xz_with(bytes, lzma_rust2::XzOptions::with_preset(1))
}

fn xz_with(bytes: &[u8], options: lzma_rust2::XzOptions) -> Vec<u8> {
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A frame of Zstandard that readers skip (RFC 8878 section 3.1.2).
fn skipped_frame() -> Vec<u8> {
    [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat()
}

#[track_caller]
fn kinds(archive: &[u8]) -> Vec<FunctionKind> {
    let content = capture::unpack_machine(archive).unwrap();
    let fabric = Fabric::discover_snapshot(Path::new("other"), content).unwrap();
    fabric.functions.iter().map(|function| function.kind).collect()
}

fn said(archive: &[u8]) -> String {
    let error = capture::unpack_machine(archive).expect_err("no machine");
    let source = std::error::Error::source(&error);
    format!("{error}: {}", source.map(ToString::to_string).unwrap_or_default())
}

#[test]
fn every_compression_is_read() {
    let plain = one_drive("");
    let (front, back) = plain.split_at(700);
    for (name, archive) in [
        ("plain", plain.clone()),
        ("gzip", gzip(&plain)),
        ("bzip2", bzip2(&plain)),
        ("xz", xz(&plain)),
        ("zstandard", zstandard(&plain)),
        ("two members of gzip", [gzip(front), gzip(back)].concat()),
        ("two streams of bzip2", [bzip2(front), bzip2(back)].concat()),
        ("two streams of xz", [xz(front), xz(back)].concat()),
        (
            "frames of zstandard",
            [skipped_frame(), zstandard(front), zstandard(back), skipped_frame()].concat(),
        ),
    ] {
        assert!(capture::is_archive(&archive[..archive.len().min(512)]), "{name}");
        assert_eq!(kinds(&archive), [FunctionKind::Nvme], "{name}");
    }
}

#[test]
fn archive_of_nothing_survives() {
    let packed = capture::pack(&Snapshot::default()).unwrap();
    assert_eq!(capture::unpack(packed.as_slice()).unwrap(), Snapshot::default());
    assert!(said(&packed).starts_with("there is no sys/devices"));
}

#[test]
fn folder_on_top_is_taken_off() {
    for top in ["./", "host-2024/", "./host/fsroot/", "a/b/c/d/e/f/g/h/"] {
        assert_eq!(kinds(&one_drive(top)), [FunctionKind::Nvme], "{top}");
    }
    assert_eq!(said(&one_drive("a/b/c/d/e/f/g/h/i/")), "there is no sys/devices in the archive: ");
}

#[test]
fn folder_with_one_machine_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("host-2024").join(AT);
    std::fs::create_dir_all(&at).unwrap();
    std::fs::write(at.join("class"), "0x010802\n").unwrap();
    assert_eq!(Fabric::discover(folder.path()).unwrap().functions[0].kind, FunctionKind::Nvme);
    std::fs::create_dir_all(folder.path().join("other/sys/devices")).unwrap();
    assert!(Fabric::discover(folder.path()).is_err(), "which of two is for the user to say");
}

#[test]
fn several_machines_are_named() {
    let mut archive = Archive::new();
    for host in ["a", "b"] {
        archive.file(&format!("hosts/{host}/{AT}/class"), b"0x010802\n");
    }
    let error = capture::unpack_machine(archive.finish().as_slice()).expect_err("which of them");
    let ArchiveError::SeveralMachines(folders) = &error else { panic!("{error}") };
    assert_eq!(folders, &["hosts/a", "hosts/b"].map(std::path::PathBuf::from));
    let hint = error.hint(Path::new("x.tar.gz")).unwrap();
    assert!(
        hint.contains("tar xf x.tar.gz") && hint.contains("--machine unpacked/hosts/a"),
        "{hint}"
    );
}

#[test]
fn pax_records_name_what_follows() {
    let long = "folder/".repeat(30);
    let mut archive = Archive::new();
    archive.records(&[("mtime", "1706629561.1"), ("path", &format!("{long}class"))]);
    archive.file("short", b"0x010802\n");
    archive.records(&[("linkpath", &long)]);
    archive.entry(EntryType::Symlink, "link", "cut", b"");
    archive.file("plain", b"text");
    let content = capture::unpack(archive.finish().as_slice()).unwrap();
    assert!(content.get(Path::new(&format!("{long}class"))).is_some());
    assert!(content.get(Path::new("plain")).is_some() && content.get(Path::new("short")).is_none());
    let link = content.get(Path::new("link"));
    assert_eq!(link, Some(&peerlane_fabric::TreeEntry::Link(long.into())));
}

#[test]
fn hard_link_has_content_of_file() {
    let class = format!("{AT}/class");
    let mut archive = Archive::new();
    archive.file(&class, b"0x010802\n");
    archive.entry(EntryType::Link, &format!("{AT}/copy"), &format!("./{class}"), b"");
    // As tar writes a file that it is given twice.
    archive.entry(EntryType::Link, &class, &class, b"");
    let content = capture::unpack(archive.finish().as_slice()).unwrap();
    let copy = content.get(Path::new(&format!("{AT}/copy")));
    assert!(copy.is_some() && copy == content.get(Path::new(&class)));
}

#[test]
fn last_of_two_files_counts() {
    let mut archive = Archive::new();
    archive.file(&format!("{AT}/class"), b"0x020000\n");
    archive.file(&format!("{AT}/class"), b"0x010802\n");
    assert_eq!(kinds(&archive.finish()), [FunctionKind::Nvme]);
}

#[test]
fn unread_devices_and_files_are_skipped() {
    let mut archive = Archive::new();
    archive.file(&format!("host/{AT}/class"), b"0x010802\n");
    archive.file("host/var/log/messages", &vec![b'x'; 5 << 20]);
    archive.entry(EntryType::Block, "host/dev/nvme0n1", "", b"");
    archive.entry(EntryType::Fifo, "host/run/pipe", "", b"");
    assert_eq!(kinds(&archive.finish()), [FunctionKind::Nvme]);
}

#[test]
fn paths_outside_tree_are_refused() {
    for (kind, name, link) in [
        (EntryType::Regular, "../outside", ""),
        (EntryType::Regular, "/etc/passwd", ""),
        (EntryType::Regular, "sys/../../outside", ""),
        (EntryType::Link, "inside", "../outside"),
    ] {
        let mut archive = Archive::new();
        archive.entry(kind, name, link, b"");
        let archive = gzip(&archive.finish());
        assert!(said(&archive).contains("leads out of the tree"), "{name}: {}", said(&archive));
    }
    let mut archive = Archive::new();
    archive.records(&[("path", "../outside")]);
    archive.file("inside", b"");
    assert!(said(&archive.finish()).contains("leads out of the tree"));
}

#[test]
fn damaged_archives_get_a_hint() {
    let plain = one_drive("");
    let cut = |archive: Vec<u8>| archive[..archive.len() / 2].to_vec();
    for archive in [cut(gzip(&plain)), cut(bzip2(&plain)), cut(xz(&plain)), gzip(b"no tar")] {
        let error = capture::unpack_machine(archive.as_slice()).expect_err("damaged");
        let hint = error.hint(Path::new("x.tar.xz")).unwrap();
        assert!(hint.starts_with("`mkdir unpacked && tar xf x.tar.xz"), "{error}: {hint}");
    }
}

#[test]
fn sums_behind_the_end_are_checked() {
    for (name, packed) in [
        ("gzip", gzip(&one_drive(""))),
        ("bzip2", bzip2(&one_drive(""))),
        ("xz", xz(&one_drive(""))),
    ] {
        assert!(capture::unpack(packed.as_slice()).is_ok(), "{name}");
        let cut = &packed[..packed.len() - 4];
        assert!(capture::unpack(cut).is_err(), "{name} is cut");
        let mut changed = packed.clone();
        // Of gzip the length is behind the sum.
        let at = changed.len() - 6;
        changed[at] ^= 1;
        assert!(capture::unpack(changed.as_slice()).is_err(), "{name} is damaged");
    }
}

#[test]
fn archives_grow_to_their_bounds_only() {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_path("zeros").unwrap();
    header.set_mode(0o444);
    header.set_size(600 << 20);
    header.set_cksum();
    let zeros = zstandard(&vec![0; 1 << 20]);
    let archive = [zstandard(header.as_bytes()), zeros.repeat(600)].concat();
    assert!(archive.len() < 1 << 20);
    assert!(said(&archive).contains("more than 512 MiB"), "{}", said(&archive));
}

#[test]
fn memory_of_xz_is_bounded() {
    let mut options = lzma_rust2::XzOptions::with_preset(0);
    options.lzma_options.dict_size = 1 << 30;
    let archive = xz_with(&one_drive(""), options);
    assert!(said(&archive).contains("cannot uncompress"), "{}", said(&archive));
}

#[test]
fn empty_input_is_empty_tree() {
    assert!(capture::unpack(&[][..]).is_ok_and(|content| content == Snapshot::default()));
    assert_eq!(said(&[]), "there is no sys/devices in the archive: ");
}
