//! Values of one device in a pasted text: serial numbers, names of namespaces, hardware addresses.

/// Beginnings of keys whose value belongs to one device, machine or place.
const OWN_KEYS: [&str; 17] = [
    "serial",
    "chassis serial",
    "product serial",
    "module serial",
    "board serial",
    "asset tag",
    "service tag",
    "hostname",
    "host name",
    "host id",
    "static hostname",
    "transient hostname",
    "machine id",
    "boot id",
    "gpu pdi",
    "lu wwn",
    "logical unit id",
];
/// Whole keys with such a value.
const OWN_NAMES: [&str; 12] = [
    "s/n",
    "sn",
    "nguid",
    "eui64",
    "uuid",
    "wwn",
    "wwid",
    "fguid",
    "psid serial",
    "chassis_id",
    "system_uuid",
    "machine-id",
];
/// A shorter serial number may be a word of the text.
const LEAST_SERIAL: usize = 6;
/// Words next to which a number of hexadecimal digits names a device.
const HARDWARE_WORDS: [&str; 12] =
    ["mac", "guid", "guids", "eui", "eui64", "wwn", "wwpn", "wwnn", "nguid", "naa", "gid", "pdi"];

/// The key of a line and the place of its value.
fn key_and_value(line: &str) -> Option<(String, usize, usize)> {
    // A quotation, a comment, a row of a table, JSON, and the keyword of vital product data.
    let begin = line.find(|c: char| !" \t\r\"'>#|*-".contains(c))?;
    let mut key = &line[begin..];
    if let Some(rest) = key.strip_prefix('[') {
        key = rest.split_once("] ")?.1;
    }
    let end = key.find([':', '='])?;
    let at = line.len() - key.len() + end + 1;
    let key = key[..end].trim_matches([' ', '\t', '"', '\'']).to_ascii_lowercase();
    let value = line[at..].trim().trim_end_matches(',').trim_matches(['"', '\'']).trim();
    if value.is_empty() {
        return None;
    }
    let start = at + line[at..].find(value)?;
    Some((key, start, start + value.len()))
}

/// Place of a value that belongs to one device, machine or place.
pub(super) fn find(line: &str) -> Option<(usize, usize)> {
    let (key, start, end) = key_and_value(line)?;
    let is_own = OWN_KEYS.iter().any(|own| key.starts_with(own))
        || OWN_NAMES.contains(&key.as_str())
        || key.contains("eui-64")
        || key.contains("serial number");
    (is_own && !is_none(&line[start..end])).then_some((start, end))
}

/// Returns whether a value stands for none.
fn is_none(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "n/a" | "none" | "null" | "not specified" | "unknown"
    ) || value.bytes().all(|byte| matches!(byte, b'0' | b'-' | b':'))
}

/// The name of the host, where a key names it.
pub(super) fn host_name(line: &str) -> Option<&str> {
    let (key, start, end) = key_and_value(line)?;
    let value = &line[start..end];
    (key.contains("hostname") && !is_none(value) && !value.contains(' ')).then_some(value)
}

/// Place of a vendor's own value in vital product data, such as `[V4] Vendor specific: 9CDC71556630`.
pub(super) fn of_vendor(line: &str) -> Option<(usize, usize)> {
    let (key, start, end) = key_and_value(line)?;
    let is_of_vendor = line.trim_start().starts_with("[V") || line.trim_start().starts_with("[Y");
    (is_of_vendor && key.contains("specific")).then_some((start, end))
}

/// Serial numbers of keys and tables.
pub(super) fn serials(text: &str) -> Vec<String> {
    let mut column = None;
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        column = SerialColumn::of(line).or(column);
        let of_table = column.and_then(|column: SerialColumn| column.value(line));
        let of_key = find(line).filter(|_| host_name(line).is_none());
        all.extend(of_key.or(of_table).map(|(start, end)| line[start..end].to_owned()));
    }
    // Words alone: of a longer value nothing is found.
    all.retain(|value| {
        value.len() >= LEAST_SERIAL
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && value.bytes().any(|byte| byte.is_ascii_digit())
    });
    all.sort_by_key(|value| std::cmp::Reverse(value.len()));
    all.dedup();
    all
}

