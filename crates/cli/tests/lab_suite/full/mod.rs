//! What takes long and is covered by less beside it: faults in booted machines, and machines of many drives. `./test full`
//! runs it.

mod bench_ten;
mod faults_errors;
mod faults_power;
mod faults_room;
mod faults_stuck;
mod faults_unplug;
