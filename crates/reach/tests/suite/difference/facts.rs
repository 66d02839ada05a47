//! Facts of machines, functions and pairs that change, and that do not.

use peerlane_fabric::{Fabric, GpuLink};
use peerlane_reach::ChangeEffect::{Better, Neutral, Worse};
use peerlane_reach::{ChangeKind, MachineDifference, MapType, UncomparedReason};

use super::{difference, kinds, machine, on, only, pairs, with, words};

#[test]
fn equal_machines_have_no_change() {
    let found = difference(&machine());
    assert_eq!((found.changes.len(), found.uncompared.len()), (0, 0));
    assert_eq!(found.matching.both.len(), machine().functions.len());
}

#[test]
fn machine_facts_change_alone() {
    for (from, to, expected) in [
        ("iommu = 'off'", "iommu = 'translating'", (ChangeKind::Iommu, Worse, "off", "translates")),
        (
            "iommu = 'off'",
            "iommu = 'passthrough'",
            (ChangeKind::Iommu, Neutral, "off", "passthrough"),
        ),
        (
            "6.8.0-45-generic",
            "6.11.0-9-generic",
            (ChangeKind::KernelRelease, Neutral, "6.8.0-45-generic", "6.11.0-9-generic"),
        ),
        (
            "p2pdma = true",
            "p2pdma = false",
            (ChangeKind::KernelP2pdma, Worse, "configured", "not configured"),
        ),
        (
            "['pci=realloc']",
            "['iommu=pt']",
            (ChangeKind::KernelParameters, Neutral, "pci=realloc", "iommu=pt"),
        ),
        (
            "version = '550.54'",
            "version = '560.28'",
            (ChangeKind::KernelModules, Neutral, "nvidia 550.54", "nvidia 560.28"),
        ),
        (
            "family = 6\n",
            "family = 15\n",
            (ChangeKind::Cpu, Neutral, "GenuineIntel family 0x6", "GenuineIntel family 0xf"),
        ),
    ] {
        let change = only(&with(&[(from, to)]));
        assert_eq!(words(&change), expected, "{to}");
        assert_eq!(change.functions, []);
    }
}

#[test]
fn known_products_are_compared() {
    let mut fabrics = (machine(), machine());
    fabrics.1.product = Some("Two".to_owned());
    assert_eq!(MachineDifference::new(&fabrics.0, &fabrics.1).changes, []);
    fabrics.0.product = Some("One".to_owned());
    let found = MachineDifference::new(&fabrics.0, &fabrics.1);
    assert_eq!(kinds(&found), [(ChangeKind::Product, Neutral)]);
}

#[test]
fn changed_link_training_is_found() {
    let speed = |text: &str| Some(text.parse().unwrap());
    let trained = |text: &str| on("drive", |one| one.link.as_mut().unwrap().current = speed(text));
    let change = only(&trained("8GT/s x4"));
    assert_eq!(words(&change), (ChangeKind::LinkTrained, Worse, "16GT/s x4", "8GT/s x4"));
    assert_eq!(words(&only(&trained("16GT/s x2"))).1, Worse);
    let most = on("drive", |one| one.link.as_mut().unwrap().maximum = speed("8GT/s x4"));
    assert_eq!(words(&only(&most)), (ChangeKind::LinkMaximum, Worse, "16GT/s x4", "8GT/s x4"));
    let port = on("0000:00:02.0", |one| one.link_below = speed("16GT/s x2"));
    assert_eq!(words(&only(&port)).0, ChangeKind::LinkMaximum);
}

#[test]
fn idle_gpus_are_no_change() {
    let idle = on("one", |gpu| {
        gpu.link.as_mut().unwrap().current = Some("2.5GT/s x16".parse().unwrap());
    });
    let found = difference(&idle);
    assert_eq!(found.changes, []);
    assert_eq!(found.uncompared[0].reason, UncomparedReason::IdleLink);
    let narrow = on("one", |gpu| {
        gpu.link.as_mut().unwrap().current = Some("2.5GT/s x8".parse().unwrap());
    });
    assert_eq!(kinds(&difference(&narrow)), [(ChangeKind::LinkTrained, Worse)]);
}

#[test]
fn redirection_changes_verdicts_of_its_pairs() {
    let redirecting = with(&[("acs = { control = 0x00 }", "acs = { control = 0x1d }")]);
    let found = difference(&redirecting);
    assert_eq!(kinds(&found), [(ChangeKind::Verdict, Worse), (ChangeKind::AcsRedirection, Worse)]);
    assert_eq!(found.changes[1].functions.len(), 3, "equal changes are one");
    let [changed] = pairs(&found)[..] else { panic!("{found:#?}") };
    // Two memories, each with the other GPU and the NIC.
    assert_eq!(changed.count, 4);
    assert_eq!((changed.before, changed.after), (MapType::BusAddress, MapType::ThroughHostBridge));
    assert!(changed.reasons.iter().any(|reason| reason.contains("redirects")), "{changed:?}");
    let back = MachineDifference::new(&redirecting, &machine());
    assert_eq!(kinds(&back), [(ChangeKind::Verdict, Better), (ChangeKind::AcsRedirection, Better)]);
}

#[test]
fn other_acs_bits_are_no_change() {
    assert_eq!(
        difference(&with(&[("acs = { control = 0x00 }", "acs = { control = 0x01 }")])).changes,
        []
    );
    let absent = on("0000:02:00.0", |port| port.acs = peerlane_fabric::Acs::Absent);
    assert_eq!(difference(&absent).changes, []);
}

