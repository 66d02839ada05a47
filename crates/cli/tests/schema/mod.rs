//! Holds the output of the program against the committed schemas.
//!
//! Stricter than JSON Schema wants: a keyword that is unknown here and a field that the schema does
//! not name are failures. So nothing is printed that the schema does not say.

use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Keywords that say something to people only.
const WORDS: [&str; 7] =
    ["$schema", "$defs", "title", "description", "format", "x-unit", "default"];

/// Reads the committed schema of a record by its name and version.
pub(crate) fn committed(id: &str) -> Value {
    let name = id.trim_start_matches("peerlane.").replace('/', "-");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schema");
    let path = PathBuf::from(folder).join(format!("{name}.json"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("a schema")
}

/// Reads the output of the program, after a check against its schema.
pub(crate) fn read<T: DeserializeOwned>(printed: &[u8]) -> T {
    let record: Value = serde_json::from_slice(printed).expect("one object");
    check(&record);
    serde_json::from_value(record).expect("a record")
}

/// Asserts that a record is as the schema that it names says.
pub(crate) fn check(record: &Value) {
    let id = record["schema"].as_str().unwrap_or_else(|| panic!("no schema is named: {record}"));
    let root = committed(id);
    if let Err(why) = fits(record, &root, &root, "") {
        panic!("{id}: {why}\n{record:#}");
    }
}

/// Checks that a value fits a schema; the path says where it lies.
fn fits(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), String> {
    let Value::Object(rules) = schema else {
        return if schema == &Value::Bool(true) {
            Ok(())
        } else {
            Err(format!("{path}: nothing fits"))
        };
    };
    for (keyword, rule) in rules {
        let holds = match keyword.as_str() {
            "$ref" => {
                let target =
                    rule.as_str().and_then(|name| root.pointer(name.trim_start_matches('#')));
                fits(value, target.expect("a definition"), root, path)?;
                true
            }
            "type" => match rule {
                Value::Array(several) => several.iter().any(|one| is_of(value, one)),
                one => is_of(value, one),
            },
            "const" => value == rule,
            "enum" => rule.as_array().is_some_and(|all| all.contains(value)),
            "minimum" => value.as_f64() >= rule.as_f64() || !value.is_number(),
            "maximum" => value.as_f64() <= rule.as_f64() || !value.is_number(),
            "anyOf" => fitting(value, rule, root, path) >= 1,
            "oneOf" => fitting(value, rule, root, path) == 1,
            "required" => value.as_object().is_none_or(|object| has_all(object, rule)),
            "properties" | "additionalProperties" => {
                fields_fit(value, rules, root, path)?;
                true
            }
            "items" | "prefixItems" => {
                items_fit(value, rules, root, path)?;
                true
            }
            "minItems" => {
                value.as_array().is_none_or(|all| Some(all.len() as u64) >= rule.as_u64())
            }
            "maxItems" => {
                value.as_array().is_none_or(|all| Some(all.len() as u64) <= rule.as_u64())
            }
            other if WORDS.contains(&other) => true,
            other => panic!("keyword {other} at {path} is unknown here"),
        };
        if !holds {
            return Err(format!("{path}: {value} is against {keyword} {rule}"));
        }
    }
    Ok(())
}

fn is_of(value: &Value, name: &Value) -> bool {
    match name.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other}"),
    }
}

fn fitting(value: &Value, variants: &Value, root: &Value, path: &str) -> usize {
    let variants = variants.as_array().expect("variants").iter();
    variants.filter(|one| fits(value, one, root, path).is_ok()).count()
}

fn has_all(object: &Map<String, Value>, names: &Value) -> bool {
    let names = names.as_array().expect("names").iter();
    names.filter_map(Value::as_str).all(|name| object.contains_key(name))
}

fn fields_fit(
    value: &Value,
    rules: &Map<String, Value>,
    root: &Value,
    path: &str,
) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Ok(()) };
    let named = rules.get("properties").and_then(Value::as_object);
    for (name, field) in object {
        let path = format!("{path}/{name}");
        match (named.and_then(|named| named.get(name)), rules.get("additionalProperties")) {
            (Some(rule), _) | (None, Some(rule)) => fits(field, rule, root, &path)?,
            (None, None) => return Err(format!("{path}: the schema has no such field")),
        }
    }
    Ok(())
}

fn items_fit(
    value: &Value,
    rules: &Map<String, Value>,
    root: &Value,
    path: &str,
) -> Result<(), String> {
    let Some(items) = value.as_array() else { return Ok(()) };
    let first = rules.get("prefixItems").and_then(Value::as_array);
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}/{index}");
        match (first.and_then(|first| first.get(index)), rules.get("items")) {
            (Some(rule), _) | (None, Some(rule)) => fits(item, rule, root, &path)?,
            (None, None) => return Err(format!("{path}: one too many")),
        }
    }
    Ok(())
}
