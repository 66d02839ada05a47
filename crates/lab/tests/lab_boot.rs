//! Boots a machine under QEMU and looks at all that comes back.
//!
//! Without the test harness, because this program is also the guest's init and one of its commands.
//! Skipped, with the reason, if QEMU, busybox or a kernel with peer-to-peer DMA is missing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "there is no harness to print")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use peerlane_fabric::Fabric;
use peerlane_lab::{
    BootOptions, CommandOutcome, DmaReport, LabError, MarkPhase, TargetKind, find_busybox,
    find_kernel, find_qemu, mark, run,
};
use peerlane_units::Nanos;
use rustix::pipe::PipeFlags;
use tempfile::tempfile;

const BLOCK: usize = 4096;
/// First word of the command that this program itself is in the guest.
const READ_MARKED: &str = "read-marked";

fn main() -> ExitCode {
    if peerlane_lab::is_guest() {
        return peerlane_lab::guest_main();
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.as_slice() {
        [first, drive] if first == READ_MARKED => {
            read_marked(Path::new(drive)).expect("read the drive");
            return ExitCode::SUCCESS;
        }
        // `cargo test -- --list` and the like ask for names only.
        [first, ..] if first == "--list" => return ExitCode::SUCCESS,
        _ => {}
    }
    let tests: [(&str, fn()); 6] = [
        ("status_output_files_and_drives_come_through", status_output_files_and_drives),
        ("the_recorder_counts_what_was_read_and_keeps_checks_apart", recorder_counts),
        ("a_guest_that_cannot_start_is_an_error_with_its_console", guest_that_cannot_start),
        ("a_run_ends_at_its_deadline", run_ends_at_its_deadline),
        ("an_interrupt_ends_the_run", interrupt_ends_the_run),
        ("a_reader_that_stands_still_does_not_hold_the_run_up", reader_that_stands_still),
    ];
    let wanted = words.iter().filter_map(|word| word.to_str()).find(|word| !word.starts_with('-'));
    let wanted = tests.iter().filter(|(name, _)| wanted.is_none_or(|wanted| name.contains(wanted)));
    let missing = options(&[]).and_then(|_| find_busybox()).err();
    let is_required = std::env::var("PEERLANE_REQUIRE")
        .is_ok_and(|things| things.split(',').any(|thing| thing.trim() == "lab"));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, test) in wanted {
        let start = Instant::now();
        if let Some(error) = missing.as_ref().filter(|_| !is_required) {
            let hint = error.hint().unwrap_or_default();
            println!("test {name} ... ignored, {error}; {hint}");
            skipped += 1;
        } else if std::panic::catch_unwind(test).is_ok() {
            println!("test {name} ... ok, {:.1} s", start.elapsed().as_secs_f64());
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    // The line that the harness would end with, which ./test counts by.
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored;");
    ExitCode::from(u8::from(failed != 0))
}

fn options(command: &[&str]) -> Result<BootOptions, LabError> {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    Ok(BootOptions {
        machine: Fabric::read_machine_file(&machines.join("pair.toml")).expect("machine file"),
        drives: Vec::new(),
        dma: None,
        out: None,
        modules: Vec::new(),
        programs: Vec::new(),
        command: command.iter().map(OsString::from).collect(),
        shell: false,
        kernel: find_kernel(None)?,
        qemu: find_qemu()?,
        program: std::env::current_exe().expect("own path"),
        events: Vec::new(),
        workers: Vec::new(),
        network: None,
        // Only what hangs takes so long, however busy the machine is.
        timeout: Nanos::seconds(600),
        console: None,
        output: None,
        interrupt: Arc::default(),
    })
}

fn capture(options: &BootOptions) -> (Result<CommandOutcome, LabError>, Vec<u8>, Vec<u8>) {
    let (stdout, stderr) = (tempfile().expect("a file"), tempfile().expect("a file"));
    let to = |file: &File| Box::new(file.try_clone().expect("a descriptor"));
    let result = run(options, to(&stdout), to(&stderr));
    (result, content(stdout), content(stderr))
}

fn content(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().expect("its beginning");
    file.read_to_end(&mut bytes).expect("it");
    bytes
}

/// In the guest: one block as a check, two blocks as payload.
fn read_marked(drive: &Path) -> io::Result<()> {
    const O_DIRECT: i32 = 0o40_000;
    let file = File::options().read(true).custom_flags(O_DIRECT).open(drive)?;
    let mut buffer = vec![0; 3 * BLOCK];
    let start = buffer.as_ptr().align_offset(BLOCK);
    mark(MarkPhase::Check)?;
    file.read_exact_at(&mut buffer[start..start + BLOCK], 0)?;
    mark(MarkPhase::Move)?;
    file.read_exact_at(&mut buffer[start..start + 2 * BLOCK], 0)
}

fn status_output_files_and_drives() {
    let folder = tempfile::tempdir().expect("folder");
    let image = folder.path().join("a.img");
    let content: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
    std::fs::write(&image, &content).expect("image");
    let script = "cat /dev/lab/a; echo apart >&2; tr a b < /dev/lab/a | dd of=/dev/lab/b bs=64k \
                  oflag=direct 2>/dev/null; mkdir $OUT/sub; echo kept > $OUT/sub/file; \
                  ls /sys/class/nvme/*/device/p2pmem/allocate >> $OUT/sub/file; exit 7";
    let mut options = options(&["sh", "-c", script]).expect("options");
    let target = folder.path().join("b.img");
    std::fs::write(&target, vec![0; 1 << 20]).expect("image");
    options.drives = vec![("a".to_owned(), image), ("b".to_owned(), target.clone())];
    options.out = Some(folder.path().join("out"));
    let (result, stdout, stderr) = capture(&options);
    assert_eq!(
        result.expect("outcome"),
        CommandOutcome { status: 7, dma: None, missed: Vec::new(), early_workers: Vec::new() }
    );
    assert!(stdout == content, "{} bytes came", stdout.len());
    assert_eq!(stderr, b"apart\n");
    let kept = std::fs::read_to_string(folder.path().join("out/sub/file")).expect("file");
    assert_eq!(kept.lines().count(), 2, "one drive lends memory: {kept}");
    let mut copied = Vec::new();
    File::open(target).expect("image").read_to_end(&mut copied).expect("image");
    let expected: Vec<u8> = content.iter().map(|&b| if b == b'a' { b'b' } else { b }).collect();
    assert!(copied == expected, "what the guest wrote is on the image");
}

fn recorder_counts() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("dma.json");
    let mut options = options(&[READ_MARKED, "/dev/lab/b"]).expect("options");
    options.dma = Some(path.clone());
    let (result, _, stderr) = capture(&options);
    let outcome = result.expect("outcome");
    assert_eq!(outcome.status, 0, "{}", String::from_utf8_lossy(&stderr));
    let report: DmaReport = outcome.dma.expect("report");
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.payload_bytes_guest_memory, 2 * BLOCK as u64);
    assert_eq!(report.check_bytes_guest_memory, BLOCK as u64);
    assert_eq!((report.payload_bytes_p2p, report.payload_bytes_unclassified), (0, 0));
    assert!(
        report.transfers.iter().all(|transfer| {
            transfer.drive == "b" && transfer.memory == TargetKind::GuestMemory
        })
    );
    let text = std::fs::read_to_string(path).expect("report");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["schema"], "peerlane.dma/1");
    assert_eq!(json["payload_bytes_guest_memory"], 2 * BLOCK);
}

