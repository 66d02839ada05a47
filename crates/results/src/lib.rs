//! The record: the request, the plan, the bytes moved, their route and its evidence.
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
mod evidence;
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
    BENCH_SCHEMA, Basis, BenchRecord, CaseRecord, CpuCost, Direction, FlowRecord, Gain, LinkLoad,
    LocationEffect, PageFaults, Places, Prediction, Spread, Summary,
};
pub use compare::{
    COMPARE_SCHEMA, CaseComparison, Change, CompareRecord, ComparedRun, Comparison, Incomparable,
    NodeComparison, WhichRun,
};
pub use copy::{
    BytesByRoute, COPY_SCHEMA, CompletedCopy, Content, CopyFailure, CopyRecord, CpuTime,
    HostMemoryTraffic, JobOutcome, Latency, Percentiles, StageRecord, TargetOutcome, Verification,
};
pub use doctor::{
    AssumedSetting, Cost, DOCTOR_SCHEMA, DoctorRecord, Finding, FindingKind, Fix, LibrarySetting,
    NcclSetting, Needs, PlanStep, Setting, Unknown,
};
pub use ends::{EndpointFacts, EndpointKind, MemoryFacts, MemoryKind, NetworkFacts};
pub use error::{ERROR_SCHEMA, ErrorRecord};
pub use evidence::{Evidence, RouteEvidence, RouteVerdict};
pub use export::{EXPORT_SCHEMA, Export, ExportMemory, ExportRecord, ServedExport};
pub use hit::{HIT_SCHEMA, HitRecord, ScanMethod};
pub use machine::{Machine, warnings_of_machine};
pub use nodes::{
    FailedImage, NODES_SCHEMA, NodeDevice, NodeError, NodeRecord, NodesRecord, NodesTask,
    PartCount, ScanBusy, ScanRecord, UsedEnd, VariantRecord,
};
pub use pair::{KernelDecision, PairDevice, PairDirection, PairRecord, PathLink};
pub use peerlane_reach::{
    ChangeEffect, ChangeKind, Condition, DriverAnswer, DriverRule, ExplanationStep, GuestVerdict,
    MapType, RouteState, Turn, UncomparedReason, UnknownFact, Use, UseAnswer,
};
pub use plan::{
    Asked, Candidate, Explanation, JobPlan, Limit, PLAN_SCHEMA, Plan, PlanRecord, Probe,
    ProbeAnswer, Refusal, Route, RouteChoice, Shape, Tail, TargetPlan, VerifyMode,
};
pub use proof::{DirectionProof, MethodProof, PairProof, ProofMethod, ProofResult};
pub use schema::{RecordSchema, schemas};
pub use topo_diff::{
    TOPO_DIFF_SCHEMA, TopoChange, TopoDiffRecord, TopoFunction, TopoPairs, TopoUncompared,
};
pub use trace::{
    Action, PhaseKind, Span, Trace, TraceMemory, TraceOutcome, TracePhase, TraceRequest,
};
pub use verify::{
    ChunkDifference, ComparedManifest, ComparedSource, Difference, Digest, Reference,
    VERIFY_SCHEMA, VerifyRecord,
};
pub use warning::{ResumedWithout, Warning};
pub use workload::{
    CaseSpec, Flow, FlowStage, Order, Path, Repeats, WORKLOAD_SCHEMA, Workload, WorkloadKind,
};
