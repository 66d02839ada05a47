use proptest::prelude::*;

use super::*;

/// A real trace (QEMU 7.2, kernel 7.2): boot lines other than mappings and queues are left out.
/// Between the marks: a dump of the bridge's configuration space; twice 16 KiB from `a` to the memory
/// of `c` and from there to `b`; a check of 16 KiB of `b`; 512, 4096 and 4096 bytes read from `c`.
const SWITCH: &str = include_str!("../../tests/data/switch.trace");

fn machine() -> TracedMachine {
    let names = ["a", "b", "c"];
    TracedMachine {
        memory: Bytes::mib(1024),
        is_translating: false,
        drives: (1..).zip(names.map(str::to_owned)).collect(),
        addresses: ["03:00.0", "04:00.0", "05:00.0"]
            .into_iter()
            .zip(names)
            .map(|(address, name)| (address.to_owned(), name.to_owned()))
            .collect(),
    }
}

fn report(trace: &str, machine: &TracedMachine) -> DmaReport {
    read(trace.as_bytes(), machine).expect("a window")
}

fn in_window(lines: &str) -> String {
    format!(
        "pci_update_mappings_add nvme 05:00.0 2,0xf4000000+0x4000000\n\
         pci_cfg_read ICH9-LPC 00:1f.0 @0x11 -> 0x0\n{lines}\n\
         pci_cfg_read ICH9-LPC 00:1f.0 @0x13 -> 0x0\n"
    )
}

fn read_command(nsid: u32, asked: u64, base: u64, mapped: u64) -> String {
    format!(
        "pci_nvme_io_cmd cid 1 nsid 0x{nsid:x} sqid 1 opc 0x2 opname 'NVME_NVM_CMD_READ'\n\
         pci_nvme_read cid 1 nsid {nsid} nlb 8 count {asked} lba 0x0\n\
         pci_nvme_map_addr addr 0x{base:x} len {mapped}\n"
    )
}

#[test]
fn peer_copy_differs_from_guest_memory() {
    let report = report(SWITCH, &machine());
    assert_eq!(report.payload_bytes_p2p, 4 * 16384);
    assert_eq!(report.payload_bytes_guest_memory, 512 + 4096 + 4096);
    assert_eq!(report.check_bytes_guest_memory, 16384);
    assert_eq!((report.payload_bytes_unclassified, report.check_bytes_p2p), (0, 0));
    assert!(report.is_complete());
    assert_eq!((report.commands, report.other_commands), (8, 0));
    let to_peer = report.transfers.iter().find(|t| t.drive == "a").expect("transfer of a");
    assert_eq!(
        to_peer,
        &DriveTransfers {
            drive: "a".to_owned(),
            operation: DriveOperation::Read,
            memory: TargetKind::Bar,
            memory_device: Some("c".to_owned()),
            bar: Some(2),
            phase: MarkPhase::Move,
            bytes: 32768,
            entries: 8,
        }
    );
}

#[test]
fn control_bytes_exclude_queues_in_drive() {
    // Eight completions; five submissions of a and b (those of c lie in c); five lists of three entries.
    let expected = 8 * 16 + 5 * 64 + 5 * 3 * 8;
    assert_eq!(report(SWITCH, &machine()).control_bytes_guest_memory, expected);
}

#[test]
fn under_translation_nothing_is_claimed() {
    let report = report(SWITCH, &TracedMachine { is_translating: true, ..machine() });
    assert_eq!((report.payload_bytes_p2p, report.payload_bytes_guest_memory), (0, 0));
    assert_eq!(report.control_bytes_guest_memory, 0);
    assert_eq!(report.payload_bytes_unclassified, 4 * 16384 + 8704);
    assert_eq!(report.check_bytes_unclassified, 16384);
}

#[test]
fn transfers_outside_window_do_not_count() {
    let mut trace = read_command(1, 4096, 0x1000, 4096);
    trace.push_str(&in_window(&read_command(1, 512, 0x1000, 512)));
    trace.push_str(&read_command(1, 4096, 0x1000, 4096));
    assert_eq!(report(&trace, &machine()).payload_bytes_guest_memory, 512);
}

