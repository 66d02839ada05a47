//! Digests of a copy under way, and the manifest that keeps them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::read::{chunk_length, chunk_line, header};
use super::{ChunkDigest, ChunkLine, EndLine, Manifest, ManifestError, ManifestHeader, hex};
use crate::io::ranges::RangeSet;
use crate::io::stage::chunk_digest;

/// Digests of a copy under way.
#[derive(Debug)]
pub(crate) struct ChunkDigests {
    header: ManifestHeader,
    root: u128,
    chunks: u64,
    /// Chunks whose digest is known.
    known: RangeSet,
    /// Ranges that read as zeroes and are not moved.
    zeroes: RangeSet,
    sink: Option<PartFile>,
    /// True if a manifest keeps them.
    is_kept: bool,
    /// The manifest that has its name already.
    finished: Option<PathBuf>,
}

/// An unfinished manifest, open for more lines.
#[derive(Debug)]
struct PartFile {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
}

impl ChunkDigests {
    /// Digests that are only counted together, for a copy without a manifest.
    pub(crate) fn without_manifest(header: ManifestHeader) -> Self {
        let (known, zeroes) = (RangeSet::new(), RangeSet::new());
        Self {
            header,
            root: 0,
            chunks: 0,
            known,
            zeroes,
            sink: None,
            is_kept: false,
            finished: None,
        }
    }

    /// Begins a manifest.
    ///
    /// # Errors
    /// When it, or an unfinished one, already exists, or cannot be made.
    pub(crate) fn begin(header: ManifestHeader, path: &Path) -> Result<Self, ManifestError> {
        let part = part_of(path);
        refuse_present(path)?;
        refuse_present(&part)?;
        let failed = failure("make", &part);
        let file = open_part(&part, OFlags::CREATE | OFlags::EXCL)?;
        let mut file = BufWriter::new(file);
        write_line(&mut file, &header).and_then(|()| file.flush()).map_err(failed)?;
        let sink = Some(PartFile { path: path.to_owned(), part, file });
        Ok(Self { sink, is_kept: true, ..Self::without_manifest(header) })
    }

    /// Goes on with an unfinished manifest; begins one if there is none.
    ///
    /// # Errors
    /// When it is of another copy, or cannot be read or written.
    pub(crate) fn resume(wanted: ManifestHeader, path: &Path) -> Result<Self, ManifestError> {
        let part = part_of(path);
        if path.exists() {
            return Self::finished(wanted, path);
        }
        if !part.exists() {
            return Self::begin(wanted, path);
        }
        let failed = failure("read", &part);
        let file = open_part(&part, OFlags::empty())?;
        let mut digests = Self::without_manifest(wanted);
        let end = digests.take_lines(&file, &part)?;
        // A line that a loss of power or a signal cut is written again.
        file.set_len(end).map_err(&failed)?;
        (&file).seek(SeekFrom::Start(end)).map_err(&failed)?;
        let mut file = BufWriter::new(file);
        if end == 0 {
            write_line(&mut file, &digests.header).map_err(failed)?;
        }
        digests.sink = Some(PartFile { path: path.to_owned(), part, file });
        digests.is_kept = true;
        Ok(digests)
    }

    /// The digests of a copy that stopped between the names of its manifest and of its target.
    fn finished(wanted: ManifestHeader, path: &Path) -> Result<Self, ManifestError> {
        let manifest = Manifest::read(path)?;
        let mut digests = Self { is_kept: true, ..Self::without_manifest(wanted) };
        digests.compare(&manifest.header, path)?;
        digests.header.copy.clone_from(&manifest.header.copy);
        digests.finished = Some(path.to_owned());
        manifest.chunks.iter().for_each(|chunk| digests.count(chunk));
        Ok(digests)
    }

