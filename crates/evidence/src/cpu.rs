//! CPU time: of the process, of its io_uring workers, and of the kernel's threads.
//!
//! Workers are threads of the process (`iou-wrk-N` and `iou-sqp-N`), kernel threads those of the whole
//! machine. A worker that ended counts with the time of its last reading.

use std::collections::BTreeMap;

use peerlane_results::{BytesByRoute, CpuCost, RouteEvidence, RouteVerdict};
use peerlane_units::Nanos;

use super::{Root, Unread, says, unseen};

/// The flag of a kernel thread (`PF_KTHREAD` in `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Assumed to be more than a core copies in a second: above the 38.4 GB/s of a channel of DDR5-4800
/// (JEDEC JESD79-5), which a copy loads twice.
const FASTEST_COPY: u128 = 40_000_000_000;

/// CPU time of threads by their number, in nanoseconds.
type Times = BTreeMap<u64, u64>;

#[derive(Debug)]
pub(super) struct CpuWatch {
    process: crate::CpuMark,
    workers_before: Result<Times, Unread>,
    workers: Times,
    kernel_before: Result<Times, Unread>,
}

impl CpuWatch {
    pub(super) fn begin(root: &Root) -> Self {
        Self {
            workers_before: workers(root),
            workers: Times::new(),
            kernel_before: kernel_threads(root),
            process: crate::CpuMark::now(),
        }
    }

    pub(super) fn look(&mut self, root: &Root) {
        self.workers.extend(workers(root).unwrap_or_default());
    }

    pub(super) fn end(mut self, root: &Root, asked: BytesByRoute) -> (CpuCost, Vec<RouteEvidence>) {
        let process = crate::CpuMark::now().since(self.process);
        self.look(root);
        let workers = self.workers_before.as_ref().map(|before| grown(before, &self.workers));
        let kernel = self.kernel_before.as_ref().map_err(Unread::clone);
        let kernel = kernel.and_then(|before| Ok(grown(before, &kernel_threads(root)?)));
        let total = process.user_ns.after(process.system_ns);
        let mut evidence = vec![by_process(total, asked)];
        evidence.push(reported("CPU time of io_uring workers", workers.map_err(Unread::clone)));
        evidence.push(reported("CPU time of all kernel threads of the machine", kernel.clone()));
        let cost = CpuCost {
            user_ns: process.user_ns,
            system_ns: process.system_ns.since(Nanos(workers.unwrap_or(0))),
            workers_ns: workers.ok().map(Nanos),
            kernel_threads_ns: kernel.ok().map(Nanos),
        };
        (cost, evidence)
    }
}

/// CPU time below that of a copy fits every route by DMA of the devices.
fn by_process(total: Nanos, asked: BytesByRoute) -> RouteEvidence {
    let payload = u128::from(asked.p2p.0) + u128::from(asked.host.0);
    let needed = payload * 1_000_000_000 / FASTEST_COPY;
    let is_short = u128::from(total.0) < needed && asked.host.0 == 0;
    let showed = format!(
        "{total} for {payload} bytes; a copy by the CPU takes {} at least",
        Nanos(u64::try_from(needed).unwrap_or(u64::MAX))
    );
    let verdict = if is_short { RouteVerdict::Consistent } else { RouteVerdict::NotKnown };
    says(verdict, "CPU time of the process", showed)
}

fn reported(looked_at: &str, time: Result<u64, Unread>) -> RouteEvidence {
    match time {
        Ok(time) => says(RouteVerdict::NotKnown, looked_at, Nanos(time).to_string()),
        Err(unread) => unseen(looked_at, unread),
    }
}

/// Time that all threads gained, new threads included.
fn grown(before: &Times, after: &Times) -> u64 {
    let more = |(thread, time): (&u64, &u64)| {
        time.saturating_sub(before.get(thread).copied().unwrap_or(0))
    };
    after.iter().map(more).fold(0, u64::saturating_add)
}

fn workers(root: &Root) -> Result<Times, Unread> {
    let is_worker =
        |stat: &Stat| stat.name.starts_with("iou-wrk-") || stat.name.starts_with("iou-sqp-");
    threads(root, "proc/self/task", is_worker)
}

fn kernel_threads(root: &Root) -> Result<Times, Unread> {
    threads(root, "proc", |stat| stat.flags & KERNEL_THREAD != 0)
}