fn guest_that_cannot_start() {
    let mut options = options(&["true"]).expect("options");
    options.machine.lab.as_mut().expect("lab").kernel_args = vec!["rdinit=/nowhere".to_owned()];
    let (result, ..) = capture(&options);
    let error = result.expect_err("no init");
    assert!(matches!(error, LabError::GuestDied { .. }), "{error:?}");
    assert!(error.to_string().contains("Kernel panic"), "{error}");
}

fn run_ends_at_its_deadline() {
    let mut options = options(&["sleep", "1000"]).expect("options");
    options.timeout = Nanos::seconds(2);
    let (result, ..) = capture(&options);
    assert!(matches!(result, Err(LabError::TimedOut { .. })), "{result:?}");
}

fn interrupt_ends_the_run() {
    /// Interrupts the run as soon as the command has said something.
    struct Interrupter(Arc<AtomicBool>);
    impl io::Write for Interrupter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.store(true, Ordering::Relaxed);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let options = options(&["sh", "-c", "echo here; sleep 1000"]).expect("options");
    let stdout = Interrupter(Arc::clone(&options.interrupt));
    let result = run(&options, Box::new(stdout), Box::new(io::sink()));
    assert!(matches!(result, Err(LabError::Interrupted)), "{result:?}");
}

fn reader_that_stands_still() {
    /// Says when the first bytes have come.
    struct FirstBytes(mpsc::Sender<()>);
    impl io::Write for FirstBytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Nobody listens any more after the first.
            let _ = self.0.send(());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    /// More than pipes and sockets on the way hold, less than the guest's kernel takes without a wait (128 pieces of
    /// 4 KiB): all of it is under way when the command says that it is over.
    const BYTES: usize = 600_000;
    let script = format!("yes 0123456 | head -c {BYTES}; echo over >&2");
    let options = options(&["sh", "-c", &script]).expect("options");
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let (mut reader, writer) = (File::from(reader), File::from(writer));
    let (over, is_over) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        is_over.recv().expect("the command comes to its end");
        let mut found = Vec::new();
        reader.read_to_end(&mut found).map(|_| found)
    });
    let result = run(&options, Box::new(writer), Box::new(FirstBytes(over)));
    assert_eq!(result.expect("outcome").status, 0);
    let found = reading.join().expect("no panic").expect("it");
    assert_eq!(found.len(), BYTES);
    assert!(found.chunks(8).all(|line| line == &b"0123456\n"[..line.len()]), "in order");
}
