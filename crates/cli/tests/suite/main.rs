//! Commands and their output, without a virtual machine: one program, which is linked once.

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../agreement/mod.rs"]
mod agreement;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../lab/mod.rs"]
mod lab;
#[path = "../../../memory/mock-cuda/mod.rs"]
mod mock;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../../../report/tests/common/perfetto.rs"]
mod perfetto;

mod chromium;
mod program;
mod terminal;

use lab::schema;

mod agreement_page;
mod answers;
mod bench;
mod browser;
mod card;
mod cli;
mod content;
mod digest;
mod doctor;
mod example_report;
mod field;
mod fuzz;
mod gpu;
mod gpu_copy;
mod habits;
mod kills;
mod many;
mod nodes;
mod outputs;
mod page;
mod pair;
mod peer_proof;
mod picture;
mod privileges;
mod question;
mod questions;
mod records;
mod release;
mod report_browser;
mod resume;
mod scan;
mod scan_gpu;
mod sheet_browser;
mod sim;
mod topo;
mod trace;
mod verify;
