//! Tests in booted virtual machines, with the built program in them. One program has all suites: as
//! many machines run at a time as this machine has processors, whichever suite they belong to.

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../agreement/mod.rs"]
mod agreement;
#[path = "../bench_records/mod.rs"]
mod bench_records;
#[path = "../faults/mod.rs"]
mod faults;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../lab/mod.rs"]
mod lab;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../../report/tests/common/perfetto.rs"]
mod perfetto;

mod assume;
mod bench_roundtrip;
mod bench_sweep;
mod capture;
mod card;
mod copy;
mod evidence;
mod exports;
mod fabrics;
mod files;
mod full;
mod kernel_agreement;
mod many;
mod passthrough;
mod privileges;
mod resume;
mod stages;
mod stale;
mod trace;
mod transports;
mod worker;
