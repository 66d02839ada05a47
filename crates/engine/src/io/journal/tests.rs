use proptest::prelude::*;

use super::*;

fn nvme(name: &str, serial: &str) -> DeviceIdentity {
    let id = |kind, value: &str| StableId { kind, value: value.to_owned() };
    DeviceIdentity {
        name: name.to_owned(),
        model: Some("Model".to_owned()),
        ids: vec![id(IdKind::Wwid, &format!("eui.00{serial}")), id(IdKind::Serial, serial)],
        size: Bytes::mib(1024),
        partition: None,
    }
}

fn file(path: &str, inode: u64) -> FileIdentity {
    FileIdentity {
        path: path.to_owned(),
        device: Some(nvme("nvme1n1", "B2")),
        file_system: 7,
        inode,
        size: Bytes::mib(64),
        modified_ns: 1_700_000_000_123_456_789,
        changed_ns: 1_700_000_000_123_456_789,
        born_ns: Some(-5),
    }
}

/// A journal that a copy of a drive's first 64 MiB into a file might leave.
pub(crate) fn sample() -> Journal {
    Journal {
        program: "peerlane 0.1.0".to_owned(),
        source: Identity::Device(nvme("nvme0n1", "A1")),
        target: Identity::File(file("/data/.set.bin.partial", 12)),
        options: JournalOptions {
            source_offset: Bytes(512),
            target_offset: Bytes(0),
            length: Bytes::mib(64),
        },
        route: Route::P2p,
        partial: Some(".set.bin.partial".to_owned()),
        done: RangeSet::new(),
        staged: JournalStages::default(),
        overwrites: None,
        created: 1_700_000_000,
        updated: 1_700_000_060,
    }
}

fn from_file() -> Journal {
    Journal {
        source: Identity::File(file("/data/set.bin", 12)),
        target: Identity::Device(nvme("nvme0n1", "A1")),
        partial: None,
        ..sample()
    }
}

/// Returns the differences that `change` makes between the journal and now.
fn differences(journal: &Journal, change: impl FnOnce(&mut Journal)) -> Vec<JournalDifference> {
    let mut now = journal.clone();
    change(&mut now);
    let now =
        Now { source: &now.source, target: &now.target, options: now.options, staged: &now.staged };
    journal.differences(&now)
}

fn device(identity: &mut Identity) -> &mut DeviceIdentity {
    match identity {
        Identity::Device(device) => device,
        Identity::File(_) => panic!("a file"),
    }
}

fn file_of(identity: &mut Identity) -> &mut FileIdentity {
    match identity {
        Identity::File(file) => file,
        Identity::Device(_) => panic!("a device"),
    }
}

#[test]
fn nothing_differs_when_only_names_do() {
    for journal in [sample(), from_file()] {
        assert_eq!(differences(&journal, |_| {}), []);
    }
    let renamed = differences(&sample(), |now| {
        device(&mut now.source).name = "nvme5n1".to_owned();
        let target = file_of(&mut now.target);
        target.path = "/mnt/.set.bin.partial".to_owned();
        target.device.as_mut().unwrap().name = "nvme4n1".to_owned();
    });
    assert_eq!(renamed, []);
}

#[test]
fn another_device_behind_the_same_name_is_seen() {
    let found = differences(&sample(), |now| {
        now.source = Identity::Device(nvme("nvme0n1", "Z9"));
    });
    assert!(matches!(&found[..], [JournalDifference::OtherDevice { role: Role::Source, .. }]));
    assert_eq!(
        found[0].to_string(),
        "another device is behind the source nvme0n1: it was Model, WWID eui.00A1; \
         it is Model, WWID eui.00Z9"
    );
    let found = differences(&from_file(), |now| {
        now.target = Identity::Device(nvme("nvme0n1", "Z9"));
    });
    assert!(matches!(&found[..], [JournalDifference::OtherDevice { role: Role::Target, .. }]));
}

#[test]
fn one_name_that_contradicts_outweighs_one_that_agrees() {
    let found = differences(&sample(), |now| {
        device(&mut now.source).ids[0].value = "eui.another-namespace".to_owned();
    });
    assert!(matches!(&found[..], [JournalDifference::OtherDevice { .. }]));
    let vanished = differences(&sample(), |now| {
        device(&mut now.source).ids.remove(0);
    });
    assert_eq!(vanished, [], "the serial still agrees");
}

#[test]
fn device_without_stable_name_is_refused() {
    let mut journal = sample();
    device(&mut journal.source).ids.clear();
    let found = differences(&journal, |_| {});
    assert_eq!(
        found,
        [JournalDifference::NoStableId { role: Role::Source, name: "nvme0n1".to_owned() }]
    );
}

