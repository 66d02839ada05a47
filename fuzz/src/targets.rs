//! The functions that are fuzzed; the corpus of each lies in `corpus/` under the name in [`ALL`].
//!
//! Shared as a file: this package's library and the program's tests both include it.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use peerlane_bench::guards::Surroundings;
use peerlane_bench::record::{check, check_nodes};
use peerlane_bench::run::goes_on;
use peerlane_bench::{compare, workload};
use peerlane_engine::endpoints::{Notation, RemoteName};
use peerlane_engine::journal::{self, Journal};
use peerlane_engine::stage::StageName;
use peerlane_engine::stages::manifest;
use peerlane_evidence::{CaseEvidence, DriveBytes, Requests, Root, Scene};
use peerlane_fabric::assume::BootConfiguration;
use peerlane_fabric::{Acs, BlockDevice, Dna, Fabric, Origin, Parent, capture, lspci};
use peerlane_lab::recorder;
use peerlane_memory::blkid::{DeviceEnds, MemoryImage, magic};
use peerlane_memory::xrt::xclbin;
use peerlane_report::{Named, Record, Report};
use peerlane_results::{
    BenchRecord, BytesByRoute, CompareRecord, CopyRecord, NodesRecord, PlanRecord, Workload,
};
use peerlane_scan::formats::{decode, decode_with_opacity};
use peerlane_scan::{Donard, Gray, Hit, Picture, Pose, Searcher, look};
use peerlane_sim::predict::{self, Engine};
use peerlane_sim::reproduce::Study;
use peerlane_units::{ByteRate, Bytes, Nanos};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A target: its name, which is that of its corpus, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const ALL: [Target; 21] = [
    ("archive", archive),
    ("boot", boot),
    ("capture", captured),
    ("content", content),
    ("cufile", cufile),
    ("evidence", evidence),
    ("image", image),
    ("journal", journal),
    ("lspci", lspci),
    ("machine", machine),
    ("manifest", digests),
    ("nccl", nccl),
    ("notation", notation),
    ("page", page),
    ("parameters", parameters),
    ("record", record),
    ("recorder", recorder),
    ("report", report),
    ("sysfs", sysfs),
    ("workload", workload),
    ("xclbin", xclbin),
];

