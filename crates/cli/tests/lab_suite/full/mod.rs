//! Long tests that shorter ones cover too: faults in booted machines, and machines of many drives.
//! `./test full` runs them.

mod bench_ten;
mod faults_errors;
mod faults_power;
mod faults_room;
mod faults_stuck;
mod faults_unplug;