#[test]
fn size_and_partition_of_a_device_are_compared() {
    let found = differences(&sample(), |now| {
        let source = device(&mut now.source);
        source.size = Bytes::mib(512);
        source.partition = Some(PartitionRange { start: Bytes::mib(1), size: Bytes::mib(2) });
    });
    assert!(matches!(
        &found[..],
        [
            JournalDifference::DeviceSize { .. },
            JournalDifference::OtherPartition { then: None, .. }
        ]
    ));
    assert_eq!(
        found[1].to_string(),
        "the source was the whole device and is partition of 2 MiB at 1 MiB"
    );
}

#[test]
fn a_source_file_that_changed_is_seen() {
    let change = |change: fn(&mut FileIdentity)| {
        differences(&from_file(), |now| change(file_of(&mut now.source)))
    };
    let grown = change(|file| {
        file.size = Bytes::mib(65);
        file.modified_ns += 1;
        file.changed_ns += 1;
    });
    assert!(matches!(
        &grown[..],
        [JournalDifference::SourceSize { .. }, JournalDifference::SourceModified { .. }]
    ));
    assert!(matches!(
        &change(|file| file.changed_ns += 1)[..],
        [JournalDifference::SourceTouched { .. }]
    ));
    assert!(matches!(
        &change(|file| file.inode += 1)[..],
        [JournalDifference::OtherFile { other_file_system: false, .. }]
    ));
    assert!(matches!(
        &change(|file| file.born_ns = Some(99))[..],
        [JournalDifference::OtherFile { other_file_system: false, .. }]
    ));
    assert!(matches!(
        &change(|file| file.device = Some(nvme("nvme1n1", "C3")))[..],
        [JournalDifference::OtherFile { other_file_system: true, .. }]
    ));
    let without_device = change(|file| {
        file.device = None;
        file.file_system = 8;
    });
    assert!(matches!(
        &without_device[..],
        [JournalDifference::OtherFile { other_file_system: true, .. }]
    ));
}

#[test]
fn target_file_may_differ_in_size() {
    let change = |now: &mut Journal| {
        let target = file_of(&mut now.target);
        target.size = Bytes::mib(1);
        target.modified_ns += 1;
        target.changed_ns += 1;
    };
    let mut journal = sample();
    assert_eq!(differences(&journal, change), []);
    journal.done.insert(0..1 << 20);
    assert_eq!(differences(&journal, change), []);
    journal.done.insert(1 << 20..(1 << 20) + 1);
    assert_eq!(
        differences(&journal, change),
        [JournalDifference::TargetCut { needed: Bytes((1 << 20) + 1), now: Bytes(1 << 20) }]
    );
}

#[test]
fn exchanged_kind_and_options_are_seen() {
    let found = differences(&sample(), |now| {
        now.source = Identity::File(file("/data/other", 3));
        now.options.length = Bytes(1);
        now.options.target_offset = Bytes(4096);
    });
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "the source was a block device and is a file",
            "the offset in the target was 0 bytes and is 4096",
            "the length was 67108864 bytes and is 1",
        ]
    );
}

#[test]
fn what_is_missing_comes_in_whole_blocks() {
    let mut journal = sample();
    assert!(!journal.is_complete());
    journal.done.insert(0..(1 << 20) + 5);
    journal.done.insert(2 << 20..64 << 20);
    assert_eq!(journal.missing(Bytes::mib(1)).collect::<Vec<_>>(), [1 << 20..2 << 20]);
    journal.done.insert(0..64 << 20);
    assert!(journal.is_complete());
    assert_eq!(journal.missing(Bytes::mib(1)).count(), 0);
}

/// A journal whose content has been edited and given the right checksum.
fn forged(edit: impl FnOnce(&mut serde_json::Value)) -> Result<Journal, JournalError> {
    let mut content = serde_json::to_value(sample()).unwrap();
    edit(&mut content);
    let content = content.to_string();
    let checksum = twox_hash::XxHash3_64::oneshot(content.as_bytes());
    let text = format!(
        r#"{{"schema":"{JOURNAL_SCHEMA}","checksum":"xxh3-64:{checksum:016x}","journal":{content}}}"#
    );
    decode(text.as_bytes())
}

#[test]
fn contradiction_refused_despite_right_checksum() {
    use serde_json::json;
    assert_eq!(forged(|_| {}).unwrap(), sample());
    type Edit = fn(&mut serde_json::Value);
    let edits: [Edit; 11] = [
        |journal| journal["done"] = json!([[0, (64 << 20) + 1]]),
        |journal| journal["done"] = json!([[0, 10], [5, 20]]),
        |journal| journal["done"] = json!([[10, 10]]),
        |journal| journal["options"]["source_offset"] = json!(u64::MAX),
        |journal| journal["options"]["target_offset"] = json!(u64::MAX - 5),
        |journal| journal["partial"] = json!("../../etc/passwd"),
        |journal| journal["partial"] = json!(".."),
        |journal| journal["partial"] = json!(""),
        |journal| journal["updated"] = json!(0),
        |journal| journal["more"] = json!(0),
        |journal| journal["source"]["device"]["more"] = json!(0),
    ];
    for (index, edit) in edits.into_iter().enumerate() {
        assert!(
            matches!(
                forged(edit),
                Err(JournalError::Contradiction(_) | JournalError::Malformed(_))
            ),
            "edit {index}"
        );
    }
}