/// CPU time of the chosen threads in a folder; those that end meanwhile are left out.
fn threads(root: &Root, folder: &str, is_chosen: impl Fn(&Stat) -> bool) -> Result<Times, Unread> {
    let mut times = Times::new();
    for name in root.names(folder)? {
        let Ok(number) = name.parse::<u64>() else { continue };
        let Ok(text) = root.text(&format!("{folder}/{name}/stat")) else { continue };
        let Some(stat) = parse(&text).filter(&is_chosen) else { continue };
        let exact = root.text(&format!("{folder}/{name}/schedstat"));
        let exact = exact.ok().and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
        // A kernel without scheduler statistics writes zeroes.
        let ticks = stat.ticks.saturating_mul(TICK);
        times.insert(number, exact.filter(|&time: &u64| time > 0).unwrap_or(ticks));
    }
    Ok(times)
}

/// Nanoseconds in a tick: `USER_HZ` is 100 on every architecture of Linux but Alpha.
const TICK: u64 = 10_000_000;

#[derive(Debug, PartialEq, Eq)]
struct Stat<'a> {
    name: &'a str,
    flags: u64,
    ticks: u64,
}

/// Name, flags, and ticks in user mode and in the kernel: fields 2, 9, 14 and 15.
fn parse(stat: &str) -> Option<Stat<'_>> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let flags = fields.nth(6)?.parse().ok()?;
    let user: u64 = fields.nth(4)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Stat { name, flags, ticks: user.saturating_add(system) })
}

#[cfg(test)]
mod tests {
    use peerlane_units::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::tests::p2p;
    use peerlane_testing::Scratch;

    fn stat(name: &str, flags: u64, ticks: u64) -> String {
        format!("7 ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1\n")
    }

    #[test]
    fn worker_and_kernel_time_are_separate() {
        let tree = Scratch::new();
        tree.write("proc/self/task/100/stat", stat("peerlane", 0, 50));
        tree.write("proc/self/task/101/stat", stat("iou-wrk-100", 0, 5));
        tree.write("proc/9/stat", stat("kworker/0:1H", KERNEL_THREAD, 10));
        tree.write("proc/9/schedstat", "100000000 5 5\n");
        tree.write("proc/10/stat", stat("bash", 0, 900));
        let mut watch = CpuWatch::begin(&Root::at(tree.path()));
        tree.write("proc/self/task/102/stat", stat("iou-wrk-100", 0, 3));
        watch.look(&Root::at(tree.path()));
        std::fs::remove_file(tree.at("proc/self/task/102/stat")).unwrap();
        tree.write("proc/self/task/101/stat", stat("iou-wrk-100", 0, 7));
        tree.write("proc/9/schedstat", "100000777 5 5\n");
        let (cost, evidence) = watch.end(&Root::at(tree.path()), p2p(0));
        assert_eq!(cost.workers_ns, Some(Nanos(50_000_000)), "two ticks and three");
        assert_eq!(cost.kernel_threads_ns, Some(Nanos(777)));
        assert_eq!(evidence.len(), 3);
    }

    #[test]
    fn a_machine_without_proc_gives_reasons() {
        let tree = Scratch::new();
        let (cost, evidence) =
            CpuWatch::begin(&Root::at(tree.path())).end(&Root::at(tree.path()), p2p(0));
        assert_eq!((cost.workers_ns, cost.kernel_threads_ns), (None, None));
        assert!(evidence[1].evidence.showed.contains("proc/self/task"), "{evidence:?}");
    }

    #[test]
    fn low_cpu_time_fits_p2p() {
        let of = |time, asked| by_process(Nanos(time), asked).says;
        assert_eq!(of(1_000_000, p2p(1 << 30)), RouteVerdict::Consistent);
        assert_eq!(of(100_000_000, p2p(1 << 30)), RouteVerdict::NotKnown);
        let host = BytesByRoute { p2p: Bytes(0), host: Bytes(1 << 30) };
        assert_eq!(of(1_000_000, host), RouteVerdict::NotKnown, "it fits both routes");
    }

    #[test]
    fn this_process_can_be_watched() {
        let root = Root::at(std::path::Path::new("/"));
        let (cost, _) = CpuWatch::begin(&root).end(&root, p2p(0));
        assert!(cost.user_ns.0 + cost.system_ns.0 > 0, "reading takes time");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[0-9 ()a-z-]*") {
            let _ = parse(&text);
        }
    }
}
