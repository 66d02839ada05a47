//! The machines that span the kernel's decision table, one expression each.
//!
//! `R` is a root port, `U` the upstream and `D` a downstream port of a switch; small letters are drives,
//! with `+` where they lend memory. Children of a port stand in brackets after it; `|` begins the
//! next host bridge. After a port `!` stands for ACS redirect as the kernel sets it, `~` for ACS with
//! nothing switched on, `=53` for that control register in hexadecimal, and nothing for no ACS; `@1.1`
//! is a place on a root bus, if it matters.

/// A machine and its purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgreementMachine {
    pub(crate) name: &'static str,
    pub(crate) tree: &'static str,
    pub(crate) shows: &'static str,
    pub(crate) cpu: QemuCpu,
    /// As machine files have it.
    pub(crate) iommu: &'static str,
    /// Of the kernel's command line.
    pub(crate) parameter: &'static str,
    /// Booted by every run of the tests.
    pub(crate) is_quick: bool,
}

/// A CPU of QEMU as the kernel sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QemuCpu {
    pub(crate) model: &'static str,
    pub(crate) vendor: &'static str,
    pub(crate) family: u32,
}

const MAX: QemuCpu = QemuCpu { model: "max", vendor: "AuthenticAMD", family: 15 };
const ZEN: QemuCpu = QemuCpu { model: "EPYC", vendor: "AuthenticAMD", family: 23 };
const BEFORE_ZEN: QemuCpu = QemuCpu { model: "max,family=22", vendor: "AuthenticAMD", family: 22 };
const HYGON: QemuCpu = QemuCpu { model: "Dhyana", vendor: "HygonGenuine", family: 24 };
const INTEL: QemuCpu = QemuCpu { model: "Skylake-Server", vendor: "GenuineIntel", family: 6 };

const fn machine(name: &'static str, tree: &'static str, shows: &'static str) -> AgreementMachine {
    AgreementMachine { name, tree, shows, cpu: MAX, iommu: "off", parameter: "", is_quick: false }
}

impl AgreementMachine {
    const fn cpu(self, cpu: QemuCpu) -> Self {
        Self { cpu, ..self }
    }

    const fn iommu(self, iommu: &'static str) -> Self {
        Self { iommu, ..self }
    }

    const fn parameter(self, parameter: &'static str) -> Self {
        Self { parameter, ..self }
    }

    const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }
}

