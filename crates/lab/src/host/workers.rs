//! Programs of the host that work on the memory of cards, next to a guest that tells them where.
//!
//! A program starts when QEMU connects its port, with the memory's file as its argument and the port as
//! standard input and output. It is killed with its process group at the end of the run, and by the
//! kernel when this process dies.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::cards::LabCard;
use crate::{LabError, tools};

/// Programs by card, in the order of their ports.
#[derive(Debug, Default)]
pub(super) struct CardWorkers(Vec<CardWorker>);

#[derive(Debug)]
struct CardWorker {
    card: String,
    program: PathBuf,
    memory: PathBuf,
    child: Option<Child>,
    /// Set when the program has ended before the guest's command.
    early_end: Option<ExitStatus>,
}

impl CardWorkers {
    /// Pairs programs with the memory of their cards.
    ///
    /// # Errors
    /// For a card that the machine lacks or that is named twice, and a file that is not a program.
    pub(super) fn new(programs: &[(String, PathBuf)], cards: &[LabCard]) -> Result<Self, LabError> {
        let mut workers: Vec<CardWorker> = Vec::new();
        for (card, program) in programs {
            let refused = |reason: &str| LabError::BadWorker {
                card: card.clone(),
                program: program.clone(),
                reason: reason.to_owned(),
            };
            let Some(LabCard { memory, .. }) = cards.iter().find(|known| known.name == *card)
            else {
                return Err(refused("the machine has no card of this name"));
            };
            if workers.iter().any(|worker| worker.card == *card) {
                return Err(refused("the card has one already"));
            }
            if !tools::is_executable(program) {
                return Err(refused("it is not an executable file"));
            }
            let program = program.canonicalize().map_err(LabError::io("run", program))?;
            let (card, memory) = (card.clone(), memory.clone());
            workers.push(CardWorker { card, program, memory, child: None, early_end: None });
        }
        Ok(Self(workers))
    }

    /// Name of the socket of the program at `index`, in the folder of the run.
    pub(super) fn socket(index: usize) -> String {
        format!("worker{index}")
    }

    /// Number of programs.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Starts the program at `index` on a connection with the guest.
    pub(super) fn start(&mut self, index: usize, port: UnixStream) -> Result<(), LabError> {
        let Some(worker) = self.0.get_mut(index) else { return Ok(()) };
        let port = OwnedFd::from(port);
        let output = port.try_clone().map_err(LabError::io("run", &worker.program))?;
        let mut command = tools::bound_command(&worker.program);
        command.arg(&worker.memory).stdin(port).stdout(output).stderr(Stdio::inherit());
        let child = command.process_group(0).spawn();
        worker.child = Some(child.map_err(LabError::io("run", &worker.program))?);
        Ok(())
    }

    /// Notes programs that have ended; called only before the guest's command has.
    pub(super) fn note_early_ends(&mut self) {
        for worker in &mut self.0 {
            let Some(child) = &mut worker.child else { continue };
            if let Ok(Some(status)) = child.try_wait() {
                tracing::debug!(card = worker.card, %status, "the worker ended early");
                worker.early_end = Some(status);
                worker.child = None;
            }
        }
    }

    /// Programs that ended before the guest's command, by card.
    pub(super) fn early_ends(&self) -> Vec<(String, ExitStatus)> {
        let early = self.0.iter().filter_map(|one| Some((one.card.clone(), one.early_end?)));
        early.collect()
    }

    /// Adds the first program that ended early to the reason why a run failed.
    pub(super) fn explain(&self, end: LabError) -> LabError {
        match self.early_ends().into_iter().next() {
            Some((card, status)) => LabError::WorkerEnded { card, status, end: Box::new(end) },
            None => end,
        }
    }
}

impl Drop for CardWorker {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // Errors mean that it has ended by itself.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
    }
}

/// Arguments of QEMU: a port of the guest for the program of each card.
pub(super) fn arguments(programs: &[(String, PathBuf)]) -> Vec<String> {
    let port = |(index, (card, _)): (usize, &(String, PathBuf))| {
        let socket = CardWorkers::socket(index);
        let name = crate::protocol::worker_port(card);
        [
            "-chardev".to_owned(),
            format!("socket,id={socket},path={socket}"),
            "-device".to_owned(),
            format!("virtserialport,bus=ports.0,chardev={socket},name={name}"),
        ]
    };
    programs.iter().enumerate().flat_map(port).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    use peerlane_fabric::FunctionId;

    use super::*;

    fn card() -> LabCard {
        LabCard { function: FunctionId(0), name: "card".to_owned(), memory: "/memory".into() }
    }

    fn workers(program: &str) -> Result<CardWorkers, LabError> {
        CardWorkers::new(&[("card".to_owned(), program.into())], &[card()])
    }

    #[test]
    fn unusable_programs_are_refused() {
        let twice = ["card", "card"].map(|card| (card.to_owned(), PathBuf::from("/bin/sh")));
        let refusals = [
            CardWorkers::new(&[("b".to_owned(), "/bin/sh".into())], &[card()]),
            CardWorkers::new(&twice, &[card()]),
            workers("/etc/passwd"),
        ];
        for (refusal, says) in refusals.into_iter().zip(["no card", "one already", "executable"]) {
            let error = refusal.expect_err("a refusal").to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn dropped_workers_end_with_their_children() {
        let mut workers = workers("/bin/sh").expect("a program");
        let (guest, port) = UnixStream::pair().expect("sockets");
        // As its argument: the shell reads its commands from standard input.
        workers.0[0].memory = "-s".into();
        workers.start(0, port).expect("a shell");
        (&guest).write_all(b"sleep 1000 & echo begun; wait\n").expect("room");
        let mut lines = BufReader::new(&guest);
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "begun\n");
        workers.note_early_ends();
        assert_eq!(workers.early_ends(), []);
        drop(workers);
        // The child had the socket open as well.
        assert_eq!(lines.read(&mut [0]).expect("an end"), 0);
    }

    #[test]
    fn early_ends_explain_failures() {
        let mut workers = workers("/bin/false").expect("a program");
        let (mut guest, port) = UnixStream::pair().expect("sockets");
        workers.start(0, port).expect("it runs");
        assert_eq!(guest.read(&mut [0]).expect("an end"), 0);
        while workers.early_ends().is_empty() {
            std::thread::yield_now();
            workers.note_early_ends();
        }
        let error = workers.explain(LabError::Interrupted);
        assert!(error.to_string().contains("exit status: 1"), "{error}");
        assert!(matches!(error.end(), LabError::Interrupted));
    }
}
