//! What a copy would overwrite, and whether the target may be opened for it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use peerlane_fabric::BlockDevice;
use peerlane_results::Refusal;
use rustix::fs::{Access, IFlags};
use rustix::io::Errno;

use super::signature::{self, Ends, HEAD_BYTES, TAIL_BYTES};
use super::{refuse, refuse_unless_forced};
use crate::endpoint::{Endpoint, Live, Node, has_flag};
use crate::failure::hint_of_denial;

/// Refuses a source that may not be read.
pub(super) fn check_source(source: &Endpoint) -> Option<Refusal> {
    let live = source.live.as_ref()?;
    let (errno, path) =
        nodes(live).find_map(|path| match rustix::fs::access(path, Access::READ_OK) {
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => Some((errno, path)),
            // A passthrough node that was given to a container without its block device.
            Err(errno @ Errno::NOENT) if path != live.path => Some((errno, path)),
            _ => None,
        })?;
    let reason = format!("cannot read {}: {}", path.display(), io::Error::from(errno));
    let hint = match errno {
        Errno::NOENT => format!("{} is needed beside {}", path.display(), source.facts.path),
        _ => format!("get permission to read it: `ls -l {}` shows who has it", path.display()),
    };
    Some(refuse(reason, Some(hint)))
}

/// The nodes of an end that are opened: a passthrough node needs its block device, too.
fn nodes(live: &Live) -> impl Iterator<Item = &Path> {
    let block = live.passthrough.as_ref().map(|passthrough| passthrough.block.as_path());
    std::iter::once(live.path.as_path()).chain(block)
}

/// Refuses a target that is not to be written, and one with content unless forced.
pub(super) fn check_target(target: &Endpoint) -> Vec<Refusal> {
    let Some(live) = target.live.as_ref() else { return Vec::new() };
    match live.node {
        Node::NewFile => in_directory(live).into_iter().collect(),
        Node::File { .. } => {
            let exists = refuse_unless_forced(
                format!("{} exists", target.facts.path),
                "`--force` replaces it once the copy is complete".to_owned(),
            );
            in_directory(live).into_iter().chain(immutable(target, live)).chain([exists]).collect()
        }
        Node::Block => on_device(target, live),
    }
}

/// The same for a target that is written where it is: a file that is there loses content, not its name.
pub(super) fn check_target_in_place(target: &Endpoint) -> Vec<Refusal> {
    let Some(live) = target.live.as_ref() else { return Vec::new() };
    if !matches!(live.node, Node::File { .. }) {
        return check_target(target);
    }
    let path = &target.facts.path;
    let denied = rustix::fs::access(&live.path, Access::READ_OK | Access::WRITE_OK).err();
    let denied = denied.map(|errno| {
        let error = io::Error::from(errno);
        let hint = hint_of_denial(&live.path, &error);
        refuse(format!("cannot open {path} for writing: {error}"), hint)
    });
    let exists = refuse_unless_forced(
        format!("{path} exists"),
        "`--force` writes over the range in place".to_owned(),
    );
    denied.into_iter().chain([exists]).collect()
}

/// A file is made beside its final name, so the directory must take it.
fn in_directory(live: &Live) -> Option<Refusal> {
    let directory = live.path.parent()?;
    let errno = rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).err()?;
    let error = io::Error::from(errno);
    let reason = format!("cannot make files in {}: {error}", directory.display());
    Some(refuse(reason, hint_of_denial(directory, &error)))
}

/// A file that may not be unlinked cannot be replaced either, which would show only after the copy.
fn immutable(target: &Endpoint, live: &Live) -> Option<Refusal> {
    let flag = [(IFlags::IMMUTABLE, "immutable", 'i'), (IFlags::APPEND, "append only", 'a')];
    let (_, what, letter) = flag.into_iter().find(|(flag, ..)| has_flag(&live.path, *flag))?;
    let path = &target.facts.path;
    let hint = format!("`chattr -{letter} {path}`, or name another target");
    Some(refuse(format!("{path} is {what} and cannot be replaced"), Some(hint)))
}

fn on_device(target: &Endpoint, live: &Live) -> Vec<Refusal> {
    let path = &target.facts.path;
    let refused = nodes(live).find_map(|path| {
        let errno = rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK).err()?;
        Some((errno, path.display()))
    });
    if let Some((errno, node)) = refused {
        let reason = format!("cannot open {node} for writing: {}", io::Error::from(errno));
        let hint = format!(
            "get permission to read and write it: `ls -l {node}` shows who has it, \
             docs/privileges.md how a group gets it"
        );
        return vec![refuse(reason, Some(hint))];
    }
    let size = target.facts.size.0;
    let signatures = match read_ends(live.guarded_path(), size) {
        Ok((head, tail)) => signature::identify(Ends { head: &head, tail: &tail, size }),
        Err(error) => {
            let reason = format!("cannot see what {path} carries: {error}");
            return vec![refuse_unless_forced(reason, "`--force` does not look".to_owned())];
        }
    };
    let block = live.guarded_path();
    let carried = signatures.into_iter().map(|what| {
        refuse_unless_forced(
            format!("{path} carries {what}"),
            format!("`--force` overwrites it; `wipefs {}` shows what is there", block.display()),
        )
    });
    carried.chain(live.device.as_ref().and_then(|device| partitions(path, device))).collect()
}

fn partitions(path: &str, device: &BlockDevice) -> Option<Refusal> {
    let names: Vec<&str> =
        device.partitions.iter().map(|partition| partition.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        refuse_unless_forced(
            format!("{path} has partitions: {}", names.join(", ")),
            "`--force` overwrites them; name a partition to write to that one".to_owned(),
        )
    })
}

/// Where signatures lie in the first [`HEAD_BYTES`]: the rest of them is not read.
const LOOKED_AT: [(u64, usize); 3] = [(0, 256 << 10), (1 << 20, 4096), (2 << 20, 4096)];

/// Reads the start and the end of a device, as far as it has them.
pub(crate) fn read_ends(path: &Path, size: u64) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut file = File::open(path)?;
    let ends = read_range_ends(&mut file, 0, size)?;
    // What was read must not stay in the page cache beside direct writes.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(ends)
}

/// Reads the start and the end of a range of a device; what holds no signature is zero.
pub(super) fn read_range_ends(
    file: &mut File,
    start: u64,
    size: u64,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    // Read ahead would pull in what nobody looks at.
    let _ = rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::Random);
    let mut head = Vec::new();
    for (offset, length) in LOOKED_AT.into_iter().filter(|(offset, _)| *offset < size) {
        head.resize(usize::try_from(offset).unwrap_or(HEAD_BYTES), 0);
        file.seek(SeekFrom::Start(start.saturating_add(offset)))?;
        file.by_ref().take((length as u64).min(size - offset)).read_to_end(&mut head)?;
    }
    let mut tail = Vec::new();
    let length = size.min(TAIL_BYTES as u64);
    file.seek(SeekFrom::Start(start.saturating_add(size - length)))?;
    file.by_ref().take(length).read_to_end(&mut tail)?;
    Ok((head, tail))
}
