//! Exports on a configfs in memory, with the refusals of the kernel.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;

use super::configfs::ConfigTree;
use super::steps::{make, remove};
use super::*;

/// Folders, links and attributes, and the step that fails.
#[derive(Debug, Default)]
struct FakeConfigfs {
    folders: RefCell<BTreeSet<PathBuf>>,
    links: RefCell<BTreeSet<PathBuf>>,
    attributes: RefCell<BTreeMap<PathBuf, String>>,
    /// Changes until one fails, and the answer.
    fails: RefCell<Option<(u32, Errno)>>,
    log: RefCell<Vec<String>>,
}

impl FakeConfigfs {
    fn change(&self, what: String) -> io::Result<()> {
        self.log.borrow_mut().push(what);
        let fails = &mut *self.fails.borrow_mut();
        match fails {
            Some((0, errno)) => {
                let errno = *errno;
                *fails = None;
                Err(errno.into())
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn is_empty(&self) -> bool {
        self.folders.borrow().is_empty() && self.links.borrow().is_empty()
    }

    fn has_below(&self, folder: &Path) -> bool {
        let below = |path: &PathBuf| path != folder && path.starts_with(folder);
        self.folders.borrow().iter().any(below) || self.links.borrow().iter().any(below)
    }
}

impl ConfigTree for FakeConfigfs {
    fn make(&self, folder: &Path) -> io::Result<()> {
        self.change(format!("make {}", folder.display()))?;
        match self.folders.borrow_mut().insert(folder.to_owned()) {
            true => Ok(()),
            false => Err(Errno::EXIST.into()),
        }
    }

    fn write(&self, attribute: &Path, text: &str) -> io::Result<()> {
        self.change(format!("{} = {text}", attribute.display()))?;
        let item = attribute.parent().unwrap();
        if !self.folders.borrow().contains(item) {
            return Err(Errno::NOENT.into());
        }
        let taken = match (attribute.file_name().unwrap().to_str(), text) {
            // As the kernel does, which takes it for a truth value.
            (Some("p2pmem"), "nonsense") => "0",
            (_, text) => text,
        };
        self.attributes.borrow_mut().insert(attribute.to_owned(), taken.to_owned());
        Ok(())
    }

    fn read(&self, attribute: &Path) -> io::Result<String> {
        Ok(self.attributes.borrow().get(attribute).cloned().unwrap_or_default())
    }

    fn link(&self, item: &Path, into: &Path) -> io::Result<()> {
        let link = into.join(item.file_name().unwrap());
        self.change(format!("link {}", link.display()))?;
        self.links.borrow_mut().insert(link);
        Ok(())
    }

    fn unlink(&self, link: &Path) -> io::Result<()> {
        self.change(format!("unlink {}", link.display()))?;
        match self.links.borrow_mut().remove(link) {
            true => Ok(()),
            false => Err(Errno::NOENT.into()),
        }
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        self.change(format!("remove {}", folder.display()))?;
        let is_linked =
            self.links.borrow().iter().any(|link| link.file_name() == folder.file_name());
        if self.has_below(folder) {
            return Err(Errno::NOTEMPTY.into());
        }
        if is_linked {
            return Err(Errno::BUSY.into());
        }
        match self.folders.borrow_mut().remove(folder) {
            true => Ok(()),
            false => Err(Errno::NOENT.into()),
        }
    }

    fn has(&self, path: &Path) -> bool {
        // Items have all their attributes.
        self.folders.borrow().contains(path)
            || path.parent().is_some_and(|item| self.folders.borrow().contains(item))
    }
}

fn request() -> ExportRequest {
    ExportRequest {
        subsystem: Nqn::new("nqn.lab").unwrap(),
        device: "/dev/nvme0n1".into(),
        uuid: "11111111-2222-4333-8444-555555555555".to_owned(),
        memory: PayloadMemory::Host,
        listen: Listen::Tcp("10.0.0.1:4420".parse().unwrap()),
        hosts: AllowedHosts::These(vec![Nqn::new("nqn.host").unwrap()]),
    }
}

fn items() -> ExportItems {
    ExportItems {
        subsystem: "nqn.lab".to_owned(),
        uuid: request().uuid,
        port: 3,
        listen: request().listen.to_string(),
        hosts: vec!["nqn.host".to_owned()],
        new_hosts: vec!["nqn.host".to_owned()],
    }
}

#[test]
fn removal_begins_with_the_namespace() {
    let fake = FakeConfigfs::default();
    make(&fake, &items(), &request()).unwrap();
    let made = fake.log.take();
    assert_eq!(made.first().unwrap(), "make subsystems/nqn.lab");
    assert_eq!(made.last().unwrap(), "link ports/3/subsystems/nqn.lab");
    for line in [
        "subsystems/nqn.lab/attr_allow_any_host = 0",
        "link subsystems/nqn.lab/allowed_hosts/nqn.host",
        "subsystems/nqn.lab/namespaces/1/device_path = /dev/nvme0n1",
        "subsystems/nqn.lab/namespaces/1/p2pmem = 0",
        "subsystems/nqn.lab/namespaces/1/enable = 1",
        "ports/3/addr_traddr = 10.0.0.1",
        "ports/3/addr_trsvcid = 4420",
    ] {
        assert!(made.iter().any(|one| one == line), "{line}: {made:#?}");
    }
    remove(&fake, &items()).unwrap();
    assert!(fake.is_empty(), "{fake:?}");
    let removed = fake.log.take();
    assert_eq!(removed.first().unwrap(), "subsystems/nqn.lab/namespaces/1/enable = 0");
    remove(&fake, &items()).expect("what is gone needs no removing");
}

#[test]
fn failed_step_leaves_nothing() {
    let steps = {
        let fake = FakeConfigfs::default();
        make(&fake, &items(), &request()).unwrap();
        u32::try_from(fake.log.borrow().len()).unwrap()
    };
    assert!(steps > 12, "{steps}");
    for step in 0..steps {
        let fake = FakeConfigfs {
            fails: RefCell::new(Some((step, Errno::IO))),
            ..FakeConfigfs::default()
        };
        make(&fake, &items(), &request()).unwrap_err();
        assert!(fake.is_empty(), "step {step}: {fake:?}");
    }
}

#[test]
fn existing_subsystem_is_kept() {
    let fake = FakeConfigfs::default();
    fake.make(Path::new("subsystems/nqn.lab")).unwrap();
    let error = make(&fake, &items(), &request()).unwrap_err();
    assert!(matches!(error, ServeError::NameTaken { .. }), "{error:?}");
    assert!(fake.folders.borrow().contains(Path::new("subsystems/nqn.lab")));
}

#[test]
fn existing_port_is_kept() {
    let fake = FakeConfigfs::default();
    fake.make(Path::new("ports/3")).unwrap();
    fake.link(Path::new("subsystems/other"), Path::new("ports/3/subsystems")).unwrap();
    let error = make(&fake, &items(), &request()).unwrap_err();
    assert!(matches!(error, ServeError::Step { action: "make", .. }), "{error:?}");
    assert!(fake.folders.borrow().contains(Path::new("ports/3")));
    assert!(!fake.folders.borrow().contains(Path::new("subsystems/nqn.lab")));
}

#[test]
fn namesake_of_leftover_is_not_ours() {
    let fake = FakeConfigfs::default();
    assert!(!items().is_there(&fake), "nothing is there");
    make(&fake, &items(), &request()).unwrap();
    assert!(items().is_there(&fake));
    let namespace = "subsystems/nqn.lab/namespaces/1/device_uuid";
    fake.write(Path::new(namespace), "99999999-2222-4333-8444-555555555555").unwrap();
    assert!(items().is_there(&fake), "its serial number is ours");
    fake.write(Path::new("subsystems/nqn.lab/attr_serial"), "0123456789").unwrap();
    assert!(!items().is_there(&fake));
}

#[test]
fn empty_port_of_others_is_kept() {
    let fake = FakeConfigfs::default();
    fake.make(Path::new("ports/3")).unwrap();
    fake.write(Path::new("ports/3/addr_trtype"), "tcp").unwrap();
    make(&fake, &items(), &request()).unwrap_err();
    assert!(fake.folders.borrow().contains(Path::new("ports/3")));
}

#[test]
fn existing_host_is_kept() {
    let fake = FakeConfigfs::default();
    let host = Path::new("hosts/nqn.host");
    fake.make(host).unwrap();
    let items = ExportItems::new(&fake, &request(), 3);
    assert_eq!((items.hosts.len(), items.new_hosts.len()), (1, 0));
    make(&fake, &items, &request()).unwrap();
    remove(&fake, &items).unwrap();
    assert_eq!(*fake.folders.borrow(), BTreeSet::from([host.to_owned()]));
    assert!(fake.links.borrow().is_empty());
}

#[test]
fn misread_memory_is_an_error() {
    let fake = FakeConfigfs::default();
    let memory = PayloadMemory::P2p("nonsense".to_owned());
    let error = make(&fake, &items(), &ExportRequest { memory, ..request() }).unwrap_err();
    assert!(matches!(error, ServeError::OtherAnswer { .. }), "{error:?}");
    assert!(fake.is_empty());
}

#[test]
fn requests_without_effect_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let refused = |wanted: &ExportRequest| serve(root.path(), wanted).unwrap_err();
    let error = refused(&ExportRequest { memory: PayloadMemory::AnyP2p, ..request() });
    assert!(matches!(error, ServeError::MemoryNotUsed { transport: "tcp" }), "{error:?}");
    let rdma = Listen::Rdma("10.0.0.1:4420".parse().unwrap());
    let error = refused(&ExportRequest { listen: rdma, ..request() });
    assert!(matches!(error, ServeError::NoRdma { .. }), "{error:?}");
}

#[test]
fn loopback_by_rdma_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sys/class/infiniband/rxe0")).unwrap();
    let listen = Listen::Rdma("127.0.0.1:4420".parse().unwrap());
    let error = serve(root.path(), &ExportRequest { listen, ..request() }).unwrap_err();
    assert!(matches!(error, ServeError::LoopbackByRdma { .. }), "{error:?}");
}

#[test]
fn unlocked_note_is_a_leftover() {
    let root = tempfile::tempdir().unwrap();
    let content = |port| NoteContent {
        process: 7,
        device: "/dev/nvme0n1".into(),
        items: ExportItems { port, ..items() },
    };
    let served = LockedNote::write(root.path(), &content(1)).unwrap();
    drop(LockedNote::write(root.path(), &content(2)).unwrap());
    let processes: Vec<_> =
        noted(root.path()).unwrap().iter().map(|export| export.process).collect();
    assert_eq!(processes, [Some(7), None]);
    // One that was killed before its note had a name made nothing.
    std::fs::write(root.path().join("run/peerlane/exports/7-3.new"), "{").unwrap();
    // There is no NVMe target below this root: nothing is left of it but the note.
    std::fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
    let swept = sweep(root.path()).unwrap();
    assert_eq!(swept.len(), 1);
    let error = super::remove(root.path(), &Nqn::new("nqn.lab").unwrap()).unwrap_err();
    assert!(matches!(error, ServeError::Served { process: 7, .. }), "{error:?}");
    served.remove().unwrap();
    assert!(noted(root.path()).unwrap().is_empty());
}
