use proptest::prelude::*;

use super::*;

fn parameter(name: &str, value: f64, from: Provenance) -> Parameter {
    let source = "a test".to_owned();
    let name = name.to_owned();
    let (lo, hi) = (value / 2.0, value * 2.0);
    Parameter { name, value, lo, hi, datasheet: None, from, rows: Vec::new(), source }
}

fn shape(text: &str) -> Result<Parameter, ParameterError> {
    let shape: ParameterShape = toml::from_str(text).expect("a parameter");
    shape.parameter("p", |row| (row == "1/a").then_some((1.0, 2.0, 3.0)))
}

#[test]
fn numbers_come_from_files_or_rows() {
    let read = shape("value = 2\nhi = 3\nunit = 'GB/s'\nfrom = 'datasheet'\nsource = 's'");
    let read = read.expect("a parameter");
    assert_eq!((read.lo, read.value, read.hi), (2e9, 2e9, 3e9));
    let read = shape("unit = 'GB/s'\nfrom = 'input'\nrows = ['1/a']\nsource = 's'");
    assert_eq!(read.expect("a parameter").value, 2.0);
    assert!(shape("value = 2\nunit = 'x'\nfrom = 'input'\nrows = ['1/a']\nsource = 's'").is_err());
    assert!(shape("unit = 'x'\nfrom = 'input'\nrows = ['1/b']\nsource = 's'").is_err());
    let unknown = toml::from_str::<ParameterShape>("unit = 'kg'\nfrom = 'spec'\nsource = 's'");
    assert!(unknown.expect_err("no unit").to_string().contains("unknown unit `kg`"));
}

#[test]
fn unusable_parameters_are_refused() {
    let mut parameters = Parameters::default();
    let good = parameter("p", 2.0, Provenance::Spec);
    let rows = vec!["1/a".to_owned()];
    for wrong in [
        Parameter { hi: 1.0, ..good.clone() },
        Parameter { value: f64::INFINITY, ..good.clone() },
        Parameter { from: Provenance::Fitted, ..good.clone() },
        Parameter { from: Provenance::Chosen, ..good.clone() },
        Parameter { rows, ..good.clone() },
    ] {
        let added = parameters.add(wrong);
        assert!(matches!(added, Err(ParameterError::Meaning { .. })), "{added:?}");
    }
    assert_eq!(parameters.add(good.clone()), Ok(()));
    assert_eq!(parameters.add(good), Err(ParameterError::SaidTwice("p".to_owned())));
}

#[test]
fn the_plain_estimate_uses_datasheets_only() {
    let mut parameters = Parameters::default();
    parameters.add(parameter("sheet", 2.0, Provenance::Datasheet)).expect("added");
    parameters.add(parameter("guess", 3.0, Provenance::Guess)).expect("added");
    let numbers = parameters.values();
    let plain = Values::new(&parameters, &numbers, View::Plain);
    assert_eq!(plain.ceiling("sheet"), Ok(2.0));
    assert_eq!(plain.ceiling("guess"), Ok(f64::INFINITY));
    assert_eq!(plain.loss("guess", 0.0), Ok(0.0));
    assert_eq!(plain.used().len(), 2);
}

proptest! {
    #[test]
    fn draws_stay_in_range(seed: u64, draw: u64) {
        let mut parameters = Parameters::default();
        for name in ["a", "b", "c"] {
            parameters.add(parameter(name, 5.0, Provenance::Guess)).expect("added");
        }
        let numbers = Draw::new(seed).numbers(&parameters, draw);
        prop_assert!(numbers.iter().all(|number| (2.4999..=10.0001).contains(number)));
        prop_assert_eq!(Draw::new(seed).numbers(&parameters, draw), numbers);
    }

    #[test]
    fn percentiles_lie_between_the_ends(mut numbers in prop::collection::vec(0.0..1e9f64, 1..50), share in 0.0..=1.0f64) {
        numbers.sort_by(f64::total_cmp);
        let found = percentile(&numbers, share).expect("there are numbers");
        prop_assert!(numbers[0] <= found && found <= numbers[numbers.len() - 1]);
    }
}
