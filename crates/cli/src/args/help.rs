//! The command tree as help shows it: commands in groups, global options once.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory, FromArgMatches as _};

use super::{Cli, bench};

/// Commands by purpose, those of a first hour first.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Explain", &["topo", "doctor", "plan", "capture"]),
    ("Move", &["copy", "verify", "export"]),
    ("Measure", &["bench", "report"]),
    ("Predict", &["sim"]),
    ("Other", &["help", "completions", "scan", "reproduce", "haystack", "lab"]),
];

const HELP_ABOUT: &str = "Print the help of the program, or of a command";

/// Returns the parser of the program as derived; `help` is a command of the program alone.
pub(crate) fn bare_command() -> Command {
    let command = Cli::command();
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |below| below.disable_help_subcommand(true))
    });
    // They stand before or after the kind of benchmark.
    command.mut_subcommand("bench", |bench| bench.mut_args(|option| option.global(true)))
}

/// Builds the parser, with what each command takes.
pub(crate) fn built(mut command: Command) -> Command {
    command.build();
    command.mut_subcommand("bench", |bench| bench.mut_subcommands(bench::hide_refused))
}

/// Reads a command line.
///
/// # Errors
/// What the parser says of words that it does not take.
pub(crate) fn try_parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    if let Some(("bench", below)) = matches.subcommand() {
        let kind = below.subcommand();
        let bench = command.find_subcommand("bench");
        let found = kind.and_then(|(kind, below)| Some((bench?.find_subcommand(kind)?, below)));
        found.map_or(Ok(()), |(kind, below)| bench::check(kind, below))?;
    }
    Cli::from_arg_matches(&matches)
}

/// Returns the parser of the program, with its help.
pub(crate) fn command() -> Command {
    with_help(bare_command())
}

/// The same with help of a fixed width.
pub(crate) fn command_at_width(columns: usize) -> Command {
    with_help(bare_command().term_width(columns))
}

fn with_help(command: Command) -> Command {
    let command = built(command).mut_subcommand("help", |help| help.about(HELP_ABOUT));
    let template = template(&command);
    without_globals(command).help_template(template)
}

/// A space at which help is not wrapped; [`as_shown`] makes it one again.
const WHOLE: char = '\u{a0}';

/// Text whose commands, which are indented, are not wrapped.
fn whole(text: &str) -> String {
    let line = |line: &str| match line.starts_with("  ") {
        true => line.replace(' ', &WHOLE.to_string()),
        false => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Rendered help as a user sees it.
pub(crate) fn as_shown(help: &str) -> String {
    help.replace(WHOLE, " ")
}

/// Global options remain on every command; the help of the command that declares them shows them.
fn without_globals(command: Command) -> Command {
    let above: Vec<clap::Id> = (command.get_arguments())
        .filter(|arg| arg.is_global_set())
        .map(|arg| arg.get_id().clone())
        .collect();
    command.mut_subcommands(|below| {
        let shared = bench::shared_options(&below, &above);
        let below = below.mut_args(|arg| {
            let is_global = arg.is_global_set() && above.contains(arg.get_id());
            if is_global { arg.hide(true) } else { arg }
        });
        let text = below.get_after_help().map(|text| format!("{text}\n\n"));
        let text = whole(&text.unwrap_or_default()) + "Global options: peerlane help";
        without_globals(below).after_help(shared + &text)
    })
}

fn template(command: &Command) -> StyledStr {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, names) in GROUPS {
        text += &format!("\n{header}{group}:{header:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {literal}{name:11}{literal:#}  {about}\n");
        }
    }
    text += &format!("\n{header}Global options:{header:#}\n{{options}}{{after-help}}");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most words of an option's help line.
    const WORDS_MAX: usize = 12;
    /// First words of help lines without a verb.
    const NO_VERBS: [&str; 8] = ["the", "a", "an", "this", "bytes", "seconds", "first", "form"];
    /// Columns of a terminal that show a command's line whole.
    const COLUMNS: usize = 80;

    fn for_each(command: &Command, check: &mut impl FnMut(&Command)) {
        check(command);
        command.get_subcommands().for_each(|below| for_each(below, check));
    }

    #[test]
    fn option_help_is_short_imperative() {
        let mut wrong = Vec::new();
        for_each(&command(), &mut |command| {
            let name = command.get_bin_name().unwrap_or_default();
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let words: Vec<&str> = help.split_whitespace().collect();
                let first = words.first().map(|word| word.to_lowercase()).unwrap_or_default();
                if words.len() > WORDS_MAX || NO_VERBS.contains(&first.as_str()) {
                    wrong.push(format!("{name} --{}: {help}", arg.get_id()));
                }
            }
        });
        assert!(wrong.is_empty(), "{} options:\n{}", wrong.len(), wrong.join("\n"));
    }

    /// Options of the same name that mean something else in another command.
    const SEVERAL_MEANINGS: [&str; 18] = [
        "block",
        "dma",
        "format",
        "jobs",
        "machine",
        "manifest",
        "on",
        "output",
        "parameters",
        "repeats",
        "resume",
        "rotations",
        "scales",
        "seed",
        "threshold",
        "time",
        "timeout",
        "verify",
    ];

    #[test]
    fn option_of_one_name_has_one_help() {
        let mut known: Vec<(String, String, String)> = Vec::new();
        let mut wrong = Vec::new();
        for_each(&command(), &mut |command| {
            if command.is_hide_set() {
                return;
            }
            let own = command.get_arguments().filter(|arg| !arg.is_positional());
            for arg in own.filter(|arg| !arg.is_hide_set()) {
                let long = arg.get_long().unwrap_or_default().to_owned();
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                match known.iter().find(|(name, ..)| *name == long) {
                    None => known.push((long, arg.to_string(), help)),
                    Some((name, shown, first)) => {
                        let is_equal = *shown == arg.to_string() && *first == help;
                        if !is_equal && !SEVERAL_MEANINGS.contains(&name.as_str()) {
                            wrong.push(format!("{} {arg}: {help}; {first}", command.get_name()));
                        }
                    }
                }
            }
        });
        // Long help has another line for each command with subcommands.
        wrong.retain(|line| !line.contains("--help") && !line.contains("--version"));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = command();
        let visible = command.get_subcommands().filter(|below| !below.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }

    #[test]
    fn program_help_fits_a_terminal() {
        let help = command_at_width(COLUMNS).render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= COLUMNS), "{help}");
        assert_eq!(help.matches("--json").count(), 2, "the option, and the one that keeps it");
    }
}
