//! Links the program of debug builds to a fixed address.
//!
//! The tests start it thousands of times, many of them in emulated machines. There, a start that first places 190 000
//! addresses takes twice as long. What is shipped keeps its random place.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bin=peerlane=-no-pie");
    }
}
