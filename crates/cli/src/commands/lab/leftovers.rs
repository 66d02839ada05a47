//! `peerlane lab leftovers`: content that earlier users left in the memory that a drive lends.
//!
//! A hidden command for tests: it takes all of that memory as its next user would, says where in the BAR
//! that lies, and has a drive write it out. Nothing reads that content on the way.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use peerlane_engine::ring::{Action, Operation, Ring, Uring};
use peerlane_memory::{p2pmem, physical};
use peerlane_units::{Bytes, Nanos};

use crate::args::LeftoversArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

/// Bytes of one write: below the largest request of any drive.
const WRITE: u64 = 64 << 10;

/// Writes all that is free of the memory to the start of a drive.
///
/// # Errors
/// When there is no memory, or the drive does not take it.
pub(super) fn run(args: &LeftoversArgs, printer: Printer) -> Result<Exit, Failure> {
    let function = PathBuf::from(format!("/sys/bus/pci/devices/{}", args.address));
    let folder = function.join("p2pmem");
    let shown = std::fs::read_to_string(folder.join("available"));
    let length: Bytes = shown
        .map_err(Tried::to(format!("read {}/available", folder.display())))?
        .trim()
        .parse()
        .map_err(Tried::to(format!("read {}/available", folder.display())))?;
    let region = p2pmem::allocate(&folder, length).map_err(Failure::new)?;
    let at = physical::bar_offset(&region, &function).map_err(Failure::new)?;
    printer.data(&format!("bar {} offset {}\n", at.bar, at.offset.0))?;
    let name = args.drive.display();
    let flags = rustix::fs::OFlags::DIRECT.bits();
    let flags = i32::try_from(flags).map_err(Failure::new)?;
    let file = File::options()
        .write(true)
        .custom_flags(flags)
        .open(&args.drive)
        .map_err(Tried::to(format!("open {name}")))?;
    let mut ring = Uring::new(16).map_err(Failure::new)?;
    let region = ring.attach_region(region);
    let file = ring.attach_file(file).map_err(Tried::to(format!("attach {name}")))?;
    for offset in (0..length.0).step_by(usize::try_from(WRITE).map_err(Failure::new)?) {
        let rest = (length.0 - offset).min(WRITE);
        ring.push(Operation {
            action: Action::Write,
            file,
            file_offset: offset,
            region,
            region_offset: offset,
            length: u32::try_from(rest).map_err(Failure::new)?,
            tag: offset,
        })
        .map_err(Failure::new)?;
        wait(&mut ring).map_err(Tried::to(format!("write {name} at {offset}")))?;
    }
    Ok(Exit::Done)
}

/// Waits for the one request that is in flight.
fn wait(ring: &mut Uring) -> std::io::Result<()> {
    const DEADLINE: Nanos = Nanos::seconds(60);
    ring.submit(1, DEADLINE)?;
    match ring.pop() {
        Some(completion) => Ok(completion.result.map(drop)?),
        None => Err(std::io::ErrorKind::TimedOut.into()),
    }
}
