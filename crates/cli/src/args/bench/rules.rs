//! Rules between the options that `bench` shares with its commands.
//!
//! The argument parser judges each command by itself, and an option of `bench` may stand before the
//! command or after it. So these rules are judged when all words are read, in the parser's own words.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error, Id};

use super::common::{MODEL, RUN, WORKLOAD};

/// Options that exclude others.
const CONFLICTS: [(&str, &[&str]); 2] = [
    (
        "machine",
        &[
            "scratch",
            "force",
            "resume",
            "timeout",
            "warm_up",
            "repeats",
            "until",
            "fio",
            "classical",
        ],
    ),
    ("resume", &["output"]),
];
/// Options that need another.
const NEEDS: [(&str, &str); 2] = [("parameters", "machine"), ("machine", "on")];

/// True where a command of `bench` takes the shared options below a heading.
fn takes(command: &str, heading: &str) -> bool {
    match command {
        "compare" | "attach" => false,
        "run" => heading == RUN || heading == MODEL,
        _ => true,
    }
}

/// Options that a command has of `bench` and does not take.
fn is_refused(command: &Command, option: &Arg) -> bool {
    let heading = option.get_help_heading();
    option.is_global_set()
        && heading.is_some_and(|heading| is_shared(heading) && !takes(command.get_name(), heading))
}

fn is_shared(heading: &str) -> bool {
    [WORKLOAD, RUN, MODEL].contains(&heading)
}

/// The options of a command by heading that `bench` above it has, for its help; empty for one that
/// takes none.
pub(in crate::args) fn shared_options(command: &Command, above: &[Id]) -> String {
    let line = |heading: &str| {
        let taken = command.get_arguments().filter(|option| {
            option.get_help_heading() == Some(heading)
                && above.contains(option.get_id())
                && option.is_global_set()
                && !is_refused(command, option)
        });
        let names: Vec<String> =
            taken.filter_map(Arg::get_long).map(|name| format!("--{name}")).collect();
        (!names.is_empty()).then(|| format!("\n{heading}: {}", names.join(" ")))
    };
    let lines: String = [WORKLOAD, RUN, MODEL].into_iter().filter_map(line).collect();
    match lines.is_empty() {
        true => lines,
        false => format!("Options of bench, explained by `peerlane bench --help`:{lines}\n\n"),
    }
}

/// Hides what a command of `bench` does not take.
pub(in crate::args) fn hide_refused(command: Command) -> Command {
    let of = command.clone();
    command.mut_args(|option| if is_refused(&of, &option) { option.hide(true) } else { option })
}

/// Judges the options of one command of `bench`.
///
/// # Errors
/// When one is not taken, excludes another, or lacks one.
pub(in crate::args) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let given: Vec<&str> = (matches.ids().map(Id::as_str))
        .filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine))
        .collect();
    let find = |id: &str| command.get_arguments().find(|option| option.get_id() == id);
    let named = |id: &str| find(id).map(ToString::to_string).unwrap_or_default();
    let error = |kind, context: Vec<(ContextKind, ContextValue)>| {
        let mut command = command.clone();
        let usage = ContextValue::StyledStr(command.render_usage());
        let mut error = Error::new(kind).with_cmd(&command);
        error.insert(ContextKind::Usage, usage);
        for (kind, value) in context {
            error.insert(kind, value);
        }
        Err(error)
    };
    let text = ContextValue::String;
    if let Some(option) =
        given.iter().filter_map(|id| find(id)).find(|one| is_refused(command, one))
    {
        let name = format!("--{}", option.get_long().unwrap_or_default());
        return error(ErrorKind::UnknownArgument, vec![(ContextKind::InvalidArg, text(name))]);
    }
    if !takes(command.get_name(), MODEL) {
        return Ok(());
    }
    for (one, others) in CONFLICTS {
        let other = others.iter().find(|other| given.contains(other));
        if let Some(other) = other.filter(|_| given.contains(&one)) {
            let context = vec![
                (ContextKind::InvalidArg, text(named(one))),
                (ContextKind::PriorArg, text(named(other))),
            ];
            return error(ErrorKind::ArgumentConflict, context);
        }
    }
    let is_on_model = matches.get_one("on") == Some(&super::On::Model);
    let needs = NEEDS.into_iter().chain(is_on_model.then_some(("on", "machine")));
    for (one, needed) in needs {
        if given.contains(&one) && !given.contains(&needed) {
            let missing = ContextValue::Strings(vec![named(needed)]);
            return error(
                ErrorKind::MissingRequiredArgument,
                vec![(ContextKind::InvalidArg, missing)],
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::args::try_parse;

    fn said(words: &str) -> String {
        let words = words.split(' ').map(Into::into).collect::<Vec<_>>();
        try_parse(&words).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn shared_options_stand_before_or_after_the_kind() {
        for words in ["--block 4K sweep a b", "sweep a b --block 4K", "-f sweep --on this a b"] {
            assert_eq!(said(&format!("peerlane bench {words}")), "");
        }
    }

    #[test]
    fn rules_hold_on_either_side_of_the_kind() {
        for (words, expected) in [
            (
                "--machine pair sweep a b --on model --force",
                "'--machine <WHAT>' cannot be used with '--force'",
            ),
            ("--on model --classical roundtrip a --via c", "unexpected argument '--classical'"),
            ("--machine pair roundtrip a --via c --classical", "cannot be used with '--classical'"),
            (
                "--resume r.json sweep a b -o s.json",
                "'--resume <RUN.json>' cannot be used with '--output <FILE>'",
            ),
            ("--on model sweep a b", "required arguments were not provided:\n  --machine <WHAT>"),
            (
                "--parameters p sweep a b",
                "required arguments were not provided:\n  --machine <WHAT>",
            ),
            ("--machine pair sweep a b", "required arguments were not provided:\n  --on <WHERE>"),
        ] {
            let said = said(&format!("peerlane bench {words}"));
            assert!(said.contains(expected), "{words}: {said}");
        }
    }

    #[test]
    fn commands_without_shared_options_refuse_them() {
        for words in [
            "--block 4K run w.toml",
            "run w.toml --block 4K",
            "compare a b --on model",
            "--scratch x attach a --dma d",
        ] {
            let said = said(&format!("peerlane bench {words}"));
            assert!(said.contains("unexpected argument '--"), "{words}: {said}");
        }
        assert_eq!(said("peerlane bench run w.toml --on model --machine pair"), "");
    }
}
