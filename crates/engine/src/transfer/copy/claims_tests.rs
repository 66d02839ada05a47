//! Targets that were written to between two runs of a copy.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use peerlane_results::{Asked, CompletedCopy, VerifyMode};
use peerlane_units::{Bytes, Nanos};

use super::*;
use crate::endpoints::machine::Host;
use crate::io::clock::MonotonicClock;
use crate::io::watch::Watch;
use crate::testing::Loop;
use crate::transfer::copy::start::look_again;
use crate::transfer::copy::tests::{
    Stopper, asked, bare_machine, content, folder, planned, source,
};
use crate::transfer::copy::{CopyOptions, Start, copy_prepared};

const LENGTH: u64 = 8 << 20;
/// Offset of ext4's mark: 56 bytes into the superblock at 1024 (`struct ext4_super_block`).
const EXT4_MARK: u64 = 1024 + 56;

/// A loop device with a serial, which only a tree of sysfs made for it shows.
struct ClaimsBench {
    folder: tempfile::TempDir,
    source: PathBuf,
    device: Loop,
    options: CopyOptions,
}

fn bench() -> Option<ClaimsBench> {
    let folder = folder();
    let source = source(folder.path(), LENGTH);
    let backing = folder.path().join("backing");
    File::create(&backing).unwrap().set_len(LENGTH + (1 << 20)).unwrap();
    let device = Loop::over(&backing)?;
    let name = device.0.file_name().unwrap().to_str().unwrap().to_owned();
    let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
    let sys = folder.path().join("root/sys");
    let place = sys.join("devices").join(&name);
    for made in [&sys.join("class/block"), &sys.join("dev/block"), &place.join("device")] {
        fs::create_dir_all(made).unwrap();
    }
    for link in [format!("class/block/{name}"), format!("dev/block/{}", number.trim())] {
        std::os::unix::fs::symlink(format!("../../devices/{name}"), sys.join(link)).unwrap();
    }
    fs::write(place.join("dev"), number).unwrap();
    fs::write(place.join("size"), format!("{}\n", (LENGTH + (1 << 20)) / 512)).unwrap();
    fs::write(place.join("device/serial"), "S4EWNX0R123456\n").unwrap();
    let journal = Some(folder.path().join("journal"));
    let options = CopyOptions { journal, ..CopyOptions::default() };
    Some(ClaimsBench { folder, source, device, options })
}

impl ClaimsBench {
    fn asked(&self) -> Asked {
        Asked { depth: 2, ..asked(&self.source, &self.device.0) }
    }

    fn run(&self, asked: &Asked, watch: &mut dyn Watch) -> Result<CompletedCopy, CopyError> {
        let clock = MonotonicClock::start();
        let (deadline, options) = (Nanos::seconds(60), self.options.clone());
        let mut tools = Tools { clock: &clock, watch, seed: 7, deadline, options };
        let (fabric, plan) = (bare_machine(), planned(asked));
        let here = Host::at(Path::new("/"));
        let plans = [plan];
        let checked = look_again(&here, &fabric, &plans, &tools)?;
        let machine = Host::at(&self.folder.path().join("root"));
        copy_prepared(&machine, &fabric, &plans, &checked, &mut tools)?.targets.swap_remove(0)
    }

    fn interrupt(&mut self) {
        let error = self.run(&self.asked(), &mut Stopper(false)).unwrap_err();
        assert!(matches!(error, CopyError::Interrupted { journal: Some(_), .. }), "{error:?}");
        self.options.start = Start::Resume;
    }

    fn write(&self, bytes: &[u8], offset: u64) {
        let file = File::options().write(true).open(&self.device.0).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file.sync_all().unwrap();
    }

