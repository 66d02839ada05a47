//! Plans for memory of an FPGA card, by the kernel at hand. No card was there to try it on.

use peerlane_testing::Scratch;
use std::fs;
use std::process::{Command, Output};

/// A drive and a card below one switch, as their drivers show them.
const MACHINE: &str = "
    name = 'card'
    libraries = ['libxrt_coreutil.so.2']
    root root-port
      up upstream-port
        down-a downstream-port
          a nvme namespaces = [{ name = 'a', size = '1G' }]
        down-b downstream-port
          card0 fpga 10ee: driver = 'xocl'; bars = [{ index = 4, size = '8G', prefetchable = true }]";

fn plan(kernel: &str, anyway: &str) -> Output {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.at("card.toml");
    let machine = peerlane_testing::machine_text(&format!("{MACHINE}\n[kernel]\n{kernel}"));
    fs::write(&file, machine).expect("room");
    Command::new(env!("CARGO_BIN_EXE_peerlane"))
        .args(["plan", "a", "a", "--target-offset", "512M", "--length", "64M"])
        .args(["--via", "fpga:card0", "--route", "p2p", "--force", "--machine"])
        .arg(&file)
        .env("NO_COLOR", "1")
        .env("PEERLANE_XOCL_ANYWAY", anyway)
        .output()
        .expect("the program starts")
}

#[test]
fn card_uses_vendor_route_unless_forced() {
    for (kernel, anyway, code, says) in [
        ("release = '6.12.107'\np2pdma = false", "", 1, "by XRT's own path"),
        ("release = '7.2.13'\np2pdma = true", "", 1, "refuse the transfer or crash"),
        ("release = '7.2.13'", "", 1, "CONFIG_PCI_P2PDMA is unknown"),
        ("release = '7.2.13'\np2pdma = true", "1", 0, "inside the switch"),
    ] {
        let output = plan(kernel, anyway);
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{kernel}: {said}");
        assert!(said.contains(says), "{kernel}: {said}");
    }
}
