//! Sizes as people type them: what can be refused without looking at a device is refused here.

use peerlane_units::{ByteRate, Bytes};

/// Largest block: a bound on memory, far above what any device takes in one request.
const BLOCK_MAX: Bytes = Bytes::mib(1024);

/// Reads a block size: at least one byte, at most 1 GiB.
///
/// # Errors
/// What is wrong with it, in words.
pub fn block(text: &str) -> Result<Bytes, String> {
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    match size {
        Bytes(0) => Err("a block holds at least one byte".to_owned()),
        size if size > BLOCK_MAX => Err(format!("a block holds at most {BLOCK_MAX}")),
        size => Ok(size),
    }
}

/// Reads a rate: at least one byte a second.
///
/// # Errors
/// What is wrong with it, in words.
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
/// What is wrong with it, in words.
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
    fn a_block_is_neither_empty_nor_larger_than_memory() {
        assert_eq!(block("1M"), Ok(Bytes::mib(1)));
        assert!(block("0").is_err());
        assert!(block("1025M").is_err());
        assert!(length("0K").is_err());
        assert_eq!(rate("20M"), Ok(ByteRate(20_000_000)));
        assert!(rate("0").is_err());
    }
}