    /// Takes the lines of an unfinished manifest up to the first that is not whole; returns the end
    /// of those.
    fn take_lines(&mut self, file: &File, part: &Path) -> Result<u64, ManifestError> {
        let mut lines = BufReader::new(file);
        let (mut line, mut end) = (String::new(), 0);
        loop {
            line.clear();
            // A part that is not text was torn.
            let read = match lines.read_line(&mut line) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => 0,
                Err(source) => return Err(failure("read", part)(source)),
            };
            if !line.ends_with('\n') {
                return Ok(end);
            }
            if end == 0 {
                let found = header(line.trim_end())?;
                self.compare(&found, part)?;
                self.header.copy = found.copy;
            } else {
                let Ok(chunk) = chunk_line(line.trim_end()) else { return Ok(end) };
                self.count(&chunk);
            }
            end += read as u64;
        }
    }

    fn compare(&self, found: &ManifestHeader, part: &Path) -> Result<(), ManifestError> {
        let wanted = &self.header;
        let other = |what: &str, then: String, now: String| {
            let reason = format!("the {what} was {then} and is {now}");
            Err(ManifestError::Other { path: part.to_owned(), reason })
        };
        if found.source != wanted.source {
            return other("source", found.source.clone(), wanted.source.clone());
        }
        if found.after != wanted.after {
            return other("row of stages", found.after.join(", "), wanted.after.join(", "));
        }
        for (what, then, now) in
            [("length", found.length, wanted.length), ("chunk", found.chunk, wanted.chunk)]
        {
            if then != now {
                return other(what, format!("{then} bytes"), format!("{now} bytes"));
            }
        }
        Ok(())
    }

    /// Tells the copy from any other.
    pub(crate) fn copy(&self) -> &str {
        &self.header.copy
    }

    /// Keeps the digests of the ranges that a journal claims, if they are of its copy; all others
    /// are made again.
    ///
    /// # Errors
    /// When a manifest of another copy has the name, or the lines cannot be written again.
    pub(crate) fn keep_only(
        &mut self,
        copy: Option<&str>,
        done: &RangeSet,
    ) -> Result<(), ManifestError> {
        let is_ours = copy == Some(self.header.copy.as_str());
        if let Some(path) = self.finished.clone().filter(|_| !is_ours) {
            return Err(ManifestError::Exists { path });
        }
        let Some(sink) = self.sink.take() else { return Ok(()) };
        let kept = if is_ours { lines_within(&sink.part, done)? } else { Vec::new() };
        let header = ManifestHeader {
            copy: copy.map_or_else(|| self.header.copy.clone(), str::to_owned),
            ..self.header.clone()
        };
        let PartFile { path, part, file } = sink;
        let failed = failure("write", &part);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.set_len(0).and_then(|()| (&file).seek(SeekFrom::Start(0))).map_err(&failed)?;
        let mut file = BufWriter::new(file);
        write_line(&mut file, &header).map_err(&failed)?;
        *self = Self { is_kept: true, ..Self::without_manifest(header) };
        for chunk in kept {
            let ChunkDigest { offset, length, digest } = chunk;
            let line = ChunkLine { offset, length, xxh128: hex(digest) };
            write_line(&mut file, &line).map_err(&failed)?;
            self.count(&chunk);
        }
        file.flush().map_err(failed)?;
        self.sink = Some(PartFile { path, part, file });
        Ok(())
    }

    /// The unfinished manifest.
    pub(crate) fn part(&self) -> Option<&Path> {
        self.sink.as_ref().map(|sink| sink.part.as_path())
    }

    /// Length of the copy.
    pub(crate) fn length(&self) -> u64 {
        self.header.length
    }

    /// Chunks whose digest is known.
    pub(crate) fn known(&self) -> &RangeSet {
        &self.known
    }

    /// True if a file keeps the digests for a copy to go on with.
    pub(crate) fn has_manifest(&self) -> bool {
        self.is_kept
    }

    /// Takes the digest of a chunk; one that is known already is passed over.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) fn take(&mut self, offset: u64, length: u64, digest: u128) -> io::Result<()> {
        if self.known.contains_range(offset..offset + length) {
            return Ok(());
        }
        let chunk = ChunkDigest { offset, length, digest };
        if let Some(sink) = &mut self.sink {
            write_line(&mut sink.file, &ChunkLine { offset, length, xxh128: hex(digest) })?;
        }
        self.count(&chunk);
        Ok(())
    }

    fn count(&mut self, chunk: &ChunkDigest) {
        self.known.insert(chunk.offset..chunk.offset + chunk.length);
        self.root = self.root.wrapping_add(chunk.share());
        self.chunks += 1;
    }

    /// Takes a range that reads as zeroes and is not moved.
    pub(crate) fn take_zeroes(&mut self, range: Range<u64>) {
        self.zeroes.insert(range);
    }

    /// Hands the lines so far to the system.
    ///
    /// # Errors
    /// Its answer.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.file.flush())
    }

    /// Digests of all chunks that read as zeroes, once the copy is complete.
    fn fill_zeroes(&mut self) -> Result<(), ManifestError> {
        let missing: Vec<Range<u64>> = self.known.missing(0..self.header.length).collect();
        let (mut zeroes, mut last) = (Vec::new(), None);
        for range in missing {
            let mut offset = range.start;
            while offset < range.end {
                let length = chunk_length(&self.header, offset);
                if !self.zeroes.contains_range(offset..offset + length) {
                    return Err(ManifestError::Gap { offset });
                }
                let digest = match last {
                    Some((known, digest)) if known == length => digest,
                    _ => {
                        zeroes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
                        chunk_digest(&zeroes)
                    }
                };
                last = Some((length, digest));
                self.take(offset, length, digest).map_err(self.failed())?;
                offset += length;
            }
        }
        Ok(())
    }

    fn failed(&self) -> impl Fn(io::Error) -> ManifestError + use<> {
        failure("write", self.sink.as_ref().map_or(Path::new(""), |sink| &sink.part))
    }

    /// Ends the digests of a complete copy: writes the root and gives the manifest its name. Returns the
    /// root.
    ///
    /// # Errors
    /// When a chunk lacks its digest, or the manifest cannot be written.
    pub(crate) fn finish(&mut self) -> Result<u128, ManifestError> {
        self.fill_zeroes()?;
        let end = EndLine { chunks: self.chunks, root: hex(self.root) };
        let failed = self.failed();
        let Some(mut sink) = self.sink.take() else { return Ok(self.root) };
        write_line(&mut sink.file, &end).and_then(|()| sink.file.flush()).map_err(&failed)?;
        sink.file.get_ref().sync_all().map_err(&failed)?;
        give_name(&sink)?;
        let folder = sink.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))
            .and_then(|folder| folder.sync_all())
            .map_err(failure("make durable", &sink.path))?;
        Ok(self.root)
    }

    /// Removes the unfinished manifest of a copy that cannot go on.
    pub(crate) fn discard(&mut self) {
        if let Some(sink) = self.sink.take().filter(|sink| is_same(sink).unwrap_or(false)) {
            if let Err(error) = fs::remove_file(&sink.part) {
                tracing::warn!(%error, path = %sink.part.display(), "an unfinished manifest is left");
            }
        }
    }
}

