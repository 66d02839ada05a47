//! Copies by passthrough nodes in booted machines: routes of the bytes, refusals, and that the
//! block device of the node is neither overwritten in use nor left with stale pages.

use crate::lab::{LabRun, assert_same};
use peerlane_results::{EndpointKind, Route};

const MIB: usize = 1 << 20;

/// `node a` prints the passthrough node of drive a.
const NODE: &str = "node() { readlink -f /dev/lab/$1 | sed s,/dev/nvme,/dev/ng,; }\n";

fn run(lab: &LabRun, script: &str) {
    lab.run(&format!("{NODE}{script}"));
}

#[test]
fn commands_move_payload_p2p() {
    const SIZE: usize = 24 * MIB;
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", SIZE);
    let mut expected = lab.fill("b", SIZE);
    run(
        &lab,
        "copy both --force $(node a) $(node b) --route p2p --offset 512 --target-offset 1M --length 8389120
         copy from --force $(node a) /dev/lab/b --route p2p --offset 1M --target-offset 12M --length 3M
         copy onto --force /dev/lab/a $(node b) --route p2p --offset 2M --target-offset 16M --length 3M",
    );
    let mut moved = 0;
    for (name, from, to, length) in [
        ("both", 512, MIB, 8 * MIB + 512),
        ("from", MIB, 12 * MIB, 3 * MIB),
        ("onto", 2 * MIB, 16 * MIB, 3 * MIB),
    ] {
        let record = lab.record(name);
        assert_eq!((record.route, record.bytes.0), (Route::P2p, length as u64), "{name}");
        assert_eq!(record.verification.mismatches, 0, "{name}");
        expected[to..to + length].copy_from_slice(&source[from..from + length]);
        moved += 2 * length as u64;
    }
    let both = lab.record("both");
    assert_eq!(both.source.kind, EndpointKind::Passthrough);
    assert!(
        both.evidence
            .iter()
            .any(|one| one.evidence.looked_at.contains("the block device of /dev/ng")),
        "{:?}",
        both.evidence
    );
    assert_same("target", &lab.content("b"), &expected);
    assert_same("source", &lab.content("a"), &source);
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    assert_eq!((lab.dma("payload_bytes_guest_memory"), lab.dma("payload_bytes_p2p")), (0, moved));
}

#[test]
fn nodes_are_guarded_like_block_devices() {
    const LENGTH: usize = 3_000_832;
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", 8 * MIB);
    run(
        &lab,
        &format!(
            "mke2fs /dev/lab/b >/dev/null && mkdir /b && mount -t ext4 /dev/lab/b /b
             leave planned peerlane plan $(node a) /b/image --route p2p --length {LENGTH}
             copy file $(node a) /b/image --route p2p --length {LENGTH}
             copy odd --force $(node a) /b/odd --route p2p --length 1000001
             leave same peerlane verify $(node a) /b/image --length {LENGTH}
             leave longer peerlane verify $(node a) /b/image --offset 1M --length 4M
             leave equal cmp -n {LENGTH} /dev/lab/a /b/image
             copy offset $(node a) $(node c) --offset 100
             copy target_offset $(node a) $(node c) --target-offset 511
             copy length $(node a) $(node c) --length 1000 --route p2p
             copy mounted $(node a) $(node b) --force
             copy lies_on /b/image $(node b) --force
             umount /b
             copy carries $(node a) $(node b)
             copy itself $(node a) /dev/lab/a --target-offset 1M --length 4M
             copy itself_again /dev/lab/a $(node a) --target-offset 1M --length 4M
             copy partition $(node a)p1 /dev/lab/c
             copy other_node /dev/null $(node c)
             node a"
        ),
    );
    assert_eq!(lab.status("planned"), 0, "{}", lab.stderr("planned"));
    for (name, length) in [("file", LENGTH), ("odd", 1_000_001)] {
        let record = lab.record(name);
        assert_eq!((record.route, record.bytes.0), (Route::P2p, length as u64), "{name}");
    }
    assert_eq!(lab.status("equal"), 0, "{}", lab.text("equal.json"));
    assert_eq!(lab.status("same"), 0, "{}", lab.stderr("same"));
    assert_eq!(lab.status("longer"), 1, "what was shifted differs");
    for (name, words) in [
        ("offset", "`--offset 100` is not a multiple of the block size of /dev/ng"),
        ("target_offset", "`--target-offset 511` is not a multiple"),
        ("mounted", "is mounted at /b"),
        ("lies_on", "lies on /dev/ng"),
        ("carries", "carries"),
        ("itself", "source and target overlap"),
        ("itself_again", "source and target overlap"),
        ("partition", "never of a partition"),
        ("other_node", "is a character device"),
    ] {
        assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
        assert!(lab.stderr(name).contains(words), "{name}: {}", lab.stderr(name));
    }
    assert!(lab.stderr("partition").contains("--offset"), "{}", lab.stderr("partition"));
    // 488 bytes into a block: no device moves those without the rest of it.
    assert_eq!(lab.status("length"), 77, "{}", lab.stderr("length"));
    assert_same("source", &lab.content("a"), &source);
}

