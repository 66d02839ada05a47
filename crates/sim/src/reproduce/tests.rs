use std::sync::OnceLock;

use super::*;
use crate::parameters::Provenance;

fn study() -> Study {
    Study::built_in().unwrap_or_else(|error| panic!("{error}"))
}

/// Everything, once for all tests.
fn whole() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| study().report(&[]).unwrap_or_else(|error| panic!("{error}")))
}

/// The built-in texts with one of them changed.
fn changed(name: &str, change: impl Fn(&str) -> String) -> Result<Study, StudyError> {
    let texts: Vec<(&str, String)> = SOURCES
        .iter()
        .map(|&(source, text)| {
            (source, if source == name { change(text) } else { text.to_owned() })
        })
        .collect();
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Study::read(MACHINES, PARAMETERS, &texts, CURVES, PREDICTIONS)
}

fn row<'a>(report: &'a Report, name: &str) -> &'a Row {
    let is_it = |row: &&Row| format!("{}/{}", row.source, row.figure) == name;
    report.rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {name}"))
}

fn error(report: &Report, name: &str) -> f64 {
    row(report, name).error.unwrap_or_else(|| panic!("{name} has no error"))
}

#[test]
fn every_figure_is_shown_as_what_its_file_says() {
    let study = study();
    let numbers = study.fitted().expect("fits");
    for (index, (_, figure)) in study.figures.iter().enumerate() {
        let shown = study.shown_role(index, &numbers).expect("a role");
        assert_eq!(shown, figure.role, "{} is declared otherwise", study.name(index));
    }
}

#[test]
fn a_figure_that_decided_a_parameter_cannot_pass_for_a_prediction() {
    let lie = |text: &str| {
        let (before, after) = text.split_once("id = \"into-cmb\"").expect("the figure");
        format!("{before}id = \"into-cmb\"{}", after.replacen("\"fitted\"", "\"predicted\"", 1))
    };
    let study = changed("002", lie).expect("a study");
    let report = study.report(&["002".to_owned()]).expect("a report");
    let row = row(&report, "002/into-cmb");
    assert_eq!((row.declared, row.role), (Role::Predicted, Role::Fitted));
    assert!(report.count.contains("none is predicted"), "{}", report.count);
}

#[test]
fn a_figure_that_is_a_parameter_cannot_pass_for_a_prediction() {
    let lie = |text: &str| text.replace("role = \"input\"", "role = \"predicted\"");
    let study = changed("004", lie).expect("a study");
    let report = study.report(&["004".to_owned()]).expect("a report");
    assert_eq!(row(&report, "004/p2p-read").role, Role::Input);
}

/// A number between two others that was picked when the figures were known is a fit by hand.
#[test]
fn a_figure_that_a_parameter_was_chosen_by_cannot_pass_for_a_prediction() {
    let mean = "[parameter.\"optiplex.best-read\"]\nvalue = 2922.5\nunit = \"MiB/s\"\nfrom = \"chosen\"\n\
         rows = [\"003/read-max-cpu\", \"003/write-max-cpu\"]\nsource = \"between fio and datasheet\"\n\n\
         [scenario.read-best]\n\
         device = [{ functions = \"drive\", role = \"drive\", read = { rate = \"optiplex.best-read\" } }]\n";
    let study = changed("003", |text| text.replace("[scenario.read-best]\n", mean));
    let report = study.expect("a study").report(&["003".to_owned()]).expect("a report");
    let chosen = row(&report, "003/read-max-cpu");
    assert_eq!((chosen.declared, chosen.role), (Role::Predicted, Role::Fitted));
    assert_eq!(chosen.unfitted, None);
    assert_eq!(row(&report, "003/write-max-cpu").role, Role::Predicted);
}

#[test]
fn a_figure_declared_fitted_that_decides_nothing_is_shown_as_predicted() {
    let modest = |text: &str| {
        let (before, after) = text.split_once("id = \"host-read\"").expect("the figure");
        format!("{before}id = \"host-read\"{}", after.replacen("\"predicted\"", "\"fitted\"", 1))
    };
    let study = changed("004", modest).expect("a study");
    let report = study.report(&["004".to_owned()]).expect("a report");
    assert_eq!(row(&report, "004/host-read").role, Role::Predicted);
}

