//! The configuration of NVIDIA's cuFile, as far as it bears on the route.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Settings of cuFile in `/etc/cufile.json`.
///
/// A program may name another file in `CUFILE_ENV_PATH_JSON`, which is not read here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CufileConfiguration {
    /// The fault in the file; there are no settings where it could not be read to its end.
    pub problem: Option<String>,
    /// Keys of [`KEYS`](crate::cufile::KEYS) that are set, by dotted names: `properties.use_pci_p2pdma`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, CufileValue>,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CufileValue {
    /// `true` or `false`.
    Flag(bool),
    /// An integer; of a list of addresses, their number.
    Number(i64),
    /// A text, or a number that is not an integer.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl CufileConfiguration {
    /// Returns whether a key is `true` or `false`; `None` where it is not set, or something else.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.settings.get(key)? {
            CufileValue::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The number of a key.
    pub fn number(&self, key: &str) -> Option<i64> {
        match self.settings.get(key)? {
            CufileValue::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The texts in the list of a key; none where it is not a list.
    pub fn list(&self, key: &str) -> &[String] {
        match self.settings.get(key) {
            Some(CufileValue::List(list)) => list,
            _ => &[],
        }
    }
}

impl std::fmt::Display for CufileValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::List(list) => f.debug_list().entries(list).finish(),
        }
    }
}