#[test]
fn page_cache_is_flushed_and_dropped() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    let mut source = lab.fill("a", 8 * MIB);
    lab.fill("b", 8 * MIB);
    // A descriptor that stays open keeps the kernel from writing back what was written by it.
    run(
        &lab,
        "exec 3<>/dev/lab/a 4<>/dev/lab/b
         echo 'new words of the source' >&3
         echo 'old words of the target' >&4
         head -c 1M /dev/lab/b >/dev/null
         copy done $(node a) $(node b) --route p2p --length 4M --verify full --force
         head -c 24 /dev/lab/b >$OUT/read
         head -c 4M /dev/lab/b | md5sum >$OUT/cached
         head -c 4M /dev/lab/a | md5sum >$OUT/source
         exec 3>&- 4>&-
         sync",
    );
    assert_eq!(lab.record("done").route, Route::P2p);
    let words = "new words of the source\n";
    source[..words.len()].copy_from_slice(words.as_bytes());
    assert_eq!(lab.text("read"), words);
    assert_eq!(lab.text("cached"), lab.text("source"));
    assert_same("target", &lab.content("b")[..4 * MIB], &source[..4 * MIB]);
}

#[test]
fn copy_resumes_under_other_name() {
    const SIZE: usize = 12 * MIB;
    let Some(mut lab) = LabRun::open("throttled").and_then(LabRun::on_newer_kernel) else { return };
    let source = lab.fill("a", SIZE);
    lab.fill("b", SIZE);
    run(
        &lab,
        "queue() { echo /sys/class/block/$(basename $(readlink -f /dev/lab/$1)); }
         echo 1 >$(queue b)/queue/iostats_passthrough
         written() { set -- $(cat $(queue b)/stat); echo $7; }
         begun() { start=$(written); until [ $(($(written) - start)) -gt 4096 ]; do :; done; }
         copy stopped --force $(node a) $(node b) --route p2p --limit 3M &
         begun; killall -TERM peerlane; wait
         copy resumed /dev/lab/a /dev/lab/b --route p2p --resume --verify full
         drive=$(readlink -f $(queue a)/device/device)
         copy gone $(node a) $(node b) --route p2p --force --limit 3M &
         begun; echo 1 >$drive/remove; wait",
    );
    assert_eq!(lab.status("stopped"), 130, "{}", lab.stderr("stopped"));
    let record = lab.record("resumed");
    assert!(record.content.before.0 > 1 << 18, "{:?}", record.content);
    assert_eq!(lab.status("gone"), 2, "{}", lab.stderr("gone"));
    let gone = lab.stderr("gone");
    assert!(gone.contains("of the source") && gone.contains("gone"), "{gone}");
    assert_same("target", &lab.content("b"), &source);
}

#[test]
fn drive_status_is_named() {
    const LIMIT: u64 = 160 << 20;
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", 4 * MIB);
    lab.bound("b", 256 << 20, LIMIT);
    let within = LIMIT - (2 << 20);
    run(
        &lab,
        &format!(
            "copy fault --force $(node a) $(node b) --route p2p --target-offset {within}
             copy host --force $(node a) $(node b) --route host --target-offset {within}
             copy within $(node a) $(node b) --route p2p --target-offset {within} --length 1M --force"
        ),
    );
    for name in ["fault", "host"] {
        assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
        let words = "write fault (NVMe status 0x280)";
        assert!(lab.stderr(name).contains(words), "{name}: {}", lab.stderr(name));
    }
    assert_eq!(lab.record("within").route, Route::P2p);
    let at = usize::try_from(within).expect("an offset");
    assert_same("target", &lab.content("b")[at..at + MIB], &source[..MIB]);
}

#[test]
fn multipath_heads_work_by_either_name() {
    const SIZE: usize = 4 * MIB;
    let Some(mut lab) = LabRun::open("heads").and_then(LabRun::on_newer_kernel) else { return };
    let source = lab.fill("a", SIZE);
    lab.fill("b", SIZE);
    run(
        &lab,
        "readlink -f /sys/class/block/$(basename $(readlink -f /dev/lab/a)) >$OUT/head
         copy heads --force /dev/lab/a /dev/lab/b --route p2p --length 2M
         copy nodes --force $(node a) $(node b) --route p2p --offset 2M --target-offset 2M",
    );
    assert!(lab.text("head").contains("nvme-subsys"), "no multipath head: {}", lab.text("head"));
    for name in ["heads", "nodes"] {
        assert_eq!(lab.record(name).route, Route::P2p, "{name}");
    }
    assert_same("target", &lab.content("b"), &source);
    assert_eq!(lab.dma("payload_bytes_guest_memory"), 0);
}

