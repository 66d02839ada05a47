//! Traces of copies in a booted machine: they show whether host memory was involved.

use crate::lab::LabRun;
use crate::perfetto;
use peerlane_results::Route;

#[test]
fn trace_shows_host_memory_by_route() {
    let Some(mut lab) = LabRun::open("pair") else { return };
    lab.fill("a", 8 << 20);
    lab.fill("b", 8 << 20);
    let copy = |route| {
        format!(
            "copy {route} --force /dev/lab/a /dev/lab/b --route {route} --trace $OUT/{route}.pftrace\n"
        )
    };
    lab.run(&[copy("p2p"), copy("host")].concat());
    for route in [Route::P2p, Route::Host] {
        let record = lab.record(&route.to_string());
        assert_eq!(record.route, route);
        let trace = perfetto::decode(&lab.bytes(&format!("{route}.pftrace")));
        let blocks = record.bytes.0.div_ceil(record.shape.request.0);
        let in_host = trace.below("host memory", "payload") as u64;
        let slots = trace.counts_of("host memory", "slots in use");
        let memory = record.memory.name.as_str();
        match route {
            Route::P2p => {
                assert_eq!(in_host, 0);
                assert!(slots.iter().all(|&count| count == 0), "{slots:?}");
                assert_eq!(trace.below(memory, "payload") as u64, blocks);
                let used = trace.counts_of(memory, "slots in use").into_iter().max();
                assert!(used.is_some_and(|used| used <= u64::from(record.shape.slots)));
                let words = &trace.descriptions["host memory"];
                assert!(words.starts_with("Not involved in moving payload"), "{words}");
                // The proof and the verification use it on purpose, and show it.
                assert!(trace.below("host memory", "proof, checks, tails and zeroes") > 0);
            }
            Route::Host => assert_eq!(in_host, blocks),
        }
        let phases: Vec<&str> = trace.slices.iter().map(|(_, name)| name.as_str()).collect();
        let proves = phases.contains(&"proof of the route");
        assert_eq!(proves, route == Route::P2p);
        assert!(phases.contains(&"move") && phases.contains(&"verification"));
    }
}
