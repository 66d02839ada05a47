//! Man pages and completions of shells, written from the argument parser.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::is_documented;
use crate::args::{bare_command, built};
use crate::commands::completions::script;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::Printer;

/// Completions by shell, each with its path below `/usr/share`.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/peerlane"),
    (Shell::Fish, "fish/vendor_completions.d/peerlane.fish"),
    (Shell::Zsh, "zsh/vendor-completions/_peerlane"),
];

/// Writes all files into a folder that is not there yet.
pub(super) fn write(folder: &Path, printer: Printer) -> Result<Exit, Failure> {
    // A new folder holds nothing that could be overwritten.
    fs::create_dir(folder).map_err(Tried::to(format!("make {}", folder.display())))?;
    let mut files = man_pages().map_err(Tried::to("write man pages"))?;
    files.extend(COMPLETIONS.map(|(shell, path)| (path.to_owned(), script(shell))));
    for (name, content) in &files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, content))
            .map_err(Tried::to(format!("write {}", path.display())))?;
        printer.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Done)
}

/// Returns file name and text of a page for the program and for each command.
fn man_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    add_pages(&built(bare_command().disable_help_flag(true)), "", &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, above: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let name = match above {
        "" => command.get_name().to_owned(),
        above => format!("{above}-{}", command.get_name()),
    };
    let mut text = Vec::new();
    let page = command.clone().name(name.clone()).version(env!("CARGO_PKG_VERSION"));
    Man::new(page).manual("Peerlane").source("").render(&mut text)?;
    pages.push((format!("man/man1/{name}.1"), text));
    for below in command.get_subcommands().filter(|below| is_documented(below)) {
        add_pages(below, &name, pages)?;
    }
    Ok(())
}