#[test]
fn trace_without_window_is_error() {
    for (trace, missing) in [
        (String::new(), "no start"),
        (in_window("").replace("@0x13", "@0x14"), "no end"),
        ("pci_cfg_read ICH9-LPC 00:1f.0 @0x13 -> 0x0\n".to_owned(), "no start"),
    ] {
        let error = read(trace.as_bytes(), &machine()).expect_err("no window");
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn unmapped_bytes_are_reported() {
    let report = report(&in_window(&read_command(1, 8192, 0x1000, 4096)), &machine());
    assert_eq!(report.unaccounted_bytes, 4096);
    assert!(!report.is_complete());
}

#[test]
fn damaged_line_in_window_is_counted() {
    let report = report(&in_window("pci_nvme_map_addr addr 0xzz len 4096"), &machine());
    assert_eq!(report.damaged_lines, 1);
}

#[test]
fn addresses_differ_at_edges() {
    let cases = [
        (0x3fff_ffff, TargetKind::GuestMemory),
        (0x4000_0000, TargetKind::Unclassified),
        (0xf3ff_ffff, TargetKind::Unclassified),
        (0xf400_0000, TargetKind::Bar),
        (0xf7ff_ffff, TargetKind::Bar),
        (0xf800_0000, TargetKind::Unclassified),
        (4 << 30, TargetKind::Unclassified),
    ];
    for (base, kind) in cases {
        let report = report(&in_window(&read_command(1, 1, base, 1)), &machine());
        assert_eq!(report.transfers[0].memory, kind, "{base:#x}");
    }
}

#[test]
fn entry_across_edge_is_unclassified() {
    for base in [0xf7ff_ff00, 0x3fff_ff00, u64::MAX - 10] {
        let report = report(&in_window(&read_command(1, 512, base, 512)), &machine());
        assert_eq!(report.payload_bytes_unclassified, 512, "{base:#x}");
    }
}

#[test]
fn large_memory_is_split_at_2_gib() {
    let memory = Bytes::mib(4096);
    assert!(is_guest_memory(0x7fff_ffff, memory));
    assert!(!is_guest_memory(0x8000_0000, memory));
    assert!(is_guest_memory(4 << 30, memory));
    assert!(is_guest_memory((6 << 30) - 1, memory));
    assert!(!is_guest_memory(6 << 30, memory));
}

#[test]
fn moved_bar_is_found() {
    let trace = in_window(&format!(
        "pci_update_mappings_del nvme 05:00.0 2,0xf4000000+0x4000000\n\
         pci_update_mappings_add nvme 05:00.0 2,0xe0000000+0x4000000\n{}{}",
        read_command(1, 8, 0xf400_0000, 8),
        read_command(1, 16, 0xe000_0000, 16),
    ));
    let report = report(&trace, &machine());
    assert_eq!((report.payload_bytes_unclassified, report.payload_bytes_p2p), (8, 16));
}

#[test]
fn an_unknown_namespace_keeps_its_number() {
    let report = report(&in_window(&read_command(9, 1, 0, 1)), &machine());
    assert_eq!(report.transfers[0].drive, "nsid 9");
}

#[test]
fn log_prefixes_do_not_matter() {
    let prefixed: String = SWITCH.lines().map(|line| format!("4711@1700.25:{line}\n")).collect();
    assert_eq!(report(&prefixed, &machine()), report(SWITCH, &machine()));
}

proptest! {
    #[test]
    fn hostile_lines_do_not_panic(
        lines in proptest::collection::vec(
            ("(pci_nvme_(io_cmd|read|map_addr|map_prp|map_sgl|create_sq)|pci_update_mappings_(add|del)\
               |pci_cfg_read ICH9-LPC 00:1f.0) ",
             "([a-z_]{0,6}|cid|nsid|addr|len| |count|prp2|trans_len|[0-9]{0,21}|0x[0-9a-f]{0,18}|[,@+=:'é]){0,12}"),
            0..20,
        ),
        translating: bool,
    ) {
        let text: String = lines.iter().map(|(name, rest)| format!("{name}{rest}\n")).collect();
        let machine = TracedMachine { is_translating: translating, ..machine() };
        let report = read(in_window(&text).as_bytes(), &machine);
        prop_assert!(report.is_ok());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = read(bytes.as_slice(), &machine());
    }

    #[test]
    fn each_mapped_byte_has_one_class(
        commands in proptest::collection::vec((1u32..4, 0u64..1 << 33, 1u64..1 << 20), 0..40),
    ) {
        let text: String = commands
            .iter()
            .map(|&(nsid, base, bytes)| read_command(nsid, bytes, base, bytes))
            .collect();
        let report = report(&in_window(&text), &machine());
        let classes = [
            report.payload_bytes_p2p,
            report.payload_bytes_guest_memory,
            report.payload_bytes_unclassified,
        ];
        prop_assert_eq!(classes.iter().sum::<u64>(), commands.iter().map(|c| c.2).sum::<u64>());
        prop_assert_eq!(report.transfers.iter().map(|t| t.bytes).sum::<u64>(), classes.iter().sum::<u64>());
        prop_assert!(report.is_complete());
    }
}
