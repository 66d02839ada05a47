//! `peerlane doctor --html` and `peerlane topo --format html`: the page for browsers, with a machine in it.

use std::path::Path;

use peerlane::{machines, small_file};
use peerlane_fabric::{Fabric, capture, content};
use serde::Serialize;

use crate::error::Failure;
use crate::output_file::{OutputFile, OutputKind};
use crate::printer::Printer;

/// The page as `tools/web` makes it; empty in builds without one.
const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.html"));
/// Element of the page that holds the machine, without one.
const NO_MACHINE: &str = "<script type=\"application/json\" id=\"machine-given\">null</script>";
/// Beginning of the page.
const MARK: &[u8] = b"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\"";
/// The longest text of a machine that is read.
const TEXT_MAX: u64 = 64 << 20;

/// A text that the page reads.
#[derive(Debug, Serialize)]
struct Given {
    text: String,
}

/// The file for the page, before the machine is examined.
///
/// # Errors
/// When this build has no page, or the file is somebody else's.
pub(crate) fn file(path: &Path) -> Result<OutputFile, Failure> {
    page()?;
    let is_ours = |bytes: &[u8]| bytes.starts_with(MARK);
    OutputFile::at(path, OutputKind::Marked { name: "page", most: MARK.len() as u64, is_ours })
}

/// The page of this build.
fn page() -> Result<&'static str, Failure> {
    if PAGE.is_empty() {
        let hint = "`tools/web`, then build with PEERLANE_PAGE=target/web/peerlane.html".to_owned();
        return Err(Failure::new("cannot write a page: this build has none").hint(hint));
    }
    Ok(PAGE)
}

/// The page with a machine in it.
///
/// # Errors
/// When this build has no page, or the machine cannot be read once more.
pub(crate) fn of_machine(place: Option<&Path>, fabric: &Fabric) -> Result<String, Failure> {
    with_machine(page()?, text(place, fabric)?)
}

/// Writes the page with a machine.
///
/// # Errors
/// When the machine cannot be read once more, or the file cannot be written.
pub(crate) fn write(
    file: OutputFile,
    place: Option<&Path>,
    fabric: &Fabric,
    printer: Printer,
) -> Result<(), Failure> {
    let shown = file.path().display().to_string();
    let page = of_machine(place, fabric)?;
    file.write(page.as_bytes())?;
    printer.note(&format!("wrote {shown}: open it in a browser"));
    Ok(())
}

/// The machine as a text without what identifies it: the text that was given, else a machine file.
fn text(place: Option<&Path>, fabric: &Fabric) -> Result<String, Failure> {
    let root = place.unwrap_or(Path::new("/"));
    if place.is_none() || machines::is_tree(root) {
        let capture = capture::take(root).map_err(Failure::new)?;
        let kept = Fabric::discover_snapshot(root, capture.content).map_err(Failure::new)?;
        return Ok(kept.to_toml());
    }
    let text = match small_file::bytes(root, TEXT_MAX) {
        Ok(bytes) => content::decoded(&bytes).into_owned(),
        // A name, or standard input, which is read already.
        Err(_) => fabric.to_toml(),
    };
    Ok(capture::scrub_text(&text).text)
}

/// The page with a text in its element; no `<` of it could end the element.
fn with_machine(page: &str, text: String) -> Result<String, Failure> {
    let given = serde_json::to_string(&Given { text }).map_err(Failure::new)?;
    let given = given.replace('<', "\\u003c");
    Ok(page.replacen(NO_MACHINE, &NO_MACHINE.replace("null", &given), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_data_in_the_page() {
        let template = include_str!("../../../web/page/index.html");
        let text = "<system>\n</script><script>alert(1)</script>";
        let page = with_machine(template, text.to_owned()).expect("a page");
        assert!(!page.contains("alert(1)</script>"), "{page}");
        let begin = page.find("id=\"machine-given\">").expect("the element");
        let given = page[begin..].split_once('>').expect("its text").1;
        let given = given.split_once("</script>").expect("its end").0;
        let given: serde_json::Value = serde_json::from_str(given).expect("JSON");
        assert_eq!(given["text"], text);
    }

    #[test]
    fn utf16_text_stays_the_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("machine.txt");
        let text = "0000:01:00.0 Non-Volatile memory controller [0108]: Vendor [144d:a80a]\n";
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let bytes: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
        std::fs::write(&file, bytes).expect("a file");
        let fabric = peerlane::machines::read(
            peerlane::machines::MachineSource::Described(&file),
            peerlane::machines::LookDepth::Quiet,
        )
        .expect("a machine");
        assert_eq!(super::text(Some(&file), &fabric).expect("a text"), text);
    }

    #[test]
    fn page_begins_with_its_mark() {
        let template = include_str!("../../../web/page/index.html");
        assert!(template.as_bytes().starts_with(MARK));
    }
}
