//! Captures of a booted machine, by root and by another user, and their content.

use crate::lab::LabRun;
use peerlane_fabric::{Acs, Fabric};

#[test]
fn capture_matches_booted_machine() {
    let Some(lab) = LabRun::open("acs").and_then(LabRun::on_newer_kernel) else { return };
    lab.run(
        "printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/:/bin/sh\\n' >/etc/passwd
         printf 'root:x:0:\\nuser:x:1000:\\n' >/etc/group
         chmod 1777 $OUT /tmp
         leave root peerlane capture -o /tmp/root.tar.zst --json
         leave user su -s /bin/sh user -c 'peerlane capture -o /tmp/user.tar.zst --json'
         leave folder peerlane capture -o /tmp/folder
         peerlane topo --format toml >$OUT/live.toml
         for name in root.tar.zst user.tar.zst folder; do
             peerlane topo --machine /tmp/$name --format toml >$OUT/$name.toml
         done
         peerlane plan nvme0 nvme1 --machine /tmp/root.tar.zst --route p2p >$OUT/plan.txt",
    );
    for name in ["root", "user", "folder"] {
        assert_eq!(lab.status(name), 0, "{name}: {}", lab.stderr(name));
    }
    let machine = |name: &str| Fabric::from_toml(&lab.text(name)).expect(name);
    let (mut live, kept) = (machine("live.toml"), machine("root.tar.zst.toml"));
    assert_eq!(kept.to_toml(), machine("folder.toml").to_toml(), "an archive and a folder");
    assert_ne!(kept, live, "the serial numbers of the lab's drives are their names");
    live.name.clone_from(&kept.name);
    for (one, other) in live.functions.iter_mut().zip(&kept.functions) {
        let (Some(one), Some(other)) = (&mut one.nvme, &other.nvme) else { continue };
        let serial = other.serial.as_ref().expect("a serial number");
        assert!(serial.starts_with("serial-"), "{serial}");
        one.serial = Some(serial.clone());
    }
    assert_eq!(kept.to_toml(), live.to_toml());
    assert!(kept.mounts.is_some(), "what is mounted can be read");
    let lender = kept.functions.iter().find(|one| one.p2pmem.is_some()).expect("a lender");
    let registers = lender.nvme.as_ref().and_then(|nvme| nvme.cmb).expect("its CMB");
    assert_eq!(Some(registers.size()), lender.p2pmem.map(|pool| pool.size));
    assert!(registers.takes_read_data() && registers.takes_write_data());
    assert_eq!(lab.object("root")["is_complete"], true);
    assert!(lab.text("plan.txt").contains("redirects peer traffic"), "{}", lab.text("plan.txt"));

    let unprivileged = machine("user.tar.zst.toml");
    assert_eq!(lab.object("user")["is_complete"], false);
    let kinds = |fabric: &Fabric| -> Vec<_> {
        fabric.functions.iter().map(|one| (one.name.clone(), one.nvme.is_some())).collect()
    };
    assert_eq!(kinds(&unprivileged), kinds(&kept));
    let is_told =
        |fabric: &Fabric| fabric.functions.iter().any(|one| matches!(one.acs, Acs::Present { .. }));
    assert!(is_told(&kept) && !is_told(&unprivileged), "ACS is for root to read");
}
