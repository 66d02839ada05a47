//! The record: what was asked, what was planned, what was moved, by which route, on what evidence.
//!
//! Plain serialisable data, made from values of the model, and nothing else. Integers are bytes and nanoseconds,
//! named so; rates are derived by the reader. Each top-level object carries its schema name and version.
#![forbid(unsafe_code)]

mod bench;
mod compare;
mod copy;
mod doctor;
mod error;
mod export;
mod fan_out;
mod hit;
mod machine;
mod nodes;
mod pair;
mod plan;
mod proof;
mod schema;
mod topo_diff;
mod trace;
mod verify;
mod warning;
mod workload;

pub use bench::{
    BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, CpuCost, DevicePackets, Direction, FlowRecord,
    Gain, LinkLoad, LocationEffect, Packets, PageFaults, Places, Prediction, RateDifference,
    RouteEvidence, RouteVerdict, Spread, Summary,
};
pub use compare::{
    COMPARE_NODES_SCHEMA, COMPARE_SCHEMA, CaseComparison, Change, ComparedRun, Comparison,
    Incomparable, NodeComparison, NodesComparison, WhichRun,
};
pub use copy::{
    BytesByRoute, COPY_SCHEMA, Content, CopyRecord, CpuTime, Evidence, HostMemoryTraffic, Latency,
    Machine, Percentiles, StageRecord, Verification,
};
pub use doctor::{
    AssumedSetting, Cost, DOCTOR_SCHEMA, DOCTOR_SCHEMA_1, DoctorRecord, Finding, FindingKind, Fix,
    LibrarySetting, NcclSetting, Needs, PlanStep, Setting, Unknown, UseRecord,
};
pub use error::{ERROR_SCHEMA, ErrorRecord};
pub use export::{
    EXPORT_SCHEMA, EXPORTS_SCHEMA, ExportList, ExportListen, ExportMemory, ExportRecord, OwnExport,
};
pub use fan_out::{
    BATCH_PLAN_SCHEMA, BATCH_SCHEMA, BatchPlan, BatchRecord, CopyFailure, FAN_OUT_PLAN_SCHEMA,
    FAN_OUT_SCHEMA, FanOutPlan, FanOutRecord, JobOutcome, TargetOutcome,
};
pub use hit::{HIT_SCHEMA, HitRecord, ScanMethod};
pub use machine::warnings_of_machine;
pub use nodes::{
    FailedImage, NODES_SCHEMA, NodeDevice, NodeError, NodeRecord, NodesRecord, NodesTask,
    PartCount, ScanBusy, ScanRecord, UsedEnd, VariantRecord,
};
pub use pair::{
    KernelDecision, PLAN_ANSWER_SCHEMA, PairDevice, PairDirection, PairRecord, PairTurn, PathLink,
    PlanAnswer, ReachCondition,
};
pub use peerlane_reach::{
    ChangeEffect, ChangeKind, DriverAnswer, DriverRule, GuestVerdict, MapType, RouteState,
    UncomparedReason, Use,
};
pub use plan::{
    Asked, Candidate, EndpointFacts, EndpointKind, ExplainedPlan, Explanation, ExplanationStep,
    Limit, MemoryFacts, MemoryKind, NetworkFacts, PLAN_SCHEMA, Plan, Probe, ProbeAnswer, Refusal,
    Route, RouteChoice, Shape, Tail, Verdict, VerifyMode,
};
pub use proof::{DirectionProof, MethodProof, PairProof, ProofMethod, ProofResult};
pub use schema::{RecordSchema, schemas};
pub use topo_diff::{
    TOPO_DIFF_SCHEMA, TopoChange, TopoDiffRecord, TopoFunction, TopoPairs, TopoUncompared,
};
pub use trace::{
    PhaseKind, Span, Trace, TraceAction, TraceMemory, TraceOutcome, TracePhase, TraceRequest,
};
pub use verify::{
    ChunkDifference, Difference, Digest, MANIFEST_RECORD_SCHEMA, ManifestRecord, VERIFY_SCHEMA,
    VerifyRecord,
};
pub use warning::{ResumedWithout, Warning};
pub use workload::{
    CaseSpec, Flow, FlowStage, Order, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind,
};
