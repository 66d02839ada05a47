//! Variants of a prediction: one row for each combination of values, in parallel, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use peerlane_bench::workload::{BLOCK_MAX, DEPTH_MAX};
use peerlane_fabric::{Fabric, Function, FunctionKind};
use peerlane_results::{Basis, RecordSchema, Workload};
use peerlane_sim::parameters::Parameters;
use peerlane_sim::predict::{self, Engine, device_parameter, linked};
use peerlane_units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::SimArgs;
use crate::error::{Failure, Tried};
use crate::exit::Exit;
use crate::printer::{Elapsed, Printer};
use crate::render;

/// Schema of the object that `--json` prints.
const SCHEMA: &str = "peerlane.sim-variants/1";
/// Variants of one command.
const MOST: usize = 100_000;
/// Devices and switches that a hint names.
const NAMED: usize = 8;

/// Rates of the variants of a prediction; the object of `--vary --json`.
#[derive(Debug, Serialize, JsonSchema)]
struct Variants<'a> {
    schema: &'static str,
    /// Always `predicted`.
    basis: Basis,
    /// The machine, by name.
    machine: &'a str,
    /// Keys that are varied, as typed.
    keys: Vec<&'a str>,
    /// Names of the cases.
    cases: Vec<&'a str>,
    /// One for each combination of values, the last key changing first.
    rows: Vec<Variant<'a>>,
}

/// One combination of values.
#[derive(Debug, Serialize, JsonSchema)]
struct Variant<'a> {
    /// One for each key, in its base unit: bytes, seconds, bytes a second, or a number.
    values: &'a [f64],
    /// One for each case: bytes a second of all its transfers, from the first start to the last end.
    rates: &'a [f64],
}

/// The schema of the object that `--json` prints.
pub(super) fn schema() -> RecordSchema {
    RecordSchema::for_type::<Variants<'_>>(SCHEMA)
}

/// A key with its values.
struct Axis {
    /// As typed.
    key: String,
    /// As the model knows it.
    own: String,
    values: Vec<f64>,
}

/// Predicts every variant.
///
/// # Errors
/// When a key is none, values cannot be read, or a variant cannot be predicted.
pub(super) fn run(
    args: &SimArgs,
    fabric: &Fabric,
    parameters: &Parameters,
    workload: &Workload,
    engine: Engine,
    printer: Printer,
) -> Result<Exit, Failure> {
    let axis = |text: &String| axis(text, args.steps, fabric);
    let axes: Vec<Axis> = args.vary.iter().map(axis).collect::<Result<_, _>>()?;
    let mut parameters = predict::own_names(parameters, fabric)
        .map_err(Tried::to(format!("use the parameters on {}", fabric.name)))?;
    for (number, axis) in axes.iter().enumerate() {
        if axes[..number].iter().any(|before| before.own == axis.own) {
            let hint = format!("put all its values after one `--vary {}=`", axis.key);
            return Err(Failure::new(format!("`{}` is varied twice", axis.key)).hint(hint));
        }
        known(axis, fabric, &mut parameters)?;
    }
    for axis in &axes {
        if let Some(why) = predict::why_unused(&axis.own, &parameters, fabric) {
            super::warn_unused(&axis.key, fabric, why, printer);
        }
    }
    let parameters = &parameters;
    let variants = combinations(&axes)?;
    // Packets take seconds each, and there may be thousands of variants.
    let engine = if engine == Engine::Auto { Engine::Flow } else { engine };
    let (begun, all) = (Arc::new(AtomicUsize::new(0)), variants.len());
    let so_far = Arc::clone(&begun);
    let words = move || format!("variant {} of {all}", so_far.load(Ordering::Relaxed));
    let waiting = Elapsed::start(printer, words);
    let of = |index: usize| {
        begun.fetch_add(1, Ordering::Relaxed);
        variant(parameters, workload, &axes, &variants[index])
    };
    let rates = predict::variants(fabric, parameters, all, of, engine);
    drop(waiting);
    let rates = rates.map_err(|error| {
        super::not_predicted(error, format!("predict variants of {}", workload.name), fabric)
    })?;
    let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
    let cases: Vec<&str> = workload.cases.iter().map(|case| case.name.as_str()).collect();
    if printer.is_json() {
        let rows = variants.iter().zip(&rates).map(|(values, rates)| Variant { values, rates });
        printer.object(&Variants {
            schema: SCHEMA,
            basis: Basis::Predicted,
            machine: &fabric.name,
            keys,
            cases,
            rows: rows.collect(),
        })?;
    } else {
        printer.text(&render::variants(&fabric.name, &keys, &cases, &variants, &rates))?;
    }
    Ok(Exit::Done)
}

