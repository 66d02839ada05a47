//! A provider of memory from one file and one row, as `CONTRIBUTING.md` describes it.

use std::path::Path;

use peerlane_fabric::{Fabric, Function, FunctionId, FunctionKind};
use peerlane_memory::provider::{
    P2pmemProvider, Provider, ProviderKind, ProviderRefusal, Providers, Reason,
};
use peerlane_memory::{Region, host};
use peerlane_units::Bytes;

/// Network cards that lend up to 64 KiB.
#[derive(Debug)]
struct Toy;

#[derive(Debug, thiserror::Error)]
#[error("cannot take {0} of the toy")]
struct TooMuch(Bytes);

impl Reason for TooMuch {
    fn hint(&self) -> Option<String> {
        Some("take a smaller --block".to_owned())
    }

    fn is_for_want_of_room(&self) -> bool {
        true
    }
}

impl Provider for Toy {
    fn forms(&self) -> &'static [&'static str] {
        &["toy:NAME"]
    }

    fn kind(&self) -> ProviderKind {
        ProviderKind::Card
    }

    fn lends(&self, fabric: &Fabric, id: FunctionId) -> bool {
        fabric.function(id).kind == FunctionKind::Nic
    }

    fn prefix_for(&self, function: &Function) -> Option<&'static str> {
        (function.kind == FunctionKind::Nic).then_some("toy")
    }

    fn missing(&self, _fabric: &Fabric, function: &Function) -> Vec<String> {
        let has_driver = function.driver.is_named("toy");
        (!has_driver).then(|| "`sudo modprobe toy`".to_owned()).into_iter().collect()
    }

    fn allocate(
        &self,
        _root: &Path,
        _address: &str,
        length: Bytes,
    ) -> Result<Region, ProviderRefusal> {
        if length > Bytes::kib(64) {
            return Err(TooMuch(length).into());
        }
        Ok(host::allocate(length)?)
    }
}

static TABLE: Providers = Providers::new(&[&Toy, &P2pmemProvider]);

#[test]
fn provider_needs_one_row() {
    let fabric = Fabric::from_toml(
        "name = 'm'\n[[function]]\nname = 'nic'\nkind = 'nic'\ndriver = 'mlx5_core'\n",
    )
    .expect("a machine");
    let (id, function) = fabric.iter().next().expect("a function");
    let (provider, name) = TABLE.for_function(function).expect("a provider");
    assert_eq!((name.as_str(), TABLE.find(&fabric, &name)), ("toy:nic", Some(id)));
    assert_eq!((TABLE.kind(&name), TABLE.lender(&name)), (Some(ProviderKind::Card), Some("nic")));
    assert!(provider.lends(&fabric, id));
    assert_eq!(provider.missing(&fabric, function), ["`sudo modprobe toy`"]);
    let usage = TABLE.usage(ProviderKind::is_mapped_device, "or");
    assert_eq!(usage, "`toy:NAME`, `cmb:NAME` or `p2pmem:NAME`");

    let root = Path::new("/");
    let region = provider.allocate(root, "", Bytes::kib(64)).expect("room");
    assert_eq!(region.length(), Bytes::kib(64));
    let refusal = provider.allocate(root, "", Bytes::kib(65)).expect_err("no room");
    assert!(refusal.is_for_want_of_room());
    assert_eq!(refusal.to_string(), "cannot take 65 KiB of the toy");
    assert_eq!(refusal.hint().as_deref(), Some("take a smaller --block"));
}
