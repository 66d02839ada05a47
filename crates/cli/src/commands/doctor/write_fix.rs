//! `peerlane doctor --write-fix`: the plan as files; nothing outside their folder is touched.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use peerlane_doctor::{DropIn, after_restart, drop_ins};
use peerlane_report::examination::plan_file;
use peerlane_results::DoctorRecord;

use crate::error::Failure;
use crate::output_file::write_folder;
use crate::printer::Printer;

/// The plan for people, next to the files.
const PLAN: &str = "plan.txt";

/// Writes the files into a new folder.
///
/// # Errors
/// When the folder is there, or cannot be made.
pub(super) fn run(record: &DoctorRecord, folder: &Path, printer: Printer) -> Result<(), Failure> {
    let files = drop_ins(record);
    if files.is_empty() {
        printer.note(&format!("{} was not written: no step has a command", folder.display()));
        return Ok(());
    }
    if folder.symlink_metadata().is_ok() {
        let error = format!("cannot write {}: it already exists", folder.display());
        return Err(Failure::new(error).hint("choose a name that does not exist".to_owned()));
    }
    let text = plan_file(record) + &after_restart(record);
    write_folder(folder, |draft| {
        fs::create_dir(draft)?;
        fs::write(draft.join(PLAN), &text)?;
        files.iter().try_for_each(|file| write(draft, file))
    })?;
    let shown = folder.display();
    if files.iter().all(|file| file.is_executable) {
        printer.note(&format!("wrote {shown}: its steps are commands, in {shown}/{PLAN}"));
        return Ok(());
    }
    printer.note(&format!(
        "wrote {shown}: read {shown}/{PLAN}, then `sudo {shown}/install.sh`, and after the restart \
         `{shown}/install.sh --check`; {shown}/undo.sh takes it back; \
         `peerlane doctor --assume {shown}` judges the machine with it"
    ));
    Ok(())
}

fn write(draft: &Path, file: &DropIn) -> io::Result<()> {
    let path = draft.join(file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, &file.content)?;
    if file.is_executable {
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    Ok(())
}
