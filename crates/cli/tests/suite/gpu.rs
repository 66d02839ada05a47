//! Benchmarks against memory of a GPU, with a mock of CUDA and cuFile that the program opens as it would open
//! theirs, and that demands their order of calls. What ran on a GPU is in docs/gpu.md.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::mock::{CHUNK_KERNELS, Mock};
use crate::program::{self, Exited, said};
use peerlane_results::{
    BenchRecord, CaseRecord, Path as Way, PlanRecord, RouteVerdict, VerifyMode, Warning,
};
use peerlane_testing::Scratch;

const LENGTH: usize = 4 << 20;

fn folder() -> Scratch {
    let folder = Scratch::below(env!("CARGO_TARGET_TMPDIR"));
    let content: Vec<u8> = (0..LENGTH).map(|at| (at / 3 + at / 4096).to_le_bytes()[0]).collect();
    folder.write("source", &content);
    folder
}

fn peerlane(mock: &Mock, folder: &Path, words: &str) -> Output {
    let mut command = program::command(folder);
    command.args(words.split_whitespace()).env("LD_LIBRARY_PATH", mock.folder());
    command.output().expect("the program starts")
}

fn bench(mock: &Mock, folder: &Path, words: &str) -> Output {
    let common = "--block 256K --depth 4 --length 4M --repeats 1 --warm-up 0 --json";
    peerlane(mock, folder, &format!("bench {words} {common}"))
}

#[track_caller]
fn record(output: &Output) -> BenchRecord {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    output.json()
}

fn showed(run: &CaseRecord, what: &str) -> bool {
    let all = run.evidence.iter().map(|one| &one.evidence);
    all.into_iter().any(|one| one.showed.contains(what))
}

#[test]
fn file_reaches_gpu_through_pinned_memory() {
    let (mock, folder) = (Mock::new("delay=3"), folder());
    let words = "stream --source source --target gpu:0 --routes host,host-serial,host-page-cache";
    let found = record(&bench(&mock, folder.path(), words));
    assert_eq!(found.cases.len(), 3);
    for run in &found.cases {
        assert_eq!((run.bytes.0, run.bytes_by_route.host), (LENGTH as u64, run.bytes));
        let checked = run.verification.expect("content is checked");
        assert_eq!(
            (checked.mode, checked.bytes, checked.mismatches),
            (VerifyMode::Full, run.bytes, 0)
        );
        assert_ne!(run.verdict, RouteVerdict::Contradicted, "{:?}", run.evidence);
        assert!(showed(run, "pinned host memory"), "{:?}", run.evidence);
        assert!(showed(run, "overwritten with zeroes"), "{:?}", run.evidence);
        assert_eq!(run.flows[0].memory, "gpu:0");
    }
    mock.expect_all_undone();
}

