//! JSON Schema of every record, from the types and their docstrings.
//!
//! Fields that may be left out are not required. Numbers say their unit in `x-unit`.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

use crate::{
    BENCH_SCHEMA, BenchRecord, COMPARE_SCHEMA, COPY_SCHEMA, CompareRecord, CopyRecord,
    DOCTOR_SCHEMA, DoctorRecord, ERROR_SCHEMA, EXPORT_SCHEMA, ErrorRecord, ExportRecord,
    NODES_SCHEMA, NodesRecord, PLAN_SCHEMA, PlanRecord, TOPO_DIFF_SCHEMA, TopoDiffRecord,
    VERIFY_SCHEMA, VerifyRecord, WORKLOAD_SCHEMA, Workload,
};

/// A record, its version, and its schema.
#[derive(Debug, Clone)]
pub struct RecordSchema {
    /// Name and version, as the record has it in `schema`: `peerlane.copy/1`.
    pub id: &'static str,
    /// Its schema, draft 2020-12.
    pub schema: Schema,
}

impl RecordSchema {
    /// The schema of a record, whose `schema` is `id` and nothing else.
    pub fn for_type<T: JsonSchema>(id: &'static str) -> Self {
        let mut schema =
            SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        schema.insert("title".to_owned(), id.into());
        if let Some(own) = schema.pointer_mut("/properties/schema") {
            *own = serde_json::json!({ "description": "Name and version of the record.", "const": id });
        }
        Self { id, schema }
    }
}

/// Every record of this crate, in the order of a reader's interest.
pub fn schemas() -> Vec<RecordSchema> {
    vec![
        RecordSchema::for_type::<CopyRecord>(COPY_SCHEMA),
        RecordSchema::for_type::<PlanRecord>(PLAN_SCHEMA),
        RecordSchema::for_type::<VerifyRecord>(VERIFY_SCHEMA),
        RecordSchema::for_type::<ExportRecord>(EXPORT_SCHEMA),
        RecordSchema::for_type::<DoctorRecord>(DOCTOR_SCHEMA),
        RecordSchema::for_type::<TopoDiffRecord>(TOPO_DIFF_SCHEMA),
        RecordSchema::for_type::<Workload>(WORKLOAD_SCHEMA),
        RecordSchema::for_type::<BenchRecord>(BENCH_SCHEMA),
        RecordSchema::for_type::<CompareRecord>(COMPARE_SCHEMA),
        RecordSchema::for_type::<NodesRecord>(NODES_SCHEMA),
        RecordSchema::for_type::<ErrorRecord>(ERROR_SCHEMA),
    ]
}
