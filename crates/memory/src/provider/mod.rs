//! Providers of memory: one row of a table for each way to get memory for payload.
//!
//! A provider knows the names of its memory, the functions behind them, the state of its library and
//! permissions, and how to take a region. It does not judge routes: `reach` does. Nothing else decides by
//! the first letters of a name; [`PROVIDERS`] is the one table.
//!
//! A new provider is a file in this folder and a row in the table, and a rule in
//! `fabric/src/device_memory.rs` if discovery does not know the memory yet.

mod cuda;
mod host;
mod p2pmem;
mod refusal;
mod xrt;

use std::fmt;
use std::path::Path;

pub use peerlane_fabric::ProviderKind;
use peerlane_fabric::{Fabric, Function, FunctionId, strip_form};
use peerlane_units::Bytes;

use crate::region::Region;
pub use p2pmem::P2pmemProvider;
pub use refusal::{ProviderRefusal, Reason};

/// The providers that this build has.
pub static PROVIDERS: Providers = Providers::new(&[
    &p2pmem::P2pmemProvider,
    &xrt::XrtProvider,
    &cuda::CudaProvider,
    &host::HostProvider,
]);

/// One way to get memory.
pub trait Provider: fmt::Debug + Sync {
    /// Names of its memory as usage texts show them: `cmb:NAME`, or `host` for a name without a
    /// colon. A name begins with the part before the colon.
    fn forms(&self) -> &'static [&'static str];

    /// The way to the memory.
    fn kind(&self) -> ProviderKind;

    /// Finds the function behind a name without its prefix.
    fn find(&self, fabric: &Fabric, name: &str) -> Option<FunctionId> {
        fabric.find_device(name)
    }

    /// True if a function lends memory through this provider when a person asks for it by name.
    fn lends(&self, fabric: &Fabric, id: FunctionId) -> bool;

    /// The prefix that names the memory of a function; `None` if another provider names it.
    fn prefix_for(&self, function: &Function) -> Option<&'static str>;

    /// Missing drivers, settings and libraries, as the fabric knows them, each with the way out.
    fn missing(&self, _fabric: &Fabric, _function: &Function) -> Vec<String> {
        Vec::new()
    }

    /// The permission that this process lacks for memory of the function at a PCI address of the machine
    /// with sysfs below `root`, with the way out.
    fn denied(&self, _root: &Path, _address: &str) -> Option<String> {
        None
    }

    /// Takes memory of the function at a PCI address; host memory has none and ignores it.
    ///
    /// # Errors
    /// [`ProviderRefusal`], with the missing part and a hint with a command.
    fn allocate(
        &self,
        root: &Path,
        address: &str,
        length: Bytes,
    ) -> Result<Region, ProviderRefusal>;
}

/// A table of providers.
#[derive(Debug, Clone, Copy)]
pub struct Providers {
    rows: &'static [&'static dyn Provider],
}

impl Providers {
    /// Creates a table; where two providers know a name or a function, the earlier row has it.
    pub const fn new(rows: &'static [&'static dyn Provider]) -> Self {
        Self { rows }
    }

    /// Splits the name of a memory into its provider and the rest: `nvme2` of `cmb:nvme2`, nothing of `host`.
    /// `None` if no provider knows the name.
    pub fn split<'a>(&self, text: &'a str) -> Option<(&'static dyn Provider, &'a str)> {
        self.rows.iter().find_map(|row| {
            let rest = strip_form(row.forms(), text)?;
            Some((*row, rest))
        })
    }

    /// The way to a memory; `None` if no provider knows the name.
    pub fn kind(&self, text: &str) -> Option<ProviderKind> {
        self.split(text).map(|(provider, _)| provider.kind())
    }

    /// The name of the function that lends a memory: `nvme2` of `cmb:nvme2`; `None` for host memory and GPUs.
    pub fn lender<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (provider, name) = self.split(text)?;
        provider.kind().is_mapped_device().then_some(name)
    }

    /// Finds a function by its name, or by the name of its memory.
    pub fn find(&self, fabric: &Fabric, text: &str) -> Option<FunctionId> {
        match self.split(text) {
            Some((provider, name)) => provider.find(fabric, name),
            None => fabric.find_device(text),
        }
    }

    /// The provider that memory of a function comes from, with the name of that memory.
    pub fn for_function(&self, function: &Function) -> Option<(&'static dyn Provider, String)> {
        self.rows.iter().find_map(|row| {
            let prefix = row.prefix_for(function)?;
            Some((*row, format!("{prefix}:{}", function.name)))
        })
    }

    /// Takes memory by its name and the PCI address of its function.
    ///
    /// # Errors
    /// As [`Provider::allocate`]; also for a name that no provider knows.
    pub fn allocate(
        &self,
        memory: &str,
        (root, address): (&Path, &str),
        length: Bytes,
    ) -> Result<Region, ProviderRefusal> {
        let (provider, _) = self.split(memory).ok_or_else(|| ProviderRefusal::unknown(memory))?;
        provider.allocate(root, address, length)
    }

    /// Names of the kinds of memory that a message lists: "`cmb:NAME`, `fpga:ADDRESS` and `gpu:N`", with the
    /// word before the last.
    pub fn usage(&self, is_listed: impl Fn(ProviderKind) -> bool, word: &str) -> String {
        let rows = self.rows.iter().filter(|row| is_listed(row.kind()));
        let forms: Vec<String> =
            rows.flat_map(|row| row.forms()).map(|form| format!("`{form}`")).collect();
        match forms.split_last() {
            Some((last, rest)) if !rest.is_empty() => {
                format!("{} {word} {last}", rest.join(", "))
            }
            _ => forms.concat(),
        }
    }
}

#[cfg(test)]
mod tests;
