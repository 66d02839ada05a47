use super::*;

/// The shape of the file that NVIDIA installs: comments of both kinds, keys that are commented out.
const INSTALLED: &str = r#"{
    // NOTE : another file can be named by CUFILE_ENV_PATH_JSON
    "logging": { /* "dir": "/home/x", */ "level": "ERROR" },
    "execution" : { "max_io_threads": 4, "parallel_io" : true },
    "properties": {
        "max_direct_io_size_kb" : 16384,
        // "force_compat_mode": true,
        "allow_compat_mode": true,
        "use_pci_p2pdma": false,
        "rdma_dev_addr_list": [ "192.0.2.1", "192.0.2.2" ],
        "rdma_dynamic_routing_order": [ "GPU_MEM", "SYS_MEM" ]
    },
    "fs": { "generic": { "posix_unaligned_writes" : false },
            "lustre": { "posix_gds_min_kb" : 4, "mount_table": { "/secret": {} } } },
    "denylist": { "drivers": [], "devices": [ "/dev/nvme0n1" ], "mounts": [ "/data\u002fset" ] }
}
"#;

fn setting(found: &CufileConfiguration, key: &str) -> String {
    found.settings.get(key).map_or_else(|| "absent".to_owned(), ToString::to_string)
}

#[test]
fn installed_file_keeps_route_keys() {
    let found = read(INSTALLED);
    assert_eq!(found.problem, None);
    for (key, expected) in [
        ("properties.allow_compat_mode", "true"),
        ("properties.use_pci_p2pdma", "false"),
        ("properties.force_compat_mode", "absent"),
        ("properties.max_direct_io_size_kb", "absent"),
        ("properties.rdma_dev_addr_list", "2"),
        ("properties.rdma_dynamic_routing_order", "[\"GPU_MEM\", \"SYS_MEM\"]"),
        ("execution.parallel_io", "true"),
        ("fs.lustre.posix_gds_min_kb", "4"),
        ("fs.lustre.mount_table", "absent"),
        ("denylist.drivers", "[]"),
        ("denylist.mounts", "[\"/data/set\"]"),
    ] {
        assert_eq!(setting(&found, key), expected, "{key}");
    }
    assert_eq!(found.flag("properties.allow_compat_mode"), Some(true));
    assert_eq!(found.flag("fs.lustre.posix_gds_min_kb"), None);
    assert_eq!(found.number("fs.lustre.posix_gds_min_kb"), Some(4));
    assert_eq!(found.list("denylist.devices"), ["/dev/nvme0n1"]);
}

#[test]
fn last_of_equal_keys_counts() {
    let text = r#"{"properties": {"use_pci_p2pdma": true, "use_pci_p2pdma": false}}"#;
    assert_eq!(read(text).flag("properties.use_pci_p2pdma"), Some(false));
}

#[test]
fn values_of_other_types_are_kept() {
    let text = "{\"properties\": {\"allow_compat_mode\": \"true\", \"use_pci_p2pdma\": 1,\n\
                \"force_compat_mode\": null, \"gds_fallback_io\": {}, \"rdma_dev_addr_list\": \"192.0.2.1\"},\n\
                \"fs\": {\"lustre\": {\"posix_gds_min_kb\": 1.5}}} whatever follows";
    let found = read(text);
    assert_eq!(found.problem, None);
    assert_eq!(setting(&found, "properties.allow_compat_mode"), "\"true\"");
    assert_eq!(setting(&found, "properties.use_pci_p2pdma"), "1");
    assert_eq!(setting(&found, "properties.force_compat_mode"), "absent");
    assert_eq!(setting(&found, "properties.gds_fallback_io"), "absent");
    assert_eq!(setting(&found, "properties.rdma_dev_addr_list"), "1");
    assert_eq!(setting(&found, "fs.lustre.posix_gds_min_kb"), "\"1.5\"");
}

#[test]
fn commas_before_brackets_are_a_problem() {
    let found = read("{\n\"properties\": {\n\"use_pci_p2pdma\": true,\n},\n}");
    assert_eq!(found.flag("properties.use_pci_p2pdma"), Some(true));
    let problem = found.problem.expect("a comma too many");
    assert!(problem.starts_with("line 3: a comma before the closing bracket"), "{problem}");
}

#[test]
fn faults_name_line_and_expected_token() {
    let deep = format!("{{\"a\": {}", "[".repeat(100));
    let long = format!("{{}}{}", " ".repeat(256 << 10));
    for (text, expected) in [
        ("", "line 1: expected an object"),
        ("[]", "line 1: expected an object"),
        ("{\n\"a\" 1}", "line 2: expected `:`"),
        ("{\"a\": 1 \"b\": 2}", "line 1: expected `,` or a closing bracket"),
        ("{\n\n\"a\": yes}", "line 3: expected a value"),
        ("{\"a\": nan}", "line 1: expected a value"),
        ("{'a': 1}", "line 1: expected a name in quotes"),
        ("{\"a", "line 1: expected a closing quote"),
        ("{\"a\": \"\\x\"}", "line 1: expected an escaped character"),
        ("{\"a\": \"\\u12\"}", "line 1: expected four hexadecimal digits"),
        ("{ /* no end", "line 1: expected the end of a comment"),
        (&deep, "line 1: expected no more than 32 objects one in another"),
        (&long, "line 1: expected a file of 256 KiB at most"),
    ] {
        let found = read(text);
        assert_eq!(found.problem.as_deref(), Some(expected), "{text:.40}");
        assert!(found.settings.is_empty());
    }
}

#[test]
fn written_settings_are_read_again() {
    let mut found = read(INSTALLED);
    let text = |text: &str| CufileValue::Text(text.to_owned());
    found.settings.insert("properties.rdma_peer_type".to_owned(), text("a \"b\" \\ \n \u{e9}"));
    assert_eq!(read(&super::text(&found)), found);
    let comma = read("{\"properties\": {\"use_pci_p2pdma\": true},}");
    let again = read(&super::text(&comma));
    assert_eq!((again.settings, again.problem.is_some()), (comma.settings, true));
    let broken = read("{");
    assert!(read(&super::text(&broken)).problem.is_some());
    assert_eq!(read(&super::text(&CufileConfiguration::default())), CufileConfiguration::default());
}

#[test]
fn versions_are_in_names_of_files() {
    for (name, expected) in [
        ("libcufile.so.1.16.0", Some((1, 16))),
        ("libcufile.so.1.20", Some((1, 20))),
        ("libcufile.so.0", None),
        ("libcufile.so", None),
        ("libcufile.so.1.x", None),
        ("libcufile.so.1.16.acme", None),
        ("libcuda.so.1.2.3", None),
    ] {
        assert_eq!(version(name), expected, "{name}");
    }
}

#[test]
fn keys_are_sorted_and_unique() {
    assert!(KEYS.windows(2).all(|pair| pair[0].0 < pair[1].0));
}
