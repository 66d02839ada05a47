//! `peerlane export` in booted machines: refusals, allowed hosts, and the traces of signals and kills.

use peerlane_results::{ExportRecord, MemoryKind, Route};
use serde_json::Value;

use crate::lab::{LabRun, assert_same, schema};

pub(crate) const MIB: usize = 1 << 20;

/// Shell functions of scripts about exports; transport `$T` is TCP unless set.
pub(crate) const PRELUDE: &str = "
T=${T:-tcp}; N=/sys/kernel/config/nvmet; ME=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555
mkdir -p /sys/kernel/config /run /x; mount -t configfs c /sys/kernel/config 2>/dev/null
ip link set lo up
b() { readlink -f /dev/lab/$1; }
left() { ls $N/subsystems $N/ports $N/hosts | grep -v : ; }
# Serves in the background, and waits until hosts can connect.
serve() {
    name=$1; shift
    peerlane export \"$@\" --json >$OUT/$name.json 2>$OUT/$name.err & SERVER=$!
    until [ -s $OUT/$name.json ]; do
        [ -d /proc/$SERVER ] || { cat $OUT/$name.err >&2; exit 8; }
        sleep 0.1
    done
}
connect() {
    printf %s \"nqn=$1,transport=$T,traddr=${3:-127.0.0.1},trsvcid=4420,hostnqn=$2,hostid=${2##*:}$4\" >/dev/nvme-fabrics
}
# The disk of a subsystem of a host of this machine.
head_of() {
    HEAD=; tries=300
    while [ -z \"$HEAD\" ] && [ $tries -gt 0 ]; do
        for disk in /sys/class/block/nvme*n*; do
            [ \"$(cat $disk/device/subsysnqn 2>/dev/null)\" = $1 ] && [ -b /dev/${disk##*/} ] && HEAD=/dev/${disk##*/}
        done
        tries=$((tries - 1)); [ -n \"$HEAD\" ] || sleep 0.1
    done
    [ -n \"$HEAD\" ] || exit 8
}
";

fn open() -> Option<LabRun> {
    let mut lab = LabRun::open("pair")?;
    lab.load(&["nvmet", "nvmet_tcp", "nvme_tcp"]);
    Some(lab)
}

const PAGE: &str = include_str!("../../../../docs/network.md");

/// Commands of docs/network.md that begin so, for this drive, by RDMA or otherwise.
pub(crate) fn commands_of_the_page(beginning: &str, drive: &str, by_rdma: bool) -> Vec<String> {
    let lines = PAGE.lines().filter_map(|line| line.strip_prefix(beginning));
    let lines = lines.filter(|line| line.contains("rdma") == by_rdma);
    lines.map(|words| format!("{drive} {words}")).collect()
}

fn run(lab: &LabRun, script: &str) {
    lab.run(&format!("{PRELUDE}{script}"));
}

fn listed(lab: &LabRun, name: &str) -> ExportRecord {
    let value: Value = serde_json::from_str(&lab.text(&format!("{name}.json"))).expect("JSON");
    schema::check(&value);
    serde_json::from_value(value).expect("a list")
}

/// Waits until no drive of another machine is connected: the kernel gives a silent machine ten seconds.
pub(crate) const ALONE: &str = "
alone() {
    tries=300
    while grep -q $T /sys/class/nvme/*/transport; do
        [ $tries -gt 0 ] || { echo \"$1 left a connection\" >&2; exit 9; }
        tries=$((tries - 1)); sleep 0.1
    done
}
mkdir -p /etc/nvme; echo $ME > /etc/nvme/hostnqn
";

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    #[test]
    fn export_serves_allowed_hosts_until_signal() {
        let Some(mut lab) = open() else { return };
        let source = lab.fill("a", 8 * MIB);
        lab.fill("b", 16 * MIB);
        run(
            &lab,
            "serve served /dev/lab/b --listen 127.0.0.1 --allow $ME --name lab
             left > $OUT/made
             leave list peerlane export --list --json
             leave busy peerlane export /dev/lab/c --listen 127.0.0.1 --allow any
             leave twice peerlane export /dev/lab/b --listen 127.0.0.1:4421 --allow any
             leave name peerlane export /dev/lab/c --listen 127.0.0.1:4421 --allow any --name lab
             leave elsewhere peerlane export /dev/lab/c --listen 192.0.2.1 --allow any
             leave rdma peerlane export /dev/lab/c --listen 127.0.0.1 --allow any --transport rdma
             leave memory peerlane export /dev/lab/c --listen 127.0.0.1 --allow any --p2pmem cmb:$(b c | sed 's/^.dev.//; s/n1$//')
             leave serving peerlane export --remove lab
             left > $OUT/still
             leave stranger connect lab nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555
             leave friend connect lab $ME
             head_of lab
             leave way peerlane plan /dev/lab/a $HEAD --force
             copy to /dev/lab/a $HEAD --force --verify full
             leave held mount -t ext4 $(b b) /x
             kill -TERM $SERVER; wait $SERVER; echo $? > $OUT/served.status
             left > $OUT/ended; ls /run/peerlane/exports >> $OUT/ended
             copy after /dev/lab/a /dev/lab/b --force --target-offset 8M",
        );
        let value: Value = serde_json::from_str(&lab.text("served.json")).expect("JSON");
        schema::check(&value);
        let record: ExportRecord = serde_json::from_value(value).expect("a record");
        assert_eq!(record.exports[0].subsystem, "lab");
        let record = record.exports[0].served.as_ref().expect("what the program set up");
        assert_eq!(record.memory, MemoryKind::Host);
        assert!(record.reason.contains("host memory on both sides"), "{}", record.reason);
        assert!(record.connect.contains("--traddr 127.0.0.1 --trsvcid 4420 --nqn lab"));
        let list = listed(&lab, "list").exports;
        assert_eq!((list.len(), list[0].listen.as_str()), (1, "tcp 127.0.0.1:4420"));
        assert!(list[0].process.is_some());
        for (name, words) in [
            ("busy", "cannot listen by tcp at 127.0.0.1:4420"),
            ("busy", "--listen 127.0.0.1:4421"),
            ("twice", "is exported to NVMe hosts"),
            ("name", "there is a subsystem of this name"),
            ("elsewhere", "cannot listen by tcp at 192.0.2.1:4420"),
            ("elsewhere", "`ip address`"),
            ("memory", "copies payload through host memory"),
            ("serving", "serves it"),
        ] {
            assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
            assert!(lab.stderr(name).contains(words), "{name}: {}", lab.stderr(name));
        }
        assert_eq!(lab.status("rdma"), 77, "{}", lab.stderr("rdma"));
        assert!(lab.stderr("rdma").contains("no RDMA device"), "{}", lab.stderr("rdma"));
        assert!(lab.text("made").contains("lab"));
        assert_eq!(lab.text("made"), lab.text("still"), "what was refused left something");
        assert_ne!(lab.status("stranger"), 0);
        assert_eq!(lab.status("friend"), 0, "{}", lab.stderr("friend"));
        assert_ne!(lab.status("held"), 0, "an exported drive was mounted");
        let record = lab.record("to");
        assert_eq!(record.route, Route::Host);
        let network = record.target.network.expect("a drive of the network");
        assert_eq!(
            (network.transport.as_str(), network.address.as_deref()),
            ("tcp", Some("127.0.0.1:4420"))
        );
        assert_eq!(network.subsystem.as_deref(), Some("lab"));
        let said = lab.text("way.json");
        assert!(said.contains("an NVMe namespace over tcp (lab at 127.0.0.1:4420)"), "{said}");
        assert_eq!(lab.text("served.status").trim(), "0", "{}", lab.stderr("served"));
        assert_eq!(lab.text("ended").trim(), "");
        lab.record("after");
        let now = lab.content("b");
        assert_same("the copy by the network", &now[..8 * MIB], &source);
        assert_same("the copy after the export", &now[8 * MIB..], &source);
    }

    #[test]
    fn documented_commands_serve_and_copy() {
        let Some(mut lab) = open() else { return };
        lab.load(&["nvme_loop"]);
        let source = lab.fill("a", 8 * MIB);
        lab.fill("b", 8 * MIB);
        let page = |beginning, drive| {
            let commands = commands_of_the_page(beginning, drive, false).into_iter();
            commands.map(|words| words.replace("10.0.0.1", "127.0.0.1")).collect::<Vec<_>>()
        };
        let exports = page("peerlane export /dev/nvme0n1 ", "/dev/lab/b");
        let copies = page("peerlane copy /dev/nvme1n1 ", "/dev/lab/a");
        assert_eq!((exports.len(), copies.len()), (2, 1), "{exports:?} {copies:?}");
        let allowed = exports[0].split_once("--allow ").expect("a host").1;
        let copy = copies[0].replace("NQN", "$NAME");
        run(
            &lab,
            &format!(
                "mkdir -p /etc/nvme; echo {allowed} > /etc/nvme/hostnqn
                 dd if=/dev/zero of=$(b b) bs=1M count=8 2>/dev/null
                 serve tcp {}
                 NAME=$(sed -n 's/.*\"subsystem\": \"\\([^\"]*\\)\".*/\\1/p' $OUT/tcp.json)
                 copy there {copy}
                 kill $SERVER; wait $SERVER; echo $? > $OUT/tcp.status
                 serve loop {}
                 kill $SERVER; wait $SERVER; echo $? > $OUT/loop.status",
                exports[0], exports[1]
            ),
        );
        for name in ["tcp", "loop"] {
            assert_eq!(lab.status(name), 0, "{}", lab.stderr(name));
        }
        lab.record("there");
        assert_same("the copy of the page", &lab.content("b"), &source);
    }

    #[test]
    fn refused_connections_say_why() {
        let Some(mut lab) = open() else { return };
        lab.fill("a", 8 * MIB);
        lab.fill("b", 16 * MIB);
        run(
            &lab,
            &format!(
                "{ALONE}
                 serve served /dev/lab/b --listen 127.0.0.1 --allow nqn.other --name lab
                 try() {{ name=$1; shift; leave $name timeout 60 peerlane copy /dev/lab/a \"$@\" --force --timeout 4; alone $name; }}
                 try stranger nvme://127.0.0.1/lab
                 try unknown nvme://127.0.0.1/other
                 try closed nvme://127.0.0.1:4421/lab
                 try rdma 'nvme://127.0.0.1/lab?transport=rdma'
                 try text nvme://127.0.0.1
                 kill $SERVER; wait $SERVER
                 serve again /dev/lab/b --listen 127.0.0.1 --allow any --name lab
                 try namespace 'nvme://127.0.0.1/lab?ns=2'
                 kill $SERVER; wait $SERVER
                 nc -ll -p 4422 -e sleep 600 & SLOW=$!
                 nc -ll -p 4423 -e true & CLOSING=$!
                 until nc -w 1 127.0.0.1 4423 </dev/null; do sleep 0.1; done
                 try slow nvme://127.0.0.1:4422/lab
                 try closing nvme://127.0.0.1:4423/lab
                 kill $SLOW $CLOSING"
            ),
        );
        for (name, status, words) in [
            ("stranger", 2, "--allow nqn.2014-08.org.nvmexpress:uuid:11111111"),
            ("unknown", 2, "cannot connect nvme://127.0.0.1:4420/other"),
            ("closed", 2, "nothing that speaks NVMe answers at 127.0.0.1:4421"),
            ("rdma", 77, "no RDMA device"),
            ("text", 2, "has no valid host or no NQN"),
            ("namespace", 2, "has no namespace 2"),
            ("slow", 2, "no answer in"),
            ("closing", 2, "cannot connect nvme://127.0.0.1:4423/lab"),
        ] {
            assert_eq!(lab.status(name), status, "{name}: {}", lab.stderr(name));
            assert!(lab.stderr(name).contains(words), "{name}: {}", lab.stderr(name));
        }
    }

    #[test]
    fn changed_drive_behind_name_is_refused() {
        let Some(mut lab) = open() else { return };
        lab.fill("a", 8 * MIB);
        lab.fill("b", 16 * MIB);
        let other = lab.fill("c", 16 * MIB);
        run(
            &lab,
            &format!(
                "{ALONE}
                 serve served /dev/lab/b --listen 127.0.0.1 --allow any --name lab
                 NS=$N/subsystems/lab/namespaces/1; UUID=$(cat $NS/device_uuid)
                 truncate -s 4M /tmp/small;
                 # Puts another device behind the name.
                 behind() {{ echo 0 > $NS/enable; echo -n $1 > $NS/device_path; echo -n $2 > $NS/device_uuid; echo 1 > $NS/enable; }}
                 written() {{ set -- $(cat /sys/class/block/${{1##*/}}/stat); echo $7; }}
                 begin() {{
                     before=$(written $(b b))
                     leave $1 timeout 60 peerlane copy /dev/lab/a nvme://127.0.0.1/lab --force --limit 1M --block 64K --timeout 6 & COPY=$!
                     while [ $(written $(b b)) -lt $((before + 2048)) ]; do sleep 0.1; done
                 }}
                 again() {{ leave $1 timeout 60 peerlane copy /dev/lab/a nvme://127.0.0.1/lab --resume --timeout 6; alone $1; }}
                 begin gone; echo 0 > $NS/enable; wait $COPY; alone gone
                 behind $(b c) 99999999-2222-4333-8444-555555555555
                 again identity
                 behind /tmp/small $UUID
                 again size
                 kill $SERVER; wait $SERVER
                 serve later /dev/lab/b --listen 127.0.0.1 --allow any --name lab
                 again resumed
                 kill $SERVER; wait $SERVER"
            ),
        );
        for name in ["gone", "identity", "size"] {
            assert_eq!(lab.status(name), 2, "{name}: {}", lab.stderr(name));
        }
        for (name, words) in
            [("gone", "--resume"), ("identity", "UUID"), ("size", "room for only 4 MiB")]
        {
            assert!(lab.stderr(name).contains(words), "{name}: {}", lab.stderr(name));
        }
        assert_eq!(lab.status("resumed"), 0, "{}", lab.stderr("resumed"));
        assert_same("the other drive", &lab.content("c"), &other);
    }

    #[test]
    fn unplugged_drive_ends_its_export() {
        let Some(mut lab) = open() else { return };
        lab.fill("b", 8 * MIB);
        lab.at("gone=unplug:b");
        run(
            &lab,
            "serve served /dev/lab/b --listen 127.0.0.1 --allow any
             peerlane lab moment gone
             wait $SERVER; echo $? > $OUT/served.status
             left > $OUT/ended; ls /run/peerlane/exports >> $OUT/ended",
        );
        assert_eq!(lab.status("served"), 2, "{}", lab.stderr("served"));
        assert!(lab.stderr("served").contains("went away"), "{}", lab.stderr("served"));
        assert_eq!(lab.text("ended").trim(), "");
    }

    #[test]
    fn killed_exports_are_removed() {
        let Some(mut lab) = open() else { return };
        lab.fill("a", 8 * MIB);
        if lab.format_ext4("b", 32 << 20).is_none() {
            return;
        }
        run(
            &lab,
            "mount -t ext4 $(b b) /x
             leave mounted peerlane export /dev/lab/b --listen 127.0.0.1 --allow any
             umount /x
             serve first /dev/lab/b --listen 127.0.0.1 --allow $ME --name one
             kill -KILL $SERVER; wait $SERVER
             leave list peerlane export --list --json
             leave guarded peerlane copy /dev/lab/a /dev/lab/b --force
             leave removed peerlane export --remove one
             left > $OUT/removed.left
             serve namesake /dev/lab/b --listen 127.0.0.1 --allow any --name three
             kill -KILL $SERVER; wait $SERVER
             echo 0 > $N/subsystems/three/namespaces/1/enable; rm $N/ports/*/subsystems/three; rmdir $N/ports/[0-9]* $N/subsystems/three/namespaces/1 $N/subsystems/three
             mkdir $N/subsystems/three; mkdir $N/subsystems/three/namespaces/1
             leave stranger peerlane export --remove three
             left > $OUT/stranger.left
             rmdir $N/subsystems/three/namespaces/1 $N/subsystems/three
             serve second /dev/lab/b --listen 127.0.0.1 --allow any --name two
             kill -KILL $SERVER; wait $SERVER
             serve third /dev/lab/b --listen 127.0.0.1 --allow any --name three
             left > $OUT/swept.left
             kill -HUP $SERVER; wait $SERVER
             left > $OUT/ended",
        );
        assert_eq!(lab.status("mounted"), 2);
        assert!(lab.stderr("mounted").contains("is mounted at /x"), "{}", lab.stderr("mounted"));
        let list = listed(&lab, "list").exports;
        assert_eq!((list.len(), list[0].subsystem.as_str(), list[0].process), (1, "one", None));
        assert!(lab.stderr("guarded").contains("is exported"), "{}", lab.stderr("guarded"));
        assert_eq!(lab.status("removed"), 0, "{}", lab.stderr("removed"));
        assert_eq!(lab.text("removed.left").trim(), "");
        assert_eq!(
            lab.text("stranger.left").trim(),
            "three",
            "another program's export was removed"
        );
        assert!(lab.stderr("third").contains("removed two"), "{}", lab.stderr("third"));
        let swept = lab.text("swept.left");
        assert!(swept.contains("three") && !swept.contains("two"), "{swept}");
        assert_eq!(lab.text("ended").trim(), "");
    }
}
