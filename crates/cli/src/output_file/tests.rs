use std::os::unix::net::UnixListener;

use super::*;

const NOTE: OutputKind =
    OutputKind::Marked { name: "note", most: 4, is_ours: |beginning| beginning == b"note" };

fn said(failure: &Failure) -> String {
    let causes: Vec<String> = failure.chain().collect();
    format!("{}; {}", causes.join(": "), failure.hint_text().unwrap_or("no hint"))
}

fn refused(path: &Path, kind: OutputKind) -> String {
    said(&OutputFile::at(path, kind).expect_err("somebody else's"))
}

#[test]
fn only_marked_files_are_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for (name, content) in [("ours", "note 1"), ("theirs", "not ours"), ("empty", "")] {
        fs::write(at(name), content).expect("room");
    }
    OutputFile::at(&at("ours"), NOTE).expect("ours").write(b"note 2").expect("room");
    assert_eq!(fs::read(at("ours")).expect("it"), b"note 2");
    for name in ["theirs", "empty"] {
        let said = refused(&at(name), NOTE);
        assert!(said.ends_with(
            "it already exists and is not a note; choose another name, or remove it first"
        ));
    }
    let said = refused(&at("ours"), OutputKind::New);
    assert!(said.ends_with("it already exists; choose a name that does not exist"), "{said}");
    OutputFile::at(&at("new"), OutputKind::New).expect("nothing").write(b"x").expect("room");
    assert_eq!(fs::read(at("new")).expect("it"), b"x");
    assert_eq!(fs::read(at("theirs")).expect("it"), b"not ours");
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 4, "no draft is left");
}

#[test]
fn irregular_files_are_never_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).expect("a folder");
    fs::write(at("ours"), "note 1").expect("room");
    std::os::unix::fs::symlink("ours", at("link")).expect("a link");
    std::os::unix::fs::symlink("absent", at("dangling")).expect("a link");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let _listener = UnixListener::bind(at("socket")).expect("a socket");
    for (name, word) in [
        ("folder", "a folder"),
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
        ("pipe", "a pipe"),
        ("socket", "a socket"),
    ] {
        let said = refused(&at(name), NOTE);
        // What else may be there, nobody is told to remove.
        assert!(
            said.ends_with(&format!("it is {word}, not a regular file; name a file")),
            "{said}"
        );
        assert_eq!(refused(&at(name), OutputKind::New), said);
    }
    assert!(refused(Path::new("/dev/null"), NOTE).contains("it is a device"));
    assert!(
        refused(Path::new("/dev/null"), OutputKind::New)
            .ends_with("not a regular file; name a file")
    );
    let said = refused(&at("absent/note"), NOTE);
    assert!(said.contains("No such file") && said.contains("; make the folder "), "{said}");
    assert!(refused(&at("ours/note"), NOTE).contains("Not a directory"));
    assert!(!at("absent").exists());
}

#[test]
fn only_unread_pipe_is_reported_unread() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let alone = said(&stream::open(&pipe).expect_err("nobody reads it"));
    assert!(alone.ends_with("; the pipe has no reader: start its reader first"), "{alone}");
    // What `/dev/tty` answers to a program without a terminal.
    let error = OutputError::System(io::Error::from_raw_os_error(NOBODY_THERE));
    let said = said(&error.on(Path::new("/dev/null")));
    assert!(said.ends_with("; no device is behind that name now: name a file"), "{said}");
}

#[test]
fn late_file_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    for (kind, then) in [(NOTE, Some("note 1")), (NOTE, None), (OutputKind::New, None)] {
        let path = folder.path().join("file");
        let _ = fs::remove_file(&path);
        if let Some(text) = then {
            fs::write(&path, text).expect("room");
        }
        let mut output = OutputFile::at(&path, kind).expect("a place");
        let beside = folder.path().join("beside");
        fs::write(&beside, "somebody else's").expect("room");
        fs::rename(&beside, &path).expect("a name");
        let error = output.fill(|out| out.write_all(b"note 2")).expect_err("not ours");
        assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
        assert_eq!(fs::read(&path).expect("it"), b"somebody else's");
        assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 1, "no draft is left");
    }
}

