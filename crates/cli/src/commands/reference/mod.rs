//! `peerlane reference`: the reference pages, written from the argument parser and the types of records.

mod records;
mod share;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::args::{self, ReferenceArgs};
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::output_file::{OutputFile, OutputKind, write_together};
use crate::printer::Printer;

/// A page or a schema, of this version or an earlier one.
const PAGE: OutputKind = OutputKind::Marked {
    name: "page of the reference",
    most: 1024,
    is_ours: |beginning| {
        let text = String::from_utf8_lossy(beginning);
        text.contains("\nWritten by `peerlane reference --write") || is_schema(&text)
    },
};

/// True when a text begins as schemas of records do: `"title": "peerlane.copy/1"` in its third
/// line.
fn is_schema(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.next() == Some("{")
        && lines.next().is_some_and(|line| line.starts_with("\"$schema\": "))
        && lines.next().is_some_and(|line| line.starts_with("\"title\": \"peerlane."))
}

/// File name and text of every page, and of every schema.
fn pages() -> Vec<(String, String)> {
    let mut pages =
        vec![("cli.md".to_owned(), command_line()), ("capture.md".to_owned(), captured())];
    pages.extend(records::pages());
    pages
}

/// Writes the pages, or compares them with the existing ones.
///
/// # Errors
/// When a page cannot be read or written.
pub(crate) fn run(args: &ReferenceArgs, printer: Printer) -> Result<Exit, Failure> {
    match (&args.write, &args.check, &args.share) {
        (Some(folder), _, _) => write(folder, printer),
        (_, Some(folder), _) => check(folder),
        (_, _, Some(folder)) => share::write(folder, printer),
        (None, None, None) => Err(Failure::new("none of --write, --check and --share was given")),
    }
}

fn write(folder: &Path, printer: Printer) -> Result<Exit, Failure> {
    // If another program's file is among them, none is written.
    let place = |(name, text): (String, String)| -> Result<_, Failure> {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Tried::to(format!("make {}", parent.display())))?;
        Ok((OutputFile::at(&path, PAGE)?, text.into_bytes()))
    };
    let files: Vec<_> = pages().into_iter().map(place).collect::<Result<_, _>>()?;
    let written: Vec<String> =
        files.iter().map(|(file, _)| format!("wrote {}", file.path().display())).collect();
    write_together(files)?;
    written.iter().for_each(|line| printer.note(line));
    Ok(Exit::Done)
}

fn check(folder: &Path) -> Result<Exit, Failure> {
    for (name, text) in pages() {
        let path = folder.join(name);
        let there =
            fs::read_to_string(&path).map_err(Tried::to(format!("read {}", path.display())))?;
        if there != text {
            return Err(Failure::new(format!("{} is not what the program says", path.display()))
                .hint(format!("peerlane reference --write {}", folder.display()))
                .exit(Exit::Negative));
        }
    }
    Ok(Exit::Done)
}

fn command_line() -> String {
    let mut text = String::from(
        "# The command line\n\n\
         Written by `peerlane reference --write docs/reference` from the program itself.\n",
    );
    // A fixed width, so that the page does not depend on the terminal it was written from.
    section(&mut args::command_at_width(100), &mut text);
    text
}

fn section(command: &mut clap::Command, text: &mut String) {
    let title = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = args::as_shown(&command.render_long_help().to_string());
    // Writing to a String cannot fail.
    let _ = write!(text, "\n## {title}\n\n```text\n{}\n```\n", trimmed(&help));
    for below in command.get_subcommands_mut().filter(|below| is_documented(below)) {
        section(below, text);
    }
}

/// True for a command with a page: not hidden, and not the help of others.
fn is_documented(command: &clap::Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn trimmed(help: &str) -> String {
    help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Page about the content of a capture, from the list that captures are made by.
fn captured() -> String {
    let mut text = String::from(
        "# What a capture holds\n\n\
         Written by `peerlane reference --write docs/reference` from the list that `peerlane capture` goes by. \
         Nothing else of a\nmachine is in a capture, and discovery (`topo`, `plan`) reads nothing else of `/sys`, \
         `/proc`, `/boot`, `/etc`, `/run` and `/usr`.\n\n\
         FUNCTION is a PCI function below `sys/devices`, CONTROLLER its NVMe controller, REMOTE one that \
         another\nmachine serves, DISK a namespace, PARTITION a part of it, STACK a device-mapper or md device. `*` stands for any characters within one name. LIBRARY is \
         any of\n",
    );
    let folders: Vec<String> =
        peerlane_fabric::capture::LIBRARY_FOLDERS.map(|folder| format!("`{folder}`")).into();
    let _ = writeln!(text, "{}.\n", folders.join(", "));
    text.push_str("| Path | Read for | Kept |\n| --- | --- | --- |\n");
    for item in peerlane_fabric::capture::ITEMS {
        let _ = writeln!(text, "| `{}` | {} | {} |", item.path, item.purpose, item.kept.describe());
    }
    text
}
