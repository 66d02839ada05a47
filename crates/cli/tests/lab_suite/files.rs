//! File systems and layered devices as they are, in booted machines. A peer-to-peer copy comes out
//! equal and stays out of guest memory. An impossible one is refused by name before anything is
//! made, and goes by host memory under `auto` for the reason that the plan gave.
//!
//! docs/files.md has the table of these cases. Where a program that makes one is not on this machine, the
//! case is left out with a line in the skip log.

use crate::lab::LabRun;
use peerlane_results::{CompletedCopy, Route, Warning};

const MIB: u64 = 1 << 20;
/// The tables with a line for every case here.
const TABLES: &str = include_str!("../../../../docs/files.md");
/// Least size of a drive for XFS and btrfs.
const DRIVE: u64 = 320 * MIB;

/// Shell functions: the number of a device, and an array of two drives made without superblocks.
const DEVICES: &str = "
name() { basename $(readlink -f /dev/lab/$1); }
number() { cat /sys/class/block/$(name $1)/dev; }
array() {
    echo $1 >/sys/module/md_mod/parameters/new_array; md=/sys/block/$1/md
    echo $2 >$md/level; echo none >$md/metadata_version; echo 2 >$md/raid_disks
    if [ $2 = raid1 ]; then echo 32768 >$md/component_size; else echo 65536 >$md/chunk_size; fi
    slot=0
    for drive in $3 $4; do
        number $drive >$md/new_dev; member=$md/dev-$(name $drive)
        echo 32768 >$member/size; echo $slot >$member/slot; slot=$((slot + 1))
    done
    if [ $2 = raid1 ]; then echo none >$md/resync_start; fi
    echo active >$md/array_state
}
end_array() { echo clear >/sys/block/$1/md/array_state; }
";

/// Command between copies that marks the transfers after it as a check. The DMA recorder takes
/// reads at odd offsets of the LPC bridge for marks.
const NOT_PAYLOAD: &str = "dd if=/sys/bus/pci/devices/0000:00:1f.0/config of=/dev/null bs=1 skip=21 count=1 2>/dev/null\n";

/// Checks that the tables have the suite's verdict on a case.
fn check_tables(name: &str, verdict: &str) {
    let line = TABLES.lines().find(|line| line.contains(&format!("`{name}`")));
    let line = line.unwrap_or_else(|| panic!("{name} is not in docs/files.md"));
    assert!(
        line.contains(&format!("| {verdict} |")),
        "docs/files.md says otherwise of {name}: {line}"
    );
}

/// A copy that is peer to peer, and the comparison of its ends by the page cache after it.
struct Copied {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    /// Bytes, if not all of the source.
    length: Option<u64>,
}

fn copied(name: &'static str, from: &'static str, to: &'static str, length: u64) -> Copied {
    Copied { name, from, to, length: Some(length) }
}

fn whole(name: &'static str, from: &'static str, to: &'static str) -> Copied {
    Copied { name, from, to, length: None }
}

impl Copied {
    fn script(&self) -> String {
        let Self { name, from, to, length } = self;
        let (copy, compare) = match length {
            Some(length) => (format!("--length {length}"), format!("-n {length}")),
            None => Default::default(),
        };
        format!(
            "plan {name}_plan {from} {to} --route p2p --force {copy}
             copy {name} {from} {to} --route p2p --force {copy}
             sync; echo 3 >/proc/sys/vm/drop_caches
             leave {name}_same cmp -s {compare} {from} {to}\n"
        )
    }

    /// Checks plan, record and comparison; returns the bytes that were moved.
    fn check(&self, lab: &LabRun) -> u64 {
        let name = self.name;
        check_tables(name, "works");
        let plan = lab.plan(&format!("{name}_plan"));
        assert_eq!(plan["route"], "p2p", "{name}: {}", plan["reason"]);
        let record: CompletedCopy = lab.record(name);
        assert_eq!(record.route, Route::P2p, "{name}");
        assert_eq!(record.bytes_by_route.host.0, 0, "{name}");
        assert_eq!(lab.status(&format!("{name}_same")), 0, "{name}: the ends differ");
        if let Some(length) = self.length {
            assert_eq!(record.bytes.0, length, "{name}");
        }
        record.bytes_by_route.p2p.0
    }
}

