//! Facts of the whole machine: product, processor, kernel, IOMMU.

use peerlane_fabric::{Cpu, Fabric, IommuMode, Module, Origin, capture};

use super::collector::{Collector, Judged};
use super::{ChangeEffect, ChangeKind};

/// Compares the machines as a whole.
pub(super) fn compare(found: &mut Collector, before: &Fabric, after: &Fabric) {
    // Descriptions and texts have no product, and nobody misses it.
    if let (Some(_), Some(_)) = (&before.product, &after.product) {
        let products = (before.product.as_ref(), after.product.as_ref());
        found.compare(ChangeKind::Product, products, None, |one, other| {
            Judged::neutral(one.as_str(), other.as_str())
        });
    }
    cpu(found, &before.cpu, &after.cpu);
    let known = |mode: IommuMode| (mode != IommuMode::Unknown).then_some(mode);
    let modes = (known(before.iommu), known(after.iommu));
    found.compare(ChangeKind::Iommu, modes, None, |&one, &other| {
        let translates = |mode: IommuMode| mode == IommuMode::Translating;
        let effect = ChangeEffect::of_growth(&translates(other), &translates(one));
        Judged::new(effect, iommu(one), iommu(other))
    });
    kernel(found, before, after);
}

fn iommu(mode: IommuMode) -> &'static str {
    match mode {
        IommuMode::Off => "off",
        IommuMode::Passthrough => "passthrough",
        IommuMode::Translating => "translates",
        IommuMode::Unknown => "unknown",
    }
}

/// Compares the facts of the processor that both know.
fn cpu(found: &mut Collector, before: &Cpu, after: &Cpu) {
    let common = |one: &Cpu, other: &Cpu| Cpu {
        vendor: one.vendor.clone().filter(|_| other.vendor.is_some()),
        family: one.family.filter(|_| other.family.is_some()),
        model_number: one.model_number.filter(|_| other.model_number.is_some()),
        model: one.model.clone().filter(|_| other.model.is_some()),
    };
    let known = |cpu: &Cpu| (*cpu != Cpu::default()).then(|| cpu.clone());
    let cpus = match (known(before), known(after)) {
        (Some(_), Some(_)) => (Some(common(before, after)), Some(common(after, before))),
        cpus => cpus,
    };
    found.compare(ChangeKind::Cpu, cpus, None, |one, other| {
        Judged::neutral(in_words(one), in_words(other))
    });
}

fn in_words(cpu: &Cpu) -> String {
    let parts = [
        cpu.vendor.clone(),
        cpu.family.map(|family| format!("family {family:#x}")),
        cpu.model_number.map(|number| format!("model {number}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let maker = (!parts.is_empty()).then(|| parts.join(" "));
    match (&cpu.model, maker) {
        (Some(model), Some(maker)) => format!("{model} ({maker})"),
        (model, maker) => model.clone().or(maker).unwrap_or_default(),
    }
}

fn kernel(found: &mut Collector, before: &Fabric, after: &Fabric) {
    // A capture keeps less of some words than a machine or a text shows.
    let is_capture = [before, after].iter().any(|one| matches!(one.origin, Origin::Tree(_)));
    let (one, other) = (&before.kernel, &after.kernel);
    let release = |release: &Option<String>| {
        let kept = |text: &String| {
            if is_capture { capture::kept_release(text) } else { text.clone() }
        };
        release.as_ref().map(kept)
    };
    let releases = (release(&one.release), release(&other.release));
    found.compare(ChangeKind::KernelRelease, releases, None, |one, other| {
        Judged::neutral(one.as_str(), other.as_str())
    });
    let configured = (one.has_p2pdma, other.has_p2pdma);
    if configured != (None, None) {
        let words = |has: bool| if has { "configured" } else { "not configured" };
        found.compare(ChangeKind::KernelP2pdma, configured, None, |one, other| {
            Judged::new(ChangeEffect::of_growth(one, other), words(*one), words(*other))
        });
    }
    let parameters = |list: &Option<Vec<String>>| {
        let is_kept = |word: &&String| !is_capture || capture::keeps_parameter(word);
        let mut kept: Vec<String> = list.as_ref()?.iter().filter(is_kept).cloned().collect();
        kept.sort();
        // Boot loaders write some of them twice.
        kept.dedup();
        Some(kept)
    };
    let lists = (parameters(&one.parameters), parameters(&other.parameters));
    found.compare(ChangeKind::KernelParameters, lists, None, |one, other| exchanged(one, other));
    let modules = |list: &Option<Vec<Module>>| {
        let word = |module: &Module| match &module.version {
            Some(version) if is_capture => {
                format!("{} {}", module.name, capture::kept_version(version))
            }
            Some(version) => format!("{} {version}", module.name),
            None => module.name.clone(),
        };
        let mut words: Vec<String> = list.as_ref()?.iter().map(word).collect();
        words.sort();
        Some(words)
    };
    let lists = (modules(&one.modules), modules(&other.modules));
    found.compare(ChangeKind::KernelModules, lists, None, |one, other| exchanged(one, other));
}

/// The words that only one of two lists has.
fn exchanged(before: &[String], after: &[String]) -> Judged {
    let only = |one: &[String], other: &[String]| {
        let words: Vec<&str> =
            one.iter().filter(|word| !other.contains(word)).map(String::as_str).collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    let (before, after) = (only(before, after), only(after, before));
    Judged { effect: ChangeEffect::Neutral, before, after }
}