    fn held(&self) -> Vec<u8> {
        let file = File::open(&self.device.0).unwrap();
        let mut bytes = vec![0; usize::try_from(LENGTH).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// The reason and the hint of a refusal that changed nothing.
    fn refused(&self) -> (String, String) {
        let before = self.held();
        let journal = fs::read(self.folder.path().join("journal")).unwrap();
        let error = self.run(&self.asked(), &mut ()).unwrap_err();
        assert!(matches!(error, CopyError::Refused(_)), "{error:?}");
        assert!(self.held() == before, "something was written");
        assert_eq!(fs::read(self.folder.path().join("journal")).unwrap(), journal);
        (error.to_string(), error.hint().unwrap())
    }
}

#[test]
fn device_written_since_is_not_resumed() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.interrupt();
    // Room for a superblock of another file system, and its mark.
    bench.write(&[0; 4096], 0);
    bench.write(&[0x53, 0xef], EXT4_MARK);
    let (reason, hint) = bench.refused();
    assert!(reason.contains("is not there") && reason.contains("was written to since"), "{reason}");
    assert_eq!(hint, "`--force` without `--resume` starts over");
    let forced = Asked { force: true, ..bench.asked() };
    assert!(bench.run(&forced, &mut ()).is_err(), "force does not make a journal true");
    bench.options.start = Start::Anew;
    bench.run(&forced, &mut ()).unwrap();
    assert!(bench.held() == content(LENGTH));
}

#[test]
fn signatures_of_source_allow_resume() {
    let Some(mut bench) = bench() else { return };
    let mark = File::options().write(true).open(&bench.source).unwrap();
    mark.write_all_at(&[0x53, 0xef], EXT4_MARK).unwrap();
    bench.interrupt();
    let anew = planned(&bench.asked());
    assert!(anew.refusals.iter().any(|one| one.reason.contains("carries")), "{anew:?}");
    let record = bench.run(&bench.asked(), &mut ()).unwrap();
    assert!(record.content.before > Bytes::ZERO);
    assert!(bench.held() == fs::read(&bench.source).unwrap());
}

#[test]
fn mark_beyond_done_needs_force() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.interrupt();
    // The second header of a GUID partition table lies in the last sector (UEFI 2.10, 5.3.1).
    bench.write(b"EFI PART", LENGTH + (1 << 20) - 512);
    let (reason, hint) = bench.refused();
    assert!(reason.contains("carries") && hint.contains("--force"), "{reason}: {hint}");
    bench.run(&Asked { force: true, ..bench.asked() }, &mut ()).unwrap();
    assert!(bench.held() == content(LENGTH));
}

#[test]
fn sample_covers_earlier_runs_equally() {
    let Some(mut bench) = bench() else { return };
    bench.interrupt();
    let sampled = Asked { verify: VerifyMode::Sample, ..bench.asked() };
    let record = bench.run(&sampled, &mut ()).unwrap();
    assert!(record.verification.bytes > Bytes(32 * 4096), "{:?}", record.verification);
    assert!(record.verification.bytes < Bytes(LENGTH));
}

#[test]
fn picks_cover_head_and_range_ends() {
    let mut done = RangeSet::new();
    for range in [0..1 << 20, (2 << 20) + 100..3 << 20, (4 << 20) - 512..(4 << 20) + 1234] {
        done.insert(range);
    }
    let length = (4 << 20) + 1234;
    let found = picks(&done, length, 4096, 3);
    assert!((0..32).all(|page| found[page] == (page as u64 * 4096..(page as u64 + 1) * 4096)));
    for piece in [(1 << 20) - 4096..1 << 20, (3 << 20) - 4096..3 << 20, 4 << 20..length] {
        assert!(found.contains(&piece), "{piece:?}");
    }
    assert!(found.contains(&((2 << 20) + 4096..(2 << 20) + 8192)), "only whole blocks are sure");
    assert!(found.iter().all(|piece| done.contains_range(piece.clone())), "{found:?}");
    assert!(found.windows(2).all(|two| two[0].end <= two[1].start));
    assert!(found.len() > 100 && found.len() < 200, "{}", found.len());
}

#[test]
fn picks_of_many_ranges_stay_small() {
    let mut done = RangeSet::new();
    for number in 0..4000 {
        done.insert(number << 20..(number << 20) + (256 << 10));
    }
    for unit in [4096, 65536, 131_072] {
        let found = picks(&done, 4000 << 20, unit, 3);
        let bytes: u64 = found.iter().map(|piece| piece.end - piece.start).sum();
        assert!(bytes > 1 << 20 && bytes <= 5 << 20, "{bytes} by {unit}");
    }
    assert_eq!(picks(&RangeSet::new(), 1 << 20, 4096, 3), []);
}
