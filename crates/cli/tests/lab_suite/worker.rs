//! A program of the host that works on the memory of a card, as a compute unit there would.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use crate::card::{MEMORY, MIB, open};
use crate::lab::{LabRun, assert_same};

/// Opens the port as descriptor 3.
const PORT: &str = "exec 3<>/dev/virtio-ports/peerlane.worker.card";

fn open_with(environment: &[(&'static str, &'static str)]) -> Option<(LabRun, Vec<u8>)> {
    let mut lab = open()?;
    let before = lab.fill("card", MEMORY);
    lab.invert("card", environment);
    Some((lab, before))
}

#[test]
fn worker_inverts_exactly_its_ranges() {
    let faults = [("INVERTER_DELAY_MS", "300"), ("INVERTER_FAIL", "4")];
    let Some((lab, before)) = open_with(&faults) else { return };
    let last = MEMORY - 1;
    lab.run(&format!(
        "{PORT}
         answers() {{ for n in $(seq $1); do read -r line <&3; echo \"$line\" >>$OUT/answers; done; }}
         printf 'start 1 8192 4096 0\\nstart 2 {MIB} 3 4096\\n' >&3
         answers 2
         echo 'start 3 {last} 2 8192' >&3
         answers 1
         echo 'start 4 0 4096 8192' >&3
         answers 1"
    ));
    let expected =
        "done 2\ndone 1\nfailed 3 the range ends behind the memory\nfailed 4 told to fail\n";
    assert_eq!(lab.text("answers"), expected);
    let mut inverted = before;
    for range in [8192..8192 + 4096, MIB..MIB + 3] {
        inverted[range].iter_mut().for_each(|byte| *byte = !*byte);
    }
    assert_same("the card's memory", &lab.content("card"), &inverted);
}

#[test]
fn early_end_of_worker_is_reported() {
    let Some((lab, _)) = open_with(&[("INVERTER_EXIT", "1")]) else { return };
    let said = lab.run(&format!(
        "{PORT}
         echo 'start 1 0 4096 0' >&3
         read -r line <&3 && exit 1"
    ));
    assert!(said.contains("card `card` ended before the command (exit status: 3)"), "{said}");
}

#[test]
fn killed_lab_takes_its_worker_along() {
    let Some((lab, _)) = open_with(&[]) else { return };
    let script = format!(
        "{PORT}
         echo 'start 1 0 4096 0' >&3
         read -r line <&3; echo $line; sleep 1000"
    );
    let mut command = lab.command(&script);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(run.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("a line");
    assert_eq!(line, "done 1\n");
    let mut stderr = run.stderr.take().expect("a pipe");
    run.kill().expect("it runs");
    run.wait().expect("it ended");
    // The worker has it open as well.
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(stderr.read_to_end(&mut Vec::new())));
    end.recv_timeout(Duration::from_secs(60)).expect("the worker lives on").expect("a pipe");
}

#[test]
fn pagemap_places_region_in_bar() {
    let Some(mut lab) = open() else { return };
    let memory = lab.fill("card", MEMORY);
    lab.fill("b", MEMORY);
    lab.run(
        "address=$(basename $(readlink /dev/lab/card))
         mkfifo /tmp/in /tmp/out
         peerlane lab hold $address 3M </tmp/in >/tmp/out &
         exec 4>/tmp/in
         read -r said </tmp/out
         leave leftovers peerlane lab leftovers $address /dev/lab/b
         exec 4>&-
         wait",
    );
    assert_eq!(lab.status("leftovers"), 0, "{}", lab.stderr("leftovers"));
    // The first free run is taken, and nothing was taken before.
    let offset = 3 * MIB;
    assert_eq!(lab.text("leftovers.json"), format!("bar 2 offset {offset}\n"));
    let rest = &memory[offset..];
    assert_same("what lies there", &lab.content("b")[..rest.len()], rest);
}
