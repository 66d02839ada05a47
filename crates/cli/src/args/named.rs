//! Options whose values have names: the type of the library is that of the option.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use peerlane_units::Named;

/// Takes the names of all values of a type.
pub(super) fn named<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    parser(T::NAMES.iter().map(|(name, _)| *name))
}

/// Takes the names of these values.
pub(super) fn named_among<T: Named + Send + Sync>(
    values: &[T],
) -> impl TypedValueParser<Value = T> {
    parser(values.iter().map(|value| value.name()))
}

fn parser<T: Named + Send + Sync>(
    names: impl Iterator<Item = &'static str>,
) -> impl TypedValueParser<Value = T> {
    let read = |name: String| T::from_name(&name).ok_or_else(|| format!("no value is {name}"));
    PossibleValuesParser::new(names).try_map(read)
}