#[test]
fn ext4_xfs_and_arrays_move_p2p() {
    let Some(mut lab) = LabRun::open("files").and_then(LabRun::on_newer_kernel) else { return };
    let size = usize::try_from(24 * MIB).expect("a size");
    lab.fill("a", size);
    let made = lab.format("b", DRIVE, "mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0"])
        && lab.format("d", DRIVE, "mkfs.xfs", &["-q"]);
    if !made {
        return;
    }
    lab.load(&["xfs", "raid0", "raid1"]);
    let files = [
        copied("to_ext4", "/dev/lab/a", "/e/one", 8 * MIB + 513),
        whole("to_xfs", "/e/one", "/x/one"),
        whole("back_to_ext4", "/x/one", "/e/back"),
        copied("replaced_on_xfs", "/dev/lab/a", "/x/one", 3 * MIB + 1),
        copied("replaced_on_ext4", "/dev/lab/a", "/e/one", 100),
        whole("preallocated_to_xfs", "/e/preallocated", "/x/preallocated"),
        whole("sparse_to_ext4", "/x/sparse", "/e/sparse"),
        copied("file_to_drive", "/x/preallocated", "/dev/lab/p", 4 * MIB),
    ];
    let arrays = [
        ("raid0", copied("to_raid0", "/dev/lab/a", "/dev/md_raid0", 5 * MIB)),
        ("raid0", copied("from_raid0", "/dev/md_raid0", "/x/raid0", 5 * MIB)),
        ("raid1", copied("to_raid1", "/dev/lab/a", "/dev/md_raid1", 5 * MIB)),
        ("raid1", copied("from_raid1", "/dev/md_raid1", "/x/raid1", 5 * MIB)),
    ];
    let mut script = format!(
        "{DEVICES}{NOT_PAYLOAD}
         mkdir /e /x && mount -t ext4 /dev/lab/b /e && mount -t xfs /dev/lab/d /x || exit 9
         for file in write_generate read_verify; do
             echo 0 >/sys/block/$(name p)/integrity/$file
         done
         fallocate -l 12582912 /e/preallocated
         dd if=/dev/lab/a of=/e/preallocated bs=1M count=3 seek=2 conv=notrunc 2>/dev/null
         truncate -s 33554433 /x/sparse
         dd if=/dev/lab/a of=/x/sparse bs=64k count=9 seek=200 conv=notrunc 2>/dev/null
         sync\n"
    );
    script.extend(files.iter().map(Copied::script));
    for level in ["raid0", "raid1"] {
        script.push_str(&format!("array md_{level} {level} c e\n"));
        script.extend(arrays.iter().filter(|one| one.0 == level).map(|one| one.1.script()));
        script.push_str(&format!("end_array md_{level}\n"));
    }
    lab.run(&script);

    let moved: u64 =
        files.iter().chain(arrays.iter().map(|one| &one.1)).map(|one| one.check(&lab)).sum();
    assert!(lab.dma("payload_bytes_p2p") >= 2 * moved);
    assert_eq!(lab.dma("payload_bytes_unclassified"), 0);
    // File systems write their own blocks, of which ext4 has most: 12 KiB a copy (docs/files.md).
    let others = lab.dma("payload_bytes_guest_memory");
    assert!(others < 512 << 10, "{others} bytes of {moved} through guest memory");
}

/// An end that takes no peer-to-peer pages: the reason and the way out that are to be given.
struct RefusedEnd {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    reason: &'static str,
    way_out: &'static str,
}

impl RefusedEnd {
    fn script(&self) -> String {
        let Self { name, from, to, .. } = self;
        // A device is there before and is cut to what is copied.
        let (more, compare) = match from.starts_with("/dev/") || to.starts_with("/dev/") {
            true => ("--length 1048576 --force", "-n 1048576"),
            false => ("", ""),
        };
        format!(
            "plan {name}_plan {from} {to} --route p2p {more}
             copy {name}_p2p {from} {to} --route p2p {more}
             leave {name}_made test -f {to}
             copy {name}_auto {from} {to} --route auto {more}
             sync
             leave {name}_same cmp -s {compare} {from} {to}\n"
        )
    }

    fn check(&self, lab: &LabRun) {
        let Self { name, reason, way_out, .. } = self;
        check_tables(name, "refused");
        let plan = lab.plan(&format!("{name}_plan"));
        let said = plan["reason"].as_str().expect("a reason").to_owned();
        assert!(plan["route"].is_null(), "{name}: {plan}");
        assert!(said.contains(reason), "{name}: {said}");
        assert_eq!(lab.status(&format!("{name}_plan")), 1, "{name}");

        let error = lab.stderr(&format!("{name}_p2p"));
        assert_eq!(lab.status(&format!("{name}_p2p")), 77, "{name}: {error}");
        assert!(error.contains(&said), "{name}: the copy says otherwise than the plan: {error}");
        let hint = error.lines().find(|line| line.starts_with("hint: "));
        assert!(hint.is_some_and(|hint| hint.contains(way_out)), "{name}: {error}");
        assert_ne!(
            lab.status(&format!("{name}_made")),
            0,
            "{name}: a refused copy made its target"
        );

        let record = lab.record(&format!("{name}_auto"));
        assert_eq!(record.route, Route::Host, "{name}");
        let fell_back = Warning::FellBack { reason: said };
        assert!(record.warnings.contains(&fell_back), "{name}: {:?}", record.warnings);
        assert!(
            lab.stderr(&format!("{name}_auto")).contains("copying through host memory"),
            "{name}"
        );
        assert_eq!(lab.status(&format!("{name}_same")), 0, "{name}: the ends differ");
    }
}

