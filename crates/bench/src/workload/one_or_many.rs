//! A list in a file; a list of one value may be written as the value alone.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, SeqAccess, Visitor};

/// Reads a list, or one value as a list of it.
pub(super) fn one_or_many<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_any(OneOrMany(PhantomData))
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a list of such")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        T::deserialize(text.into_deserializer()).map(|one| vec![one])
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|one| vec![one])
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(one) = all.next_element()? {
            list.push(one);
        }
        Ok(list)
    }
}
