//! Running the command: its output to the ports byte for byte, its exit status back.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::mark::LAB_VARIABLE;
use crate::network::NetworkEnd;
use crate::protocol::{OUT_DIR, PROGRAM_PATH};
use crate::tools;

const SEARCH_PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin";
const HOME: &str = "/root";

/// Runs `words` and passes its output on; returns the exit status as a shell counts it, and the bytes of both outputs.
pub(super) fn run(
    words: &[OsString],
    network: Option<NetworkEnd>,
    stdout: File,
    stderr: File,
) -> io::Result<(i32, [u64; 2])> {
    let mut command = command_of(words)?;
    let mut child = prepare(&mut command, network)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            io::Error::new(error.kind(), format!("cannot run `{program}`: {error}"))
        })?;
    // Pipes, not the ports themselves: a port can be opened once only, which breaks /dev/stdout.
    let outputs = [pass_on(child.stdout.take(), stdout), pass_on(child.stderr.take(), stderr)];
    let status = child.wait()?;
    end_all_other_processes();
    let mut sent = [0; 2];
    for (output, sent) in outputs.into_iter().zip(&mut sent) {
        *sent =
            output.join().map_err(|_| io::Error::other("cannot pass on output: thread died"))??;
    }
    Ok((status_number(status), sent))
}

/// Runs a shell with job control on the console.
pub(super) fn shell(network: Option<NetworkEnd>) -> io::Result<i32> {
    const CONSOLE: &str = "/dev/ttyS0";
    let console = File::options().read(true).write(true).open(CONSOLE)?;
    // `setsid -c` makes the standard input the shell's controlling terminal.
    let mut command = Command::new("/bin/setsid");
    command.args(["-c", "/bin/sh", "-l"]);
    let mut child = prepare(&mut command, network)
        .stdin(console.try_clone()?)
        .stdout(console.try_clone()?)
        .stderr(console)
        .env("PS1", "lab# ")
        .spawn()?;
    let status = child.wait()?;
    end_all_other_processes();
    Ok(status_number(status))
}

fn prepare(command: &mut Command, network: Option<NetworkEnd>) -> &mut Command {
    let ends = network.map(|end| (end.number(), end.address(), end.other().address()));
    command
        .env_clear()
        .env("PATH", SEARCH_PATH)
        .env("HOME", HOME)
        .env("OUT", OUT_DIR)
        .env("TERM", "linux")
        .env(LAB_VARIABLE, "1")
        .envs(ends.iter().flat_map(|(number, own, other)| {
            [
                ("LAB_ROLE", number.to_string()),
                ("LAB_ADDRESS", own.to_string()),
                ("LAB_PEER", other.to_string()),
            ]
        }))
        .current_dir(HOME)
}

/// The command itself, or arguments of the program when its first word is not a program of the
/// guest.
fn command_of(words: &[OsString]) -> io::Result<Command> {
    let (first, rest) = words
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command was given"))?;
    Ok(match resolve(first) {
        Some(program) => {
            let mut command = Command::new(program);
            command.args(rest);
            command
        }
        None => {
            let mut command = Command::new(PROGRAM_PATH);
            command.args(words);
            command
        }
    })
}

fn resolve(word: &OsStr) -> Option<OsString> {
    if Path::new(word).components().count() > 1 {
        return Some(word.to_owned());
    }
    std::env::split_paths(SEARCH_PATH)
        .map(|folder| folder.join(word))
        .find(|path| tools::is_executable(path))
        .map(|_| word.to_owned())
}

fn pass_on<R: Read + Send + 'static>(
    source: Option<R>,
    mut target: File,
) -> thread::JoinHandle<io::Result<u64>> {
    thread::spawn(move || {
        let mut sent = 0;
        let Some(mut source) = source else { return Ok(sent) };
        let mut buffer = vec![0; 64 << 10];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return Ok(sent),
                Ok(read) => {
                    target.write_all(&buffer[..read])?;
                    sent += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    })
}

/// Ends processes that the command left behind, which would hold its pipes open.
fn end_all_other_processes() {
    // Group 1 makes kill(-1): every process but this one. There may be none.
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
}

fn status_number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
