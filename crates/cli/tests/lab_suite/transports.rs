//! `peerlane export` and `nvme://` by each transport: one machine with both sides, and two machines.
//!
//! RDMA is the kernel's own, on a software device (`rdma_rxe`): it needs a generic kernel and iproute2.

use peerlane_results::{ExportRecord, MemoryKind, Route};
use peerlane_testing::Scratch;

use crate::fabrics::{ALONE, MIB, PRELUDE, commands_of_the_page};
use crate::lab::{LabRun, assert_same};

/// A transport between machines.
#[derive(Clone, Copy)]
enum Transport {
    Tcp,
    Rdma,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }

    /// A machine at an end of a network, with the modules of both sides; `None`, with the reason in the
    /// skip log, if nothing can be booted.
    fn machine(self, network: &Scratch, end: u8) -> Option<LabRun> {
        let mut lab = LabRun::open("pair")?;
        lab.join(format!("{}={end}", network.path().display()));
        match self {
            Self::Tcp => lab.load(&["nvmet_tcp", "nvme_tcp"]),
            Self::Rdma => {
                lab = lab.on_generic_kernel()?;
                lab.load(&["rdma_rxe", "nvmet_rdma", "nvme_rdma"]);
                lab.bring("rdma").then_some(())?;
            }
        }
        Some(lab)
    }

    fn run(self, lab: &LabRun, script: &str) {
        let device = match self {
            Self::Tcp => "",
            Self::Rdma => "rdma link add rxe0 type rxe netdev eth0",
        };
        lab.run(&format!("T={}\n{PRELUDE}{device}\n{BOTH}{script}", self.name()));
    }
}

