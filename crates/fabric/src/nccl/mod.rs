//! Topology XML of NCCL and RCCL (`NCCL_TOPO_DUMP_FILE`), read into a fabric; written for NCCL in `write`.
//!
//! Follows `src/graph/xml.cc` of NCCL 2.30 and RCCL, which climb `/sys` two functions at a time. So
//! the text lists GPUs, NICs and upstream ports of switches, and leaves out the port above each.
//! Each such port becomes a function without address and with ACS unknown, to keep distances the
//! kernel's:
//!
//! - above functions below a switch: a downstream port, one for each bus;
//! - above functions below a processor: a root port, one for each bus except bus 00, a root bus;
//! - above functions below a bridge on bus 00, itself a root port: another bridge.
//!
//! The text does not say which root bus a root port is on. All of a processor and a domain share a
//! host bridge here, with a root bus of [`RootBus::Partial`](crate::RootBus::Partial). Drives,
//! windows, drivers and kernel are not in the text either. Speed and width of a link are the most
//! that both of its ends support; NCCL 2.30 writes the present ones of NVIDIA GPUs. So no link has
//! a trained speed.

mod attributes;
mod document;
mod error;
mod gpu_links;
mod notes;
mod topology;
mod write;

use roxmltree::{Document, ParsingOptions};

use crate::{Fabric, Origin};

pub use error::{NcclError, NcclWriteError};
pub use write::NcclXml;

/// Most elements, texts and comments of a document; that of 10,000 functions has 60,000.
const MOST_NODES: u32 = 1_000_000;

/// Returns whether a text is an XML document whose root element is `<system>`.
pub fn is_nccl(text: &str) -> bool {
    document::root(text) == Some("system")
}

/// Reads the topology XML of NCCL or RCCL.
///
/// # Errors
/// When the text is not such a document, has no PCI function, or is of several machines.
pub fn read(text: &str) -> Result<Fabric, NcclError> {
    if !is_nccl(text) {
        return Err(NcclError::NoTopology);
    }
    let (before, xml) = document::cut(text);
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options)
        .map_err(|error| NcclError::of_parser(&error, before))?;
    let found = topology::TopologyReader::read(&document, before)?;
    Ok(Fabric {
        cpu: found.cpu,
        nvlinks: found.links.nvlinks,
        xgmi: found.links.xgmi,
        bridges: found.bridges,
        functions: found.functions,
        ..Fabric::unknown("nccl", Origin::Text)
    })
}