/// Opens an unfinished manifest for this copy alone; a link is not followed.
fn open_part(part: &Path, more: OFlags) -> Result<File, ManifestError> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    let file = match rustix::fs::open(part, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(ManifestError::NoFile { path: part.to_owned() }),
        Err(errno) => return Err(failure("open", part)(errno.into())),
    };
    if !file.metadata().map_err(failure("open", part))?.is_file() {
        return Err(ManifestError::NoFile { path: part.to_owned() });
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(ManifestError::Busy { path: part.to_owned() }),
        // A file system without locks keeps nobody out.
        _ => Ok(file),
    }
}

/// True if the name is still that of the file.
fn is_same(sink: &PartFile) -> io::Result<bool> {
    let (own, named) = (sink.file.get_ref().metadata()?, sink.part.symlink_metadata()?);
    Ok((own.dev(), own.ino()) == (named.dev(), named.ino()))
}

/// Gives a complete manifest its name, which nothing has.
fn give_name(sink: &PartFile) -> Result<(), ManifestError> {
    if !is_same(sink).unwrap_or(false) {
        return Err(ManifestError::Replaced { path: sink.part.clone() });
    }
    let exists = || ManifestError::Exists { path: sink.path.clone() };
    let named = renameat_with(CWD, &sink.part, CWD, &sink.path, RenameFlags::NOREPLACE);
    match named {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(exists()),
        // Not every file system has it.
        Err(Errno::INVAL | Errno::NOSYS) if sink.path.symlink_metadata().is_ok() => Err(exists()),
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::rename(&sink.part, &sink.path).map_err(failure("make", &sink.path))
        }
        Err(errno) => Err(failure("make", &sink.path)(errno.into())),
    }
}

/// Chunks of an unfinished manifest that lie in ranges.
fn lines_within(part: &Path, done: &RangeSet) -> Result<Vec<ChunkDigest>, ManifestError> {
    let text = fs::read_to_string(part).map_err(failure("read", part))?;
    let chunks = text.lines().skip(1).map_while(|line| chunk_line(line).ok());
    let is_done = |one: &ChunkDigest| done.contains_range(one.offset..one.offset + one.length);
    let mut kept: Vec<ChunkDigest> = chunks.filter(is_done).collect();
    kept.sort_unstable();
    kept.dedup();
    Ok(kept)
}

/// The name of a manifest that is not complete.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".part");
    name.into()
}

fn refuse_present(path: &Path) -> Result<(), ManifestError> {
    match path.symlink_metadata() {
        Ok(_) => Err(ManifestError::Exists { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

fn failure(action: &'static str, path: &Path) -> impl Fn(io::Error) -> ManifestError + use<> {
    let path = path.to_owned();
    move |source| ManifestError::File { action, path: path.clone(), source }
}

fn write_line(file: &mut BufWriter<File>, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}
