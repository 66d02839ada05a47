//! Exports on a configfs in memory that refuses what the kernel refuses.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;

use super::steps::{make, remove};
use super::tree::Tree;
use super::*;

/// Folders, links and attributes, and the step that fails.
#[derive(Debug, Default)]
struct Fake {
    folders: RefCell<BTreeSet<PathBuf>>,
    links: RefCell<BTreeSet<PathBuf>>,
    attributes: RefCell<BTreeMap<PathBuf, String>>,
    /// Changes until one fails, and the answer.
    fails: RefCell<Option<(u32, Errno)>>,
    log: RefCell<Vec<String>>,
}

impl Fake {
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

impl Tree for Fake {
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

    fn has(&self, _path: &Path) -> bool {
        true
    }
}

fn wanted() -> Wanted {
    Wanted {
        subsystem: Nqn::new("nqn.lab").unwrap(),
        device: "/dev/nvme0n1".into(),
        uuid: "11111111-2222-4333-8444-555555555555".to_owned(),
        memory: PayloadMemory::Host,
        listen: Listen::Tcp("10.0.0.1:4420".parse().unwrap()),
        hosts: Hosts::These(vec![Nqn::new("nqn.host").unwrap()]),
    }
}

fn items() -> Items {
    Items { subsystem: "nqn.lab".to_owned(), port: 3, hosts: vec!["nqn.host".to_owned()] }
}

#[test]
fn an_export_is_made_in_order_and_removed_from_its_namespace_on() {
    let fake = Fake::default();
    make(&fake, &items(), &wanted()).unwrap();
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
fn nothing_is_left_whichever_step_fails() {
    let steps = {
        let fake = Fake::default();
        make(&fake, &items(), &wanted()).unwrap();
        u32::try_from(fake.log.borrow().len()).unwrap()
    };
    assert!(steps > 12, "{steps}");
    for step in 0..steps {
        let fake = Fake { fails: RefCell::new(Some((step, Errno::IO))), ..Fake::default() };
        make(&fake, &items(), &wanted()).unwrap_err();
        assert!(fake.is_empty(), "step {step}: {fake:?}");
    }
}

#[test]
fn a_subsystem_of_another_is_left_alone() {
    let fake = Fake::default();
    fake.make(Path::new("subsystems/nqn.lab")).unwrap();
    let error = make(&fake, &items(), &wanted()).unwrap_err();
    assert!(matches!(error, MakeError::NameTaken { .. }), "{error:?}");
    assert!(fake.folders.borrow().contains(Path::new("subsystems/nqn.lab")));
}

#[test]
fn a_port_of_another_is_left_alone() {
    let fake = Fake::default();
    fake.make(Path::new("ports/3")).unwrap();
    fake.link(Path::new("subsystems/other"), Path::new("ports/3/subsystems")).unwrap();
    let error = make(&fake, &items(), &wanted()).unwrap_err();
    assert!(matches!(error, MakeError::Step { action: "make", .. }), "{error:?}");
    assert!(fake.folders.borrow().contains(Path::new("ports/3")));
    assert!(!fake.folders.borrow().contains(Path::new("subsystems/nqn.lab")));
}

#[test]
fn memory_that_the_kernel_took_for_another_word_is_named() {
    let fake = Fake::default();
    let memory = PayloadMemory::P2p("nonsense".to_owned());
    let error = make(&fake, &items(), &Wanted { memory, ..wanted() }).unwrap_err();
    assert!(matches!(error, MakeError::OtherAnswer { .. }), "{error:?}");
    assert!(fake.is_empty());
}

#[test]
fn what_the_kernel_takes_silently_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let refused = |wanted: &Wanted| serve(root.path(), wanted).unwrap_err();
    let error = refused(&Wanted { memory: PayloadMemory::AnyP2p, ..wanted() });
    assert!(matches!(error, MakeError::MemoryNotUsed { transport: "tcp" }), "{error:?}");
    let rdma = Listen::Rdma("10.0.0.1:4420".parse().unwrap());
    let error = refused(&Wanted { listen: rdma, ..wanted() });
    assert!(matches!(error, MakeError::NoRdma { .. }), "{error:?}");
}

#[test]
fn a_note_without_its_program_is_a_leftover() {
    let root = tempfile::tempdir().unwrap();
    let content = |port| Content {
        process: 7,
        device: "/dev/nvme0n1".into(),
        listen: "loop".to_owned(),
        items: Items { port, ..items() },
    };
    let served = Note::write(root.path(), &content(1)).unwrap();
    drop(Note::write(root.path(), &content(2)).unwrap());
    let processes: Vec<_> = own(root.path()).unwrap().iter().map(|own| own.process).collect();
    assert_eq!(processes, [Some(7), None]);
    // One that was killed before its note had a name made nothing.
    std::fs::write(root.path().join("run/peerlane/exports/7-3.new"), "{").unwrap();
    // There is no NVMe target below this root: nothing is left of it but the note.
    std::fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
    let swept = sweep(root.path()).unwrap();
    assert_eq!(swept.len(), 1);
    let error = super::remove(root.path(), &Nqn::new("nqn.lab").unwrap()).unwrap_err();
    assert!(matches!(error, MakeError::Served { process: 7, .. }), "{error:?}");
    served.remove().unwrap();
    assert!(own(root.path()).unwrap().is_empty());
}
