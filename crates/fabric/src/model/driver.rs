//! The kernel driver of a function: known, none, or not shown.

/// The kernel driver that holds a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DriverBinding {
    /// Not shown by the tree that was read, or not said by a description.
    #[default]
    Unknown,
    /// No driver is bound.
    Unbound,
    /// The driver of this name is bound.
    Bound(String),
}

impl DriverBinding {
    /// Returns the name of the bound driver.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Bound(name) => Some(name),
            Self::Unknown | Self::Unbound => None,
        }
    }

    /// Returns whether the driver of this name is bound.
    pub fn is_named(&self, name: &str) -> bool {
        self.name() == Some(name)
    }
}