#[test]
fn repeatedly_saved_file_stays_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let mut output = OutputFile::at(&path, NOTE).expect("a place");
    for text in ["note 1", "note 2"] {
        output.fill(|out| out.write_all(text.as_bytes())).expect("room");
        assert_eq!(fs::read_to_string(&path).expect("it"), text);
    }
    let half = |out: &mut dyn Write| {
        out.write_all(b"note 3, half")?;
        Err(io::Error::other("the rest does not come"))
    };
    output.fill(half).expect_err("it failed");
    assert_eq!(fs::read_to_string(&path).expect("it"), "note 2");
    fs::remove_file(&path).expect("it");
    output.fill(|out| out.write_all(b"note 4")).expect("room");
    assert_eq!(fs::read_to_string(&path).expect("it"), "note 4");
}

#[test]
fn schema_needs_one_whole_object() {
    assert!(has_schema(br#"{"cases": [], "schema": "a/1"}"#, "a/1"));
    for other in [&br#"{"schema": "a/2"}"#[..], br#"{"schema": "a/1"#, b"{}", b"", b"\xff"] {
        assert!(!has_schema(other, "a/1"));
    }
    let two = br#"{"schema": "a/1"} {"schema": "a/1"}"#;
    assert!(!has_schema(two, "a/1"), "a file that somebody adds records to");
}

#[test]
fn group_with_shared_path_names_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("pages")).expect("a folder");
    std::os::unix::fs::symlink("pages", at("link")).expect("a link");
    let file = |name: &str| (OutputFile::at(&at(name), NOTE).expect("a place"), b"note".to_vec());
    for spelling in ["pages/two", "pages/./two", "link/two", "pages/../link/two"] {
        let files = vec![file("pages/one"), file("pages/two"), file(spelling)];
        let said = said(&write_together(files).expect_err("one place"));
        assert!(said.contains(spelling) && said.contains("two files of this command"), "{said}");
        assert_eq!(fs::read_dir(at("pages")).expect("it").count(), 0, "{spelling}");
    }
    fs::create_dir(at("others")).expect("a folder");
    write_together(vec![file("pages/one"), file("others/one")]).expect("two places");
    assert_eq!(fs::read(at("others/one")).expect("it"), b"note");
}

#[test]
fn group_with_taken_path_names_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("first"), "note 1").expect("room");
    let file = |name: &str| (OutputFile::at(&at(name), NOTE).expect("a place"), b"note 2".to_vec());
    let files = vec![file("first"), file("second"), file("last")];
    fs::write(at("last"), "somebody else's").expect("room");
    let said = said(&write_together(files).expect_err("not ours"));
    assert!(said.contains("it already exists and is not a note"), "{said}");
    assert_eq!(fs::read(at("first")).expect("it"), b"note 1");
    assert_eq!(fs::read(at("last")).expect("it"), b"somebody else's");
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 2, "no draft is left");
}

#[test]
fn partial_group_error_lists_written_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let drafts = ["one", "two", "three", "four"].map(|name| {
        let file = OutputFile::at(&at(name), NOTE).expect("a place");
        let draft = file.whole(|out| out.write_all(b"note")).expect("room");
        (file, draft)
    });
    fs::write(at("three"), "somebody else's").expect("room");
    let said = said(&name_all(drafts.into()).expect_err("not ours"));
    let place = folder.path().display();
    let expected = format!(
        "cannot write {place}/three; written before it: {place}/one, {place}/two; nor: {place}/four: it already exists"
    );
    assert!(said.starts_with(&expected), "{said}");
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .expect("it")
        .map(|entry| entry.expect("it").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["one", "three", "two"], "and no draft is left");
}

#[test]
fn full_quota_and_disk_share_hint() {
    // ENOSPC and EDQUOT.
    let [disk, quota] = [28, 122].map(|number| {
        let error = OutputError::System(io::Error::from_raw_os_error(number));
        said(&error.on(Path::new("note")))
    });
    assert!(disk.ends_with("; make room there, or name a file elsewhere"), "{disk}");
    assert!(
        quota.contains("uota exceeded") && quota.ends_with("or name a file elsewhere"),
        "{quota}"
    );
}

#[test]
fn whole_folder_is_named_and_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let fill = |draft: &Path| {
        fs::create_dir(draft)?;
        fs::write(draft.join("file"), "note")
    };
    let half = |draft: &Path| fill(draft).and(Err(io::ErrorKind::StorageFull.into()));
    let failure = write_folder(&at("new"), half).expect_err("no room");
    assert!(said(&failure).ends_with("; make room there, or name a file elsewhere"));
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 0, "no draft is left");
    write_folder(&at("new"), fill).expect("room");
    assert_eq!(fs::read(at("new/file")).expect("it"), b"note");
    let failure = write_folder(&at("new"), fill).expect_err("it is there");
    assert!(said(&failure).contains("it is a folder"), "{}", said(&failure));
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 1, "no draft is left");
}
