use std::fs;
use std::time::{Duration, SystemTime};

use peerlane_results::Asked;
use peerlane_units::Nanos;

use super::*;
use crate::io::clock::MonotonicClock;
use crate::testing::skip;
use crate::transfer::copy::tests::{asked, bare_machine, folder, names as left, planned, source};
use crate::transfer::copy::{CopyOptions, Tools, copy};

const ALL: [Metadatum; 4] =
    [Metadatum::Mode, Metadatum::Timestamps, Metadatum::Ownership, Metadatum::Xattr];

fn run(asked: &Asked, preserve: &[Metadatum]) -> Result<(), CopyError> {
    let options = CopyOptions { preserve: preserve.to_vec(), ..CopyOptions::default() };
    let clock = MonotonicClock::start();
    let mut tools =
        Tools { clock: &clock, watch: &mut (), seed: 7, deadline: Nanos::seconds(60), options };
    copy(&bare_machine(), &planned(asked), &mut tools).map(drop)
}

#[test]
fn preserve_copies_mode_and_times() {
    let folder = folder();
    let source = source(folder.path(), 100_001);
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let times = FileTimes::new().set_accessed(then).set_modified(then + Duration::from_secs(5));
    File::options().write(true).open(&source).unwrap().set_times(times).unwrap();
    fs::set_permissions(&source, Permissions::from_mode(0o4751)).unwrap();
    let target = folder.path().join("target");
    let facts = |wanted: &[Metadatum]| {
        run(&asked(&source, &target), wanted).unwrap();
        let facts = fs::metadata(&target).unwrap();
        fs::remove_file(&target).unwrap();
        (facts.mode() & 0o7777, facts.accessed().unwrap(), facts.modified().unwrap())
    };
    let (mode, accessed, modified) = facts(&ALL);
    assert_eq!((mode, accessed, modified), (0o4751, then, then + Duration::from_secs(5)));
    let (mode, _, modified) = facts(&[Metadatum::Mode]);
    assert!(mode == 0o4751 && modified > then + Duration::from_secs(5));
    let (mode, _, modified) = facts(&[Metadatum::Timestamps]);
    assert!(mode & 0o7000 == 0 && modified == then + Duration::from_secs(5));
    let (mode, _, modified) = facts(&[]);
    assert!(mode & 0o7000 == 0 && modified > then + Duration::from_secs(5));
}

#[test]
fn extended_attributes_come_along_where_that_is_asked_for() {
    let folder = folder();
    let path = source(folder.path(), 5000);
    let file = File::open(&path).unwrap();
    let long = [7; 3000];
    let set = fsetxattr(&file, c"user.one", b"1", XattrFlags::empty())
        .and_then(|()| fsetxattr(&file, c"user.long", &long, XattrFlags::empty()));
    if let Err(errno @ (Errno::OPNOTSUPP | Errno::NOSPC)) = set {
        return skip("xattr", &errno.to_string());
    }
    set.unwrap();
    let target = folder.path().join("target");
    run(&asked(&path, &target), &ALL).unwrap();
    let copied = File::open(&target).unwrap();
    let mut value = vec![0; XATTR_MAX];
    assert_eq!(fgetxattr(&copied, c"user.one", value.as_mut_slice()), Ok(1));
    assert_eq!(value[0], b'1');
    assert_eq!(fgetxattr(&copied, c"user.long", value.as_mut_slice()), Ok(long.len()));
    assert_eq!(value[..long.len()], long);
    fs::remove_file(&target).unwrap();
    run(&asked(&path, &target), &[Metadatum::Mode]).unwrap();
    assert!(names(&File::open(&target).unwrap()).unwrap().is_empty());
}

#[test]
fn preserve_copies_owner_or_names_denial() {
    let folder = folder();
    let path = source(folder.path(), 5000);
    if fchown(File::open(&path).unwrap(), Some(12345), Some(54321)).is_err() {
        return skip("root", "needs root: changes the owner of a file");
    }
    let target = folder.path().join("target");
    run(&asked(&path, &target), &ALL).unwrap();
    let facts = fs::metadata(&target).unwrap();
    assert_eq!((facts.uid(), facts.gid()), (12345, 54321));
    fs::remove_file(&target).unwrap();

    // The owner of a kernel setting cannot be changed (Linux 7.2 `fs/proc/proc_sysctl.c`).
    let preserved = Preserved::read(&ALL, &File::open(&path).unwrap(), &path).unwrap();
    let fixed = File::open("/proc/sys/kernel/ostype").unwrap();
    let error = preserved.try_on(&fixed, Path::new("/target")).unwrap_err();
    assert_eq!(error.to_string(), "cannot preserve the ownership of /target");
    assert!(left(folder.path()).is_empty());
}

#[test]
fn a_device_has_no_metadata_to_preserve() {
    let refusal = refuse_devices(&ALL, [false, true], ["/data/a", "/dev/b"]).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "cannot copy: /dev/b is not a file: it has no metadata to preserve"
    );
    assert!(refuse_devices(&ALL, [false, false], ["/data/a", "/dev/b"]).is_ok());
    assert!(refuse_devices(&[], [true, true], ["/data/a", "/dev/b"]).is_ok());
}
