//! The address of a PCI function.

use std::fmt;
use std::str::FromStr;

/// Domain, bus, device and function; printed with the domain: `0000:41:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// A text that is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCI address such as 0000:41:00.0")]
pub struct BdfError(pub String);

impl Bdf {
    /// An address, or `None` when `device` is above 31 or `function` above 7.
    pub fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        (device < 32 && function < 8).then_some(Self { domain, bus, device, function })
    }

    /// The PCI domain (segment).
    pub fn domain(self) -> u32 {
        self.domain
    }

    /// The bus number.
    pub fn bus(self) -> u8 {
        self.bus
    }

    /// The device number, below 32.
    pub fn device(self) -> u8 {
        self.device
    }

    /// The function number, below 8.
    pub fn function(self) -> u8 {
        self.function
    }

    /// Device and function in one number, the kernel's `devfn`.
    pub fn devfn(self) -> u8 {
        self.device << 3 | self.function
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!(
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        ))
    }
}

impl FromStr for Bdf {
    type Err = BdfError;

    /// Reads `0000:41:00.0`, or `41:00.0` in domain 0.
    fn from_str(text: &str) -> Result<Self, BdfError> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
            let hex = |digits: &str, most: usize| {
                let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
                (plain && (1..=most).contains(&digits.len()))
                    .then(|| u32::from_str_radix(digits, 16).ok())
                    .flatten()
            };
            let byte = |digits| hex(digits, 2).and_then(|n| u8::try_from(n).ok());
            Self::new(hex(domain, 8)?, byte(bus)?, byte(device)?, byte(function)?)
        };
        parse().ok_or_else(|| BdfError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_what_is_not_an_address() {
        for text in ["", "41:00", "00:20.0", "00:00.8", "0000:+1:00.0", "nvme0", "0:0:0:0.0"] {
            assert!(text.parse::<Bdf>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_is_read_back(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let bdf = Bdf::new(domain, bus, device, function).unwrap();
            prop_assert_eq!(bdf.to_string().parse(), Ok(bdf));
        }
    }
}
