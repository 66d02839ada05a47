//! Turns a tree of lines into the text of a machine file.

use peerlane_fabric::Fabric;

/// The machine that [`machine_text`] describes.
///
/// # Panics
/// When the text is not that of a machine.
#[track_caller]
pub fn machine(tree: &str) -> Fabric {
    let text = machine_text(tree);
    Fabric::from_toml(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// The text of a machine file, from a tree with each function below its parent, one a line:
///
/// ```
/// let text = peerlane_testing::machine_text(
///     "iommu = 'off'
///      root root-port
///        a nvme 144d:a80a @0000:01:00.0 size = '64M'; acs = 'absent'",
/// );
/// assert!(text.contains("[[function]]\nname = 'a'\nkind = 'nvme'\nunder = 'root'\n"));
/// ```
///
/// A line is a name, a kind (that of a function, or `host-bridge`), and keys with semicolons between them. Vendor and
/// device may stand before the keys, and an address; `@` alone is an address that is also the name. The parent is the
/// nearest line above that begins further left, so a literal with several functions opens with a line break or a key.
///
/// Other lines belong to the machine: keys such as `iommu = 'off'`, and tables such as `[kernel]`, which end at the next
/// function. The machine is called `m` unless a key names it.
///
/// # Panics
/// When a line is none of these.
pub fn machine_text(tree: &str) -> String {
    let mut called = "name = 'm'";
    let [mut keys, mut tables, mut functions] = [const { String::new() }; 3];
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut is_in_table = false;
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        let mut words = line.splitn(3, ' ');
        let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        is_in_table |= line.starts_with('[');
        if is_in_table && (line.starts_with('[') || kind == "=") {
            tables += &format!("{line}\n");
            continue;
        }
        if kind == "=" && name == "name" {
            called = line;
            continue;
        }
        if kind == "=" {
            keys += &format!("{line}\n");
            continue;
        }
        assert!(!kind.is_empty(), "neither a function nor a key: {line}");
        is_in_table = false;
        above.retain(|(column, _)| *column < indent);
        functions += &match kind {
            "host-bridge" => format!("[[host_bridge]]\nname = '{name}'\n"),
            _ => format!("[[function]]\nname = '{name}'\nkind = '{kind}'\n"),
        };
        if let Some((_, parent)) = above.last() {
            functions += &format!("under = '{parent}'\n");
        }
        functions += &function_keys(name, words.next().unwrap_or_default());
        above.push((indent, name));
    }
    format!("{called}\n{keys}{tables}{functions}")
}

/// A line of TOML for each key.
fn function_keys(name: &str, mut text: &str) -> String {
    let mut lines = String::new();
    loop {
        let word = text.split([' ', ';']).next().unwrap_or_default();
        match (word.strip_prefix('@'), word.split_once(':')) {
            (Some(""), _) => lines += &format!("address = '{name}'\n"),
            (Some(address), _) => lines += &format!("address = '{address}'\n"),
            (None, Some((vendor, ""))) => lines += &format!("vendor = '0x{vendor}'\n"),
            (None, Some((vendor, device))) => {
                lines += &format!("vendor = '0x{vendor}'\ndevice = '0x{device}'\n");
            }
            (None, None) => break,
        }
        text = text[word.len()..].trim_start_matches([' ', ';']);
    }
    for key in text.split(';').map(str::trim).filter(|key| !key.is_empty()) {
        lines += &format!("{key}\n");
    }
    lines
}
