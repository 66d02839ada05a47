//! The record: what was asked, what was planned, what was moved, by which route, on what evidence.
//!
//! Plain serialisable data, made from values of the model, and nothing else. Integers are bytes and nanoseconds,
//! named so; rates are derived by the reader. Each top-level object carries its schema name and version.
#![forbid(unsafe_code)]

mod bench;
mod compare;
mod copy;
mod doctor;
mod ends;
mod error;
mod export;
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
    Gain, LinkLoad, LocationEffect, Packets, PageFaults, Places, Prediction, RouteEvidence,
    RouteVerdict, Spread, Summary,
};
pub use compare::{
    COMPARE_SCHEMA, CaseComparison, Change, CompareRecord, ComparedRun, Comparison, Incomparable,
    NodeComparison, WhichRun,
};
pub use copy::{
    BytesByRoute, COPY_SCHEMA, CompletedCopy, Content, CopyFailure, CopyRecord, CpuTime, Evidence,
    FarSide, HostMemoryTraffic, JobOutcome, Latency, Machine, Percentiles, Scrubbed, StageRecord,
    TargetOutcome, Verification,
};
pub use doctor::{
    AssumedSetting, Cost, DOCTOR_SCHEMA, DoctorRecord, Finding, FindingKind, Fix, LibrarySetting,
    NcclSetting, Needs, PlanStep, Setting, Unknown, UseRecord,
};
pub use ends::{EndpointFacts, EndpointKind, MemoryFacts, MemoryKind, NetworkFacts};
pub use error::{ERROR_SCHEMA, ErrorRecord};
pub use export::{
    EXPORT_SCHEMA, EXPORT_STATUS_SCHEMA, Export, ExportMemory, ExportRecord, ExportStatus, PoolUse,
    ServedExport,
};
pub use hit::{HIT_SCHEMA, HitRecord, ScanMethod};
pub use machine::warnings_of_machine;
pub use nodes::{
    FailedImage, NODES_SCHEMA, NodeDevice, NodeError, NodeRecord, NodesRecord, NodesTask,
    PartCount, ScanBusy, ScanRecord, UsedEnd, VariantRecord,
};
pub use pair::{
    KernelDecision, PairDevice, PairDirection, PairRecord, PairTurn, PathLink, ReachCondition,
};
pub use peerlane_reach::{
    ChangeEffect, ChangeKind, DriverAnswer, DriverRule, GuestVerdict, MapType, RouteState,
    UncomparedReason, Use,
};
pub use plan::{
    Asked, Candidate, Explanation, ExplanationStep, JobPlan, Limit, PLAN_SCHEMA, Plan, PlanRecord,
    Probe, ProbeAnswer, Refusal, Route, RouteChoice, Shape, Tail, TargetPlan, Verdict, VerifyMode,
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
    ChunkDifference, ComparedManifest, ComparedSource, Difference, Digest, Reference,
    VERIFY_SCHEMA, VerifyRecord,
};
pub use warning::{ResumedWithout, Warning};
pub use workload::{
    CaseSpec, Flow, FlowStage, Order, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind,
};
