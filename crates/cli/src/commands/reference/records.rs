//! The schema of every record, and a page of them for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use peerlane::topology;
use peerlane_results::{HIT_SCHEMA, HitRecord, RecordSchema};
use serde_json::{Map, Value};

use crate::commands::{capture, lab, reproduce, sim};

const HEAD: &str = "# Records\n\n\
    Written by `peerlane reference --write docs/reference` from the types. Every object that `--json` prints says its name and\n\
    version in `schema`; `schema/` has the JSON Schema (draft 2020-12) of each. Offsets, sizes and times are integers, but for\n\
    what `reproduce` and `sim --vary` print: numbers of the model in bytes, seconds and bytes a second. A field that\n\
    need not be there says nothing then; \"or null\" means that it is there and may be empty.\n";

/// File name and text of each schema, and the page.
pub(super) fn pages() -> Vec<(String, String)> {
    let all = schemas();
    let mut pages: Vec<(String, String)> = all.iter().map(file).collect();
    pages.push(("record.md".to_owned(), page(&all)));
    pages
}

/// The schema of everything that `--json` prints.
fn schemas() -> Vec<RecordSchema> {
    let mut all = peerlane_results::schemas();
    all.extend([topology::schema(), capture::schema()]);
    all.push(RecordSchema::for_type::<HitRecord>(HIT_SCHEMA));
    all.push(sim::schema());
    all.extend(reproduce::schemas());
    all.extend(lab::schemas());
    all
}

/// `peerlane.copy/1` as `schema/copy-1.json`.
fn file(record: &RecordSchema) -> (String, String) {
    let name = record.id.trim_start_matches("peerlane.").replace('/', "-");
    let text = serde_json::to_string_pretty(&record.schema).unwrap_or_default();
    (format!("schema/{name}.json"), format!("{text}\n"))
}

fn page(all: &[RecordSchema]) -> String {
    let mut text = HEAD.to_owned();
    let mut shared: BTreeMap<String, Value> = BTreeMap::new();
    for record in all {
        let schema = record.schema.as_value();
        let (file, _) = file(record);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n## {}\n\n{} [Schema]({file}).\n", record.id, words(schema));
        text += &shape(schema);
        let own = schema["$defs"].as_object().into_iter().flatten();
        shared.extend(own.map(|(name, schema)| (name.clone(), schema.clone())));
    }
    text += "\n# What records are made of\n";
    for (name, schema) in &shared {
        let _ = write!(text, "\n## {name}\n\n{}\n", words(schema));
        text += &shape(schema);
    }
    text
}

/// The fields of an object, or the values of an enumeration.
fn shape(schema: &Value) -> String {
    if let Some(variants) = schema["oneOf"].as_array() {
        return variants_table(variants);
    }
    if let Some(values) = schema["enum"].as_array() {
        return variants_table(values);
    }
    let Some(fields) = schema["properties"].as_object() else {
        return String::new();
    };
    fields_table(fields, schema)
}

fn fields_table(fields: &Map<String, Value>, schema: &Value) -> String {
    let mut text = "\n| Field | Type | Meaning |\n| --- | --- | --- |\n".to_owned();
    for (name, field) in fields {
        let optional = if is_required(schema, name) { "" } else { optional(field) };
        let _ = writeln!(text, "| `{name}` | {}{optional} | {} |", kind(field), words(field));
    }
    text
}

/// A field that may be null may also be missing.
fn optional(field: &Value) -> &'static str {
    if kind(field).ends_with("or null") { "" } else { ", need not be there" }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
}

fn variants_table(variants: &[Value]) -> String {
    let mut text = "\n| Value | Meaning |\n| --- | --- |\n".to_owned();
    for variant in variants {
        let _ = writeln!(text, "| {} | {} |", value(variant), words(variant));
    }
    text
}

/// A value of an enumeration: a word, or an object with its fields.
fn value(variant: &Value) -> String {
    if let Value::String(word) = variant {
        return format!("`{word}`");
    }
    if let Some(word) = variant["const"].as_str() {
        return format!("`{word}`");
    }
    let fields = variant["properties"].as_object().into_iter().flatten().map(|(name, field)| {
        match field["const"].as_str() {
            Some(word) => format!("`{name}` `{word}`"),
            None => format!("`{name}`: {}{}", kind(field), in_brackets(&words(field))),
        }
    });
    // What tells the variants apart comes first.
    let (mut first, more): (Vec<String>, Vec<String>) = fields.partition(|one| !one.contains(':'));
    first.extend(more);
    first.join(", ")
}

fn in_brackets(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" ({})", words.trim_end_matches('.')) }
}

/// The type of a field in words, with its unit.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(word) = schema["const"].as_str() {
        return format!("`{word}`");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(all) = schema[several].as_array() {
            return all.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let one = |name: &&str| match (*name, &schema["x-unit"]) {
        ("integer", Value::String(unit)) => unit.clone(),
        ("array", _) => list(schema),
        ("object", _) => match &schema["additionalProperties"] {
            Value::Object(_) => format!("{} by name", kind(&schema["additionalProperties"])),
            _ => "object".to_owned(),
        },
        (other, _) => other.to_owned(),
    };
    types.iter().map(one).collect::<Vec<_>>().join(" or ")
}

fn list(schema: &Value) -> String {
    match schema["prefixItems"].as_array() {
        Some(items) => items.iter().map(kind).collect::<Vec<_>>().join(" and "),
        None => format!("list of {}", kind(&schema["items"])),
    }
}

/// The docstring in one line of a table; names in it are not links here.
fn words(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace("[`", "`").replace("`]", "`").replace("`None`", "null");
    line.replace('|', "\\|")
}