#[test]
fn unknown_facts_are_reported_apart() {
    let unknown = with(&[
        ("acs = { control = 0x00 }", "acs = 'unknown'"),
        ("iommu = 'off'", "iommu = 'unknown'"),
        ("release = '6.8.0-45-generic'\n", ""),
        ("parameters = ['pci=realloc']\n", ""),
        ("modules = [{ name = 'nvidia', version = '550.54' }]\n", ""),
        ("driver = 'nvidia'", "driver = 'unknown'"),
    ]);
    for (fabrics, reason) in [
        ((machine(), unknown.clone()), UncomparedReason::UnknownAfter),
        ((unknown.clone(), machine()), UncomparedReason::UnknownBefore),
        ((unknown.clone(), unknown), UncomparedReason::UnknownInBoth),
    ] {
        let found = MachineDifference::new(&fabrics.0, &fabrics.1);
        assert_eq!(found.changes, [], "now known is no change");
        let told = |kind| found.uncompared.iter().find(|fact| fact.kind == kind);
        for kind in [
            ChangeKind::Verdict,
            ChangeKind::AcsRedirection,
            ChangeKind::Iommu,
            ChangeKind::KernelRelease,
            ChangeKind::KernelParameters,
            ChangeKind::KernelModules,
        ] {
            assert_eq!(told(kind).map(|fact| fact.reason), Some(reason), "{kind:?}");
        }
        assert_eq!(told(ChangeKind::Verdict).unwrap().pairs, 4);
        assert_eq!(told(ChangeKind::AcsRedirection).unwrap().functions.len(), 3);
    }
}

#[test]
fn smaller_or_lost_windows_are_worse() {
    let small = with(&[("size = '128G'", "size = '256M'")]);
    let change = only(&small);
    assert_eq!(words(&change), (ChangeKind::Windows, Worse, "128 GiB", "256 MiB"));
    assert_eq!(change.functions.len(), 2);
    let lost = on("one", |gpu| {
        let bar = gpu.bars.remove(0);
        let size = Some(bar.size);
        gpu.unassigned_bars = vec![peerlane_fabric::UnassignedBar { index: 1, size }];
    });
    let found = difference(&lost);
    assert_eq!(kinds(&found), [(ChangeKind::Windows, Worse)]);
    assert_eq!(found.changes[0].after.as_deref(), Some("128 GiB without address space"));
}

#[test]
fn drivers_and_translation_are_compared() {
    let taken = with(&[("driver = 'mlx5_core'", "driver = 'vfio-pci'")]);
    assert_eq!(words(&only(&taken)), (ChangeKind::Driver, Neutral, "mlx5_core", "vfio-pci"));
    let unbound = with(&[("driver = 'mlx5_core'", "driver = 'none'")]);
    assert_eq!(words(&only(&unbound)), (ChangeKind::Driver, Worse, "mlx5_core", "none"));
    let translated = with(&[("'identity'", "'DMA-FQ'")]);
    assert_eq!(words(&only(&translated)), (ChangeKind::Translation, Worse, "identity", "DMA-FQ"));
}

#[test]
fn lent_memory_compares_size_and_offer() {
    let lends = with(&[("serial = 'S1'", "serial = 'S1'\ncmb = '64M'")]);
    let found = difference(&lends);
    assert_eq!(kinds(&found), [(ChangeKind::MemoryLent, Better)]);
    assert_eq!(found.changes[0].before.as_deref(), Some("none"));
    let mut used = lends.clone();
    let id = used.find("drive").unwrap();
    used.functions[id.0].p2pmem.as_mut().unwrap().available = peerlane_units::Bytes::ZERO;
    assert_eq!(MachineDifference::new(&lends, &used).changes, [], "use is no change");
}

#[test]
fn links_are_compared_by_number() {
    let linked = |kind, links| {
        let mut fabric = machine();
        let gpus = (fabric.find("one").unwrap(), fabric.find("two").unwrap());
        let links = Some(vec![GpuLink { gpus, links }]);
        match kind {
            ChangeKind::NvLink => fabric.nvlinks = links,
            _ => fabric.xgmi = links,
        }
        fabric
    };
    for kind in [ChangeKind::NvLink, ChangeKind::Xgmi] {
        let kinds = |one: Option<u32>, other| {
            kinds(&MachineDifference::new(&linked(kind, one), &linked(kind, other)))
        };
        assert_eq!(kinds(Some(18), Some(17)), [(kind, Worse)]);
        assert_eq!(kinds(Some(18), Some(18)), []);
        assert_eq!(kinds(Some(18), None), []);
        let none = Fabric { nvlinks: Some(Vec::new()), xgmi: Some(Vec::new()), ..machine() };
        let found = MachineDifference::new(&none, &linked(kind, Some(4)));
        assert_eq!(found.changes[0].effect, Better);
    }
}

#[test]
fn changes_are_sorted_worst_first() {
    let after = with(&[
        ("acs = { control = 0x00 }", "acs = { control = 0x1d }"),
        ("size = '128G'", "size = '256G'"),
        ("6.8.0-45-generic", "6.11.0-9-generic"),
    ]);
    let found = difference(&after);
    let expected = [
        (ChangeKind::Verdict, Worse),
        (ChangeKind::AcsRedirection, Worse),
        (ChangeKind::KernelRelease, Neutral),
        (ChangeKind::Windows, Better),
    ];
    assert_eq!(kinds(&found), expected);
}