/// Adds the parameter of a device or a link that a key names. Refuses unknown keys.
fn known(axis: &Axis, fabric: &Fabric, parameters: &mut Parameters) -> Result<(), Failure> {
    let Axis { key, own, values } = axis;
    if matches!(key.as_str(), "depth" | "block") || parameters.position(own).is_ok() {
        return Ok(());
    }
    let first = values.first().copied().unwrap_or(1.0);
    if let Some(one) = device_parameter(own, first, fabric, parameters) {
        return parameters.add(one).map_err(Failure::new);
    }
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let links = named("NAME.lanes, NAME.generation", linked(fabric));
    let drives = fabric.functions.iter().filter(|function| function.kind == FunctionKind::Nvme);
    let drives = named("NAME.read.rate and others of a drive", drives);
    let hint = format!("one of depth, block, {links}{drives}{}", names.join(", "));
    Err(Failure::new(format!("nothing that can be varied is called `{key}`")).hint(hint))
}

/// A key of some functions, with the first of their names; empty without functions.
fn named<'a>(what: &str, functions: impl Iterator<Item = &'a Function>) -> String {
    let mut names: Vec<&str> =
        functions.map(|function| function.name.as_str()).take(NAMED + 1).collect();
    if let Some(beyond) = names.get_mut(NAMED) {
        *beyond = "...";
    }
    if names.is_empty() {
        String::new()
    } else {
        format!("{what} (NAME is {}), ", names.join(", "))
    }
}

/// `KEY=V,V,V` or `KEY=FIRST..LAST`.
fn axis(text: &str, steps: u32, fabric: &Fabric) -> Result<Axis, Failure> {
    let wrong = |why: &str| {
        let hint = "`--vary drive.read.rate=1e9..14e9` (bytes a second), `--vary switch.latency=80e-9,150e-9` \
                    (seconds), `--vary block=64K,1M` (bytes) or `--vary depth=1,2,4`"
            .to_owned();
        Failure::new(format!("cannot vary `{text}`: {why}")).hint(hint)
    };
    let (key, values) = text.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
    let number = |text: &str| {
        let number: Option<f64> = match text.parse::<Bytes>() {
            #[expect(clippy::cast_precision_loss, reason = "sizes of blocks")]
            Ok(bytes) if text.ends_with(|last: char| last.is_ascii_alphabetic()) => {
                Some(bytes.0 as f64)
            }
            _ => text.parse().ok(),
        };
        number
            .filter(|number| number.is_finite() && *number > 0.0)
            .ok_or_else(|| wrong("a value is a number above zero"))
    };
    let (own, most) = match key {
        "depth" => (key.to_owned(), Some(u64::from(DEPTH_MAX))),
        "block" => (key.to_owned(), Some(BLOCK_MAX.0)),
        _ => (predict::own_name(key, fabric), None),
    };
    let is_whole = most.is_some() || predict::is_whole(&own);
    let mut values: Vec<f64> = match values.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            let ratio = (last / first).powf(1.0 / f64::from(steps.max(2) - 1));
            let value = |step| first * ratio.powf(f64::from(step));
            // A row shows the value that was predicted, and a third of a block cannot be.
            let between = |step| if is_whole { f64::round(value(step)) } else { value(step) };
            // Both ends as they were typed, whatever powers round to.
            let at = |step| match step {
                0 => first,
                _ if step + 1 == steps => last,
                _ => between(step),
            };
            (0..steps).map(at).collect()
        }
        None => values.split(',').map(number).collect::<Result<_, _>>()?,
    };
    if is_whole {
        values.dedup();
    }
    match most {
        Some(most) if !values.iter().all(|value| is_count(*value, most)) => {
            Err(wrong(&format!("a {key} is 1 to {most}, and whole")))
        }
        _ => Ok(Axis { key: key.to_owned(), own, values }),
    }
}

/// True for a whole number from 1 to `most`.
fn is_count(value: f64, most: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let most = most as f64;
    value.fract() == 0.0 && (1.0..=most).contains(&value)
}

/// Every combination, the last key changing first.
fn combinations(axes: &[Axis]) -> Result<Vec<Vec<f64>>, Failure> {
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > MOST) {
        let hint = "give fewer values, or fewer `--steps`, and the rest in another command";
        return Err(Failure::new(format!("more than {MOST} variants")).hint(hint.to_owned()));
    }
    let mut all = vec![Vec::new()];
    for axis in axes {
        all = all
            .into_iter()
            .flat_map(|before: Vec<f64>| {
                axis.values.iter().map(move |&value| [before.as_slice(), &[value]].concat())
            })
            .collect();
    }
    Ok(all)
}

/// The workload and the numbers of one variant.
fn variant(
    parameters: &Parameters,
    workload: &Workload,
    axes: &[Axis],
    values: &[f64],
) -> (Workload, Vec<f64>) {
    let mut numbers = parameters.values();
    let mut workload = workload.clone();
    for (axis, &value) in axes.iter().zip(values) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "above zero, and casts of floats end at the bounds of the integer"
        )]
        let whole = value.round() as u64;
        let flows = workload.cases.iter_mut().flat_map(|case| &mut case.flows);
        match axis.own.as_str() {
            "depth" => flows.for_each(|flow| {
                flow.depth = u32::try_from(whole).unwrap_or(u32::MAX);
            }),
            "block" => flows.for_each(|flow| flow.block = Bytes(whole)),
            key => {
                if let Ok(position) = parameters.position(key) {
                    numbers[position] = value;
                }
            }
        }
    }
    (workload, numbers)
}