/// The column of serial numbers in the table of `nvme list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SerialColumn(usize);

impl SerialColumn {
    /// The column by a line of headings.
    pub(super) fn of(line: &str) -> Option<Self> {
        let has = |word: &str| line.split_whitespace().any(|one| one == word);
        let at = line.find(" SN ").filter(|_| has("Node") && has("Model"))?;
        Some(Self(at + 1))
    }

    /// Place of the serial number in a row.
    pub(super) fn value(self, line: &str) -> Option<(usize, usize)> {
        if !line.trim_start().starts_with("/dev/nvme") {
            return None;
        }
        let rest = line.get(self.0..)?;
        let end = rest.find(char::is_whitespace)?;
        (end > 0).then_some((self.0, self.0 + end))
    }
}

/// Place of the serial number in a name of `/dev/disk/by-id`.
pub(super) fn of_disk(word: &str) -> Option<(usize, usize)> {
    const BUSES: [&str; 7] = ["nvme-", "ata-", "scsi-", "wwn-", "usb-", "mmc-", "virtio-"];
    const KINDS: [&str; 5] = ["eui.", "naa.", "nvme.", "t10.", "uuid."];
    let name = BUSES.iter().find_map(|bus| word.strip_prefix(bus));
    let begin = word.len() - name.unwrap_or(word).len();
    let end = word.rfind("-part").filter(|&at| at > begin).unwrap_or(word.len());
    let name = &word[begin..end];
    if let Some(kind) = KINDS.iter().find(|kind| name.starts_with(**kind)) {
        let number = &name[kind.len()..];
        let is_number = number.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let is_own = number.len() >= LEAST_SERIAL && (begin > 0 || is_number);
        return is_own.then_some((begin + kind.len(), end));
    }
    if begin == 0 || !name.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if name.starts_with("0x") {
        return Some((begin, end));
    }
    // The number of a namespace may follow.
    let serial = match name.rsplit_once('_')? {
        (rest, namespace) if namespace.parse::<u32>().is_ok_and(|n| n < 1000) => {
            rest.rfind('_')? + 1
        }
        (rest, _) => rest.len() + 1,
    };
    Some((begin + serial, end))
}

/// Place of the identifier of a volume of LVM, or of a file of the journal.
///
/// LVM has 32 letters and digits in groups, without dashes in names of device mapper (`lib/uuid/uuid.c` of LVM2). The
/// journal has its identifier, a sequence number and a time (`journald-file.c` and `managed-journal-file.c` of systemd).
pub(super) fn of_volume(word: &str) -> Option<(usize, usize)> {
    const GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];
    const LENGTH: usize = 38;
    if let Some(ids) = word.strip_prefix("dm-uuid-LVM-").or_else(|| word.strip_prefix("LVM-")) {
        let is_id = ids.len() == 64 && ids.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return is_id.then_some((word.len() - ids.len(), word.len()));
    }
    if let Some(name) = word.strip_suffix(".journal") {
        let parts: Vec<&str> = name.split('-').collect();
        let sizes: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_id = matches!(sizes.as_slice(), [32, 16, 16] | [16, 16]);
        return (is_id && parts.iter().all(is_hex)).then_some((0, name.len()));
    }
    let start = word.len().checked_sub(LENGTH)?;
    let id = word.get(start..)?;
    let is_id = id.split('-').map(str::len).eq(GROUPS)
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && id.bytes().any(|byte| byte.is_ascii_digit());
    let is_whole = start == 0 || word[..start].ends_with('-');
    (is_id && is_whole).then_some((start, word.len()))
}

/// Returns whether a word is a number of hexadecimal digits that names a device.
pub(super) fn is_hardware_number(word: &str, line: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || digits.len() < 12 {
        return false;
    }
    let words = line.to_ascii_lowercase();
    let mut words = words.split(|c: char| !c.is_ascii_alphanumeric());
    let is_named = words.clone().any(|one| HARDWARE_WORDS.contains(&one));
    let is_memory = words.any(|one| matches!(one, "mem" | "memory" | "bar" | "region" | "offset"));
    is_named || digits.len() == 32 || (word.len() == 18 && digits.len() == 16 && !is_memory)
}
