//! Drives that a booted machine exports to NVMe hosts, itself among them: refusals, and that a
//! drive whose far side is gone does not hold up any program.

use crate::lab::{LabRun, assert_same};
use peerlane_results::{Route, Warning};

const MIB: usize = 1 << 20;
/// Longest wait of the copies to a drive that is gone.
const TIMEOUT: u64 = 5;
/// Time beyond it for the guest to end, on a machine that emulates every instruction. A drive that
/// held the process would hold it for the 600 s of its `ctrl_loss_tmo`.
const SLACK: u64 = 60;

/// Exports drive b over TCP, connects to it, and waits for its disk, whose node is `$HEAD` then.
const EXPORT: &str = "
N=/sys/kernel/config/nvmet; S=$N/subsystems/lab
mkdir -p /sys/kernel/config; mount -t configfs c /sys/kernel/config 2>/dev/null
ip link set lo up
mkdir -p $S/namespaces/1; echo 1 > $S/attr_allow_any_host
printf %s \"$(readlink -f /dev/lab/b)\" > $S/namespaces/1/device_path
echo 1 > $S/namespaces/1/enable
mkdir $N/ports/1
for one in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=4420; do
    printf %s \"${one#*=}\" > $N/ports/1/addr_${one%%=*}
done
ln -s $S $N/ports/1/subsystems/lab || exit 8
U=11111111-2222-4333-8444-555555555555
printf %s \"nqn=lab,transport=tcp,traddr=127.0.0.1,trsvcid=4420,hostnqn=nqn.2014-08.org.nvmexpress:uuid:$U,hostid=$U\" \\
    > /dev/nvme-fabrics || exit 8
HEAD=; tries=300
while [ -z \"$HEAD\" ] && [ $tries -gt 0 ]; do
    for disk in /sys/class/block/nvme*n*; do
        [ \"$(cat $disk/device/subsysnqn 2>/dev/null)\" = lab ] && [ -b /dev/${disk##*/} ] && HEAD=/dev/${disk##*/}
    done
    tries=$((tries - 1)); [ -n \"$HEAD\" ] || sleep 0.1
done
[ -n \"$HEAD\" ] || exit 8
# Seconds that a command takes.
timed() { name=$1; shift; begun=$(date +%s); leave $name \"$@\"; echo $(($(date +%s) - begun)) > $OUT/$name.seconds; }
";

fn open() -> Option<LabRun> {
    let mut lab = LabRun::open("pair")?;
    lab.load(&["nvmet", "nvmet_tcp", "nvme_tcp", "loop"]);
    Some(lab)
}

fn run(lab: &LabRun, script: &str) {
    lab.run(&format!("{EXPORT}{script}"));
}

#[test]
fn exported_drives_are_refused_everywhere() {
    let Some(mut lab) = open() else { return };
    let source = lab.fill("a", 8 * MIB);
    let before = lab.fill("b", 16 * MIB);
    run(
        &lab,
        "copy drive /dev/lab/a /dev/lab/b --force
         copy several /dev/lab/a /dev/lab/c /dev/lab/b --force
         leave bench peerlane bench stream --source null --target /dev/lab/b --scratch /dev/lab/b --force \
             --length 1M --repeats 1
         copy itself /dev/lab/b $HEAD --force --target-offset 512K --length 4M
         leave topo peerlane topo
         mke2fs $HEAD >/dev/null 2>&1 && mkdir /x && mount -t ext4 $HEAD /x
         copy mounted /dev/lab/a $HEAD --force
         copy behind /dev/lab/a /dev/lab/b --force
         umount /x
         copy head /dev/lab/a $HEAD --force --verify full
         echo 0 > $S/namespaces/1/enable
         copy ended /dev/lab/a /dev/lab/b --force --target-offset 8M",
    );
    for (name, words) in [
        (
            "drive",
            "/dev/nvme1n1 is exported to NVMe hosts: namespace 1 of lab (tcp 127.0.0.1:4420)",
        ),
        ("several", "is exported to NVMe hosts"),
        ("bench", "is exported to NVMe hosts"),
        ("itself", "through a loop device or NVMe export"),
        ("mounted", "is mounted at /x"),
        ("behind", "is exported to NVMe hosts"),
    ] {
        assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
        let said = lab.stderr(name);
        assert!(said.contains(words) || name == "drive" && said.contains("is exported"), "{said}");
    }
    assert!(lab.stderr("drive").contains("hint: echo 0 > /sys/kernel/config/nvmet/"));
    let record = lab.record("head");
    assert_eq!((record.route, record.bytes.0), (Route::Host, source.len() as u64));
    let is_told = |one: &Warning| matches!(one, Warning::SharedTarget { .. });
    assert!(record.warnings.iter().any(is_told), "{:?}", record.warnings);
    lab.record("ended");
    let now = lab.content("b");
    assert_same("the copy by the network", &now[..8 * MIB], &source);
    assert_same("the copy after the export", &now[8 * MIB..], &source);
    assert_ne!(before, now);
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn drive_without_far_side_holds_nobody() {
        let Some(mut lab) = open() else { return };
        lab.fill("a", 8 * MIB);
        lab.format("b", 32 << 20, "true", &[]);
        run(
            &lab,
            &format!(
                "written() {{ set -- $(cat /sys/class/block/${{HEAD##*/}}/stat); echo $7; }}
                 leave during peerlane copy /dev/lab/a $HEAD --limit 1M --block 64K --timeout {TIMEOUT} & COPY=$!
                 while [ $(written) -lt 2048 ]; do sleep 0.1; done
                 begun=$(date +%s)
                 rm $N/ports/1/subsystems/lab
                 wait $COPY; echo $(($(date +%s) - begun)) > $OUT/during.seconds
                 timed plan peerlane plan /dev/lab/a $HEAD --timeout {TIMEOUT}
                 timed copy peerlane copy /dev/lab/a $HEAD --timeout {TIMEOUT}
                 timed forced peerlane copy /dev/lab/a $HEAD --force --timeout {TIMEOUT} --verify none
                 timed resumed peerlane copy /dev/lab/a $HEAD --resume --timeout {TIMEOUT}
                 timed source peerlane copy $HEAD /dev/lab/c --force --timeout {TIMEOUT}
                 timed verify peerlane verify /dev/lab/a $HEAD --length 1M --timeout {TIMEOUT}
                 timed bench peerlane bench stream --source null --target $HEAD --scratch $HEAD --length 1M \
                     --repeats 1 --timeout {TIMEOUT}
                 peerlane plan /dev/lab/a $HEAD --timeout 600 2>/dev/null & COPY=$!
                 until ls -l /proc/$COPY/fd 2>/dev/null | grep -q $HEAD; do sleep 0.1; done
                 timed killed sh -c \"kill -KILL $COPY; while [ -d /proc/$COPY ] && ! grep -q 'State:.Z' /proc/$COPY/status
                     do sleep 0.1; done\""
            ),
        );
        for name in
            ["during", "plan", "copy", "forced", "resumed", "source", "verify", "bench", "killed"]
        {
            let seconds: u64 =
                lab.text(&format!("{name}.seconds")).trim().parse().expect("seconds");
            println!("{name}: {seconds} s, {}", lab.stderr(name));
            assert!(seconds <= TIMEOUT + SLACK, "{name}: {seconds} s, {}", lab.stderr(name));
        }
        for name in ["during", "copy", "resumed", "source", "verify"] {
            assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
            assert!(lab.stderr(name).contains("answer"), "{name}: {}", lab.stderr(name));
        }
        // Requests of the first copy that are not answered hold the drive.
        for name in ["forced", "bench"] {
            assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
        }
    }
}
