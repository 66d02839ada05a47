//! Time to read the text of a machine with 10,000 functions: switches below root ports, in 64 domains.
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::fmt::Write as _;
use std::time::Instant;

use peerlane_fabric::lspci;

const DOMAINS: u32 = 64;
const FUNCTIONS: usize = 10_000;

fn block(text: &mut String, address: &str, class: &str, buses: Option<(u32, u32)>, port: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{address} {class}: Maker Device [8086:1234] (rev 01)");
    let _ = writeln!(text, "\tControl: I/O- Mem+ BusMaster+\n\tStatus: Cap+ 66MHz- UDF-");
    if let Some((first, last)) = buses {
        let _ = writeln!(text, "\tBus: primary=00, secondary={first:02x}, subordinate={last:02x}");
    }
    let _ = writeln!(text, "\tRegion 0: Memory at a0000000 (64-bit, prefetchable) [size=16M]");
    let _ = writeln!(text, "\tCapabilities: [40] Express (v2) {port}, MSI 00");
    for register in ["DevCap:\tMaxPayload 512 bytes", "DevCtl:\tCorrErr+", "DevSta:\tCorrErr-"] {
        let _ = writeln!(text, "\t\t{register}\n\t\t\tExtTag+ RBE+ AttnBtn- AttnInd- PwrInd-");
    }
    for register in ["LnkCap:\tPort #0, Speed 16GT/s, Width x4", "LnkSta:\tSpeed 16GT/s, Width x4"]
    {
        let _ = writeln!(text, "\t\t{register}\n\t\t\tClockPM- Surprise- LLActRep+ BwNot+");
    }
    for number in 1..8 {
        let _ = writeln!(text, "\tCapabilities: [{number}00 v1] Vendor Specific Information");
        let _ = writeln!(text, "\t\tOne line of many:\tthat nothing reads\n\t\tand another one");
    }
    let _ = writeln!(text, "\tCapabilities: [b00 v1] Access Control Services");
    let _ = writeln!(text, "\t\tACSCtl:\tSrcValid+ ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl-");
    let _ = writeln!(text, "\tKernel driver in use: pcieport\n");
}

fn main() {
    let mut text = String::new();
    let mut count = 0;
    for domain in 0..DOMAINS {
        let at = |bus: u32, device: u32| format!("{domain:04x}:{bus:02x}:{device:02x}.0");
        block(&mut text, &at(0, 0), "Host bridge [0600]", None, "Root Complex Integrated Endpoint");
        block(&mut text, &at(0, 1), "PCI bridge [0604]", Some((1, 0xff)), "Root Port (Slot+)");
        block(&mut text, &at(1, 0), "PCI bridge [0604]", Some((2, 0xff)), "Upstream Port");
        for port in 0..32 {
            let bus = 3 + port;
            block(
                &mut text,
                &at(2, port),
                "PCI bridge [0604]",
                Some((bus, bus)),
                "Downstream Port",
            );
        }
        count += 35;
        for bus in 3..35 {
            for device in 0..4 {
                block(&mut text, &at(bus, device), "3D controller [0302]", None, "Endpoint");
                count += 1;
            }
        }
        if count >= FUNCTIONS {
            break;
        }
    }
    let start = Instant::now();
    let found = lspci::read(&text).map(|fabric| fabric.functions.len());
    let elapsed = start.elapsed();
    println!("{} MiB, {found:?} functions of {count} in {elapsed:?}", text.len() >> 20);
}