/// Errors of an earlier study of the same documents, which this one must not exceed: in per cent.
#[test]
fn predictions_are_as_close_as_they_were_found_possible() {
    let report = whole();
    for (name, most) in [
        ("000/slots", 0.0),
        ("000/large-block-ratio", 6.4),
        // 2.1 there, from a rate of fio that was computed from the document's wrong loss of 24 %.
        ("003/read-max-cpu", 8.0),
        ("003/write-max-cpu", 25.0),
        ("003/read-mean-cpu", 2.0),
        ("004/host-read", 6.8),
        ("004/cpu-hdd", 2.4),
        ("004/dram-write", 8.0),
        ("fabrics/p4600-two", 1.6),
        ("fabrics/p4600-host", 1.6),
        ("fabrics/gen5-one-way", 5.9),
        ("fabrics/nfp-read", 5.0),
        ("fabrics/nfp-both", 5.0),
        ("fabrics/faults", 0.4),
    ] {
        assert_eq!(row(report, name).role, Role::Predicted, "{name}");
        let found = error(report, name).abs() * 100.0;
        assert!(found <= most, "{name}: {found} % is more than {most} %");
    }
}

#[test]
fn fits_meet_their_rows_and_say_when_that_proves_nothing() {
    let report = whole();
    assert!(report.fits.len() >= 9);
    for fit in &report.fits {
        let worst = fit.residuals.iter().map(|residual| residual.abs()).fold(0.0, f64::max);
        assert!(worst < 1e-4, "{fit:?}");
        if fit.rows.len() == fit.parameters.len() {
            assert_eq!(fit.freedom, "no degrees of freedom");
            assert_eq!(fit.standard_errors, None);
        }
    }
    // The same numbers from any start: what a fit finds does not hang on the guess before it.
    let nudged = changed("002", |text| text.replace("value = 51.2\nlo", "value = 40\nlo"));
    let nudged = nudged.expect("a study").report(&[]).expect("a report");
    for (one, other) in report.fits.iter().zip(&nudged.fits) {
        for ((name, one), (_, other)) in one.parameters.iter().zip(&other.parameters) {
            assert!((one / other - 1.0).abs() < 1e-6, "{name}: {one} and {other}");
        }
    }
}

#[test]
fn fitted_rows_say_what_the_model_said_before() {
    let report = whole();
    for (name, before) in [("002/into-cmb", 26.0), ("002/out-of-cmb", 14.0)] {
        let unfitted = row(report, name).unfitted.expect("a number");
        assert!((unfitted - before).abs() < 0.01, "{name}: {unfitted}");
    }
    let small = row(report, "000/small-block-ratio").unfitted.expect("a number");
    assert!((1.25..1.5).contains(&small), "{small}");
}

#[test]
fn every_document_has_rows_and_the_sentence_counts_them() {
    let report = whole();
    for source in ["000", "001", "002", "003", "004"] {
        assert!(report.rows.iter().any(|row| row.source == source), "{source}");
    }
    let of_documents: Vec<&Row> =
        report.rows.iter().filter(|row| row.source.starts_with('0')).collect();
    assert!(report.count.starts_with(&format!("Of {} stated figures", of_documents.len())));
    let predicted = of_documents.iter().filter(|row| row.role == Role::Predicted).count();
    assert!(report.count.contains(&format!(" {predicted} are predicted")), "{}", report.count);
}

/// What the documents state, and what is known to be a mistake in them: no row may be lost.
#[test]
fn no_figure_of_a_document_is_left_out() {
    let stated = [
        ("000/p2p-grows-with-block", Role::Bound),
        ("000/grows-with-block", Role::Bound),
        ("000/gain-falls", Role::Bound),
        ("000/shared-link", Role::Excluded),
        ("001/host-at-x1", Role::Structural),
        ("001/through-server", Role::Structural),
        ("003/fio-read", Role::Input),
        ("003/fio-write", Role::Input),
        ("004/iops-filtered", Role::Excluded),
        ("004/images", Role::Excluded),
    ];
    for (name, role) in stated {
        let row = row(whole(), name);
        assert_eq!(row.role, role, "{name}");
        let holds = matches!(role, Role::Excluded) || row.within.is_some();
        assert!(holds, "{name}: {} beside {}", row.predicted, row.stated);
    }
    // The gain falls with size because of the fit alone: published costs say the opposite.
    let study = study();
    let falls = study.position("000/gain-falls").expect("a figure");
    let before = study.number(falls, &study.parameters.values(), crate::parameters::View::Model);
    assert!(before.is_some_and(|before| before < 1.0), "{before:?}");
}

