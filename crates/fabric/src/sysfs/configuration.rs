//! The kernel's configuration: the options that bear on peer traffic.

use std::path::Path;

use super::tree::Tree;

/// Peer-to-peer memory and routes of the kernel.
pub(crate) const P2PDMA: &str = "CONFIG_PCI_P2PDMA";
/// Peer access between GPUs by amdgpu.
pub(crate) const AMD_P2P: &str = "CONFIG_HSA_AMD_P2P";
/// Notices to importers of dma-bufs instead of pins; always on since Linux 7.1.
pub(crate) const MOVE_NOTIFY: &str = "CONFIG_DMABUF_MOVE_NOTIFY";
/// All of them.
const OPTIONS: [&str; 3] = [P2PDMA, AMD_P2P, MOVE_NOTIFY];

/// Returns whether the kernel of the machine at a root is built with `CONFIG_PCI_P2PDMA`; `None` where its configuration
/// cannot be read.
pub fn kernel_has_p2pdma(root: &Path) -> Option<bool> {
    let tree = Tree::new(root);
    let text = read(&tree, tree.word(Path::new("proc/sys/kernel/osrelease")).as_deref())?;
    has_p2pdma(&text)
}

/// The text of the configuration; `None` where none can be read.
pub(super) fn read(tree: &Tree, release: Option<&str>) -> Option<String> {
    let release = release.filter(|release| !release.contains('/'));
    let files = release.map(|release| {
        [format!("boot/config-{release}"), format!("usr/lib/modules/{release}/config")]
    });
    files
        .iter()
        .flatten()
        .find_map(|path| tree.text(Path::new(path)).ok())
        .or_else(|| gunzip(&tree.bytes(Path::new("proc/config.gz")).ok()?))
}

/// Returns whether a configuration has `CONFIG_PCI_P2PDMA`; the line is in every capture.
pub(super) fn has_p2pdma(text: &str) -> Option<bool> {
    option(text, P2PDMA).or(Some(false))
}

/// The value of an option; `None` for one that a part of a configuration does not name.
pub(crate) fn option(text: &str, name: &str) -> Option<bool> {
    let named = text.lines().filter_map(line).find(|(option, _)| *option == name);
    match named {
        Some((_, value)) => Some(value),
        // Options whose dependencies are off have no line.
        None => is_whole(text).then_some(false),
    }
}

/// Name and value of an option in one line: `CONFIG_PCI=y`, `# CONFIG_PCI is not set`, also behind the name of a file,
/// as `grep` prints it.
pub(crate) fn line(line: &str) -> Option<(&str, bool)> {
    let line = line.trim();
    let line = line.split_once(':').map_or(line, |(_, rest)| rest.trim());
    let name = |name: &str| name.starts_with("CONFIG_") && !name.contains(char::is_whitespace);
    if let Some(option) = line.strip_prefix('#').and_then(|line| line.strip_suffix("is not set")) {
        return Some((option.trim(), false)).filter(|(option, _)| name(option));
    }
    let (option, value) = line.split_once('=')?;
    name(option).then_some((option, value != "n"))
}

/// Returns whether a line names one of the options that are read.
pub(crate) fn is_known(text: &str) -> bool {
    line(text).is_some_and(|(option, _)| OPTIONS.contains(&option))
}

/// A configuration as captures keep it: one line for each option of the list.
pub(crate) fn kept(text: &str) -> String {
    let lines = OPTIONS.iter().filter_map(|name| Some(as_line(name, option(text, name)?)));
    lines.collect::<Vec<_>>().join("\n")
}

/// An option in the form that the configuration has.
fn as_line(name: &str, value: bool) -> String {
    if value { format!("{name}=y") } else { format!("# {name} is not set") }
}

/// Returns whether a text is a whole configuration, and not the lines that a capture keeps.
fn is_whole(text: &str) -> bool {
    text.lines().filter_map(line).any(|(option, _)| !OPTIONS.contains(&option))
}

/// The text in a gzip file that has no optional fields (RFC 1952), as `/proc/config.gz` has none.
pub(crate) fn gunzip(bytes: &[u8]) -> Option<String> {
    const HEADER: usize = 10;
    const TRAILER: usize = 8;
    const LONGEST_TEXT: usize = 4 << 20;
    let [0x1f, 0x8b, 8, 0, ..] = bytes else { return None };
    let deflated = bytes.get(HEADER..bytes.len().checked_sub(TRAILER)?)?;
    let text = miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, LONGEST_TEXT).ok()?;
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_option_of_whole_configuration_is_off() {
        let whole = "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n# CONFIG_HSA_AMD_P2P is not set\n";
        let of = |text, name| option(text, name);
        assert_eq!(of(whole, P2PDMA), Some(true));
        assert_eq!(of(whole, AMD_P2P), Some(false));
        assert_eq!(of(whole, MOVE_NOTIFY), Some(false));
        let part = "CONFIG_PCI_P2PDMA=y\n";
        assert_eq!(of(part, AMD_P2P), None, "captures of older versions keep one line");
        assert_eq!(kept(part), "CONFIG_PCI_P2PDMA=y");
        let lines = "CONFIG_PCI_P2PDMA=y\n# CONFIG_HSA_AMD_P2P is not set\n\
                     # CONFIG_DMABUF_MOVE_NOTIFY is not set";
        assert_eq!(kept(whole), lines);
        assert_eq!(kept(lines), lines, "a capture of a capture says the same");
    }

    #[test]
    fn lines_of_grep_name_their_file() {
        let found = line("/boot/config-6.8.0-60-generic:CONFIG_HSA_AMD_P2P=y");
        assert_eq!(found, Some((AMD_P2P, true)));
        let off = line("/boot/config-6.8.0:# CONFIG_DMABUF_MOVE_NOTIFY is not set");
        assert_eq!(off, Some((MOVE_NOTIFY, false)));
        assert_eq!(line("# dmesg | grep CONFIG_PCI"), None);
    }
}