/// A machine file: an accepted one can be written and read again without loss.
pub fn machine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Fabric::from_toml(text) {
        Ok(fabric) => examine(&fabric),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A manifest of digests: refused with a reason, or complete and of one copy.
pub fn digests(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match manifest::parse(text) {
        Ok(manifest) => {
            let length: u64 = manifest.chunks.iter().map(|chunk| chunk.length).sum();
            assert_eq!(length, manifest.header.length);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Boot parameters and module options: refused with advice, or applied to a machine, whose
/// functions keep their properties.
pub fn boot(bytes: &[u8]) {
    static MACHINE: OnceLock<Fabric> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| {
        let text = include_str!("../../fixtures/sysfs/lab-acs/topology.toml");
        Fabric::from_toml(text).expect("a machine")
    });
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for name in ["etc/default/grub.d/fuzz.cfg", "etc/modules-load.d/fuzz.conf"] {
        let configuration = match BootConfiguration::parse(Path::new(name), text) {
            Ok(configuration) => configuration,
            Err(error) => {
                assert!(!error.to_string().is_empty() && !error.hint().is_empty());
                continue;
            }
        };
        let mut changed = machine.clone();
        for applied in configuration.apply(&mut changed) {
            let words = format!("{} {:?}", applied.setting, applied.effect);
            assert!(!words.chars().any(|one| one.is_control() && one != '\t'), "{words}");
        }
        for (before, after) in machine.functions.iter().zip(&changed.functions) {
            assert_eq!(before.acs == Acs::Absent, after.acs == Acs::Absent, "{}", after.name);
        }
        examine(&changed);
    }
}

/// A request of the page, or a text that is pasted into it: answered as JSON, with `ok` or `error`.
pub fn page(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let request = |ask: &str| serde_json::json!({ "ask": ask, "machine": { "text": text } });
    let requests = ["examine", "fix", "nccl", "scrub"].map(|ask| request(ask).to_string());
    for request in requests.iter().map(String::as_str).chain([text]) {
        let answer = peerlane_web::answer(request);
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert!(answer.get("ok").is_some() != answer.get("error").is_some(), "{answer}");
    }
}

/// Topology XML of NCCL: an accepted one can be written as a machine file and as topology XML, and
/// read again.
pub fn nccl(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match peerlane_fabric::nccl::read(text) {
        Ok(fabric) => {
            assert!(peerlane_fabric::nccl::is_nccl(text));
            if let Ok(written) = fabric.to_nccl_xml() {
                peerlane_fabric::nccl::read(&written.text).expect("what is written can be read");
            }
            examine(&fabric);
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.hint().is_empty()),
    }
}

/// Text of `lspci`: refused with a command, or a machine whose parents precede their children.
pub fn lspci(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let fabric = match lspci::read(&text) {
        Ok(fabric) => fabric,
        Err(error) => {
            assert!(!error.to_string().is_empty() && error.hint().contains("lspci"));
            return;
        }
    };
    assert!(lspci::is_lspci(&text) || text.lines().count() > 4000);
    assert_eq!(fabric.origin, Origin::Text);
    let account = fabric.account.as_ref().expect("a text has an account");
    for count in &account.keys {
        assert!(count.attached + account.lost(count.key) <= count.in_text, "{count:?}");
    }
    for (id, function) in fabric.iter() {
        if let Parent::Function(above) = function.parent {
            assert!(above < id, "{}", function.name);
        }
        assert_eq!(fabric.find(&function.name), Some(id), "{}", function.name);
    }
    examine(&fabric);
}

/// A captured tree, in the form that [`plant`] reads: discovery never fails for a file that is odd,
/// and writes a machine file that can be read.
pub fn sysfs(bytes: &[u8]) {
    let Ok(folder) = scratch() else { return };
    if plant(bytes, folder.path()).is_err() {
        return;
    }
    if let Ok(fabric) = Fabric::discover(folder.path()) {
        assert_eq!(fabric.origin, Origin::Tree(folder.path().to_owned()));
        examine(&fabric);
    }
    for minor in 0..3 {
        if let Err(error) = BlockDevice::read(folder.path(), 259, minor) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Settings of cuFile: known keys, or a problem in words; a machine with them is written and found again.
pub fn cufile(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = peerlane_fabric::cufile::read(&text);
    let is_known = |key: &String| peerlane_fabric::cufile::KEYS.iter().any(|(name, _)| name == key);
    assert!(found.settings.keys().all(is_known));
    assert!(found.problem.as_ref().is_none_or(|problem| problem.starts_with("line ")));
    let mut fabric = Fabric::from_toml("name = 'm'").expect("a machine");
    fabric.cufile = Some(found.clone());
    assert_eq!(
        Fabric::from_toml(&fabric.to_toml()).expect("what was written").cufile,
        fabric.cufile
    );
    let tree = peerlane_testing::sysfs_tree(&fabric).expect("a tree");
    let again = Fabric::discover_snapshot(Path::new("x"), tree.clone()).expect("a machine");
    let again = again.cufile.expect("settings");
    assert_eq!(again.settings, found.settings);
    assert_eq!(again.problem.is_some(), found.problem.is_some());
    capture::take_snapshot(Path::new("x"), tree).expect("a capture");
}

/// A tree with `sys`, `proc` and `dev`, watched as while a case runs: every source says something,
/// and little of it.
pub fn evidence(bytes: &[u8]) {
    let Ok(folder) = scratch() else { return };
    if plant(bytes, folder.path()).is_err() {
        return;
    }
    let drive = |name: &str, requests| peerlane_evidence::CaseDrive {
        name: name.to_owned(),
        address: "0000:41:00.0".parse().ok(),
        requests,
    };
    let drives = vec![drive("nvme0n1", Requests::Direct), drive("sda1", Requests::PageCache)];
    let address = "0000:03:00.0".parse().expect("an address");
    let pools = vec![peerlane_evidence::Pool { address, taken: Bytes(4096) }];
    let scene = Scene {
        root: folder.path().to_owned(),
        drives,
        pools,
        memories: vec![],
        is_translating: false,
    };
    let around = Surroundings::read(
        &Fabric::from_toml("name = \"x\"").expect("a machine"),
        &Root::at(folder.path()),
        &[],
        &scene.drives,
    );
    assert_eq!(around.drives.len(), 2);
    let mut watch = peerlane_evidence::CaseWatch::begin(&scene);
    watch.look();
    let asked = BytesByRoute { p2p: Bytes(4096), host: Bytes(0) };
    let moved = DriveBytes { read: Bytes(4096), written: Bytes(0) };
    let observed = watch.end(&CaseEvidence {
        asked,
        moved: asked,
        drives: vec![moved; 2],
        transfers: vec![],
        dma: None,
    });
    for item in &observed.evidence {
        assert!((1..8192).contains(&item.evidence.showed.len()), "{item:?}");
    }
}

/// An image file: refused, or searched; a hit lies in it.
pub fn image(bytes: &[u8]) {
    // Made once: it takes far longer than to look at what is given here.
    static SEARCHERS: OnceLock<[Searcher; 2]> = OnceLock::new();
    let [searcher, donard] = SEARCHERS.get_or_init(searchers);
    match look(bytes.to_vec(), searcher) {
        Ok((pixels, hits)) => {
            let inside = |hit: &Hit| (hit.x as u64 + 160) * (hit.y as u64 + 120) <= pixels;
            assert!(hits.iter().all(inside), "{hits:?} in {pixels} pixels");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match decode(bytes.to_vec()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        // Of transforms, which read nothing, one of the least size is enough.
        Ok(gray) if gray.width().max(gray.height()) <= 200 => {
            for hit in donard.search(&gray) {
                assert!(hit.x + 160 <= gray.width() && hit.y + 120 <= gray.height(), "{hit:?}");
                assert!(hit.score.is_finite(), "{hit:?}");
            }
        }
        Ok(_) => {}
    }
    if let Ok((gray, Some(opacity))) = decode_with_opacity(bytes.to_vec()) {
        assert_eq!((gray.width(), gray.height()), (opacity.width(), opacity.height()));
    }
}

/// Searches for a mark, by either method.
fn searchers() -> [Searcher; 2] {
    // Large enough for a JPEG to be looked at by its coarse level first.
    let stripes = (0..160 * 120).map(|at: u32| if at % 160 / 40 % 2 == 0 { 20 } else { 200 });
    let mark = Gray::new(160, 120, stripes.collect()).expect("as many pixels as it has");
    let picture = Picture::new(&mark, None, Pose::default()).expect("stripes are no plain picture");
    assert!(picture.coarsest() >= 3);
    let donard = Donard::new(&mark, None, 0.0).expect("stripes have edges");
    [Searcher::new(vec![picture], 0.9), Searcher::by_donard(donard)]
}

/// A journal, or the part that its checksum covers: an accepted one is complete in itself and reads
/// back the same.
pub fn journal(bytes: &[u8]) {
    let unsigned = serde_json::from_slice::<Journal>(bytes).ok();
    let signed = unsigned.and_then(|journal| journal::encode(&journal).ok());
    let Ok(journal) = journal::decode(signed.as_deref().unwrap_or(bytes)) else { return };
    let length = journal.options.length.0;
    let mut last = 0;
    for range in journal.missing(Bytes(4096)).take(10_000) {
        assert!(last <= range.start && range.start < range.end && range.end <= length);
        last = range.end;
    }
    let text = journal::encode(&journal).expect("an accepted journal can be written");
    assert_eq!(journal::decode(&text).expect("and read"), journal);
}

/// A record or a plan as JSON: a written one reads back the same.
pub fn record(bytes: &[u8]) {
    returns::<CopyRecord>(bytes);
    returns::<PlanRecord>(bytes);
    returns::<BenchRecord>(bytes);
    returns::<CompareRecord>(bytes);
    returns::<NodesRecord>(bytes);
    nodes(bytes);
}

/// A record of several nodes, as `bench compare` gets it: one that can be true is not slower than itself.
fn nodes(bytes: &[u8]) {
    let Ok(mut record) = serde_json::from_slice::<NodesRecord>(bytes) else { return };
    match check_nodes(&mut record) {
        Ok(()) => {
            let found = compare::compare_nodes(&record, &record, 0.05);
            assert_eq!(found.nodes.len(), record.nodes.len());
            assert!(!found.has_regressed, "{found:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A workload as TOML, in either form: an accepted one is bounded, and its full form says the same.
/// A record of a benchmark, as `bench compare` and `--resume` get it: compared with itself, nothing
/// is slower. One that can be true stays as it is in a second check, and goes on with its own
/// workload only.
pub fn workload(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match workload::parse(text) {
        Ok(found) => {
            // Integers of TOML end at 2^63 - 1.
            if let Ok(full) = workload::print(&found) {
                assert_eq!(workload::parse(&full).expect("the full form is read"), found);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(record) = serde_json::from_str::<BenchRecord>(text) {
        let found = compare::compare(&record, &record, 0.05);
        assert!(!found.has_regressed, "{found:?}");
        resumed(record);
    }
}

fn resumed(mut record: BenchRecord) {
    if let Err(error) = check(&mut record) {
        return assert!(!error.to_string().is_empty());
    }
    let mut again = record.clone();
    check(&mut again).expect("it was checked");
    assert_eq!(again, record);
    let same = goes_on(again.clone(), &record).expect("it is of the same workload");
    assert_eq!(same, record);
    again.asked.seed ^= 1;
    assert!(goes_on(again, &record).is_err(), "another seed is another order");
}

/// A record of any kind as a report in every form: an accepted one is shown, and nothing in it is obeyed.
pub fn report(bytes: &[u8]) {
    let record = match Record::from_json(bytes) {
        Ok(record) => record,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let records = [Named { name: "fuzz".to_owned(), record }];
    let report = Report::new(&records, None, &[]);
    let page = report.html().expect("every record is shown");
    assert_eq!(page.matches("<script").count(), 1, "the page's own");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let (table, _) = report.csv();
    for text in [&page, &report.markdown(), &table] {
        assert!(!text.chars().any(|character| character.is_control() && character != '\n'));
    }
}

/// Reads an endpoint or a quantity as typed, and checks that it prints as something of the same
/// meaning.
pub fn notation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(notation) = text.parse::<Notation>() {
        assert_eq!(notation.to_string().parse(), Ok(notation));
    }
    if let Ok(stage) = text.parse::<StageName>() {
        assert_eq!(stage.to_string().parse(), Ok(stage));
    }
    if let Ok(drive) = text.parse::<RemoteName>() {
        assert_eq!(drive.to_string().parse(), Ok(drive));
    }
    if let Ok(size) = text.parse::<Bytes>() {
        assert_eq!(size.0.to_string().parse(), Ok(size), "{text}");
        let _ = size.to_string();
    }
    let _ = text.parse::<ByteRate>().map(|rate| rate.to_string());
    if let Ok(number) = text.parse::<u64>() {
        let _ = Nanos(number).to_string();
    }
    if let Some(dna) = Dna::of_text(text) {
        assert_eq!(Dna::of_text(&dna.to_string()), Some(dna), "{text}");
    }
}

/// A file of parameters for the model, or of figures with theirs: an accepted one has numbers above
/// zero within their ranges, and gives a rate that is a number, or a reason why there is none.
pub fn parameters(bytes: &[u8]) {
    const FIGURES: &[(&str, &str)] = &[("donard", include_str!("../../machines/donard.toml"))];
    const SHARED: &str = include_str!("../../sources/parameters.toml");
    const PREDICTIONS: &str = "date = \"2026-01-01\"\nprediction = []\n";
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match predict::parameters(Some(text)) {
        Ok(found) => {
            for parameter in found.iter() {
                assert!(0.0 < parameter.lo && parameter.lo <= parameter.value, "{parameter:?}");
                assert!(
                    parameter.value <= parameter.hi && parameter.hi.is_finite(),
                    "{parameter:?}"
                );
            }
            let (machine, workload) = modelled();
            let variant = |_| (workload.clone(), found.values());
            match predict::variants(machine, &found, 1, variant, Engine::Flow) {
                Ok(rates) => {
                    let is_rate = |rate: &f64| rate.is_finite() && *rate >= 0.0;
                    assert!(rates.iter().flatten().all(is_rate), "{rates:?}");
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Study::read(FIGURES, SHARED, &[("fuzz", text)], "curve = []", PREDICTIONS) {
        Ok(study) => assert_eq!(study.names().count(), 1),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Drives with memory, and a transfer of each route between them.
fn modelled() -> &'static (Fabric, Workload) {
    static MODELLED: OnceLock<(Fabric, Workload)> = OnceLock::new();
    MODELLED.get_or_init(|| {
        let machine = Fabric::from_toml(include_str!("../../machines/pair.toml"));
        let text = "kind = 'crowd'\ndrives = ['a', 'b', 'c']\npattern = 'pairs'\n\
                    routes = ['p2p', 'host-pipelined']\nblocks = ['128K']\nlength = '64M'\n";
        (machine.expect("a machine"), workload::parse(text).expect("a workload"))
    })
}

/// The two ends of a device, cut at the byte that the first two bytes say: every recognised content
/// is safe to print, and the memory file for libblkid reads as the ends do.
pub fn content(bytes: &[u8]) {
    let [low, high, content @ ..] = bytes else { return };
    let cut = usize::from(u16::from_le_bytes([*low, *high])).min(content.len());
    let (head, tail) = content.split_at(cut);
    for size in [content.len() as u64, tail.len() as u64, 1 << 40, u64::MAX, 0] {
        let ends = DeviceEnds::new(head, tail, Bytes(size));
        let found = magic::identify(&ends);
        assert!(found.len() < 64);
        let words: String = found.iter().map(ToString::to_string).collect();
        assert!(!words.chars().any(char::is_control), "{words}");
        let Ok(image) = MemoryImage::new(&ends) else {
            assert!(i64::try_from(size).is_err(), "a memory file of {size} bytes");
            continue;
        };
        let file = fs::File::from(image.as_fd().try_clone_to_owned().expect("a descriptor"));
        assert_eq!(file.metadata().expect("it is open").len(), size);
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let head = &head[..head.len().min(length)];
        let uncovered = tail.len().min(length - head.len());
        for (part, offset) in
            [(head, 0), (&tail[tail.len() - uncovered..], size - uncovered as u64)]
        {
            let mut read = vec![1; part.len()];
            file.read_exact_at(&mut read, offset).expect("within the file");
            assert!(read == part, "{size} {offset}");
            assert!(part.is_empty() || ends.bytes(offset, 1) == Some(&part[..1]));
        }
    }
}

/// A trace of QEMU: bytes that are counted were in it.
pub fn recorder(bytes: &[u8]) {
    let machine = recorder::TracedMachine {
        memory: Bytes(1 << 30),
        is_translating: bytes.first() == Some(&b'T'),
        drives: [(1, "a".to_owned()), (2, "b".to_owned())].into(),
        addresses: [("03:00.0".to_owned(), "a".to_owned())].into(),
    };
    if let Ok(report) = recorder::read(bytes, &machine) {
        let text = serde_json::to_string(&report).expect("a report can be written");
        assert!(!text.is_empty());
    }
}

/// A tar archive out of a guest: it makes nothing outside its folder.
pub fn archive(bytes: &[u8]) {
    let Ok(folder) = scratch() else { return };
    let inner = folder.path().join("inner");
    let _ = peerlane_lab::unpack_archive(bytes, &inner);
    let names: Vec<_> = fs::read_dir(folder.path()).into_iter().flatten().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// The archive of a machine, ours or of another tool: an accepted one is discovered, and packed again is the same.
pub fn captured(bytes: &[u8]) {
    let content = match capture::unpack(bytes) {
        Ok(content) => content,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Ok(machine) = capture::unpack_machine(bytes) {
        assert!(
            Fabric::discover_snapshot(Path::new("fuzz"), machine).is_ok(),
            "it has sys/devices"
        );
    }
    if let Ok(archive) = capture::pack(&content) {
        let again = capture::unpack(archive.as_slice()).expect("what was packed here");
        assert!(again == content, "packed and unpacked");
    }
    let name = Path::new("fuzz");
    if let Ok(fabric) = Fabric::discover_snapshot(name, content.clone()) {
        examine(&fabric);
        let kept = capture::take_snapshot(name, content).expect("it was discovered");
        let again = Fabric::discover_snapshot(name, kept.content).expect("and its capture is");
        assert_eq!(again.functions.len(), fabric.functions.len());
    }
}

/// Checks the invariants of every fabric, wherever it comes from.
fn examine(fabric: &Fabric) {
    let text = fabric.to_toml();
    let read = Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let described = Fabric { origin: Origin::Description, ..fabric.clone() };
    if fabric.origin == Origin::Description {
        assert_eq!(read, described, "{text}");
    }
    assert_eq!(read.to_toml(), text);
    let functions: Vec<_> = fabric.iter().map(|(id, _)| id).take(8).collect();
    for &provider in &functions {
        for &initiator in &functions {
            assert!(!peerlane_reach::decide(fabric, provider, initiator).summary().is_empty());
        }
    }
}

fn returns<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let text = serde_json::to_vec(&value).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&text).expect("and read"), value);
}

/// A folder in memory where there is one.
fn scratch() -> io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// Separates the files of a planted tree.
const NEXT_FILE: u8 = 0x1e;
/// Begins the content of a file that is a symbolic link.
const LINK: u8 = 0x1f;
/// Bounds on planted files.
const FILES_MAX: usize = 96;
const DEPTH_MAX: usize = 16;

/// Makes files below `root`: path, line feed, content; a record separator between two files. Links
/// come last, and only on free paths: no file is written through one.
fn plant(bytes: &[u8], root: &Path) -> io::Result<()> {
    let mut links = Vec::new();
    for file in bytes.split(|&byte| byte == NEXT_FILE).take(FILES_MAX) {
        let end = file.iter().position(|&byte| byte == b'\n').unwrap_or(file.len());
        let Some(path) = std::str::from_utf8(&file[..end]).ok().and_then(inside) else { continue };
        let content = file.get(end + 1..).unwrap_or_default();
        let place = root.join(path);
        // A file where another has its folder cannot be made, and need not be.
        let Some(Ok(())) = place.parent().map(fs::create_dir_all) else { continue };
        match content.split_first() {
            Some((&LINK, target)) => links.push((std::str::from_utf8(target), place)),
            _ => drop(fs::write(place, content)),
        }
    }
    for (target, place) in links {
        let Ok(target) = target else { continue };
        let _ = symlink(target, place);
    }
    Ok(())
}

/// A path that stays below the root.
fn inside(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let depth = path.components().count();
    (is_plain && (1..=DEPTH_MAX).contains(&depth)).then(|| path.to_owned())
}

/// The image of an FPGA card: refused, or its memory groups have numbers that rise.
pub fn xclbin(bytes: &[u8]) {
    if let Ok(groups) = xclbin::groups(bytes) {
        assert!(groups.windows(2).all(|pair| pair[0].index < pair[1].index));
    }
}
