//! What the program does as the first process of the guest.
//!
//! It mounts what a program expects, waits for the drives, names them, runs the command between two
//! marks of the DMA recorder, sends the results home and powers the machine off. It never returns
//! in success. Problems go to the control port; the console holds the kernel's view.

mod cards;
mod command;
mod drives;
mod moment;
mod ports;
mod system;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::mark::Mark;
use crate::protocol::{DRIVES_DIR, JOB_PATH, Job, Message, OUT_DIR, Port};

pub use moment::moment;

/// Whether this process is the first process of a lab's guest.
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
    let job: Job = serde_json::from_reader(io::BufReader::new(File::open(JOB_PATH)?))?;
    system::set_host_name(&job.machine).map_err(during("set the host name"))?;
    system::load_modules(&job.modules)?;
    let deadline = Instant::now() + Duration::from_secs(job.drive_wait_seconds);
    let mut control = ports::open(Port::Control, deadline).map_err(during("open control port"))?;
    let end = match run(&job, &mut control, deadline) {
        Ok(status) => Message::Exited { status },
        Err(error) => Message::Failed { reason: error.to_string() },
    };
    send(&mut control, &end)
}

/// Runs the command and sends its output; returns its exit status.
fn run(job: &Job, control: &mut File, deadline: Instant) -> io::Result<i32> {
    system::install_applets().map_err(during("install busybox"))?;
    for found in drives::wait_for(&job.drives, deadline)? {
        drives::link(&found)
            .map_err(during(&format!("name drive {} in {DRIVES_DIR}", found.name)))?;
        send(control, &found.into_message())?;
    }
    for found in cards::wait_for(&job.cards, deadline)? {
        send(control, &found)?;
    }
    let stdout = ports::open(Port::Stdout, deadline).map_err(during("open output port"))?;
    let stderr = ports::open(Port::Stderr, deadline).map_err(during("open error port"))?;
    send(control, &Message::Started)?;
    Mark::WindowStart.leave().map_err(during("mark the start in the LPC bridge"))?;
    let status = if job.shell {
        command::shell().map_err(during("start a shell"))
    } else {
        command::run(&job.command, stdout, stderr)
    };
    Mark::WindowEnd.leave().map_err(during("mark the end in the LPC bridge"))?;
    let status = status?;
    let out = ports::open(Port::Out, deadline).map_err(during("open results port"))?;
    send_results(out).map_err(during(&format!("send {OUT_DIR}")))?;
    Ok(status)
}

fn send_results(port: File) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::with_capacity(1 << 20, port));
    archive.follow_symlinks(false);
    archive.append_dir_all(".", OUT_DIR)?;
    archive.into_inner()?.flush()
}

fn send(control: &mut File, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    control.write_all(&line)
}

fn during(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    let what = what.to_owned();
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}
