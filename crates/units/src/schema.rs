//! The units in JSON Schema: a number that names its unit in `x-unit`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{ByteRate, Bytes, Nanos};

macro_rules! number_of {
    ($unit:ty, $name:literal, $words:literal) => {
        impl JsonSchema for $unit {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "integer", "format": "uint64", "minimum": 0, "x-unit": $words
                })
            }
        }
    };
}

number_of!(Bytes, "Bytes", "bytes");
number_of!(ByteRate, "ByteRate", "bytes a second");
number_of!(Nanos, "Nanos", "nanoseconds");
