//! Boots a machine file and runs a command in it: `labrun MACHINE.toml [COMMAND...]`, a shell without
//! a command.
//!
//! The least that a program needs to have a lab. With `DMA=FILE` in the environment it also records
//! where payload went; `DRIVE=a=disk.img` gives a drive an image, `OUT_DIR=DIR` receives files.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use peerlane_fabric::Fabric;
use peerlane_lab::{BootOptions, CommandOutcome, Console, LabError, find_kernel, find_qemu};

fn main() -> ExitCode {
    if peerlane_lab::is_guest() {
        return peerlane_lab::guest_main();
    }
    let result = options().and_then(|options| {
        peerlane_lab::run(&options, Box::new(io::stdout()), Box::new(io::stderr()))
    });
    match result {
        Ok(CommandOutcome { status, dma, .. }) => {
            if let Some(dma) = dma.filter(|dma| !dma.is_complete()) {
                say(&format!("warning: {} bytes are unaccounted for", dma.unaccounted_bytes));
            }
            ExitCode::from(u8::try_from(status).unwrap_or(1))
        }
        Err(error) => {
            say(&format!("error: {error}\ncaused by: {}", causes(&error)));
            if let Some(hint) = error.hint() {
                say(&format!("hint: {hint}"));
            }
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<BootOptions, LabError> {
    let mut words = std::env::args_os().skip(1);
    let file = words.next().unwrap_or_default();
    let machine = Fabric::read_machine_file(file.as_ref())
        .map_err(|error| LabError::Usage(format!("{error}: {}", causes(&error))))?;
    let command: Vec<OsString> = words.collect();
    let drive = std::env::var("DRIVE").ok();
    Ok(BootOptions {
        machine,
        drives: drive
            .iter()
            .filter_map(|text| text.split_once('='))
            .map(|(name, image)| (name.to_owned(), image.into()))
            .collect(),
        events: Vec::new(),
        workers: Vec::new(),
        network: None,
        modules: Vec::new(),
        programs: Vec::new(),
        dma: std::env::var_os("DMA").map(Into::into),
        out: std::env::var_os("OUT_DIR").map(Into::into),
        shell: command.is_empty(),
        command,
        kernel: find_kernel(None)?,
        qemu: find_qemu()?,
        program: std::env::current_exe().map_err(|error| LabError::Usage(error.to_string()))?,
        timeout: BootOptions::DEFAULT_TIMEOUT,
        console: std::env::var_os("CONSOLE").map(|path| Console::File(path.into())),
        output: None,
        interrupt: std::sync::Arc::default(),
    })
}

fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(error.source(), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn say(text: &str) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}
