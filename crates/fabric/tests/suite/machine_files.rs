//! Machine files are read as written, refused with a reason, and lose nothing.

use peerlane_fabric::{
    Acs, Fabric, FailingRequest, FailureCount, FunctionKind, InjectedError, IommuMode, LinkSpeed,
    Parent, Rates,
};
use peerlane_units::{ByteRate, Bytes};
use proptest::prelude::*;

use crate::random;

#[test]
fn short_forms_equal_long_forms() {
    let fabric = Fabric::from_toml(
        r#"
        name = "small"
        iommu = "passthrough"
        [lab]
        memory = "2G"
        [[function]]
        name = "root"
        kind = "root-port"
        acs = "redirect"
        [[function]]
        name = "a"
        kind = "nvme"
        under = "root"
        link = "16GT/s x4"
        size = "64M"
        block_size = 4096
        cmb = "32M"
        throttle = "20MB/s"
        mdts = 7
        protection = 1
        multipath = true
        errors = [{ on = "read", sector = 2048, times = "once" }, { on = "write", sector = 7 }]
        vendor = 0x144d
        "#,
    )
    .unwrap();
    assert_eq!(fabric.iommu, IommuMode::Passthrough);
    assert_eq!(fabric.bridges[0].name, "pci0000:00");
    assert_eq!(fabric.functions[0].acs, Acs::Present { control: 0x1d });
    let lab = fabric.lab.as_ref().unwrap();
    assert_eq!((lab.cpu.as_str(), lab.cpus, lab.memory), ("max", 2, Bytes(2 << 30)));
    let drive = fabric.function(fabric.find("a").unwrap());
    assert_eq!(drive.kind, FunctionKind::Nvme);
    assert_eq!(drive.parent, Parent::Function(fabric.find("root").unwrap()));
    assert_eq!(drive.acs, Acs::Absent);
    assert_eq!(drive.vendor, Some(0x144d));
    let gen4 = Some(LinkSpeed { megatransfers: 16_000, width: 4 });
    assert_eq!(drive.link.map(|link| (link.current, link.maximum)), Some((gen4, gen4)));
    let memory = drive.p2pmem.unwrap();
    assert_eq!((memory.size, memory.available), (Bytes::mib(32), Bytes::mib(32)));
    assert!(memory.published);
    let [namespace] = drive.nvme.as_ref().unwrap().namespaces.as_slice() else {
        panic!("one namespace")
    };
    assert_eq!((namespace.nsid, namespace.size), (Some(1), Bytes::mib(64)));
    assert_eq!(namespace.limits.logical_block, Bytes(4096));
    assert_eq!(drive.lab.throttle, Some(ByteRate(20_000_000)));
    assert_eq!((drive.lab.mdts, drive.lab.protection), (Some(7), Some(1)));
    assert!(drive.lab.multipath);
    let (on, times) = (FailingRequest::Read, FailureCount::Once);
    let transient = InjectedError { on, sector: 2048, times };
    let (on, times) = (FailingRequest::Write, FailureCount::Always);
    assert_eq!(drive.lab.errors, [transient, InjectedError { on, sector: 7, times }]);
}

#[test]
fn rates_are_written_back() {
    let text = "name = 'x'\n[[host_bridge]]\nname = 'p'\np2p_read = '650MB/s'\nsocket_link = '62GB/s'\n[[function]]\nname = 'a'\n\
                kind = 'nvme'\nread = '3300MB/s'\nwrite = 2_000_000_000\nmixed = 1.25\n\
                p2pmem = { size = '4M', read = '12.6GB/s', write = '16.3GB/s' }";
    let fabric = Fabric::from_toml(text).unwrap();
    let rates = |read, write| Rates { read: Some(ByteRate(read)), write: Some(ByteRate(write)) };
    let drive = &fabric.functions[0];
    assert_eq!(drive.rates, rates(3_300_000_000, 2_000_000_000));
    assert_eq!(drive.mixed_per_mille, Some(1250));
    assert_eq!(drive.p2pmem.unwrap().rates, rates(12_600_000_000, 16_300_000_000));
    let peer = Rates { read: Some(ByteRate(650_000_000)), write: None };
    assert_eq!(fabric.bridges[0].peer, peer);
    assert_eq!(fabric.bridges[0].socket_link, Some(ByteRate(62_000_000_000)));
    assert_eq!(Fabric::from_toml(&fabric.to_toml()).unwrap(), fabric);
    let nic = "name = 'x'\n[[function]]\nname = 'n'\nkind = 'nic'\nwrite = '1GB/s'";
    let error = Fabric::from_toml(nic).expect_err("no drive").to_string();
    assert!(error.contains("`write` of n (line 3): only a function of kind `nvme`"), "{error}");
}

