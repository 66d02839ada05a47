//! `peerlane lab hold`: another user of the memory that a drive lends.
//!
//! A hidden command for tests: it holds pieces of that memory, touches none of them, and gives them
//! back when its standard input ends.

use std::io;
use std::path::PathBuf;

use peerlane_memory::p2pmem;

use crate::args::HoldArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

/// Holds the pieces and says so on standard output.
///
/// # Errors
/// When a piece cannot be had.
pub(super) fn run(args: &HoldArgs, printer: Printer) -> Result<Exit, Failure> {
    let folder = PathBuf::from(format!("/sys/bus/pci/devices/{}/p2pmem", args.address));
    let mut pieces = Vec::new();
    for &size in &args.sizes {
        pieces.push(p2pmem::allocate(&folder, size).map_err(Failure::new)?);
    }
    if args.fragment {
        let mut index = 0;
        pieces.retain(|_| {
            index += 1;
            index % 2 == 0
        });
    }
    printer.data("held\n")?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(Tried::to("wait for standard input"))?;
    drop(pieces);
    Ok(Exit::Done)
}
