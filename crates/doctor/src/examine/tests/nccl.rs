//! Settings for NCCL, on machines that people ask about.

use peerlane_fabric::Fabric;

use super::examine;

const TWO_H100: &str = "[[function]]\nname = 'p0'\nkind = 'root-port'\nacs = 'absent'\n\
    [[function]]\nname = 'p1'\nkind = 'root-port'\nacs = 'absent'\n\
    [[function]]\nname = 'a'\nkind = 'gpu'\nunder = 'p0'\nvendor = '0x10de'\ndevice = '0x2330'\ndriver = 'nvidia'\n\
    [[function]]\nname = 'b'\nkind = 'gpu'\nunder = 'p1'\nvendor = '0x10de'\ndevice = '0x2330'\ndriver = 'nvidia'\n\
    [[peer_access]]\ngpus = ['a', 'b']\ncapability = 'read'\nstatus = 'OK'\n\
    [[peer_access]]\ngpus = ['b', 'a']\ncapability = 'read'\nstatus = 'OK'\n";

/// `NAME=VALUE`, or the name alone if it is best left unset; and the facts.
fn settings(text: &str) -> (Vec<String>, String) {
    let fabric = Fabric::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
    let record = examine(&fabric);
    let words = record.nccl.iter().map(|one| match &one.value {
        Some(value) => format!("{}={value}", one.name),
        None => one.name.clone(),
    });
    assert!(record.nccl.iter().all(|one| one.source.starts_with("NCCL 2.30.7, src/")));
    let facts: Vec<&str> = record.nccl.iter().map(|one| one.because.as_str()).collect();
    (words.collect(), facts.join("; "))
}

#[track_caller]
fn says(text: &str, expected: &[&str], fact: &str) {
    let (found, facts) = settings(text);
    assert_eq!(found, expected, "{facts}");
    assert!(facts.contains(fact), "{facts}");
}

fn two_h100(system: &str) -> String {
    format!("name = 'm'\n{system}\n{TWO_H100}")
}

#[test]
fn level_is_set_beyond_what_nccl_takes_itself() {
    let intel = two_h100("iommu = 'off'\n[cpu]\nvendor = 'GenuineIntel'\nfamily = 6");
    says(&intel, &["NCCL_P2P_LEVEL=PHB"], "`peerlane plan gpu:0 gpu:1 --probe` has proved them");
    let amd = two_h100("iommu = 'off'\n[cpu]\nvendor = 'AuthenticAMD'\nfamily = 25");
    says(&amd, &["NCCL_P2P_LEVEL"], "up to SYS by itself");
}

#[test]
fn translation_ends_peer_access() {
    let text = two_h100("iommu = 'translating'\n[cpu]\nvendor = 'AuthenticAMD'\nfamily = 25");
    says(&text, &["NCCL_P2P_DISABLE=1"], "may be lost without an error");
}

#[test]
fn refused_pairs_need_nothing() {
    let text = include_str!("../../../../../fixtures/questions/geforce.toml");
    says(text, &["NCCL_P2P_DISABLE"], "takes shared memory by itself");
}

#[test]
fn near_network_controllers_need_nothing() {
    let text = include_str!("../../../../../fixtures/questions/dma-buf.toml");
    says(text, &["NCCL_NET_GDR_LEVEL", "NCCL_DMABUF_ENABLE"], "the driver exports it");
}

#[test]
fn superchips_are_told() {
    let text = include_str!("../../../../../fixtures/questions/gh200.toml");
    says(text, &["NCCL_NET_GDR_LEVEL=SYS", "NCCL_NET_GDR_C2C=1"], "NVIDIA/nccl #1579");
}