pub(crate) const MACHINES: &[AgreementMachine] = &[
    machine("switch", "R(U(D(a) D(b) D(m+)))", "a common switch"),
    machine("switch-intel", "R(U(D(a) D(b) D(m+)))", "a common switch, Intel CPU").cpu(INTEL),
    machine("switch-zen", "R(U(D(a) D(b) D(m+)))", "a common switch, AMD Zen").cpu(ZEN),
    machine(
        "nested",
        "R(U(D(a) D(U(D(b) D(m+))) D(n+)))",
        "a switch below a switch, two memories of different distance",
    )
    .quick(),
    machine(
        "cousins",
        "R(U(D(U(D(a) D(m+))) D(U(D(b) D(n+)))))",
        "two switches below a third, a memory in each",
    ),
    machine("device", "R(U(D(a m+) D(b)))", "functions of one device below a switch"),
    machine("redirect-memory", "R(U(D(a) D!(m+) D(n+)))", "redirect at one memory's port").quick(),
    machine("redirect-drive", "R(U(D!(a) D(b) D(m+)))", "redirect at one drive's port"),
    machine("redirect-both", "R(U(D!(a) D(b) D!(m+)))", "redirect at both ends"),
    machine(
        "redirect-between",
        "R(U(D!(U(D(a) D(m+))) D(b)))",
        "redirect at the port between nested switches",
    )
    .quick(),
    machine("redirect-above", "R!(U(D(a) D(b) D(m+)))", "redirect above the common switch"),
    machine(
        "redirect-ancestor",
        "R!(a b m+)",
        "redirect at the common ancestor: functions below one root port",
    )
    .quick(),
    machine("ancestor", "R~(a b m+)", "the same with ACS there and no redirect"),
    machine("idle-acs", "R~(U(D~(a) D~(b) D~(m+)))", "ACS everywhere and no redirect"),
    machine(
        "bits",
        "R(U(D=04(a) D=08(b) D=53(c) D(m+)))",
        "request redirect alone, completion redirect alone, all the bits that are neither",
    ),
    machine("redirect-zen", "R(U(D!(a) D(b) D(m+)))", "redirect, AMD Zen").cpu(ZEN).quick(),
    machine("redirect-ancestor-zen", "R!(a m+)", "redirect at the ancestor, AMD Zen").cpu(ZEN),
    machine("redirect-intel", "R(U(D!(a) D(b) D(m+)))", "redirect, Intel CPU").cpu(INTEL),
    machine("roots", "R(a) R(b m+)", "different root ports"),
    machine("roots-zen", "R(a) R(b m+)", "different root ports, AMD Zen").cpu(ZEN),
    machine("roots-intel", "R(a) R(b m+)", "different root ports, Intel CPU").cpu(INTEL),
    machine("roots-before-zen", "R(a) R(m+)", "AMD of family 16h, the last before Zen")
        .cpu(BEFORE_ZEN),
    machine("roots-hygon", "R(a) R(m+)", "Hygon: a Zen by another vendor's name").cpu(HYGON),
    machine(
        "root-functions",
        "R@1.0(a) R@1.1(b m+)",
        "root ports that are functions of one device",
    ),
    machine("root-bus", "a@4.0 b@5.0 m+@5.1", "drives on the root bus, two in one device"),
    machine("root-bus-zen", "a@4.0 b@5.0 m+@5.1", "the same, AMD Zen").cpu(ZEN),
    machine("bridges", "R(a) | R(b) R(m+)", "two host bridges").quick(),
    machine("bridges-zen", "R(a) | R(b) R(m+)", "two host bridges, AMD Zen").cpu(ZEN),
    machine(
        "bridges-switches",
        "R(U(D(a) D(n+))) | R(U(D(b) D(m+)))",
        "a switch and a memory below each of two host bridges",
    ),
    machine(
        "bridges-redirect",
        "R(a) | R@3.0!(b m+)",
        "redirect below a host bridge that is known by a root port at 03.0",
    ),
    machine("passthrough", "R!(U(D(a) D(m+)))", "IOMMU that passes through, ports without ACS")
        .iommu("passthrough"),
    machine("passthrough-acs", "R!(U(D!(a) D!(m+)))", "IOMMU that passes through, ports with ACS")
        .iommu("passthrough")
        .quick(),
    machine("passthrough-roots", "R!(a) R!(m+)", "IOMMU that passes through, root ports")
        .iommu("passthrough"),
    machine("translating", "R!(U(D(a) D(m+)))", "IOMMU that translates, ports without ACS")
        .iommu("translating"),
    machine("translating-acs", "R!(U(D!(a) D!(m+)))", "IOMMU that translates, ports with ACS")
        .iommu("translating"),
    machine("translating-zen", "R!(U(D!(a) D!(m+)))", "the same, AMD Zen")
        .iommu("translating")
        .cpu(ZEN),
    machine(
        "disabled",
        "R~(U(D~(a) D~(m+)))",
        "disable_acs_redir on every port of a machine that would redirect",
    )
    .iommu("passthrough")
    .parameter("pci=disable_acs_redir=pci:1b36:000c")
    .quick(),
    machine(
        "disabled-some",
        "R!(U(D!(a) D~(b) D~(m+)))",
        "disable_acs_redir on the ports of memory and one drive",
    )
    .iommu("passthrough")
    .parameter("pci=disable_acs_redir=00:02.0/00.0/01.0;00:02.0/00.0/02.0"),
    machine("no-memory", "R(U(D(a) D(b)))", "no drive lends memory"),
];
