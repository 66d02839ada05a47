use std::path::Path;

use peerlane_fabric::Fabric;
use peerlane_units::Bytes;

use super::{PROVIDERS, ProviderKind};

#[test]
fn each_name_has_its_provider() {
    for (text, kind, rest) in [
        ("host", ProviderKind::Host, ""),
        ("cmb:nvme2", ProviderKind::Pool, "nvme2"),
        ("cmb:0000:05:00.0", ProviderKind::Pool, "0000:05:00.0"),
        ("p2pmem:/dev/lab/c", ProviderKind::Pool, "/dev/lab/c"),
        ("fpga:0000:04:00.1", ProviderKind::Card, "0000:04:00.1"),
        ("gpu:0", ProviderKind::Gpu, "0"),
    ] {
        let (provider, name) = PROVIDERS.split(text).expect(text);
        assert_eq!((provider.kind(), name), (kind, rest), "{text}");
    }
    for text in ["", "hosts", "null", "cmb", "./cmb:x", "0000:41:00.0", "gpus:0", "/dev/nvme0n1"] {
        assert!(PROVIDERS.split(text).is_none(), "{text}");
    }
}

#[test]
fn memory_names_lead_to_their_function() {
    let fabric = Fabric::from_toml(
        "name = 'm'\n\
         [[function]]\nname = 'nvme2'\nkind = 'nvme'\n\
         [[function]]\nname = '0000:04:00.1'\naddress = '0000:04:00.1'\nkind = 'fpga'\n\
         [[function]]\nname = '0000:06:00.0'\naddress = '0000:06:00.0'\nkind = 'other'\n\
         p2pmem = { size = '64M' }\n",
    )
    .expect("a machine");
    let names: Vec<String> = fabric
        .iter()
        .filter_map(|(id, function)| {
            let (_, name) = PROVIDERS.for_function(function)?;
            assert_eq!(PROVIDERS.find(&fabric, &name), Some(id), "{name}");
            Some(name)
        })
        .collect();
    assert_eq!(names, ["cmb:nvme2", "fpga:0000:04:00.1", "p2pmem:0000:06:00.0"]);
}

#[test]
fn only_pools_and_cards_have_lenders() {
    assert_eq!(PROVIDERS.lender("cmb:nvme2"), Some("nvme2"));
    assert_eq!(PROVIDERS.lender("fpga:0000:04:00.1"), Some("0000:04:00.1"));
    assert_eq!(PROVIDERS.lender("gpu:0"), None);
    assert_eq!(PROVIDERS.lender("host"), None);
}

/// The engine allocates ordinary memory for every name of this kind.
#[test]
fn host_memory_has_one_name() {
    let host = PROVIDERS.rows.iter().filter(|row| row.kind() == ProviderKind::Host);
    assert_eq!(host.flat_map(|row| row.forms()).collect::<Vec<_>>(), [&"host"]);
}

#[test]
fn gpu_memory_refusal_names_a_command() {
    let (gpu, _) = PROVIDERS.split("gpu:0").expect("a provider");
    let refusal = gpu.allocate(Path::new("/"), "0000:41:00.0", Bytes(4096)).expect_err("no region");
    assert!(!refusal.is_for_want_of_room());
    assert!(refusal.hint().is_some_and(|hint| hint.contains("peerlane bench stream")));
}