fn refused(
    name: &'static str,
    [from, to]: [&'static str; 2],
    reason: &'static str,
    way_out: &'static str,
) -> RefusedEnd {
    RefusedEnd { name, from, to, reason, way_out }
}

#[test]
fn files_touched_by_cpu_are_refused() {
    const JOURNAL: &str = "ext4: data goes through the journal";
    let Some(mut lab) = LabRun::open("files").and_then(LabRun::on_newer_kernel) else { return };
    lab.fill("a", 24 << 20);
    let ext4 = ["-q", "-F", "-b", "4096", "-I", "256", "-O", "verity,encrypt,inline_data"];
    if !lab.format("b", DRIVE, "mkfs.ext4", &ext4) || !lab.bring("chattr") {
        return;
    }
    lab.load(&["overlay"]);
    let mut script = "
        mkdir /e /x /f /o /s && mount -t ext4 /dev/lab/b /e || exit 9
        dd if=/dev/lab/a of=/e/plain bs=1M count=2 2>/dev/null
        mkdir /e/journaled /e/lower /e/upper /e/work; chattr +j /e/journaled
        echo hello >/e/inline
        mount -t overlay overlay -o lowerdir=/e/lower,upperdir=/e/upper,workdir=/e/work /o
        sync\n"
        .to_owned();
    let mut cases = vec![
        refused("journaled", ["/e/plain", "/e/journaled/f"], JOURNAL, "data=ordered"),
        refused("inline", ["/e/inline", "/e/from_inline"], "ext4: no direct I/O", "inline_data"),
        refused(
            "tmpfs",
            ["/e/plain", "/tmp/f"],
            "tmpfs: its content lies in host memory",
            "a drive",
        ),
        refused("overlay", ["/e/plain", "/o/f"], "overlay: the file system", "upper directory"),
    ];
    if lab.bring("fsverity") {
        script.push_str("cp /e/plain /e/verity; sync; fsverity enable /e/verity\n");
        let reason = "ext4: the file has fs-verity";
        cases.push(refused("verity", ["/e/verity", "/e/from_verity"], reason, "without fs-verity"));
    }
    if lab.bring("xfs_io") {
        script.push_str(
            "head -c 64 /dev/urandom >/tmp/key; mkdir /e/secret
             key=$(xfs_io -c add_enckey /e </tmp/key)
             xfs_io -c \"set_encpolicy ${key##* }\" /e/secret\n",
        );
        let reason = "ext4: files there are encrypted";
        let way_out = "without an encryption policy";
        cases.push(refused("encrypting", ["/e/plain", "/e/secret/f"], reason, way_out));
        cases.push(refused("encrypted", ["/e/secret/f", "/e/from_secret"], reason, way_out));
    }
    if lab.format("c", 64 * MIB, "mkfs.vfat", &[]) {
        lab.load(&["vfat", "nls_cp437", "nls_ascii"]);
        script.push_str("mount -t vfat /dev/lab/c /f\n");
        let reason = "vfat: its direct I/O does not take";
        cases.push(refused("fat", ["/e/plain", "/f/f"], reason, "exFAT"));
        cases.push(refused("from_fat", ["/f/f", "/e/from_fat"], reason, "exFAT"));
    }
    if lab.format("d", DRIVE, "mkfs.xfs", &["-q"]) {
        lab.load(&["xfs"]);
        script.push_str(
            "echo 1 >/sys/block/$(basename $(readlink -f /dev/lab/d))/queue/stable_writes
             mount -t xfs /dev/lab/d /x\n",
        );
        let reason = "XFS bounces direct I/O through host memory";
        cases.push(refused("stable", ["/e/plain", "/x/f"], reason, "without stable writes"));
    }
    let mut allowed = Vec::new();
    if lab.format("e", DRIVE, "mkfs.btrfs", &["-q"]) {
        lab.load(&["btrfs"]);
        script.push_str("mount -t btrfs /dev/lab/e /s && mkdir /s/plain && chattr +C /s/plain\n");
        let (reason, way_out) = ("btrfs: the CPU computes checksums", "chattr +C");
        cases.push(refused("btrfs", ["/e/plain", "/s/f"], reason, way_out));
        cases.push(refused("from_btrfs", ["/s/f", "/e/from_btrfs"], reason, way_out));
        allowed.push(whole("nodatacow", "/e/plain", "/s/plain/f"));
        allowed.push(whole("from_nodatacow", "/s/plain/f", "/e/from_nodatacow"));
    }
    // Once it has its space, a small file does not lie in its inode.
    allowed.push(copied("small_beside_inline", "/dev/lab/a", "/e/small", 10));
    script.extend(cases.iter().map(RefusedEnd::script));
    script.extend(allowed.iter().map(Copied::script));
    lab.run(&script);
    cases.iter().for_each(|case| case.check(&lab));
    allowed.iter().for_each(|case| assert!(case.check(&lab) > 0));
}

#[test]
fn layered_devices_are_refused_by_kind() {
    const QUEUE: &str = "its queue takes no peer-to-peer pages";
    let Some(mut lab) = LabRun::open("files").and_then(LabRun::on_newer_kernel) else { return };
    lab.fill("a", 24 << 20);
    lab.load(&["loop", "brd", "nvmet_tcp", "nvme_tcp"]);
    let mut script = format!(
        "{DEVICES}
         truncate -s 8M /tmp/file; losetup /dev/loop0 /tmp/file
         ip link set lo up; mount -t configfs none /sys/kernel/config; cd /sys/kernel/config/nvmet
         mkdir subsystems/lab subsystems/lab/namespaces/1 ports/1
         echo 1 >subsystems/lab/attr_allow_any_host
         echo -n /dev/$(name b) >subsystems/lab/namespaces/1/device_path
         echo 1 >subsystems/lab/namespaces/1/enable
         echo tcp >ports/1/addr_trtype; echo ipv4 >ports/1/addr_adrfam
         echo 127.0.0.1 >ports/1/addr_traddr; echo 4420 >ports/1/addr_trsvcid
         ln -s $PWD/subsystems/lab ports/1/subsystems/lab; cd /
         id=2cd2c43b-a90a-45c1-a8cd-86b33ab273b5
         host=\"hostnqn=nqn.2014-08.org.nvmexpress:uuid:$id,hostid=$id\"
         echo \"nqn=lab,transport=tcp,traddr=127.0.0.1,trsvcid=4420,$host\" >/dev/nvme-fabrics
         remote=$(basename $(dirname $(grep -l tcp /sys/class/nvme/*/transport)))n1
         for try in $(seq 100); do [ -b /dev/$remote ] && break; usleep 50000; done
         ln -s /dev/$remote /dev/lab/remote\n"
    );
    let mut cases = vec![
        refused(
            "loop",
            ["/dev/lab/a", "/dev/loop0"],
            "loop0 is a loop device on /tmp/file:",
            "the file itself",
        ),
        refused(
            "from_loop",
            ["/dev/loop0", "/dev/lab/d"],
            "loop0 is a loop device",
            "the file itself",
        ),
        refused(
            "ram",
            ["/dev/lab/a", "/dev/ram0"],
            "ram0 is a RAM disk: its queue",
            "an NVMe drive",
        ),
        refused(
            "tcp",
            ["/dev/lab/a", "/dev/lab/remote"],
            "is an NVMe namespace over tcp",
            "this machine",
        ),
        refused("from_tcp", ["/dev/lab/remote", "/dev/lab/d"], QUEUE, "this machine"),
        refused(
            "generated",
            ["/dev/lab/a", "/dev/lab/p"],
            "the CPU makes protection information of nvme",
            "integrity/write_generate; echo 0 > /sys/block/nvme",
        ),
        refused(
            "verified",
            ["/dev/lab/p", "/dev/lab/d"],
            "the CPU checks protection information of nvme",
            "integrity/read_verify",
        ),
    ];
    if lab.bring("dmsetup") {
        lab.load(&["dm_mod"]);
        script.push_str(
            "sectors=$(blockdev --getsz /dev/lab/e)
             dmsetup create mapped --uuid LVM-lab --table \"0 $sectors linear $(number e) 0\"
             ln -s /dev/dm-0 /dev/lab/mapped\n",
        );
        let reason = "dm-0 is a device-mapper device (mapped, LVM): its queue";
        let way_out = "without device mapper";
        cases.push(refused("mapped", ["/dev/lab/a", "/dev/lab/mapped"], reason, way_out));
        cases.push(refused("from_mapped", ["/dev/lab/mapped", "/dev/lab/d"], reason, way_out));
    }
    script.extend(cases.iter().map(RefusedEnd::script));
    lab.run(&script);
    cases.iter().for_each(|case| case.check(&lab));
}