#[test]
fn commands_carry_mixed_blocks_and_holes() {
    const SIZE: usize = 8 * MIB;
    let Some(mut lab) = LabRun::open("blocks") else { return };
    let small = lab.fill("a", SIZE);
    let mut large = lab.fill("b", SIZE);
    // 4 MiB of holes and 64 KiB of data, onto blocks that hold something else.
    run(
        &lab,
        "copy odd --force $(node a) $(node b) --route p2p --offset 1M --target-offset 4M --length 1049088
         copy host --force $(node a) $(node b) --route host --offset 512 --target-offset 6M --length 1M
         mke2fs /dev/lab/c >/dev/null && mkdir /c && mount -t ext4 /dev/lab/c /c
         truncate -s 4M /c/sparse
         dd if=/dev/lab/a of=/c/sparse bs=64K count=1 seek=32 conv=notrunc 2>/dev/null
         sync
         copy holes /c/sparse $(node b) --route p2p --force",
    );
    for name in ["odd", "holes"] {
        assert_eq!(lab.record(name).route, Route::P2p, "{name}");
    }
    let content = lab.record("holes").content;
    assert_eq!(
        (content.data.0, content.holes.0),
        (64 << 10, (4 << 20) - (64 << 10)),
        "{content:?}"
    );
    let odd = MIB + 512;
    large[4 * MIB..4 * MIB + odd].copy_from_slice(&small[MIB..MIB + odd]);
    large[6 * MIB..7 * MIB].copy_from_slice(&small[512..MIB + 512]);
    large[..4 * MIB].fill(0);
    large[2 * MIB..2 * MIB + (64 << 10)].copy_from_slice(&small[..64 << 10]);
    assert_same("target", &lab.content("b"), &large);
}

#[test]
fn group_copies_by_nodes_without_root() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    let source = lab.fill("a", 4 * MIB);
    lab.fill("b", 4 * MIB);
    run(
        &lab,
        "printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/:/bin/sh\\n' >/etc/passwd
         printf 'root:x:0:\\nuser:x:1000:\\npeerlane:x:900:user\\n' >/etc/group
         chmod 1777 $OUT /tmp
         user() { leave $1 su -s /bin/sh user -c \"XDG_STATE_HOME=/tmp peerlane $2\"; }
         give() { chgrp peerlane $1 && chmod 660 $1; }
         give $(ls /sys/bus/pci/devices/*/p2pmem/allocate)
         give $(node a); give $(node b)
         user nodes_only \"copy --force $(node a) $(node b) --route p2p --json\"
         give $(readlink -f /dev/lab/a); give $(readlink -f /dev/lab/b)
         user both \"copy --force $(node a) $(node b) --route p2p --json\"",
    );
    assert_eq!(lab.status("nodes_only"), 2, "{}", lab.stderr("nodes_only"));
    for words in ["cannot read /dev/nvme", "cannot open /dev/nvme"] {
        assert!(lab.stderr("nodes_only").contains(words), "{}", lab.stderr("nodes_only"));
    }
    assert_eq!(lab.record("both").route, Route::P2p);
    assert_same("target", &lab.content("b"), &source);
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn older_kernels_refuse_multipath_heads() {
        const SIZE: usize = 4 * MIB;
        let Some(mut lab) = LabRun::open_older("heads") else { return };
        let source = lab.fill("a", SIZE);
        let mut expected = lab.fill("b", SIZE);
        run(
            &lab,
            "readlink -f /sys/class/block/$(basename $(readlink -f /dev/lab/a)) >$OUT/head
             plan planned /dev/lab/a /dev/lab/b --route p2p
             copy required --force /dev/lab/a /dev/lab/b --route p2p --length 3M
             printed=$(sed -n 's/.*`peerlane copy \\([^`]*\\)`.*/\\1/p' $OUT/required.err | head -n 1)
             echo \"$printed\" >$OUT/printed
             copy by_node $printed",
        );
        assert!(
            lab.text("head").contains("nvme-subsys"),
            "no multipath head: {}",
            lab.text("head")
        );
        assert_eq!(lab.status("planned"), 1);
        let plan = lab.plan("planned");
        let planned = format!("{} {}", plan["reason"], plan["source"]["way_out"]);
        assert_eq!(lab.status("required"), 77, "{}", lab.stderr("required"));
        for why in [planned, lab.stderr("required")] {
            for words in ["multipath head", "nvme_core.multipath=N", "peerlane copy /dev/ng"] {
                assert!(why.contains(words), "{words}: {why}");
            }
        }
        let record = lab.record("by_node");
        assert_eq!((record.route, record.bytes.0), (Route::P2p, 3 * MIB as u64));
        expected[..3 * MIB].copy_from_slice(&source[..3 * MIB]);
        assert_same("target", &lab.content("b"), &expected);
    }
}
