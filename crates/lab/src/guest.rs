//! The program as the first process of the guest.
//!
//! It mounts the usual file systems, waits for the drives, names them, runs the command between two
//! marks of the DMA recorder, sends the results home and powers the machine off. It never returns
//! in success. Problems go to the control port; the console holds the kernel's view.

mod cards;
mod command;
mod drives;
mod moment;
mod ports;
mod system;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::mark::Mark;
use crate::protocol::{DRIVES_DIR, GuestJob, GuestPort, JOB_PATH, Message, OUT_DIR, Sent};

pub use moment::moment;

/// True when this process is the first process of a lab's guest.
pub fn is_guest() -> bool {
    let is_init = std::env::args_os()
        .next()
        .is_some_and(|name| std::path::Path::new(&name).file_name().is_some_and(|n| n == "init"));
    is_init && std::process::id() == 1 && std::path::Path::new(JOB_PATH).is_file()
}

/// Does the guest's work and powers the machine off; returns only when that fails.
pub fn guest_main() -> ExitCode {
    if let Err(error) = work() {
        system::say(&format!("lab guest: {error}"));
    }
    if let Err(error) = system::power_off() {
        system::say(&format!("lab guest: cannot power off: {error}"));
    }
    ExitCode::FAILURE
}

fn work() -> io::Result<()> {
    system::mount_all().map_err(during("mount"))?;
    let job: GuestJob = serde_json::from_reader(io::BufReader::new(File::open(JOB_PATH)?))?;
    system::set_host_name(&job.machine).map_err(during("set the host name"))?;
    system::load_modules(&job.modules)?;
    let deadline = Instant::now() + Duration::from_secs(job.drive_wait_seconds);
    let control = ports::open_both_ways(GuestPort::Control, deadline);
    let mut control = control.map_err(during("open control port"))?;
    let end = match run(&job, &mut control, deadline) {
        Ok((status, sent)) => Message::Exited { status, sent },
        Err(error) => Message::Failed { reason: error.to_string() },
    };
    let deadline = Instant::now() + Duration::from_secs(job.host_wait_seconds);
    end_with(&mut control, &end, deadline).map_err(during("tell the host how it ended"))
}

/// Sends the last message, and waits until the host has all that was sent before.
fn end_with(
    control: &mut (impl Read + Write + AsFd),
    end: &Message,
    deadline: Instant,
) -> io::Result<()> {
    send(control, end)?;
    ports::answer(control, deadline).map(drop)
}

/// Runs the command and sends its output; returns its exit status, and the bytes sent.
fn run(job: &GuestJob, control: &mut File, deadline: Instant) -> io::Result<(i32, Sent)> {
    system::install_applets().map_err(during("install busybox"))?;
    if let Some(end) = job.network {
        system::join_network(end).map_err(during("join the network"))?;
    }
    for found in drives::wait_for(&job.drives, deadline)? {
        drives::link(&found)
            .map_err(during(&format!("name drive {} in {DRIVES_DIR}", found.name)))?;
        send(control, &found.into_message())?;
    }
    for found in cards::wait_for(&job.cards, deadline)? {
        send(control, &found)?;
    }
    for port in &job.workers {
        ports::link(port, deadline).map_err(during(&format!("name port {port}")))?;
    }
    let stdout = ports::open(GuestPort::Stdout, deadline).map_err(during("open output port"))?;
    let stderr = ports::open(GuestPort::Stderr, deadline).map_err(during("open error port"))?;
    send(control, &Message::Started)?;
    Mark::WindowStart.leave().map_err(during("mark the start in the LPC bridge"))?;
    let status = if job.shell {
        command::shell(job.network).map(|status| (status, [0; 2])).map_err(during("start a shell"))
    } else {
        command::run(&job.command, job.network, stdout, stderr)
    };
    Mark::WindowEnd.leave().map_err(during("mark the end in the LPC bridge"))?;
    let (status, [stdout, stderr]) = status?;
    let out = ports::open(GuestPort::Out, deadline).map_err(during("open results port"))?;
    let out = send_results(out).map_err(during(&format!("send {OUT_DIR}")))?;
    Ok((status, Sent { stdout, stderr, out }))
}

/// Sends the files that the command left; returns the bytes of the archive.
fn send_results(port: File) -> io::Result<u64> {
    let port = io::BufWriter::with_capacity(1 << 20, ports::Counted::new(port));
    let mut archive = tar::Builder::new(port);
    archive.follow_symlinks(false);
    archive.append_dir_all(".", OUT_DIR)?;
    let mut port = archive.into_inner()?;
    port.flush()?;
    Ok(port.get_ref().sent)
}

fn send(control: &mut impl Write, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    control.write_all(&line)
}

fn during(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.to_owned();
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::protocol::DONE;

    #[test]
    fn guest_lives_until_output_is_received() {
        let (mut guest, mut host) = UnixStream::pair().expect("sockets");
        let is_answered = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| {
                let end = Message::Exited { status: 0, sent: Sent::default() };
                let deadline = Instant::now() + Duration::from_secs(86_400);
                end_with(&mut guest, &end, deadline).expect("an answer");
                assert!(is_answered.load(Ordering::SeqCst), "before the answer");
            });
            host.read_exact(&mut [0]).expect("the message");
            is_answered.store(true, Ordering::SeqCst);
            writeln!(host, "{DONE}").expect("room");
            ending.join().expect("it waited");
        });
    }
}