#[test]
fn slow_rates_are_refused() {
    let bridge = "name = 'x'\n[[host_bridge]]\nname = 'p'\n";
    let function = |kind| format!("name = 'x'\n[[function]]\nname = 'p'\nkind = '{kind}'\n");
    for (start, key) in [
        (bridge.to_owned(), "p2p_read"),
        (bridge.to_owned(), "p2p_write"),
        (bridge.to_owned(), "socket_link"),
        (function("nvme"), "read"),
        (function("nvme"), "write"),
        (function("nic"), "ethernet"),
        (function("upstream-port"), "ethernet"),
        (function("gpu") + "p2pmem.size = '1M'\n", "p2pmem.read"),
        (function("gpu") + "p2pmem.size = '1M'\n", "p2pmem.write"),
    ] {
        for rate in ["'0'", "0", "1", "'999KB/s'"] {
            let error = Fabric::from_toml(&format!("{start}{key} = {rate}")).expect_err(key);
            let expected = format!("`{key}` of p (line 3): rates are 1.00 MB/s at least");
            assert!(error.to_string().contains(&expected), "{key} = {rate}: {error}");
        }
        Fabric::from_toml(&format!("{start}{key} = '1M'")).expect(key);
    }
    let throttled = function("nvme") + "throttle = 1";
    let drive = &Fabric::from_toml(&throttled).expect("a lab holds back as it likes").functions[0];
    assert_eq!(drive.lab.throttle, Some(ByteRate(1)));
    let nothing = function("nvme") + "throttle = 0";
    let error = Fabric::from_toml(&nothing).expect_err("QEMU takes it for no limit").to_string();
    assert!(error.contains("`throttle` of p (line 3): a drive is held back to more"), "{error}");
}