#[test]
fn edited_journal_differs_from_other_version() {
    let text = String::from_utf8(encode(&sample()).unwrap()).unwrap();
    let edited = text.replace("\"done\":[]", "\"done\":[[0,4096]]");
    assert_ne!(edited, text);
    assert!(matches!(decode(edited.as_bytes()), Err(JournalError::Checksum { .. })));
    let newer = r#"{"schema":"peerlane.journal/2","anything":[1,2]}"#;
    assert!(matches!(
        decode(newer.as_bytes()),
        Err(JournalError::Schema { found, .. }) if found == "peerlane.journal/2"
    ));
}

#[test]
fn unreadable_journal_is_not_written() {
    let mut journal = sample();
    journal.done.insert(0..(64 << 20) + 1);
    assert!(matches!(encode(&journal), Err(JournalError::Contradiction(_))));
    let mut journal = sample();
    journal.program = "x".repeat(usize::try_from(JOURNAL_BYTES_MAX).unwrap());
    assert!(matches!(encode(&journal), Err(JournalError::TooLong { .. })));
}

#[test]
fn a_full_set_of_ranges_fits_into_a_journal() {
    let mut journal = sample();
    journal.options = JournalOptions {
        source_offset: Bytes(0),
        target_offset: Bytes(0),
        length: Bytes(u64::MAX),
    };
    for n in 0..2 * crate::io::ranges::RANGES_MAX as u64 {
        journal.done.insert(u64::MAX - 2 * n - 1..u64::MAX - 2 * n);
    }
    assert_eq!(journal.done.iter().count(), crate::io::ranges::RANGES_MAX);
    let text = encode(&journal).unwrap();
    assert!((text.len() as u64) < JOURNAL_BYTES_MAX / 4);
    assert_eq!(decode(&text).unwrap(), journal);
}

fn any_journal() -> impl Strategy<Value = Journal> {
    let ranges = proptest::collection::vec((0u64..64 << 20, 1u64..1 << 20), 0..20);
    (ranges, any::<bool>(), ".{0,12}").prop_map(|(ranges, swapped, program)| {
        let mut journal = if swapped { from_file() } else { sample() };
        journal.program = program;
        for (start, length) in ranges {
            journal.done.insert(start..(start + length).min(64 << 20));
        }
        journal
    })
}

proptest! {
    #[test]
    fn survives_text(journal in any_journal()) {
        prop_assert_eq!(decode(&encode(&journal).unwrap()).unwrap(), journal);
    }

    #[test]
    fn arbitrary_bytes_are_never_a_journal(text in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(decode(&text).is_err());
    }

    #[test]
    fn a_torn_journal_is_refused(journal in any_journal(), cut in any::<proptest::sample::Index>()) {
        let text = encode(&journal).unwrap();
        // The last byte is a line feed, without which the journal is whole.
        let text = &text[..cut.index(text.len() - 1)];
        prop_assert!(decode(text).is_err());
    }

    #[test]
    fn a_mutated_journal_is_refused_or_means_the_same(
        journal in any_journal(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut text = encode(&journal).unwrap();
        for (index, byte) in changes {
            let index = index.index(text.len());
            text[index] = byte;
        }
        // A change of white space outside the content, or of no byte at all, changes nothing.
        if let Ok(read) = decode(&text) {
            prop_assert_eq!(read, journal);
        }
    }

    #[test]
    fn a_journal_with_zeroed_blocks_is_refused(
        journal in any_journal(), at in any::<proptest::sample::Index>(),
    ) {
        // What a file system may leave where a file was not flushed.
        let mut text = encode(&journal).unwrap();
        let from = at.index(text.len() - 1);
        text[from..].fill(0);
        prop_assert!(decode(&text).is_err());
    }
}

#[test]
fn other_stages_or_chunks_forbid_resuming() {
    let row = vec!["digest".to_owned()];
    let staged = JournalStages { row, chunk: Bytes::mib(1), manifest: Some("one".to_owned()) };
    let journal = Journal { staged, ..sample() };
    let found =
        |change: fn(&mut JournalStages)| differences(&journal, |now| change(&mut now.staged));
    assert_eq!(found(|now| now.manifest = None), [], "the manifest is compared by itself");
    for change in [
        |now: &mut JournalStages| now.chunk = Bytes::kib(512),
        |now: &mut JournalStages| now.row.push("digest".to_owned()),
        |now: &mut JournalStages| *now = JournalStages::default(),
    ] {
        let found = found(change);
        assert!(matches!(found.as_slice(), [JournalDifference::OtherStages { .. }]), "{found:?}");
    }
}
