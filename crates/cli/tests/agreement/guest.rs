//! Script of the guest: the plan and its probes first, while the kernel has decided nothing yet;
//! then the questions to nvmet, with the kernel's own functions traced.

use std::fmt::Write;

use super::notation::MachineForms;

/// Byte of the ACS control register in the configuration space of QEMU's root port: the capability
/// follows that of AER at 0x100 (`GEN_PCIE_ROOT_PORT_ACS_OFFSET`), its control is at 6.
const ACS_CONTROL: u16 = 0x148 + 6;

/// `ask DRIVE NAME P2PMEM` enables a namespace of nvmet with that drive and memory; no data moves.
const FUNCTIONS: &str = r#"
trace=/sys/kernel/tracing
subsystem=/sys/kernel/config/nvmet/subsystems/oracle
count=0
drive() { readlink -f /dev/lab/$1; }
address() { basename $(readlink -f /sys/block/$(basename $(drive $1))/device/device); }
ask() {
    count=$((count + 1))
    namespace=$subsystem/namespaces/$count
    mkdir $namespace
    dmesg -c >/dev/null
    echo >$trace/trace
    printf %s $(drive $1) >$namespace/device_path
    printf %s $3 >$namespace/p2pmem
    answer=refused
    if echo 1 >$namespace/enable; then
        answer=permitted
        echo 0 >$namespace/enable
    fi 2>/dev/null
    echo $answer >$OUT/$2-$1.nvmet
    dmesg -c >$OUT/$2-$1.log
    grep value= $trace/trace >$OUT/$2-$1.trace
}
"#;

/// Traces the results of the two functions of `drivers/pci/p2pdma.c`. They are not part of any
/// interface: a kernel may come to have others.
const TRACE: &str = r#"
mount -t tracefs tracefs $trace
echo 'f:map calc_map_type_and_dist%return value=$retval:s32' >$trace/dynamic_events
echo 'f:distance pci_p2pdma_distance_many%return value=$retval:s32' >>$trace/dynamic_events
echo 1 >$trace/events/fprobes/enable
mount -t configfs configfs /sys/kernel/config 2>/dev/null
mkdir $subsystem
"#;

/// Names of the plans that ask about all drives, and the drives of each.
pub(crate) fn plans(drives: &[String]) -> Vec<(String, &str, &str)> {
    drives
        .chunks(2)
        .map(|pair| match pair {
            [one, other] => (format!("plan-{one}"), one.as_str(), other.as_str()),
            _ => (format!("plan-{}", pair[0]), pair[0].as_str(), drives[0].as_str()),
        })
        .collect()
}

/// The whole script.
pub(crate) fn script(description: &MachineForms) -> String {
    let mut script = FUNCTIONS.to_owned();
    let mut line = |text: String| writeln!(script, "{text}").expect("a string");
    for (folder, control) in &description.writes {
        line(format!(
            "printf '\\{control:03o}' | dd of=$(echo {folder})/config bs=1 seek={ACS_CONTROL} conv=notrunc"
        ));
    }
    line("peerlane topo --format toml >$OUT/live.toml".to_owned());
    for (name, source, target) in plans(&description.drives) {
        line(format!("plan {name} /dev/lab/{source} /dev/lab/{target} --probe"));
    }
    line("dmesg >$OUT/probe.log".to_owned());
    line(TRACE.to_owned());
    for drive in &description.drives {
        for memory in &description.memories {
            line(format!("ask {drive} {memory} $(address {memory})"));
        }
        if description.memories.is_empty() {
            line(format!("ask {drive} none 1"));
        }
    }
    script
}