#[test]
fn wrong_file_names_line_and_reason() {
    let drive = "name = 'x'\n[[function]]\nname = 'a'\nkind = 'nvme'\n";
    for (text, expected) in [
        (format!("{drive}colour = 'red'"), vec!["line 5", "unknown field `colour`"]),
        (format!("{drive}size = '64 furlongs'"), vec!["line 5", "64 furlongs", "unknown unit"]),
        (format!("{drive}address = '0:0'"), vec!["line 5", "not a PCI address"]),
        (format!("{drive}errors = [{{ on = 'read' }}]"), vec!["line 5", "sector"]),
        (format!("{drive}errors = [{{ on = 'trim', sector = 1 }}]"), vec!["line 5", "trim"]),
        (format!("{drive}errors = [{{ on = 'read', sector = -1 }}]"), vec!["line 5", "-1"]),
        (format!("{drive}mixed = 2.5"), vec!["`mixed` of a (line 3)", "add up to 0.1 to 2"]),
        (format!("{drive}mixed = nan"), vec!["`mixed` of a (line 3)", "add up to 0.1 to 2"]),
        (format!("{drive}mdts = '512K'"), vec!["line 5", "\"512K\"", "7 is 512 KiB"]),
        (format!("{drive}mdts = 524288"), vec!["line 5", "`524288`", "7 is 512 KiB"]),
        (format!("{drive}vendor = '8086'"), vec!["line 5", "hexadecimal number"]),
        (format!("{drive}vendor = 0x18086"), vec!["line 5", "too large"]),
        (format!("{drive}link = 'fast'"), vec!["line 5", "not a link speed"]),
        (format!("{drive}link = {{ speed = '' }}"), vec!["line 5", "unknown field `speed`"]),
        (format!("{drive}acs = 'maybe'"), vec!["line 5", "maybe", "redirect"]),
        (format!("{drive}under = 'b'"), vec!["`under` of a (line 3)", "nothing is called `b`"]),
        (
            format!("{drive}under = 'b'\n[[function]]\nname = 'b'\nkind = 'root-port'"),
            vec!["`under` of a (line 3)", "`b` comes later"],
        ),
        (format!("{drive}under = 'a'"), vec!["`under` of a (line 3)", "`a` comes later"]),
        (
            format!("{drive}[[function]]\nname = 'b'\nkind = 'nvme'\nunder = 'a'"),
            vec!["`under` of b (line 6)", "`a` is not a port"],
        ),
        (format!("{drive}[[function]]\nname = 'a'\nkind = 'nic'"), vec!["line 6", "name is taken"]),
        (format!("{drive}block_size = 4096"), vec!["`block_size` of a (line 3)", "give `size`"]),
        (format!("{drive}size = '1M'\nblock_size = 1000"), vec!["`block_size`", "power of two"]),
        (format!("{drive}size = 1\nnamespaces = []"), vec!["`size`", "or `namespaces`"]),
        (format!("{drive}cmb = 1\np2pmem = {{ size = 1 }}"), vec!["`cmb`", "or `p2pmem`"]),
        (format!("{drive}p2pmem = {{ size = 1 }}\nram_bar = true"), vec!["`ram_bar`", "`other`"]),
        (
            "name = 'x'\n[[function]]\nname = 'c'\nkind = 'other'\nram_bar = true".to_owned(),
            vec!["`ram_bar`", "give `p2pmem`"],
        ),
        (format!("{drive}bound = false\nserial = '1'"), vec!["`serial`", "bound = false"]),
        (
            "name = 'x'\n[[function]]\nname = 'n'\nkind = 'nic'\nsize = '1M'".to_owned(),
            vec!["`size` of n (line 3)", "only a function of kind `nvme`"],
        ),
        (
            format!("{drive}ethernet = '1GB/s'"),
            vec!["`ethernet`", "only a function of kind `nic` or `upstream-port`"],
        ),
        (
            "name = 'x'\n[[host_bridge]]\nname = 'p'\n[[host_bridge]]\nname = 'q'\n\
             [[function]]\nname = 'n'\nkind = 'nic'"
                .to_owned(),
            vec!["`under` of n (line 7)", "there are 2 host bridges"],
        ),
        ("iommu = 'off'".to_owned(), vec!["missing field `name`"]),
        ("name = 'x'\niommu = 'on'".to_owned(), vec!["line 2", "unknown variant `on`"]),
    ] {
        let error = Fabric::from_toml(&text).expect_err(&text).to_string();
        for part in expected {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
}

#[test]
fn two_functions_cannot_have_one_address() {
    let function = |name| format!("[[function]]\nname='{name}'\nkind='nic'\naddress='00:01.0'\n");
    let text = format!("name = 'x'\n{}{}", function("a"), function("b"));
    let error = Fabric::from_toml(&text).expect_err("a clash").to_string();
    assert!(error.contains("0000:00:01.0 is taken"), "{error}");
}

#[test]
fn missing_machine_file_names_its_path() {
    let missing = tempfile::tempdir().unwrap().path().join("none.toml");
    let error = Fabric::read_machine_file(&missing).expect_err("no file").to_string();
    assert!(error.contains("none.toml"), "{error}");
}

proptest! {
    #[test]
    fn writing_and_reading_loses_nothing(fabric in random::fabric()) {
        let text = fabric.to_toml();
        let read = Fabric::from_toml(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(read, fabric, "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(name|kind|\\[\\[function\\]\\]|=|'[a-z]'|\n| |[0-9])*") {
        let _ = Fabric::from_toml(&text);
    }
}

/// A file of ports, each below the one before, `apart` of them in a row.
fn ports(count: usize, apart: usize) -> String {
    let mut text = "name = \"large\"\niommu = \"off\"\n".to_owned();
    for n in 0..count {
        text += &format!("[[function]]\nname = \"p{n}\"\nkind = \"downstream-port\"\n");
        if n % apart != 0 {
            text += &format!("under = \"p{}\"\n", n - 1);
        }
    }
    text
}

#[test]
fn too_many_functions_are_refused() {
    assert_eq!(Fabric::from_toml(&ports(256, 256)).expect("a deep machine").functions.len(), 256);
    let said = Fabric::from_toml(&ports(257, 257)).expect_err("too deep").to_string();
    assert!(said.contains("PCI has 256 buses") && said.contains("p256"), "{said}");
    let said = Fabric::from_toml(&ports(40_001, 1)).expect_err("too many").to_string();
    assert!(said.contains("40001 functions: at most 40000"), "{said}");
    let long = format!("#{}\n{}", "x".repeat(32 << 20), ports(1, 1));
    let said = Fabric::from_toml(&long).expect_err("too long").to_string();
    assert!(said.contains("at most 33554432 are read"), "{said}");
}

#[test]
fn negative_size_is_refused_once() {
    let text =
        "name = \"x\"\niommu = \"off\"\n[[function]]\nname = \"a\"\nkind = \"nvme\"\nsize = -5\n";
    let error = Fabric::from_toml(text).expect_err("negative");
    let said = error.to_string();
    assert!(said.contains("integer `-5`, expected a size"), "{said}");
    assert!(std::error::Error::source(&error).is_none(), "the same is said twice");
}

#[test]
fn not_redirecting_acs_is_kept() {
    let text = "name = 'm'\n[[function]]\nname = 'a'\nkind = 'nvme'\nacs = 'not-redirecting'\n";
    let fabric = Fabric::from_toml(text).expect("a machine");
    assert_eq!(fabric.functions[0].acs, Acs::NotRedirecting);
    let again = Fabric::from_toml(&fabric.to_toml()).expect("it was written");
    assert_eq!(again.functions[0].acs.redirects(), Some(false));
    assert_eq!(again.functions[0].acs, Acs::NotRedirecting);
}
