//! Sizes, rates and times as people type them, checked before any look at a device.

use peerlane_units::{ByteRate, Bytes, Nanos};

/// Largest block: a bound on memory, far above the largest request of any device.
const BLOCK_MAX: Bytes = Bytes::mib(1024);
/// Unit of a block: direct I/O and peer-to-peer pages move whole ones of it.
const BLOCK_UNIT: Bytes = Bytes::kib(4);
const DURATION_MAX: Nanos = Nanos::seconds(86_400);

/// Reads a block size: a multiple of 4096 bytes, at most 1 GiB.
///
/// # Errors
/// The fault, in words.
pub fn block(text: &str) -> Result<Bytes, String> {
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    match size {
        Bytes(0) => Err("a block holds at least one byte".to_owned()),
        size if size > BLOCK_MAX => Err(format!("a block holds at most {BLOCK_MAX}")),
        size if !size.is_multiple_of(BLOCK_UNIT) => {
            Err(format!("a block is a multiple of {} bytes", BLOCK_UNIT.0))
        }
        size => Ok(size),
    }
}

/// Reads a duration: more than nothing, at most a day; a plain number is seconds.
///
/// # Errors
/// The fault, in words.
pub fn duration(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if time > Nanos(0) && time <= DURATION_MAX => Ok(time),
        Ok(_) => Err("a time lies between 0 and a day (24h)".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a rate: at least one byte a second.
///
/// # Errors
/// The fault, in words.
pub fn rate(text: &str) -> Result<ByteRate, String> {
    match text.parse::<ByteRate>() {
        Ok(ByteRate(0)) => Err("nothing would ever move".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a length: at least one byte.
///
/// # Errors
/// The fault, in words.
pub fn length(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(Bytes(0)) => Err("there is nothing to copy".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_outside_their_bounds_are_refused() {
        assert_eq!(block("1M"), Ok(Bytes::mib(1)));
        assert!(block("0").is_err());
        assert!(block("1025M").is_err());
        assert!(length("0K").is_err());
        assert!(block("3000").is_err_and(|words| words.contains("4096")));
        assert_eq!(rate("20MB"), Ok(ByteRate(20_000_000)));
        assert_eq!(duration("500ms"), Ok(Nanos(500_000_000)));
        assert!(duration("0").is_err() && duration("25h").is_err() && duration("inf").is_err());
        assert!(rate("0").is_err());
    }
}
