//! Audit of `/etc/cufile.json`: keys that force, forbid or allow a route of cuFile.
//!
//! Effects and defaults are those of NVIDIA's "GPUDirect Storage Benchmarking and Configuration
//! Guide", and, if named, of its gds-diag; the first version of a key is that of the first
//! published library that has its name (`strings libcufile.so.0` of 1.11, 1.14 and every release
//! from 1.15 to 1.20). None of it was tried on a GPU. A program may name another file, and
//! variables of its environment override some keys: neither is seen.

mod denied;
mod host;
mod p2pdma;
mod remote;

use peerlane_fabric::{CufileConfiguration, CufileValue, Fabric};

/// A key, the effect of its value on routes, and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CufileNote {
    /// The key by its dotted name, `properties.use_pci_p2pdma`; `environment` for variables that
    /// are not seen.
    pub(super) key: String,
    /// The value as JSON, or `not set`.
    pub(super) value: String,
    /// The effect on the route.
    pub(super) consequence: String,
    /// Advice, with a command if there is one.
    pub(super) advice: String,
    /// First version of cuFile with the key.
    pub(super) since: &'static str,
    /// Payload of this machine's devices goes through host memory, or is refused, whatever the
    /// devices allow.
    pub(super) forces_host: bool,
    /// Values that change that, if keys alone do.
    pub(super) remedy: Remedy,
}

/// Keys and the values to set.
pub(super) type Remedy = Vec<(&'static str, bool)>;

/// The notes on the settings of a machine, those that force host memory first; none without the file.
pub(super) fn audit(fabric: &Fabric) -> Vec<CufileNote> {
    let Some(found) = &fabric.cufile else { return Vec::new() };
    let audit = Audit { fabric, found, version: fabric.cufile_version() };
    let mut notes: Vec<CufileNote> = audit.problem().into_iter().collect();
    notes.extend(audit.host_memory());
    notes.extend(audit.p2pdma());
    notes.extend(audit.denied());
    notes.extend(audit.remote());
    notes.extend(audit.kinds());
    notes.sort_by_key(|note| !note.forces_host);
    notes.push(environment());
    notes
}

/// First version of a key.
#[derive(Debug, Clone, Copy)]
struct Since {
    version: (u32, u32),
    text: &'static str,
}

const EARLY: Since = Since { version: (0, 0), text: "1.11 or earlier" };
const BY_1_14: Since = Since { version: (1, 12), text: "1.14 at the latest" };
/// CUDA 12.8, as NVIDIA says.
const P2PDMA: Since = Since { version: (1, 13), text: "1.13" };
const KINDS: Since = Since { version: (1, 16), text: "1.16" };
const FALLBACKS: Since = Since { version: (1, 17), text: "1.17" };
const MIRRORS: Since = Since { version: (1, 19), text: "1.19" };
const PANFS: Since = Since { version: (1, 20), text: "1.20" };

/// The effect of a value.
struct CuFileEffect {
    consequence: String,
    advice: String,
    forces_host: bool,
    remedy: Remedy,
}

impl CuFileEffect {
    fn new(consequence: impl Into<String>, advice: impl Into<String>) -> Self {
        let (consequence, advice) = (consequence.into(), advice.into());
        Self { consequence, advice, forces_host: false, remedy: Vec::new() }
    }

    fn forcing_host(self, forces_host: bool) -> Self {
        Self { forces_host, ..self }
    }

    fn ended_by(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }
}

/// The settings, the machine, and the version of cuFile.
struct Audit<'a> {
    fabric: &'a Fabric,
    found: &'a CufileConfiguration,
    version: Option<(u32, u32)>,
}

impl Audit<'_> {
    /// A note on a key, which an older library does not know.
    fn note(&self, key: &str, since: Since, effect: CuFileEffect) -> CufileNote {
        let value = self.found.settings.get(key);
        let is_older =
            value.is_some() && self.version.is_some_and(|version| version < since.version);
        let effect = if is_older { self.not_known(since) } else { effect };
        CufileNote {
            key: key.to_owned(),
            value: value.map_or_else(|| "not set".to_owned(), ToString::to_string),
            consequence: effect.consequence,
            advice: effect.advice,
            since: since.text,
            forces_host: effect.forces_host,
            remedy: effect.remedy,
        }
    }

    fn not_known(&self, since: Since) -> CuFileEffect {
        let (major, minor) = self.version.unwrap_or_default();
        CuFileEffect::new(
            format!("cuFile {major}.{minor} does not know the key, which came with {}", since.text),
            "leave it out, or install a later CUDA",
        )
    }

    /// A note on a key that has this value.
    fn flagged(
        &self,
        key: &str,
        value: bool,
        since: Since,
        effect: impl FnOnce() -> CuFileEffect,
    ) -> Option<CufileNote> {
        (self.found.flag(key) == Some(value)).then(|| self.note(key, since, effect()))
    }

    /// Returns the problem of the file as a whole.
    fn problem(&self) -> Option<CufileNote> {
        let problem = self.found.problem.as_ref()?;
        Some(CufileNote {
            key: "/etc/cufile.json".to_owned(),
            value: problem.clone(),
            consequence: "whether cuFile takes its defaults then, or refuses to open, is unknown".to_owned(),
            advice: "fix the line; `/usr/local/cuda/gds/tools/gdscheck -p` prints what cuFile makes of it"
                .to_owned(),
            since: EARLY.text,
            forces_host: false,
            remedy: Vec::new(),
        })
    }

    /// Values of another kind than the documents say.
    fn kinds(&self) -> Vec<CufileNote> {
        let is_odd = |(key, value): &(&String, &CufileValue)| match wanted_kind(key) {
            "true or false" => !matches!(value, CufileValue::Flag(_)),
            "a list" => !matches!(value, CufileValue::List(_)),
            "a text" => !matches!(value, CufileValue::Text(_)),
            _ => !matches!(value, CufileValue::Number(_)),
        };
        let odd = self.found.settings.iter().filter(is_odd);
        odd.map(|(key, _)| {
            let wanted = wanted_kind(key);
            let effect = CuFileEffect::new(
                format!("the value is not {wanted}, and what cuFile makes of it is unknown"),
                format!("write {wanted}, without quotes around it"),
            );
            self.note(key, EARLY, effect)
        })
        .collect()
    }
}

/// The kind of value that a key has.
fn wanted_kind(key: &str) -> &'static str {
    match key {
        "properties.rdma_peer_type" => "a text",
        "properties.rdma_dynamic_routing_order" => "a list",
        "properties.rdma_dev_addr_list" | "denylist.fsids" => "a number",
        _ if key.starts_with("denylist.") => "a list",
        _ if key.starts_with("blacklist.") || key.ends_with("_kb") => "a number",
        _ => "true or false",
    }
}

/// Variables that override the file, and one that names another.
fn environment() -> CufileNote {
    CufileNote {
        key: "environment".to_owned(),
        value: "not seen".to_owned(),
        consequence: "CUFILE_ENV_PATH_JSON names another file; CUFILE_FORCE_COMPAT_MODE, CUFILE_USE_PCIP2PDMA and, \
                      until 1.16, CUFILE_ALLOW_COMPAT_MODE override this one"
            .to_owned(),
        advice: "`env | grep CUFILE_` in the shell that starts the program".to_owned(),
        since: EARLY.text,
        forces_host: false,
        remedy: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
