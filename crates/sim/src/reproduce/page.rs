//! The page of predictions, in Markdown.

use std::fmt::Write as _;

use super::predict::Prediction;
use super::quoted::Quoted;
use super::{Study, StudyError};

const HEAD: &str = "\
# Predictions

What nobody has measured, or published, on the day in the last column: `peerlane reproduce --predictions` prints this page, and a test
compares the two. Rates come from the flow engine on machines of `machines/`, with the parameters of `sources/`: those that were fitted on
figures of the documents carry what is wrong in them over to here. The interval holds 80 % of draws from the ranges of the
parameters, a hundred of them, so that its ends are known to some percent; it says nothing of what the model leaves out. A measurement outside the interval refutes the parameters, one with another limit
refutes the model.

All rates are payload in GB/s (10^9 bytes a second). *All* is the sum of the transfers that run at once, *each* the slowest and the
fastest of them. *Equal shares* is the sum by the closed form, which knows nothing of arbitration and back-pressure: where the two
differ, a measurement decides between them. *Block* is the mean time of a block of the slowest transfer (Little's law). *Host memory* is
traffic, an interval because what stays in the processor's cache is not known.

| What | Transfers | All | 80 % | Each | Equal shares | Block | Limited by | Host memory | Made on |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const TAIL: &str = "
## What to look at first

- The victim: whether the fifth drive keeps {most of victim-isolated} or falls to what the other four get says how far queues of switch and root complex
  are shared. No public measurement fixes that.
- Nine drives into one FPGA: the sum shows what the link of a SmartSSD carries; it is above what any pair reaches.
- Three drives against the NoLoad: {rate of noload-into-3} of writes with three drives as with four says that the card is the limit, as its makers say; less
  says that the drives or the host are.
- Conventional copies at x2: the same as at x8 if lanes are 2.5 GT/s, as assumed. At x1 they are slower by the 86 % that document 001
  states: that figure was used.
- Reads of GPU memory by four Gen5 drives: the widest interval here. How many bytes of peer reads a root complex keeps in flight is
  published for none.
- A drive that is read and written at once: {rate of gen5-both} of both together if its medium does one thing after the other, which the model takes
  as given; {rate of gen5-read} and {rate of gen5-write} if neither takes from the other; about half of the first if it does as datasheets say of
  4 KiB at random. None says it of large blocks.
- Four Gen5 drives to the GPU: {gen5.p2p-write in GB/s} is what AiSIO measured of four drives through a Xeon, taken as what any root complex forwards. That
  another one does the same is all that is predicted there.

## Which numbers are behind it, and what `peerlane sim` says

No command but `peerlane reproduce --predictions` has these numbers: they are parameters of `sources/`, some of them fitted. `peerlane sim`
solves the same cases by the same flow engine with its own numbers of drives and host (`crates/sim/src/predict/defaults.toml`), those that the
machine file states, and those of `--parameters`. So it says something else, unless it is told the same:

| Rows | Numbers here, as `peerlane reproduce --json` prints them | `peerlane sim` without them | The same for `peerlane sim` |
| --- | --- | --- | --- |
| R7515 | `smartssd.p2p-read` {smartssd.p2p-read in MiB/s}; by the host `smartssd.host-read` {smartssd.host-read in MiB/s} and `smartssd.dma-in` {smartssd.dma-in in GB/s}; `smartssd.read-start` {smartssd.read-start in us}; `pcie.completion` {pcie.completion in B} | 3.30 GB/s of the machine file, times of any drive, no engine of the card | `drive0.read.rate` and so on for each drive, `drive0.read.time-4096` and `-131072` of start and rate together, `host.completion`; by the host nothing, since `sim` takes host paths through host memory for drives and GPUs only |
| NoLoad | `noload.write` {noload.write in GB/s} and `noload.read` {noload.read in GB/s}, fitted; `pm9a3.read` {pm9a3.read in GB/s}, `pm9a3.write` {pm9a3.write in GB/s} | the same: the machine file states all four, the document's own results among them | nothing more; the card's memory is `cmb:noload` in a workload |
| Victim | `victim.drive` {victim.drive in GB/s}, a guess | drives as any, held by Gen3 x4 | `drive.read.rate`; `queues.shared` 1 and 0.01 |
| Direct Connect | `dc.drive` {dc.drive in MB/s}, fitted; `dc.mps` and `dc.completion` {dc.mps in B} | drives as any: {sim direct-connect} by the server at x8, its links decide | `drive.read.rate`, `drive.write.rate`, `pcie.mps`, `host.completion`, and `--vary bridge.lanes=1,2,4,8` |
| Donard, Gen5 | `gen5.read` {gen5.read in GB/s}, `gen5.write` {gen5.write in GB/s}, `gen5.p2p-write` {gen5.p2p-write in GB/s}; `gen5.in-flight` over `gen5.round-trip`, {rate of gen5-write-four} | drives as any, {drive.read.rate in GB/s} and {drive.write.rate in GB/s}, a root complex without a limit: four drives {sim donard-gen5} | `drive.read.rate`, `drive.write.rate`; in the machine file a host bridge with `p2p_write = \"45.2G\"` and `p2p_read = \"27.3G\"`: {rate of gen5-read-four} |
";

/// What was said before is not computed any more.
const CHANGES: &str = "
## What changed since it was made

Intervals were drawn anew on 2026-11-22: a draw depends on the name of its parameter since, so that a parameter that is added moves no
other, and reads wait in the queues that their tags fill. Since the same day a drive that is read and written at once shares its time; no row
of the day before has such a drive, and none changed for that.

On 2026-11-23 `peerlane sim` took other numbers: completions of 128 bytes in place of 64 for reads of host memory, and commands beyond the times that
are known of a drive at the rate of its medium. No row here asks for either.

Since 2026-11-24 a root complex is called as its host bridge is, `pci0000:00`, or where it has several `the host bridges of node 0`: it was `root0`. No number
changed with that.

| What | Value | Before | Now | Changed on | Why |
| --- | --- | --- | --- | --- | --- |
| R7515: ten pairs at once, drive i to FPGA i + 1, peer to peer | 80 % | 29.71 to 34.91 | 29.23 to 34.20 | 2026-11-22 | drawn anew |
| R7515: the same by host memory, reads and copies overlapping | host memory | 0 to 67.04 | 0 to 67.03 | 2026-11-25 | queues settle by other steps, within their tolerance |
| R7515: all ninety ordered pairs at once | rate | 33.25 | 32.46 | 2026-11-22 | heads of queues wait at outputs that are not full, too; on packets it stays 33.25 |
| R7515: all ninety ordered pairs at once | 80 % | 29.71 to 33.24 | 29.23 to 32.46 | 2026-11-22 | drawn anew; the same |
| R7515: all ninety ordered pairs at once | limit | depth | link from root0 to up1 | 2026-11-22 | the same |
| R7515: all ninety ordered pairs at once | rate | 32.46 | 32.14 | 2026-11-23 | waits count in proportion to how near an output is to full, which takes a fifth fewer rounds |
| R7515: all ninety ordered pairs at once | 80 % | 29.23 to 32.46 | 28.98 to 32.14 | 2026-11-23 | the same |
| R7515: all ninety ordered pairs at once | rate | 32.14 | 33.25 | 2026-11-24 | outputs have egress buffers, so that heads of queues wait at full ones only; packets had 33.25 without, too |
| R7515: all ninety ordered pairs at once | 80 % | 28.98 to 32.14 | 29.23 to 33.60 | 2026-11-24 | the same |
| R7515: all ninety ordered pairs at once | limit | link from root0 to up1 | drive0, reading | 2026-11-24 | the same |
| NoLoad: one drive into the CMB | 80 % | 6.50 to 6.63 | 6.50 to 6.75 | 2026-11-22 | drawn anew |
| NoLoad: two drives into the CMB | 80 % | 13.00 to 13.26 | 13.00 to 13.50 | 2026-11-22 | drawn anew |
| NoLoad: one drive out of the CMB | 80 % | 3.50 to 4.01 | 3.50 to 3.93 | 2026-11-22 | drawn anew |
| NoLoad: two drives out of the CMB | 80 % | 7.00 to 8.02 | 7.00 to 7.87 | 2026-11-22 | drawn anew |
| NoLoad: three drives out of the CMB | 80 % | 10.50 to 12.03 | 10.50 to 11.80 | 2026-11-22 | drawn anew |
| Victim: four drives to a busy memory, the fifth to an idle one; a queue for each output | 80 % | 6.39 to 6.98 | 6.37 to 6.94 | 2026-11-22 | drawn anew |
| Direct Connect with a server link of x1 | 80 % | 0.352 to 0.386 | 0.351 to 0.390 | 2026-11-22 | drawn anew |
| Direct Connect: the conventional copy with a server link of x2 | 80 % | 0.347 to 0.383 | 0.351 to 0.385 | 2026-11-22 | drawn anew |
| Direct Connect with a server link of x2 | 80 % | 0.352 to 0.386 | 0.351 to 0.390 | 2026-11-22 | drawn anew |
| Direct Connect: the conventional copy with a server link of x4 | 80 % | 0.352 to 0.386 | 0.351 to 0.390 | 2026-11-22 | drawn anew |
| Direct Connect with a server link of x4 | 80 % | 0.352 to 0.386 | 0.351 to 0.390 | 2026-11-22 | drawn anew |
| Direct Connect: the conventional copy with a server link of x8 | 80 % | 0.352 to 0.386 | 0.351 to 0.390 | 2026-11-22 | drawn anew |
| Direct Connect with a server link of x8 | 80 % | 0.352 to 0.386 | 0.351 to 0.390 | 2026-11-22 | drawn anew |
| Donard, Gen5: four drives to the GPU, peer to peer | 80 % | 38.64 to 52.92 | 37.93 to 52.92 | 2026-11-22 | drawn anew |
| Donard, Gen5: the GPU to four drives, peer to peer | rate | 27.31 | 27.30 | 2026-11-25 | the same: what memory takes for a request is part of the round trip of tags |
| Donard, Gen5: the GPU to one drive, peer to peer | 80 % | 5.38 to 9.18 | 5.28 to 9.45 | 2026-11-22 | drawn anew |
| Donard, Gen5: the GPU to four drives, peer to peer | 80 % | 8.82 to 32.60 | 10.63 to 33.49 | 2026-11-22 | drawn anew |
";

/// `docs/predictions.md`.
///
/// # Errors
/// When the text quotes what nothing computes, which a test rules out.
pub fn page(study: &Study, predictions: &[Prediction]) -> Result<String, StudyError> {
    let mut text = HEAD.to_owned();
    for found in predictions {
        let each = if found.flows == 1 {
            giga(found.rate)
        } else {
            range(giga(found.each.0), giga(found.each.1))
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} to {} | {each} | {} | {} | {} | {} | {} |",
            found.says,
            found.flows,
            giga(found.rate),
            giga(found.interval.0),
            giga(found.interval.1),
            giga(found.closed_form),
            time(found.block_time),
            found.limited_by,
            range(giga(found.host_memory.0), giga(found.host_memory.1)),
            found.date,
        );
    }
    text += &Quoted::of(study, predictions)?.fill(TAIL)?;
    text.push_str(CHANGES);
    Ok(text)
}

fn range(least: String, most: String) -> String {
    if least == most { least } else { format!("{least} to {most}") }
}

fn giga(rate: f64) -> String {
    match rate / 1e9 {
        0.0 => "0".to_owned(),
        small if small < 1.0 => format!("{small:.3}"),
        other => format!("{other:.2}"),
    }
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} us", seconds * 1e6)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    }
}
