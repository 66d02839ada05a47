//! The program `peerlane`: reads arguments, calls the library, prints.
//!
//! It chooses which question a command line asks, a pair or a copy; the library crates answer it. Their
//! results become words here. Only [`printer::Printer`] writes to the terminal, and only [`exit::Exit`] becomes an
//! exit status. As process 1 of a lab guest the program is that guest's `init`.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod error;
mod exit;
mod machines;
mod output_file;
mod printer;
mod render;
mod signals;
mod version;
mod words;

use std::ffi::OsString;
use std::panic;
use std::process::ExitCode;

use args::ColorChoice;
use commands::check;
use exit::Exit;
use peerlane::small_file;
use printer::Printer;

fn main() -> ExitCode {
    if peerlane_lab::is_guest() {
        return peerlane_lab::guest_main();
    }
    signals::outlive_file_limit();
    let words: Vec<OsString> = std::env::args_os().collect();
    let plain = Printer::plain(color_among(&words));
    printer::report_panics(plain);
    let is_check = check::is_asked_for(&words);
    let exit = panic::catch_unwind(|| run(&words, plain, is_check)).unwrap_or(Exit::Failed);
    let exit = match exit {
        Exit::Failed if is_check => Exit::Command(check::UNKNOWN),
        exit => exit,
    };
    exit.into()
}

fn run(words: &[OsString], plain: Printer, is_check: bool) -> Exit {
    let cli = match words::read(words, plain) {
        Ok(cli) => cli,
        // The object of `--json` says it.
        Err(Exit::Failed) if is_check && words::wants_json(words) => {
            return Exit::Command(check::UNKNOWN);
        }
        Err(Exit::Failed) if is_check => return check::failed("wrong usage", plain),
        Err(exit) => return exit,
    };
    let printer = Printer::new(&cli.global);
    printer.start_log();
    commands::run(&cli.command, printer).unwrap_or_else(|failure| {
        printer.failure(&failure);
        if is_check {
            return check::failed(&failure.in_one_line(), printer);
        }
        if printer.is_json() {
            printer.failure_object(&failure);
        }
        failure.status()
    })
}

/// The colour that the words name, found before the words are parsed, since parsing them may fail.
fn color_among(words: &[OsString]) -> ColorChoice {
    let mut words = words.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let choice = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None if word == "--" => break,
            None => None,
        };
        match choice {
            Some("always") => return ColorChoice::Always,
            Some("never") => return ColorChoice::Never,
            _ => {}
        }
    }
    ColorChoice::Auto
}
