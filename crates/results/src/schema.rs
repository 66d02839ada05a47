//! JSON Schema of every record, from the types and their docstrings.
//!
//! The schema says what a reader can count on: what was optional or came after the first version of a
//! record is not required. Numbers say their unit in `x-unit`.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

use crate::{
    BATCH_PLAN_SCHEMA, BATCH_SCHEMA, BENCH_SCHEMA, BatchPlan, BatchRecord, BenchRecord,
    COMPARE_NODES_SCHEMA, COMPARE_SCHEMA, COPY_SCHEMA, Comparison, CopyRecord, DOCTOR_SCHEMA,
    DoctorRecord, ERROR_SCHEMA, EXPORT_SCHEMA, EXPORTS_SCHEMA, ErrorRecord, ExplainedPlan,
    ExportList, ExportRecord, FAN_OUT_PLAN_SCHEMA, FAN_OUT_SCHEMA, FanOutPlan, FanOutRecord,
    MANIFEST_RECORD_SCHEMA, ManifestRecord, NODES_SCHEMA, NodesComparison, NodesRecord,
    PLAN_ANSWER_SCHEMA, PLAN_SCHEMA, PlanAnswer, TOPO_DIFF_SCHEMA, TopoDiffRecord, VERIFY_SCHEMA,
    VerifyRecord, WORKLOAD_SCHEMA, Workload,
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
        RecordSchema::for_type::<FanOutRecord>(FAN_OUT_SCHEMA),
        RecordSchema::for_type::<BatchRecord>(BATCH_SCHEMA),
        RecordSchema::for_type::<PlanAnswer>(PLAN_ANSWER_SCHEMA),
        RecordSchema::for_type::<ExplainedPlan>(PLAN_SCHEMA),
        RecordSchema::for_type::<FanOutPlan>(FAN_OUT_PLAN_SCHEMA),
        RecordSchema::for_type::<BatchPlan>(BATCH_PLAN_SCHEMA),
        RecordSchema::for_type::<VerifyRecord>(VERIFY_SCHEMA),
        RecordSchema::for_type::<ManifestRecord>(MANIFEST_RECORD_SCHEMA),
        RecordSchema::for_type::<ExportRecord>(EXPORT_SCHEMA),
        RecordSchema::for_type::<ExportList>(EXPORTS_SCHEMA),
        RecordSchema::for_type::<DoctorRecord>(DOCTOR_SCHEMA),
        RecordSchema::for_type::<TopoDiffRecord>(TOPO_DIFF_SCHEMA),
        RecordSchema::for_type::<Workload>(WORKLOAD_SCHEMA),
        RecordSchema::for_type::<BenchRecord>(BENCH_SCHEMA),
        RecordSchema::for_type::<Comparison>(COMPARE_SCHEMA),
        RecordSchema::for_type::<NodesRecord>(NODES_SCHEMA),
        RecordSchema::for_type::<NodesComparison>(COMPARE_NODES_SCHEMA),
        RecordSchema::for_type::<ErrorRecord>(ERROR_SCHEMA),
    ]
}
