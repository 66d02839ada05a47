//! The same stream as a job file of fio, and fio's figure next to ours.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use peerlane_bench::workload::{is_gpu, is_memory};
use peerlane_engine::endpoints::{GpuName, Notation};
use peerlane_fabric::Fabric;
use peerlane_memory::provider::{PROVIDERS, ProviderKind};
use peerlane_results::{BenchRecord, CaseSpec, Flow, Order, Path as Way, Workload};
use peerlane_units::ByteRate;

use crate::error::{Failure, Tried};
use crate::output_file::{OutputFile, OutputKind};
use crate::printer::Printer;

/// Runs of fio that end within this part of a second say little.
const SHORT: u64 = 2;

/// Options common to all transfers, and one transfer; in files, since fio's words are not ours.
const GLOBAL: &str = include_str!("fio_global.job");
const FLOW: &str = include_str!("fio_flow.job");
/// One transfer with memory of a GPU, by fio's engine for cuFile (engines/libcufile.c of fio 3.42).
const GPU_FLOW: &str = include_str!("fio_gpu.job");

/// Characters of names, apart from letters and digits, that mean nothing to fio; a colon between
/// names can be escaped.
const PLAIN: &str = "/._-+=@%,~^:";

/// Refuses workloads that fio cannot run as we do, and drives whose names it would read as
/// something else: several files, a comment, a variable.
///
/// # Errors
/// When a name has such a character, or fio has no such way to a GPU; nothing ran yet.
pub(super) fn check(fabric: &Fabric, workload: &Workload) -> Result<(), Failure> {
    let flows = || workload.cases.iter().flat_map(|case| &case.flows);
    if flows().all(|flow| flow.source == "host" && flow.target == "host") {
        return Err(Tried::to("write a job of fio")("one core copies, and no drive takes part")
            .hint("leave `--fio` out".to_owned()));
    }
    for flow in workload.cases.first().iter().flat_map(|case| &case.flows) {
        let has_way = way_of_cufile(flow.path).is_some() && gpu_of(fabric, flow).is_some();
        if is_with_gpu(flow) && !has_way {
            let what = format!("write a job of fio by {}", flow.path);
            return Err(Tried::to(what)("its engine for GPUs has no such route").hint(
                "leave `--fio` out, or name `--routes p2p` or `--routes host` first".to_owned(),
            ));
        }
    }
    let flows = flows();
    for name in flows.flat_map(|flow| [&flow.source, &flow.target]) {
        let odd = name.chars().find(|c| !(c.is_alphanumeric() || PLAIN.contains(*c)));
        if let Some(odd) = odd {
            let what = format!("write a job of fio with {name}");
            return Err(Tried::to(what)(format!("a job cannot hold {odd:?} in a name"))
                .hint("leave `--fio` out, or use a link with a plain name".to_owned()));
        }
    }
    Ok(())
}

/// Writes the job file of the first case, runs fio where it is installed, and prints both rates.
pub(super) fn beside(
    fabric: &Fabric,
    record: &BenchRecord,
    file: &Path,
    printer: Printer,
) -> Result<(), Failure> {
    let Some(case) = record.asked.cases.first() else { return Ok(()) };
    let job = job(fabric, case);
    OutputFile::at(file, OutputKind::New)?.write(job.as_bytes())?;
    let mut fio = Command::new("fio");
    // CUDA counts the fastest GPU first by itself, and `gpu:N` counts by PCI address.
    fio.arg("--output-format=json").arg(file).env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    let output = fio.output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            printer.note(&format!("no fio here; {} is its job file", file.display()));
            return Ok(());
        }
        output => output.map_err(Tried::to("start fio"))?,
    };
    let rate = output.status.success().then(|| rate(&output.stdout)).flatten();
    let Some(theirs) = rate else {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or("it said nothing");
        return Err(Failure::new(format!("fio failed on {}: {first}", file.display())));
    };
    if case.flows.iter().any(is_by_cufile) {
        printer.note(&format!(
            "fio: {}, one run of {}; not compared: cuFile may have gone through host memory there, unless \
             \"allow_compat_mode\" is false in /etc/cufile.json, and fio does not say",
            ByteRate(theirs),
            file.display()
        ));
        return Ok(());
    }
    let ours = record.summaries.iter().find(|one| one.case == case.name);
    let Some(ours) = ours.map(|one| one.rate.mean).filter(|rate| *rate > 0.0) else {
        return Ok(());
    };
    let is_short = case.time_ns.is_none()
        && case.flows.iter().map(|flow| flow.bytes.0).sum::<u64>() < theirs / SHORT;
    if is_short {
        printer
            .warning("fio's run was short, and it counts milliseconds: `--time` makes both longer");
    }
    printer.note(&format!(
        "fio: {}, one run of {}; ours is {:.2} times as fast",
        ByteRate(theirs),
        file.display(),
        ours / theirs as f64
    ));
    Ok(())
}

