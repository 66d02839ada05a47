//! Settings of cuFile as the text of a configuration file.

use std::collections::BTreeMap;

use super::{KeptValue, MOST_ENTRIES, kept};
use crate::{CufileConfiguration, CufileValue};

/// The text of a file with these settings; one that is not JSON where there is a problem and no setting.
pub fn text(configuration: &CufileConfiguration) -> String {
    if configuration.problem.is_some() && configuration.settings.is_empty() {
        return "?".to_owned();
    }
    let mut root = JsonNode::Object(BTreeMap::new());
    for (key, value) in &configuration.settings {
        root.insert(key.split('.'), json(key, value));
    }
    let comma = if configuration.problem.is_some() { "," } else { "" };
    root.text(comma)
}

/// An object, or the text of a value.
enum JsonNode {
    Object(BTreeMap<String, JsonNode>),
    Value(String),
}

impl JsonNode {
    fn insert<'a>(&mut self, mut key: impl Iterator<Item = &'a str>, value: String) {
        match (key.next(), &mut *self) {
            (None, node) => *node = Self::Value(value),
            (Some(name), Self::Object(entries)) => {
                let empty = || Self::Object(BTreeMap::new());
                entries.entry(name.to_owned()).or_insert_with(empty).insert(key, value);
            }
            (Some(_), Self::Value(_)) => {}
        }
    }

    /// The text, with `last` after the last entry.
    fn text(&self, last: &str) -> String {
        match self {
            Self::Value(text) => text.clone(),
            Self::Object(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(name, node)| format!("{}: {}", quoted(name), node.text("")))
                    .collect();
                format!("{{{}{last}}}", entries.join(",\n"))
            }
        }
    }
}

fn json(key: &str, value: &CufileValue) -> String {
    match (kept(key), value) {
        (Some(KeptValue::Length), CufileValue::Number(length)) => {
            let entries = (0..(*length).clamp(0, MOST_ENTRIES)).map(|_| "\"\"");
            format!("[{}]", entries.collect::<Vec<_>>().join(", "))
        }
        (_, CufileValue::Flag(flag)) => flag.to_string(),
        (_, CufileValue::Number(number)) => number.to_string(),
        (_, CufileValue::Text(text)) => quoted(text),
        (_, CufileValue::List(list)) => {
            format!("[{}]", list.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted += &format!("\\u{:04x}", u32::from(letter)),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}