#[test]
fn every_parameter_is_used_and_says_its_source() {
    let study = study();
    let report = whole();
    for parameter in study.parameters().iter() {
        let of_predictions = study.predictions.parameter.contains_key(&parameter.name);
        let is_used = of_predictions
            || report.rows.iter().any(|row| row.parameters.contains(&parameter.name));
        assert!(is_used, "{} is used by no figure", parameter.name);
        assert!(parameter.source.len() > 10, "{}", parameter.name);
    }
    let fitted = report.parameters.iter().find(|found| found.name == "noload.write");
    assert!(fitted.is_some_and(|found| (found.value / 16.3e9 - 1.0).abs() < 1e-6));
    let kinds = study.provenance(report);
    let of_figures = study.parameters().len() - study.predictions.parameter.len();
    assert_eq!(kinds.iter().map(|(_, count)| count).sum::<usize>(), of_figures);
    assert!(kinds.iter().any(|&(kind, count)| kind == Provenance::Fitted && count > 0));
}

#[test]
fn a_prediction_lies_in_its_own_interval() {
    let report = whole();
    for row in report.rows.iter().filter(|row| row.role == Role::Predicted) {
        let (low, high) = row.interval.expect("an interval");
        let predicted = row.predicted.as_f64().expect("a number");
        let is_in = low * 0.999 <= predicted && predicted <= high * 1.001;
        assert!(is_in, "{}/{}: {predicted} of {low} to {high}", row.source, row.figure);
    }
}

#[test]
fn a_report_is_the_same_every_time() {
    let text = |report: Report| serde_json::to_string(&report).expect("JSON");
    let only = ["001".to_owned()];
    let first = text(study().report(&only).expect("a report"));
    assert_eq!(first, text(study().report(&only).expect("a report")));
    assert!(first.starts_with("{\"schema\":\"peerlane.reproduce/1\""));
}

#[test]
fn curves_held_out_are_said_by_a_few_of_their_sizes() {
    let report = whole();
    let mean = |curve: &str, sizes: usize| {
        let curve = report.curves.iter().find(|found| found.curve == curve).expect("a curve");
        let held = curve.held.iter().find(|held| held.calibrated.len() == sizes);
        held.expect("a table").mean
    };
    assert!(mean("smartssd-write", 3) < 0.014);
    assert!(mean("u200-down", 2) < 0.047);
    assert!(mean("u200-up", 2) < 0.028);
    // More sizes say more.
    assert!(mean("smartssd-read", 5) < mean("smartssd-read", 2));
}

/// Numbers of a text, without the commas and signs around them.
fn numbers_in(text: &str) -> Vec<f64> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.')
        .filter_map(|word| word.trim_matches('.').parse().ok())
        .collect()
}

/// Whether a source, in words, has this number in some unit.
fn is_quoted(parameter: &crate::parameters::Parameter) -> bool {
    let units = [1.0, 1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9, 1.25e8, 1_048_576.0, 1_073_741_824.0];
    let is_it =
        |quoted: f64| units.iter().any(|unit| (quoted * unit / parameter.value - 1.0).abs() < 1e-9);
    numbers_in(&parameter.source).into_iter().any(is_it)
}

/// What somebody measured or states in a sheet is a number that can be looked up there. One that was computed
/// from such numbers, or picked among them, says so in its source, or is `chosen` by the figures it names.
#[test]
fn what_was_measured_elsewhere_is_quoted_and_a_guess_has_a_range() {
    let study = study();
    for parameter in study.parameters().iter() {
        let name = &parameter.name;
        match parameter.from {
            Provenance::MeasuredElsewhere | Provenance::Datasheet => {
                assert!(is_quoted(parameter), "{name} is not in: {}", parameter.source);
            }
            Provenance::Guess => assert!(parameter.lo < parameter.hi, "{name} is guessed exactly"),
            _ => {}
        }
    }
    let mut tuned = study.parameters().iter().find(|p| p.name == "smartssd.host-read").cloned();
    let tuned = tuned.as_mut().expect("a parameter");
    tuned.value *= 1.01;
    assert!(!is_quoted(tuned));
}