/// A job of fio that moves the same payload as the case.
fn job(fabric: &Fabric, case: &CaseSpec) -> String {
    let mut text = GLOBAL.to_owned();
    if let Some(time) = case.time_ns {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "time_based=1\nruntime={}ms", time.0 / 1_000_000);
    }
    for (index, flow) in case.flows.iter().enumerate() {
        text += &section(fabric, index, flow);
    }
    text
}

/// True when a flow has memory of a GPU at one end.
fn is_with_gpu(flow: &Flow) -> bool {
    is_gpu(&flow.source) || is_gpu(&flow.target)
}

fn is_by_cufile(flow: &Flow) -> bool {
    is_with_gpu(flow) && flow.path == Way::P2p
}

/// The word of fio's engine for a way to a GPU; `None` where it has none.
fn way_of_cufile(way: Way) -> Option<&'static str> {
    match way {
        Way::P2p => Some("cufile"),
        Way::HostPipelined => Some("posix"),
        Way::HostSerial | Way::HostPageCache | Way::HostMapped | Way::HostCufile => None,
    }
}

/// The number that CUDA gives the GPU of a flow when it counts by PCI address.
fn gpu_of(fabric: &Fabric, flow: &Flow) -> Option<usize> {
    let memory = if is_gpu(&flow.target) { &flow.target } else { &flow.source };
    match memory.parse() {
        Ok(Notation::Gpu(GpuName::Index(index))) => usize::try_from(index).ok(),
        Ok(Notation::Gpu(GpuName::Address(address))) => {
            fabric.gpu_number(fabric.find(&address.to_string())?)
        }
        _ => None,
    }
}

/// Divides a range among threads, each with whole blocks: number of parts, and bytes of each.
fn parts(flow: &Flow) -> (u64, u64) {
    let block = flow.block.0.max(1);
    let blocks = (flow.bytes.0 / block).max(1);
    let jobs = u64::from(flow.depth).clamp(1, blocks);
    (jobs, blocks / jobs * block)
}

fn section(fabric: &Fabric, index: usize, flow: &Flow) -> String {
    let is_read = is_memory(&flow.target);
    let (drive, memory, offset) = match is_read {
        true => (&flow.source, &flow.target, flow.offset),
        false => (&flow.target, &flow.source, flow.target_offset),
    };
    let gpu = gpu_of(fabric, flow);
    let (jobs, part) = parts(flow);
    let direction = match (is_read, flow.order) {
        (true, Order::Sequential) => "read",
        (true, Order::Random) => "randread",
        (false, Order::Sequential) => "write\nend_fsync=1",
        (false, Order::Random) => "randwrite\nend_fsync=1",
    };
    let words = [
        ("{index}", index.to_string()),
        ("{drive}", drive.replace(':', "\\:")),
        ("{direction}", direction.to_owned()),
        ("{block}", flow.block.0.to_string()),
        ("{depth}", flow.depth.to_string()),
        ("{offset}", offset.0.to_string()),
        ("{bytes}", flow.bytes.0.to_string()),
        ("{gpu}", gpu.unwrap_or_default().to_string()),
        ("{way}", way_of_cufile(flow.path).unwrap_or_default().to_owned()),
        ("{jobs}", jobs.to_string()),
        ("{part}", part.to_string()),
    ];
    let form = if is_with_gpu(flow) { GPU_FLOW } else { FLOW };
    let mut text =
        words.iter().fold(form.to_owned(), |text, (name, word)| text.replace(name, word));
    let pool =
        PROVIDERS.split(memory).filter(|(provider, _)| provider.kind() == ProviderKind::Pool);
    let owner = pool.and_then(|(_, name)| fabric.find(name));
    if let Some(address) = owner.and_then(|id| fabric.function(id).address) {
        let _ = writeln!(text, "iomem=mmapshared:/sys/bus/pci/devices/{address}/p2pmem/allocate");
    }
    text
}

/// Bytes a second of all jobs, in either direction.
fn rate(output: &[u8]) -> Option<u64> {
    let start = output.iter().position(|&byte| byte == b'{')?;
    let value: serde_json::Value = serde_json::from_slice(&output[start..]).ok()?;
    let rates = value["jobs"]
        .as_array()?
        .iter()
        .flat_map(|job| ["read", "write"].map(|way| job[way]["bw_bytes"].as_u64().unwrap_or(0)));
    Some(rates.sum()).filter(|sum| *sum > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_covers_all_jobs() {
        let output = br#"note: a line before
            {"jobs": [{"read": {"bw_bytes": 7}, "write": {"bw_bytes": 0}}, {"read": {"bw_bytes": 5}}]}"#;
        assert_eq!(rate(output), Some(12));
        assert_eq!(rate(b"fio: no"), None);
    }
}
