//! Checks the content that a copy would overwrite, and whether the target may be opened for it.

use std::io;
use std::ops::Range;
use std::path::Path;

use peerlane_fabric::BlockDevice;
use peerlane_results::Refusal;
use rustix::fs::{Access, IFlags};
use rustix::io::Errno;

use super::survey::{DeviceSize, SurveyError, Surveyor};
use super::{naming, refuse, refuse_unless_forced};
use crate::endpoints::{Endpoint, Live, PathNode, has_flag};
use crate::io::failure::{error_in_words, hint_of_denial};

/// A look at a target's content.
#[derive(Debug, Clone)]
pub(super) struct ContentLook<'a> {
    pub(super) surveyor: &'a Surveyor<'a>,
    /// Range to be written, in bytes of the target.
    pub(super) range: Range<u64>,
    pub(super) usage: Usage,
    /// Content is not an obstacle, and is not looked for.
    pub(super) is_forced: bool,
}

/// Purpose of the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// A copy: any block that is not blank is an obstacle.
    Copy,
    /// A benchmark: stamped sectors of an earlier one are not.
    Benchmark,
}

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
        Errno::NOENT => format!("{} is needed next to {}", path.display(), source.facts.path),
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
pub(super) fn check_target(target: &Endpoint, look: ContentLook<'_>) -> Vec<Refusal> {
    let Some(live) = target.live.as_ref() else { return Vec::new() };
    match live.node {
        PathNode::NewFile => in_directory(live).into_iter().collect(),
        PathNode::File { .. } => {
            let exists = refuse_unless_forced(
                format!("{} already exists", target.facts.path),
                "`--force` replaces it once the copy is complete".to_owned(),
            );
            in_directory(live).into_iter().chain(immutable(target, live)).chain([exists]).collect()
        }
        PathNode::Block => on_device(target, live, look),
    }
}

/// The same for a target that is written where it is: a file that is there loses content, not its name.
pub(super) fn check_target_in_place(target: &Endpoint, look: ContentLook<'_>) -> Vec<Refusal> {
    let Some(live) = target.live.as_ref() else { return Vec::new() };
    if !matches!(live.node, PathNode::File { .. }) {
        return check_target(target, look);
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

/// A file is made next to its final name, so the directory must take it.
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

fn on_device(target: &Endpoint, live: &Live, look: ContentLook<'_>) -> Vec<Refusal> {
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
    if look.is_forced {
        return Vec::new();
    }
    let device = DeviceSize { size: target.facts.size.0, block: target.facts.block.0 };
    let survey = match look.surveyor.survey(live, device, look.range) {
        Ok(survey) => survey,
        Err(error) => return vec![unreadable(path, &error)],
    };
    let found = match look.usage {
        Usage::Copy => survey.first(),
        Usage::Benchmark => survey.content,
    };
    let carried = found.map(|first| {
        let all = 0..device.size;
        let names = naming::carried(look.surveyor, live, device.block, all, Some(first));
        let names = names.unwrap_or_else(|_| vec![naming::unknown(first)]);
        refuse_unless_forced(
            format!("{path} carries {}", names.join(", ")),
            how_to_blank(live.guarded_path(), live.device.as_ref()),
        )
    });
    let partitions = live.device.as_ref().and_then(|device| partitions(path, device));
    carried.into_iter().chain(partitions).collect()
}

fn unreadable(path: &str, error: &SurveyError) -> Refusal {
    let reason = format!("cannot tell whether {path} is blank: {}", error_in_words(error));
    if error.is_timeout() {
        let hint = "`dmesg | tail` names a drive that does not answer; `--timeout` sets the wait";
        return refuse(reason, Some(hint.to_owned()));
    }
    refuse_unless_forced(reason, "`--force` does not look".to_owned())
}

/// Says how to overwrite a device all the same, to list its content, and to blank it first.
fn how_to_blank(node: &Path, device: Option<&BlockDevice>) -> String {
    let node = node.display();
    // A namespace of NVMe; no partition of one can be formatted.
    let is_nvme = device.is_some_and(|one| one.name.starts_with("nvme") && one.partition.is_none());
    let or_format = if is_nvme { format!(" (or `nvme format {node}`)") } else { String::new() };
    format!(
        "`--force` overwrites it; `wipefs {node}` shows signatures; `blkdiscard -f {node}`{or_format} \
         destroys its content first"
    )
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
