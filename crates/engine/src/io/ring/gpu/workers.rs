//! Threads that call cuFile, whose calls return when they are done: one request each.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use peerlane_memory::cuda::DeviceMemory;
use peerlane_memory::cufile::{
    CuFileError, CuFileSession, IoFailure, OpenFile, RegisteredMemory, TransferSpan,
};
use peerlane_units::Nanos;
use rustix::io::Errno;

use super::super::{Action, Completion, FileId, Operation, PushError};

/// Most threads: each is a request in flight.
const THREADS_MAX: u32 = 128;
/// Time that a dropped ring waits for requests. Then it leaves them to their threads, which hold
/// their file and memory.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// A request with all that it needs.
struct WorkerJob {
    operation: Operation,
    file: Arc<OpenFile>,
    memory: Arc<RegisteredMemory>,
}

/// The end of one, by its tag.
struct FinishedRequest {
    tag: u64,
    result: Result<u64, IoFailure>,
}

pub(super) struct Workers {
    session: Arc<CuFileSession>,
    files: HashMap<FileId, Arc<OpenFile>>,
    memories: HashMap<usize, Arc<RegisteredMemory>>,
    /// `None` only while it is dropped.
    jobs: Option<Sender<WorkerJob>>,
    done: Receiver<FinishedRequest>,
    pending: usize,
    depth: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn new(session: &Arc<CuFileSession>, depth: u32) -> io::Result<Self> {
        let depth = usize::try_from(depth.clamp(1, THREADS_MAX)).unwrap_or(1);
        let (jobs, queue) = channel::<WorkerJob>();
        let (sender, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for number in 0..depth {
            let (session, queue) = (Arc::clone(session), Arc::clone(&queue));
            let sender = sender.clone();
            let work = move || while work(&session, &queue, &sender) {};
            threads.push(thread::Builder::new().name(format!("cufile-{number}")).spawn(work)?);
        }
        let (files, memories) = (HashMap::new(), HashMap::new());
        let (session, jobs) = (Arc::clone(session), Some(jobs));
        Ok(Self { session, files, memories, jobs, done, pending: 0, depth, threads })
    }

    pub(super) fn attach_file(&mut self, id: FileId, file: File) -> Result<(), CuFileError> {
        self.files.insert(id, Arc::new(self.session.file(file)?));
        Ok(())
    }

    pub(super) fn attach_memory(
        &mut self,
        region: usize,
        memory: &Arc<DeviceMemory>,
    ) -> Result<(), CuFileError> {
        self.memories.insert(region, Arc::new(self.session.memory(Arc::clone(memory))?));
        Ok(())
    }

    pub(super) fn detach_file(&mut self, id: FileId) {
        self.files.remove(&id);
    }

    pub(super) fn detach_memory(&mut self, region: usize) {
        self.memories.remove(&region);
    }

    pub(super) fn space(&self) -> u32 {
        u32::try_from(self.depth - self.pending.min(self.depth)).unwrap_or(u32::MAX)
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn push(&mut self, operation: Operation) -> Result<Option<String>, PushError> {
        let (file, region) = (operation.file, operation.region);
        let known = self.files.get(&file).ok_or(PushError::UnknownFile { file })?;
        let index = usize::try_from(region.0).unwrap_or(usize::MAX);
        let memory = self.memories.get(&index).ok_or(PushError::UnknownRegion { region })?;
        let job = WorkerJob { operation, file: Arc::clone(known), memory: Arc::clone(memory) };
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        if sent != Some(true) {
            return Err(PushError::Full { space: 0 });
        }
        self.pending += 1;
        Ok(None)
    }

    /// Takes finished requests. Returns the reason for a failure.
    pub(super) fn look(&mut self, ended: &mut VecDeque<Completion>) -> Option<String> {
        let mut failed = None;
        while let Ok(done) = self.done.try_recv() {
            failed = failed.or(self.settle(&done, ended));
        }
        failed
    }

    /// Waits for one request; says why if it failed.
    pub(super) fn wait(
        &mut self,
        timeout: Nanos,
        ended: &mut VecDeque<Completion>,
    ) -> Option<String> {
        let done = self.done.recv_timeout(Duration::from(timeout)).ok()?;
        self.settle(&done, ended)
    }

    fn settle(
        &mut self,
        done: &FinishedRequest,
        ended: &mut VecDeque<Completion>,
    ) -> Option<String> {
        self.pending = self.pending.saturating_sub(1);
        let result = match done.result {
            Ok(moved) => u32::try_from(moved).map_err(|_| Errno::OVERFLOW),
            Err(failure) => Err(failure.errno()),
        };
        ended.push_back(Completion { tag: done.tag, result });
        match done.result {
            // The errno says it all.
            Ok(_) | Err(IoFailure::System(_)) => None,
            Err(failure) => Some(failure.to_string()),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        let until = Instant::now() + DROP_WAIT;
        while self.pending > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if self.done.recv_timeout(left).is_err() {
                tracing::warn!(requests = self.pending, "leaving requests to cuFile");
                return;
            }
            self.pending -= 1;
        }
        // They have nothing to do, so that they end now; the session ends with the last who holds it.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Does the next request; false when there are no more.
fn work(
    session: &CuFileSession,
    queue: &Mutex<Receiver<WorkerJob>>,
    done: &Sender<FinishedRequest>,
) -> bool {
    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let Ok(WorkerJob { operation, file, memory }) = job else { return false };
    let span = TransferSpan {
        file: &file,
        file_offset: operation.file_offset,
        memory: &memory,
        memory_offset: operation.region_offset,
        length: operation.length.into(),
    };
    let result = match operation.action {
        Action::Read => session.read(&span),
        _ => session.write(&span),
    };
    // Before the end is told, so that whoever drops the ring then is the last who holds them.
    drop((file, memory));
    done.send(FinishedRequest { tag: operation.tag, result }).is_ok()
}