#[test]
fn writable_source_gets_pattern_first() {
    let (mock, folder) = (Mock::new(""), folder());
    let source = folder.at("empty");
    fs::File::create(&source).and_then(|file| file.set_len(LENGTH as u64)).expect("room");
    let words = "stream --source empty --target gpu:0 --scratch empty --force --routes host";
    let found = record(&bench(&mock, folder.path(), words));
    assert_eq!(found.cases.len(), 1);
    let filled = fs::read(&source).expect("it is there");
    assert!(filled.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
    mock.expect_all_undone();
}

#[test]
fn gpu_memory_reaches_file_every_way() {
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    let words = "stream --source gpu:0 --target new --scratch new --routes p2p,host,host-cufile";
    let found = record(&bench(&mock, folder.path(), words));
    for run in &found.cases {
        let checked = run.verification.expect("content is checked");
        assert_eq!((checked.bytes, checked.mismatches), (run.bytes, 0), "{}", run.asked.name);
        let is_direct = run.asked.flows[0].path == Way::P2p;
        assert_eq!(run.bytes_by_route.p2p.0 > 0, is_direct);
    }
    assert_eq!(fs::metadata(folder.at("new")).expect("it").len(), LENGTH as u64);
    mock.expect_all_undone();
}

#[test]
fn record_holds_cufile_mode_and_counters() {
    for (conf, route, way, counted) in [
        (
            "mode=p2pdma",
            "p2p",
            "direct by P2PDMA",
            "16 requests by P2PDMA, 0 by nvidia-fs, 0 through",
        ),
        (
            "mode=nvfs",
            "p2p",
            "direct by nvidia-fs",
            "0 requests by P2PDMA, 16 by nvidia-fs, 0 through",
        ),
        (
            "mode=nvfs",
            "host-cufile",
            "compatibility mode",
            "0 by nvidia-fs, 16 through host memory",
        ),
    ] {
        let (mock, folder) = (Mock::new(conf), folder());
        let words = format!("stream --source source --target gpu:0 --routes {route}");
        let run = record(&bench(&mock, folder.path(), &words)).cases.remove(0);
        assert!(showed(&run, way) && showed(&run, counted), "{conf}: {:?}", run.evidence);
        mock.expect_all_undone();
    }
}

#[test]
fn fallback_never_passes_as_required() {
    let words = "stream --source source --target gpu:0 --routes p2p";
    for (conf, code, says) in [
        ("mode=compat", 77, "only possible in compatibility mode, which is off"),
        (
            "mode=compat\nsticky=1",
            77,
            "keeps its compatibility mode (properties.allow_compat_mode) on",
        ),
        ("mode=p2pdma\nno_set=1", 77, "cuFileSetParameterBool failed"),
        ("mode=p2pdma\nlie=1", 2, "cuFile moved 16 of 16 requests"),
    ] {
        let (mock, folder) = (Mock::new(conf), folder());
        let output = bench(&mock, folder.path(), words);
        assert_eq!(output.status.code(), Some(code), "{conf}: {}", said(&output));
        assert!(said(&output).contains(says), "{conf}: {}", said(&output));
        mock.expect_no_violation();
    }
}

#[test]
fn failures_are_named_and_losses_found() {
    for (conf, route, code, says) in [
        ("devices=0", "host", 77, "cuInit failed: no device (100)"),
        ("memory=1000", "host", 2, "out of memory"),
        ("fail_copy=3", "host", 2, "cuMemcpyHtoDAsync failed: launch failed (719)"),
        ("mode=p2pdma\nfail_io=3", "p2p", 2, "cannot read 262144 bytes"),
        ("mode=p2pdma\nlose=5", "p2p", 1, "gpu:0 does not hold what was read: 1 block differs"),
    ] {
        let (mock, folder) = (Mock::new(conf), folder());
        let words = format!("stream --source source --target gpu:0 --routes {route}");
        let output = bench(&mock, folder.path(), &words);
        assert_eq!(output.status.code(), Some(code), "{conf}: {}", said(&output));
        assert!(said(&output).contains(says), "{conf}: {}", said(&output));
        mock.expect_no_violation();
    }
}

#[test]
fn hung_gpu_ends_run_at_deadline() {
    for ends in ["--source source --target gpu:0", "--source gpu:0 --target new --scratch new"] {
        let (mock, folder) = (Mock::new("delay=1000000000"), folder());
        let words = format!("stream {ends} --routes host --timeout 1");
        bench(&mock, folder.path(), &words)
            .exited(2)
            .says("a copy by gpu:0 did not end within 1 s");
        mock.expect_no_violation();
        assert_eq!(mock.calls("cuMemFree"), 0, "the GPU may still write there");
    }
}

#[test]
fn parallel_transfers_share_cufile_only() {
    for conf in ["mode=nvfs", "mode=p2pdma"] {
        let (mock, folder) = (Mock::new(conf), folder());
        let words = "stream --source source --target gpu:0 --routes p2p --jobs 3";
        let run = record(&bench(&mock, folder.path(), words)).cases.remove(0);
        assert_eq!((run.flows.len(), run.bytes_by_route.p2p), (3, run.bytes));
        assert_eq!(run.verification.map(|one| one.bytes), Some(run.bytes));
        mock.expect_all_undone();
    }
}

#[test]
fn short_requests_continue() {
    let (mock, folder) = (Mock::new("mode=p2pdma\nshort_io=2"), folder());
    let words = "stream --source source --target gpu:0 --routes p2p";
    let run = record(&bench(&mock, folder.path(), words)).cases.remove(0);
    assert_eq!(run.verification.map(|one| one.bytes), Some(run.bytes));
    assert_eq!(mock.calls("cuFileRead"), 17);
}

#[test]
fn small_memory_is_reused_and_compared() {
    let (mock, folder) = (Mock::new("memory=2097152"), folder());
    let words = "stream --source source --target gpu:0 --routes host";
    let run = record(&bench(&mock, folder.path(), words)).cases.remove(0);
    let checked = run.verification.expect("content is checked");
    assert_eq!((run.bytes.0, checked.mode), (LENGTH as u64, VerifyMode::Sample));
    assert!(checked.bytes.0 == 1 << 20, "four slots: {checked:?}");
    mock.expect_all_undone();
}

#[test]
fn gpu_is_named_by_address() {
    let (mock, folder) = (Mock::new("devices=2"), folder());
    for (name, code) in
        [("gpu:0000:c1:00.0", 0), ("gpu:1", 0), ("gpu:2", 77), ("gpu:0000:01:00.0", 77)]
    {
        let words = format!("stream --source source --target {name} --routes host");
        let output = bench(&mock, folder.path(), &words);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", said(&output));
        let is_shown = said(&output).contains("0000:81:00.0, 0000:c1:00.0");
        assert_eq!(is_shown, code == 77, "{name}: {}", said(&output));
    }
}

#[test]
fn roundtrip_includes_classical_way() {
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    let words = "roundtrip source --via gpu:0 --scratch source --force --routes p2p --classical";
    let found = record(&bench(&mock, folder.path(), words));
    let names: Vec<&str> = found.asked.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "write 256K gpu:0 -> drive p2p",
            "read 256K drive -> gpu:0 p2p",
            "write 256K gpu:0 -> drive host-page-cache",
            "read 256K drive -> gpu:0 host-mapped",
            "write 256K drive alone",
            "read 256K drive alone",
        ]
    );
    let faults = |run: &CaseRecord| {
        run.evidence.iter().any(|one| one.evidence.looked_at.contains("page faults"))
    };
    assert!(found.cases.iter().all(faults));
    mock.expect_all_undone();
}

