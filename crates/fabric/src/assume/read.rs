//! Files and folders with boot configurations.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::command_line::COMMAND_LINE_SIZE;
use super::{BootConfiguration, BootConfigurationError, forms};

/// Bytes of one file.
const FILE_BYTES: u64 = 256 << 10;
/// Entries of a folder and all below it.
const ENTRIES: usize = 4096;
/// Folders below one another.
const DEPTH: usize = 16;

/// Folders whose files are read, and how those end.
const FOLDERS: [(&str, &str); 5] = [
    ("grub.d", "cfg"),
    ("modprobe.d", "conf"),
    ("modules-load.d", "conf"),
    ("cmdline.d", "conf"),
    (CUFILE_FOLDER, "json"),
];
/// Keys for `/etc/cufile.json`.
const CUFILE_FOLDER: &str = "cufile.d";

impl BootConfiguration {
    /// Reads a file, or the files of a folder that are of a known kind: `grub.d/*.cfg`,
    /// `modprobe.d/*.conf`, `modules-load.d/*.conf`, `cmdline.d/*.conf`, `kernel/cmdline` and
    /// `cufile.d/*.json`, in the order of their paths. Anything else in a folder is passed over.
    ///
    /// # Errors
    /// The file that cannot be read, or the line that is of no known form.
    pub fn read(path: &Path) -> Result<Self, BootConfigurationError> {
        let failed = |source| BootConfigurationError::Read { path: path.to_owned(), source };
        if !fs::metadata(path).map_err(failed)?.is_dir() {
            return Self::parse(path, &read_text(path)?);
        }
        let mut files = Vec::new();
        collect(path, 0, &mut 0, &mut files)?;
        if files.is_empty() {
            return Err(BootConfigurationError::NothingFound { path: path.to_owned() });
        }
        files.sort();
        let texts: Result<Vec<_>, _> =
            files.into_iter().map(|file| Ok((read_text(&file)?, file))).collect();
        Self::of_files(path, texts?.iter().map(|(text, file)| (file.as_path(), text.as_str())))
    }

    /// Puts the files of a folder together, in this order; files that are of no known kind are passed over.
    ///
    /// # Errors
    /// The line that is of no known form, or more parameters than a kernel reads.
    pub fn of_files<'a>(
        folder: &Path,
        files: impl IntoIterator<Item = (&'a Path, &'a str)>,
    ) -> Result<Self, BootConfigurationError> {
        let mut whole = Self::default();
        for (file, text) in files.into_iter().filter(|(file, _)| is_known(file)) {
            if file.parent().and_then(Path::file_name).is_some_and(|name| name == CUFILE_FOLDER) {
                let found = crate::cufile::read(text);
                if let Some(problem) = found.problem {
                    return Err(BootConfigurationError::Cufile { path: file.to_owned(), problem });
                }
                whole.cufile.extend(found.settings);
                continue;
            }
            let Self { parameters, options, modules, .. } = forms::read(file, text)?;
            // One parameter may stand in the drop-ins of several boot loaders.
            let is_new = |parameter: &String| !whole.parameters.contains(parameter);
            let new: Vec<String> = parameters.into_iter().filter(is_new).collect();
            whole.parameters.extend(new);
            whole.options.extend(options);
            whole.modules.extend(modules);
        }
        whole.checked(folder)
    }

    /// Reads a text; `name` stands for it in errors, and a file of `modules-load.d` by its path.
    ///
    /// # Errors
    /// The line that is of no known form.
    pub fn parse(name: &Path, text: &str) -> Result<Self, BootConfigurationError> {
        forms::read(name, text)?.checked(name)
    }

    /// Refuses more parameters than a kernel reads.
    fn checked(self, path: &Path) -> Result<Self, BootConfigurationError> {
        let bytes = self.parameters.iter().map(|parameter| parameter.len() + 1).sum();
        if bytes > COMMAND_LINE_SIZE {
            return Err(BootConfigurationError::TooLong { path: path.to_owned(), bytes });
        }
        Ok(self)
    }
}

/// Finds the files of known kinds below a folder; links are not followed.
fn collect(
    folder: &Path,
    depth: usize,
    seen: &mut usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), BootConfigurationError> {
    let failed = |source| BootConfigurationError::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        *seen += 1;
        if *seen > ENTRIES || depth > DEPTH {
            let path = folder.to_owned();
            return Err(BootConfigurationError::TooManyEntries { path, limit: ENTRIES });
        }
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            collect(&entry.path(), depth + 1, seen, files)?;
        } else if kind.is_file() && is_known(&entry.path()) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Returns whether a file of a folder is of a known kind.
fn is_known(path: &Path) -> bool {
    let Some(folder) = path.parent().and_then(Path::file_name) else { return false };
    let is_one = |(known, end): &(&str, &str)| {
        folder == *known && path.extension().is_some_and(|extension| extension == *end)
    };
    FOLDERS.iter().any(is_one)
        || folder == "kernel" && path.file_name().is_some_and(|name| name == "cmdline")
}

/// The text of a file of bounded size.
fn read_text(path: &Path) -> Result<String, BootConfigurationError> {
    let mut bytes = Vec::new();
    let read = |bytes: &mut Vec<u8>| -> io::Result<usize> {
        File::open(path)?.take(FILE_BYTES + 1).read_to_end(bytes)
    };
    let path = || path.to_owned();
    match read(&mut bytes) {
        Err(source) => Err(BootConfigurationError::Read { path: path(), source }),
        Ok(length) if length as u64 > FILE_BYTES => {
            Err(BootConfigurationError::TooLarge { path: path(), limit: FILE_BYTES })
        }
        Ok(_) => {
            String::from_utf8(bytes).map_err(|_| BootConfigurationError::NotText { path: path() })
        }
    }
}
