//! The command that continues a copy: the typed one, with `--resume`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use peerlane_engine::{CopyOptions, DEADLINE, Sparse};
use peerlane_results::Asked;
use peerlane_units::{Bytes, Named as _, Nanos};

/// Options of a copy that its continuation must have, too.
pub(super) struct ResumeCommand {
    pub(super) options: CopyOptions,
    pub(super) timeout: Nanos,
}

impl ResumeCommand {
    /// The command for these targets of one source, as a shell takes it. Options with their usual value
    /// are left out; so is a trace, which needs a new file.
    pub(super) fn for_targets(&self, asked: &[&Asked]) -> String {
        let program = std::env::args_os().next().unwrap_or_else(|| "peerlane".into());
        let words = self.words(asked);
        std::iter::once(&program)
            .chain(&words)
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn words(&self, asked: &[&Asked]) -> Vec<OsString> {
        let source = asked.first().map(|asked| &asked.source);
        let ends = source.into_iter().chain(asked.iter().map(|asked| &asked.target));
        let ends: Vec<OsString> = ends.map(OsString::from).collect();
        let options: Vec<OsString> = asked.first().map_or(Vec::new(), |asked| self.options(asked));
        let copy = [OsString::from("copy")];
        if ends.iter().any(|end| end.as_bytes().starts_with(b"-")) {
            // Behind `--` there are no options.
            return [&copy[..], &options, &["--".into()], &ends].concat();
        }
        [&copy[..], &ends, &options].concat()
    }

    fn options(&self, asked: &Asked) -> Vec<OsString> {
        let usual = Asked::between("", "");
        let options = &self.options;
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: Option<OsString>| {
            words.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        };
        let other = |is_other: bool, value: String| is_other.then(|| value.into());
        let bytes = |Bytes(bytes): Bytes| bytes.to_string();
        option("--route", other(asked.route != usual.route, asked.route.to_string()));
        option("--via", asked.via.clone().map(Into::into));
        option("--block", other(asked.block != usual.block, bytes(asked.block)));
        option("--depth", other(asked.depth != usual.depth, asked.depth.to_string()));
        option("--offset", other(asked.offset != usual.offset, bytes(asked.offset)));
        option("--length", asked.length.map(|length| bytes(length).into()));
        let is_other = asked.target_offset != usual.target_offset;
        option("--target-offset", other(is_other, bytes(asked.target_offset)));
        option("--verify", other(asked.verify != usual.verify, asked.verify.to_string()));
        for stage in &asked.stages {
            option("--stage", Some(stage.into()));
        }
        option("--manifest", options.stages.manifest.clone().map(Into::into));
        option("--stage-twin", options.stages.twin.clone().map(Into::into));
        option("--journal", options.journal.clone().map(Into::into));
        option("--sparse", other(options.sparse != Sparse::Auto, options.sparse.name().to_owned()));
        let names: Vec<&str> = options.preserve.iter().map(|one| one.name()).collect();
        option("--preserve", other(!names.is_empty(), names.join(",")));
        option("--limit", options.limit.map(|limit| limit.0.to_string().into()));
        option("--evidence", other(options.watch_dma, "dma".to_owned()));
        option("--timeout", other(self.timeout != DEADLINE, self.timeout.exact()));
        words.extend(asked.force.then(|| "--force".into()));
        words.push("--resume".into());
        words
    }
}

/// One word for any POSIX shell; bytes that are not UTF-8 need a shell with `$'...'`.
pub(crate) fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return word.to_string_lossy().into_owned();
    }
    match word.to_str().filter(|text| !text.contains(char::is_control)) {
        Some(text) => format!("'{}'", text.replace('\'', "'\\''")),
        None => {
            let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("$'{escaped}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use clap::Parser as _;
    use peerlane_engine::stages::Stages;
    use peerlane_engine::{Metadatum, Start};
    use peerlane_results::{RouteChoice, VerifyMode};
    use peerlane_units::ByteRate;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::copy;

    fn resume(options: CopyOptions, timeout: Nanos) -> ResumeCommand {
        ResumeCommand { options, timeout }
    }

    fn text(words: &[OsString]) -> String {
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn usual_options_are_left_out() {
        let asked = ["a", "b"].map(|target| Asked::between("s", target));
        let resume = resume(CopyOptions::default(), DEADLINE);
        let all = resume.words(&asked.iter().collect::<Vec<_>>());
        assert_eq!(text(&all), "copy s a b --resume");
        assert_eq!(text(&resume.words(&[&asked[1]])), "copy s b --resume");
        let dashed = Asked::between("-s", "b");
        assert_eq!(text(&resume.words(&[&dashed])), "copy --resume -- -s b");
    }

    #[test]
    fn every_option_is_read_back() {
        let asked = Asked {
            route: RouteChoice::Host,
            via: Some("host".to_owned()),
            block: Bytes::kib(64),
            depth: 4,
            offset: Bytes(512),
            length: Some(Bytes(1000)),
            target_offset: Bytes(4096),
            verify: VerifyMode::Full,
            force: true,
            stages: vec!["digest".to_owned()],
            ..Asked::between("it's", "b")
        };
        let options = CopyOptions {
            journal: Some("j".into()),
            sparse: Sparse::Never,
            limit: Some(ByteRate(5_000_000)),
            watch_dma: true,
            preserve: vec![Metadatum::Mode, Metadatum::Xattr],
            stages: Stages { manifest: Some("m".into()), twin: Some("t".into()) },
            ..CopyOptions::default()
        };
        let words = resume(options.clone(), Nanos::seconds(90)).words(&[&asked]);
        let line = std::iter::once(OsString::from("p")).chain(words);
        let Command::Copy(read) = Cli::try_parse_from(line).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(read.transfer.asked(), [asked]);
        assert_eq!(read.transfer.timeout, Nanos::seconds(90));
        let found = copy::options(&read);
        assert_eq!(found.start, Start::Resume);
        let of = |options: &CopyOptions| {
            let CopyOptions { journal, sparse, limit, watch_dma, preserve, stages, .. } =
                options.clone();
            (journal, sparse, limit, watch_dma, preserve, stages.manifest, stages.twin)
        };
        assert_eq!(of(&found), of(&options));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["it's a file", "$HOME", ""].map(OsString::from);
        assert_eq!(text(&words), r"'it'\''s a file' '$HOME' ''");
        let odd = OsString::from_vec(vec![b'a', 0xff, b'\n']);
        assert_eq!(quoted(&odd), r"$'\x61\xff\x0a'");
    }

    #[test]
    fn a_shell_gives_the_words_back() {
        let words = ["p", "it's", "a b", "$(x)", "`y`", "\\", "*", "\"", ""];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let script = format!("printf '%s\\0' {}", text(&words));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let found: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        let expected: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(found[..expected.len()], expected[..]);
    }
}