/// Page faults of the runs of a way, counted.
fn faults(found: &BenchRecord, name: &str) -> u64 {
    let run = found.cases.iter().find(|run| run.asked.name == name);
    let run = run.unwrap_or_else(|| panic!("{name}: {:?}", found.asked.cases));
    let counted = run.page_faults.expect("the kernel counts them");
    counted.minor + counted.major
}

#[test]
fn donards_tables_are_one_command() {
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    let output = peerlane(
        &mock,
        folder.path(),
        "bench roundtrip --source source --target gpu:0 --classical --routes p2p",
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(text.contains("Donard's table: source to gpu:0, blocks of 1 MiB"), "{text}");
    assert!(text.contains("host-mapped, classical"), "{text}");
    assert!(text.contains("no count of memory traffic"), "{text}");
    assert!(!text.contains("gpu:0 to source"), "nothing may be written: {text}");
    output.says("reading out of gpu:0 is not measured");
    let content = folder.read("source");
    assert_eq!(content[1 << 20], ((1_usize << 20) / 3 + (1 << 20) / 4096).to_le_bytes()[0]);

    let words = "roundtrip --source source --target gpu:0 --scratch new --classical --routes p2p";
    let found = record(&bench(&mock, folder.path(), words));
    let pages = (LENGTH / 4096) as u64;
    let mapped = faults(&found, "read 256K drive -> gpu:0 host-mapped");
    // As many pages at a fault as the kernel likes, and more than none.
    assert!((1..=pages + 1000).contains(&mapped), "{mapped}");
    // A buffer taken anew for each of 16 blocks: a page in it is never there before.
    let taken = faults(&found, "write 256K gpu:0 -> drive host-page-cache");
    assert!(taken >= 16, "{taken}");
    for run in &found.cases {
        let checked = run.verification.map(|checked| (checked.bytes, checked.mismatches));
        assert!(checked.is_none_or(|checked| checked == (run.bytes, 0)), "{}", run.asked.name);
    }
    assert!(found.cases.iter().any(|run| showed(run, "out of a map of the file")));
    assert!(found.cases.iter().any(|run| showed(run, "allocated for each block")));
    assert_eq!(fs::metadata(folder.at("new")).expect("it").len(), LENGTH as u64);
    mock.expect_all_undone();
    assert_eq!(mock.calls("cuMemcpyDtoH"), 16);
}

#[test]
fn driver_refusal_ends_classical_way_cleanly() {
    // Its third copy is the third block: content of a source that may not be written is not filled.
    let (mock, folder) = (Mock::new("fail_copy=3"), folder());
    let words = "stream --source source --target gpu:0 --routes host-mapped";
    bench(&mock, folder.path(), words).exited(2).says("cuMemcpyHtoD failed: launch failed");
    mock.expect_all_undone();
}

#[test]
fn missing_parts_are_refused_with_reason() {
    let (mock, folder) = (Mock::new(""), folder());
    for (words, says) in [
        ("copy source gpu:0", "its memory is gone when this program ends"),
        ("copy source new --via gpu:0", "has no `gpu:0`"),
        (
            "bench stream --source gpu:0 --target new --scratch new --routes host-mapped --length 4M",
            "no source to map",
        ),
        ("bench roundtrip --source source --classical", "--target"),
        ("bench roundtrip --source source --target new --routes host", "a device's memory"),
        ("bench roundtrip source --classical", "--via"),
        ("bench stream --source source --target host --routes p2p --length 4M", "needs a GPU"),
        ("bench roundtrip source --via cmb:nvme0 --classical --length 4M", "`--classical` is for"),
        ("bench stream --source source --target gpu:x --length 4M", "neither a GPU number"),
    ] {
        let output = peerlane(&mock, folder.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(says), "{words}: {}", said(&output));
    }
    assert_eq!(mock.log().len(), 0, "nothing was opened for that");
}

#[test]
fn gpu_machine_is_planned_without_gpus() {
    let (mock, folder) = (Mock::new(""), folder());
    let tree =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs/eight-gpus/tree.tar.zst");
    let root = tree.display();
    let output =
        peerlane(&mock, folder.path(), &format!("plan nvme0n1 gpu:0 --machine {root} --json"));
    let record: PlanRecord = output.json();
    let plan = record.only().and_then(|target| target.plan.as_ref()).expect("a plan");
    assert_eq!(plan.candidates.len(), 4);
    assert_eq!(plan.target.address.as_deref(), Some("0000:18:00.0"));
    assert!(plan.candidates[1].refusals.iter().any(|one| one.contains("modprobe nvidia_fs")));
    let text =
        peerlane(&mock, folder.path(), &format!("doctor nvme0n1 gpu:0 --machine {root}")).text();
    assert!(text.contains("gpu:0 by cuFile, direct by nvidia-fs"), "{text}");
    let output = peerlane(&mock, folder.path(), &format!("plan nvme0n1 gpu:8 --machine {root}"));
    output.says("its GPUs are");
    assert_eq!(mock.log().len(), 0, "looking loads nothing");
}

#[test]
fn fio_job_goes_into_gpu() {
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    let words = "bench stream --source source --target gpu:0 --block 256K --depth 4 --length 4M --repeats 1 --warm-up 0";
    // The job alone: no fio is found.
    let run = |routes: &str, job: &str| {
        let mut command = program::command(folder.path());
        command.args(format!("{words} --routes {routes} --fio {job}").split_whitespace());
        command.env("LD_LIBRARY_PATH", mock.folder()).env("PATH", folder.path());
        command.output().expect("the program starts")
    };
    for (routes, way) in [("p2p", "cufile"), ("host", "posix")] {
        run(routes, way).exited(0);
        let job = folder.text(way);
        let lines: Vec<&str> = job.lines().collect();
        for line in ["ioengine=libcufile", "gpu_dev_ids=0", "direct=1", "numjobs=4", "size=1048576"]
        {
            assert!(lines.contains(&line), "{line}: {job}");
        }
        assert!(lines.contains(&format!("cuda_io={way}").as_str()), "{job}");
        assert!(!job.contains("io_uring") && !job.contains("iomem"), "{job}");
    }
    run("host-cufile", "none").exited(2).says("no such route");
    assert!(!folder.at("none").exists());
    mock.expect_all_undone();
}

#[test]
fn fio_cufile_figure_is_not_compared() {
    use std::os::unix::fs::PermissionsExt as _;
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    let fio = folder.at("fio");
    let script = "#!/bin/sh\n[ \"$CUDA_DEVICE_ORDER\" = PCI_BUS_ID ] || exit 1\n\
                  echo '{\"jobs\": [{\"read\": {\"bw_bytes\": 5000000000}}]}'\n";
    fs::write(&fio, script).expect("room");
    fs::set_permissions(&fio, fs::Permissions::from_mode(0o755)).expect("mine");
    let words = "bench stream --source source --target gpu:0 --block 256K --depth 4 --length 4M --repeats 1 \
                 --warm-up 0 --routes p2p --fio job";
    let mut command = program::command(folder.path());
    command.args(words.split_whitespace()).env("LD_LIBRARY_PATH", mock.folder());
    let output = command.env("PATH", folder.path()).output().expect("the program starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("5.00 GB/s") && said.contains("not compared") && !said.contains("% of it"),
        "{said}"
    );
}

#[test]
fn gpu_digest_leaves_check() {
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    for ends in
        ["--source source --target gpu:0", "--source gpu:0 --target new --scratch new --force"]
    {
        let words = format!("stream {ends} --routes p2p,host --stage digest");
        for run in record(&bench(&mock, folder.path(), &words)).cases {
            let checked = run.verification.expect("content is checked");
            assert_eq!((checked.bytes, checked.mismatches), (run.bytes, 0), "{}", run.asked.name);
            let stage = run.flows[0].stage.as_ref().expect("a stage");
            assert_eq!((stage.chunks, stage.bytes.0), (16, LENGTH as u64), "{}", run.asked.name);
            assert!(stage.busy_ns.0 > 0);
        }
    }
    mock.expect_all_undone();
}

#[test]
fn kernel_makes_content_not_comparable() {
    let (mock, folder) = (Mock::new("mode=p2pdma"), folder());
    folder.write("user.cu", CHUNK_KERNELS);
    let words = "roundtrip source --via gpu:0 --scratch source --force --routes p2p \
                 --stage cuda:user.cu:invert";
    let found = record(&bench(&mock, folder.path(), words));
    assert_eq!(found.cases.len(), 4);
    for run in &found.cases {
        let is_alone = run.asked.name.ends_with("alone");
        let is_not_comparable = |one: &Warning| matches!(one, Warning::NotComparable { .. });
        assert_eq!(run.flows[0].stage.is_none(), is_alone, "{}", run.asked.name);
        assert_eq!(run.warnings.iter().any(is_not_comparable), !is_alone, "{}", run.asked.name);
        assert!(is_alone || run.verification.is_none(), "{}", run.asked.name);
    }
    mock.expect_all_undone();
}

#[test]
fn failed_and_misplaced_stages_are_named() {
    let (mock, folder) = (Mock::new(""), folder());
    folder.write("user.cu", CHUNK_KERNELS);
    for (words, reason) in [
        ("--routes host --stage cuda:user.cu:fails", "stage cuda:user.cu:fails failed"),
        ("--routes host --stage cuda:user.cu:none", "cannot set up stage cuda:user.cu:none"),
        ("--routes host-mapped --stage digest", "stage digest has no place there"),
    ] {
        let words = format!("stream --source source --target gpu:0 {words}");
        let output = bench(&mock, folder.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(reason), "{words}: {}", said(&output));
    }
}
