//! Errors of boot configurations that cannot be read, and advice on each.

use std::io;
use std::path::PathBuf;

use super::command_line::COMMAND_LINE_SIZE;

/// The forms that are read.
const FORMS: &str = "give a kernel command line, `GRUB_CMDLINE_LINUX=\"...\"`, `options MODULE NAME=VALUE` \
                     or `module NAME`";

/// A boot configuration that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BootConfigurationError {
    /// The system refuses it.
    #[error("cannot read {path}")]
    Read {
        /// File or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is larger than any such file.
    #[error("cannot read {path}: it has more than {limit} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are read.
        limit: u64,
    },
    /// The file is not UTF-8.
    #[error("cannot read {path}: it is not text")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The folder has more entries, or deeper ones, than are looked at.
    #[error("cannot read {path}: it has more than {limit} entries")]
    TooManyEntries {
        /// The folder.
        path: PathBuf,
        /// Entries that are looked at.
        limit: usize,
    },
    /// The folder has no file of a known kind.
    #[error("cannot find a boot configuration in {path}")]
    NothingFound {
        /// The folder.
        path: PathBuf,
    },
    /// A line is of no known form.
    #[error("cannot understand line {line} of {path}: {reason}")]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The fault in it.
        reason: String,
        /// The text to write instead, if that is known.
        hint: Option<String>,
    },
    /// A file with keys of cuFile is not as cuFile reads it.
    #[error("cannot read {path}: {problem}")]
    Cufile {
        /// The file.
        path: PathBuf,
        /// The line and its fault.
        problem: String,
    },
    /// The parameters are longer than a kernel command line.
    #[error(
        "cannot take {path}: its kernel parameters have {bytes} bytes, and the kernel cuts its command line \
         off behind {}", COMMAND_LINE_SIZE - 1
    )]
    TooLong {
        /// File or folder.
        path: PathBuf,
        /// Bytes of all parameters.
        bytes: usize,
    },
}

impl BootConfigurationError {
    /// Advice for the person who gave the file.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("run `ls -l {}`", path.display()),
            Self::TooLarge { .. } | Self::NotText { .. } => FORMS.to_owned(),
            Self::TooManyEntries { .. } => "give the file itself".to_owned(),
            Self::NothingFound { .. } => {
                "a folder is searched for grub.d/*.cfg, modprobe.d/*.conf, modules-load.d/*.conf, \
                 cmdline.d/*.conf, kernel/cmdline and cufile.d/*.json; give any other file by itself"
                    .to_owned()
            }
            Self::NotUnderstood { hint, .. } => hint.clone().unwrap_or_else(|| FORMS.to_owned()),
            Self::Cufile { .. } => {
                "write the keys as in /etc/cufile.json: `{\"properties\": {\"use_pci_p2pdma\": true}}`"
                    .to_owned()
            }
            Self::TooLong { .. } => {
                "name devices by `pci:VENDOR:DEVICE`, which stands for all of one kind".to_owned()
            }
        }
    }
}
