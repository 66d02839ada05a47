//! Values of a closed set, and the names that people type for them.

/// A closed set of values with a name each: those of the command line, of files and of Python.
pub trait Named: Copy + PartialEq + 'static {
    /// Every value with its name, in the order in which help lists them.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the name of a value.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    /// Returns the value of a name.
    fn from_name(text: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|&(_, one)| one)
    }
}