/// Names of exports, and words between the machines.
const BOTH: &str = "
at() { echo \"nvme://$1/$2?transport=$T\"; }
export_b() { export=$1; shift; serve $export /dev/lab/b --transport $T --listen $LAB_ADDRESS --allow $ME --name $export \"$@\"; }
say() { until echo $1 | nc -w 10 $LAB_PEER 9; do sleep 0.2; done; }
await() { until [ \"$(nc -l -p 9 </dev/null)\" = $1 ]; do :; done; }
";

/// The payload of a run, as the recorder outside of the machine saw it.
fn assert_host_memory(lab: &LabRun, at_least: usize) {
    assert_eq!(lab.dma("payload_bytes_p2p"), 0);
    let moved = lab.dma("payload_bytes_guest_memory");
    assert!(moved >= at_least as u64, "{moved} bytes in host memory");
}

fn exported(lab: &LabRun, name: &str) -> peerlane_results::ServedExport {
    let record: ExportRecord = serde_json::from_value(lab.object(name)).expect("a record");
    record.exports.into_iter().next().and_then(|export| export.served).expect("a served export")
}

fn source_and_target(transport: Transport) {
    let network = Scratch::new();
    let Some(mut lab) = transport.machine(&network, 1) else { return };
    let source = lab.fill("a", 8 * MIB);
    lab.fill("b", 16 * MIB);
    lab.fill("c", 16 * MIB);
    transport.run(
        &lab,
        &format!(
            "{ALONE}
             export_b lab; THERE=$(at $LAB_ADDRESS lab)
             leave blank peerlane copy /dev/lab/a $THERE; alone blank
             copy to /dev/lab/a $THERE --force --verify full; alone to
             copy from $THERE /dev/lab/c --force --length 8M --verify full; alone from
             leave same peerlane verify /dev/lab/a $(at $LAB_ADDRESS:4420 lab) --length 8M --json; alone same
             leave plan peerlane plan /dev/lab/a $THERE; alone plan
             leave dry peerlane copy /dev/lab/a $THERE --force --dry-run; alone dry
             leave first peerlane copy /dev/lab/a $THERE --force --limit 4M --json & FIRST=$!
             until grep -q $T /sys/class/nvme/*/transport; do sleep 0.1; done
             leave second peerlane verify /dev/lab/c $THERE --length 1M --json
             wait $FIRST; alone both
             leave bench peerlane bench stream --source $THERE --target null --length 8M --repeats 1 --warm-up 0 --json; alone bench
             for group in '' -; do
                 setsid peerlane copy /dev/lab/a $THERE --force --limit 1M --block 64K & COPY=$!
                 until grep -q live /sys/class/nvme/*/state && grep -q $T /sys/class/nvme/*/transport; do sleep 0.1; done
                 kill -KILL -- $group$COPY; wait $COPY
                 alone killed
             done
             mount -o remount,ro /sys
             leave read-only peerlane copy /dev/lab/a $THERE --force
             alone read-only
             kill $SERVER; wait $SERVER"
        ),
    );
    assert_eq!(lab.status("blank"), 2, "{}", lab.stderr("blank"));
    assert!(lab.stderr("blank").contains("carries content"), "{}", lab.stderr("blank"));
    let record = lab.record("to");
    let asked = format!("nvme://10.0.0.1/lab?transport={}", transport.name());
    assert_eq!((record.route, record.asked.target), (Route::Host, asked));
    let network = record.target.network.expect("a drive of the network");
    assert_eq!(network.transport, transport.name());
    assert_eq!(network.address.as_deref(), Some("10.0.0.1:4420"));
    assert_eq!(network.subsystem.as_deref(), Some("lab"));
    assert_eq!(lab.status("same"), 0, "{}", lab.stderr("same"));
    assert_eq!(lab.status("plan"), 2, "{}", lab.stderr("plan"));
    let connect = format!("nvme connect --transport {} --traddr 10.0.0.1", transport.name());
    assert!(lab.stderr("plan").contains(&connect), "{}", lab.stderr("plan"));
    assert_eq!(lab.status("dry"), 0, "{}", lab.stderr("dry"));
    for name in ["first", "second", "bench"] {
        assert_eq!(lab.status(name), 0, "{name}: {}", lab.stderr(name));
    }
    assert!(lab.stderr("read-only").contains("/sys is read-only"), "{}", lab.stderr("read-only"));
    assert_same("the copy from the network", &lab.content("c")[..8 * MIB], &source);
    assert_host_memory(&lab, 2 * 8 * MIB);
}

#[test]
fn remote_drive_is_source_and_target() {
    source_and_target(Transport::Tcp);
}

/// Serves drive b to the other machine, is killed, sweeps, and serves again.
const SERVER: &str = "
export_b lab
await kill
kill -KILL $SERVER; wait $SERVER
leave list peerlane export --list --json
leave guarded peerlane copy /dev/lab/a /dev/lab/b --force
await sweep
export_b next
await done
kill $SERVER; wait $SERVER; echo $? > $OUT/next.status
left > $OUT/ended";

/// Copies to the drive of the other machine, and from it, over a link that is cut meanwhile.
const CLIENT: &str = "
mkdir -p /etc/nvme; echo $ME > /etc/nvme/hostnqn
THERE=$(at $LAB_PEER lab)
reach() { until peerlane copy /dev/lab/a $1 --force --dry-run --timeout 5 >/dev/null 2>&1; do sleep 0.5; done; }
written() { set -- $(cat /sys/class/block/nvme[3-9]n1/stat 2>/dev/null); echo ${7:-0}; }
reach $THERE
echo nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555 > /etc/nvme/hostnqn
leave stranger peerlane copy /dev/lab/a $THERE --force
echo $ME > /etc/nvme/hostnqn
leave blank peerlane copy /dev/lab/a $THERE
leave during peerlane copy /dev/lab/a $THERE --force --limit 1M --block 64K --timeout 5 & COPY=$!
while [ $(written) -lt 2048 ]; do sleep 0.1; done
peerlane lab moment cut
wait $COPY
peerlane lab moment back
reach $THERE
copy resumed /dev/lab/a $THERE --resume --verify full
copy from $THERE /dev/lab/c --force --length 8M --verify full
say kill
leave left peerlane verify /dev/lab/a $THERE --length 8M
say sweep
reach $(at $LAB_PEER next)
leave again peerlane verify /dev/lab/a $(at $LAB_PEER next) --length 8M
say done";

fn two_machines(transport: Transport) {
    let network = Scratch::new();
    let machines = (transport.machine(&network, 1), transport.machine(&network, 2));
    let (Some(mut server), Some(mut client)) = machines else { return };
    let theirs = server.fill("b", 16 * MIB);
    let source = client.fill("a", 8 * MIB);
    client.fill("c", 16 * MIB);
    client.at("cut=link-down");
    client.at("back=link-up");
    std::thread::scope(|scope| {
        scope.spawn(|| transport.run(&server, SERVER));
        transport.run(&client, CLIENT);
    });
    for (name, words) in
        [("stranger", "not allowed"), ("blank", "carries content"), ("during", "--resume")]
    {
        assert_eq!(client.status(name), 2, "{name}: {}", client.stderr(name));
        assert!(client.stderr(name).contains(words), "{name}: {}", client.stderr(name));
    }
    let resumed = client.record("resumed");
    assert!(resumed.content.before.0 > 0, "it began anew: {:?}", resumed.content);
    let network = resumed.target.network.expect("a drive of the network");
    assert_eq!(network.transport, transport.name());
    assert_eq!(network.address.as_deref(), Some("10.0.0.1:4420"));
    assert_eq!(client.record("from").route, Route::Host);
    for name in ["left", "again"] {
        assert_eq!(client.status(name), 0, "{name}: {}", client.stderr(name));
    }
    let list: ExportRecord = serde_json::from_value(server.object("list")).expect("a list");
    assert_eq!((list.exports.len(), list.exports[0].process), (1, None));
    assert!(server.stderr("guarded").contains("is exported"), "{}", server.stderr("guarded"));
    assert!(server.stderr("next").contains("removed lab"), "{}", server.stderr("next"));
    assert_eq!(server.text("next.status").trim(), "0", "{}", server.stderr("next"));
    assert_eq!(server.text("ended").trim(), "");
    assert_eq!(exported(&server, "lab").memory, MemoryKind::Host);
    let now = server.content("b");
    assert_same("the copy to the other machine", &now[..8 * MIB], &source);
    assert_same("what lies behind it", &now[8 * MIB..], &theirs[8 * MIB..]);
    assert_same("the copy from the other machine", &client.content("c")[..8 * MIB], &source);
    for lab in [&server, &client] {
        assert_host_memory(lab, 2 * 8 * MIB);
    }
}

/// Long tests that shorter ones above cover too; `./test full` runs them.
mod full {
    use super::*;

    /// The kernel takes P2P memory for a software device, and leaves it unused without a word.
    #[test]
    fn software_rdma_keeps_payload_in_host_memory() {
        let network = Scratch::new();
        let Some(mut lab) = Transport::Rdma.machine(&network, 1) else { return };
        let source = lab.fill("a", 8 * MIB);
        lab.fill("b", 8 * MIB);
        Transport::Rdma.run(
            &lab,
            &format!(
                "{ALONE}
             RDMA=\"--transport rdma --allow any\"
             leave named peerlane export /dev/lab/b $RDMA --listen $LAB_ADDRESS --p2pmem cmb:$(b c | sed 's/^.dev.//; s/n1$//')
             leave loopback peerlane export /dev/lab/b $RDMA --listen 127.0.0.1
             left > $OUT/refused
             export_b lab
             S=$N/subsystems/lab/namespaces/1
             echo 0 > $S/enable; echo 1 > $S/p2pmem; dmesg -c >/dev/null; echo 1 > $S/enable; cat $S/p2pmem > $OUT/asked
             copy to /dev/lab/a $(at $LAB_ADDRESS lab) --force --verify full
             dmesg > $OUT/kernel
             kill $SERVER; wait $SERVER"
            ),
        );
        let refusal = lab.stderr("named");
        assert_eq!(lab.status("named"), 2, "{refusal}");
        assert!(refusal.contains("rxe0 is a software RDMA device and does no DMA"), "{refusal}");
        assert!(
            lab.stderr("loopback").contains("loopback address by RDMA"),
            "{}",
            lab.stderr("loopback")
        );
        assert_eq!(lab.text("refused").trim(), "");
        let served = exported(&lab, "lab");
        assert_eq!(
            (served.memory, served.rdma_device.as_deref()),
            (MemoryKind::Host, Some("rxe0"))
        );
        assert!(served.reason.starts_with("rxe0 is a software RDMA device"), "{}", served.reason);
        // The kernel's own answer to the same question.
        assert_eq!(lab.text("asked").trim(), "1");
        assert!(!lab.text("kernel").contains("p2p"), "{}", lab.text("kernel"));
        assert_eq!(lab.record("to").route, Route::Host);
        assert_host_memory(&lab, 8 * MIB);
        assert_same("the copy by RDMA", &lab.content("b"), &source);
    }

    #[test]
    fn remote_drive_by_rdma_is_source_and_target() {
        source_and_target(Transport::Rdma);
    }

    #[test]
    fn two_machines_copy_by_tcp() {
        two_machines(Transport::Tcp);
    }

    #[test]
    fn two_machines_copy_by_rdma() {
        two_machines(Transport::Rdma);
    }

    /// Modules are there already: the lab loads them.
    #[test]
    fn documented_rdma_commands_serve_and_copy() {
        let network = Scratch::new();
        let machines = (Transport::Rdma.machine(&network, 1), Transport::Rdma.machine(&network, 2));
        let (Some(mut server), Some(mut client)) = machines else { return };
        server.fill("b", 8 * MIB);
        let source = client.fill("a", 8 * MIB);
        let page = |beginning, drive| commands_of_the_page(beginning, drive, true);
        let exports = page("peerlane export /dev/nvme0n1 ", "/dev/lab/b");
        let copies = page("peerlane copy /dev/nvme1n1 ", "/dev/lab/a");
        let ([export], [copy]) = (&exports[..], &copies[..]) else {
            panic!("{exports:?} {copies:?}")
        };
        let allowed = export.split_once("--allow ").expect("a host").1;
        let serve = format!(
            "dd if=/dev/zero of=$(b b) bs=1M count=8 2>/dev/null
             serve served {export}
             say $(sed -n 's/.*\"subsystem\": \"\\([^\"]*\\)\".*/\\1/p' $OUT/served.json)
             await done
             kill $SERVER; wait $SERVER"
        );
        let take = format!(
            "mkdir -p /etc/nvme; echo {allowed} > /etc/nvme/hostnqn
             NQN=$(nc -l -p 9 </dev/null)
             copy there {}
             leave topo peerlane topo
             leave doctor peerlane doctor
             say done",
            copy.replace('\'', "").replace("NQN", "$NQN")
        );
        std::thread::scope(|scope| {
            scope.spawn(|| Transport::Rdma.run(&server, &serve));
            Transport::Rdma.run(&client, &take);
        });
        client.record("there");
        assert_same("the copy of the page", &server.content("b")[..8 * MIB], &source);
        let line = "rxe0 (software, no DMA) port 1, state ACTIVE, physical state LinkUp, \
                    Ethernet, netdev eth0";
        for name in ["topo", "doctor"] {
            let said = client.text(&format!("{name}.json"));
            assert!(
                said.contains(line) && said.contains("GID[1] ::ffff:10.0.0.2, RoCE v2"),
                "{said}"
            );
        }
    }
}