/// A number tuned by hand, and called a guess or a measurement, would show as a figure that is met better
/// than models of this kind meet any: fits do that, and nothing else has to. Where a guess is behind it, within
/// 1 % is too close; where all is quoted, within a thousandth.
#[test]
fn no_prediction_is_as_close_as_a_fit() {
    let is_from = |name: &String, kinds: &[Provenance]| {
        let found = whole().parameters.iter().find(|parameter| parameter.name == *name);
        found.is_some_and(|parameter| kinds.contains(&parameter.from))
    };
    let mut looked_at = 0;
    for row in whole().rows.iter().filter(|row| row.role == Role::Predicted) {
        let (Some(stated), Some(predicted)) = (row.stated.as_f64(), row.predicted.as_f64()) else {
            continue;
        };
        // A power of two is met or missed by half.
        if row.figure.starts_with("depth-") || row.figure.starts_with("split-") {
            continue;
        }
        let has = |kinds: &[Provenance]| row.parameters.iter().any(|name| is_from(name, kinds));
        let closest = if has(&[Provenance::Guess, Provenance::Chosen]) {
            1e-2
        } else if has(&[Provenance::MeasuredElsewhere, Provenance::Datasheet]) {
            1e-3
        } else {
            0.0
        };
        let error = (predicted / stated - 1.0).abs();
        looked_at += 1;
        assert!(error >= closest, "{}/{}: {stated} and {predicted}", row.source, row.figure);
    }
    assert!(looked_at >= 15, "{looked_at}");
}

#[test]
fn mistakes_in_files_are_named() {
    let say = |study: Result<Study, StudyError>| match study {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let wrong = changed("001", |text| text.replace("\"drive1\", via", "\"drive9\", via"));
    assert!(say(wrong).contains("no function `drive9`"));
    let wrong = changed("001", |text| text.replace("rate = \"dc.drive\"", "rate = \"dc.dirve\""));
    assert!(say(wrong).contains("`dc.dirve`"));
    let wrong = changed("001", |text| text.replace("{ ratio = [\"dc-x1\"", "{ ratio = [\"dc-x3\""));
    assert!(say(wrong).contains("`dc-x3`"));
    let wrong = changed("001", |text| text.replace("2.5GT/s x1", "fast"));
    assert!(say(wrong).contains("`fast`"));
    let wrong = changed("001", |text| text.replacen("reason = ", "raeson = ", 1));
    assert!(say(wrong).contains("raeson"));
    let unknown = study().report(&["005".to_owned()]).map(|_| ());
    assert!(unknown.is_err_and(|error| error.to_string().contains("no source is called `005`")));
}

/// `UPDATE=1` writes the page.
#[test]
fn the_page_of_predictions_is_what_the_model_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/predictions.md");
    let study = study();
    let text = page(&study, &study.predictions().expect("predictions")).expect("a page");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &text).expect("the page can be written");
    }
    let there = std::fs::read_to_string(path).expect("docs/predictions.md");
    assert!(there == text, "write it with UPDATE=1 cargo test -p peerlane-sim page_of_predictions");
}

#[test]
fn predictions_are_bounded_by_what_they_are_limited_by() {
    for found in study().predictions().expect("predictions") {
        let (low, high) = found.interval;
        assert!(low * 0.999 <= found.rate && found.rate <= high * 1.001, "{found:?}");
        assert!(found.rate <= found.closed_form * 1.02, "{found:?}");
        assert!(found.each.0 <= found.each.1 && !found.limited_by.is_empty());
    }
}

#[test]
fn a_busy_memory_slows_a_stranger_only_where_queues_are_shared() {
    let predictions = study().predictions().expect("predictions");
    let fastest = |name: &str| {
        let found = predictions.iter().find(|found| found.prediction == name);
        found.expect("a prediction").each.1
    };
    assert!(fastest("victim-shared") < 0.91e9);
    assert!(fastest("victim-isolated") > 3.1e9);
}

/// Two ways to the same number: the closed form of the figures, and the flow engine.
#[test]
fn the_flow_engine_agrees_with_the_closed_form_where_flows_are_alike() {
    for found in study().predictions().expect("predictions") {
        if found.prediction.starts_with("victim") {
            continue;
        }
        let ratio = found.rate / found.closed_form;
        // Heads of nine queues at each output wait by chance here, by a pattern on packets.
        let least = if found.prediction == "all-pairs" { 0.966 } else { 0.99 };
        assert!((least..1.01).contains(&ratio), "{}: {ratio}", found.prediction);
    }
}
