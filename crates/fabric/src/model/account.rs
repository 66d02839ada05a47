//! An account of a text that a machine was read from: counts of its keys, and the parts set aside.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `lspci` that facts are read from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "LspciKey")]
pub enum Key {
    /// Address and class of a function.
    #[serde(rename = "heading")]
    Heading,
    /// Bus numbers of a bridge.
    #[serde(rename = "Bus")]
    Buses,
    /// The PCI Express capability, which has the port type.
    Express,
    /// Supported speed and width of a link.
    #[serde(rename = "LnkCap")]
    LinkCapability,
    /// Current speed and width of a link.
    #[serde(rename = "LnkSta")]
    LinkState,
    /// ACS capability register.
    #[serde(rename = "ACSCap")]
    AcsCapability,
    /// ACS control register.
    #[serde(rename = "ACSCtl")]
    AcsControl,
    /// Memory window.
    #[serde(rename = "Region")]
    Window,
    /// Sizes of a resizable window.
    #[serde(rename = "Resizable BAR")]
    ResizableBar,
    /// Number of virtual functions.
    #[serde(rename = "Initial VFs")]
    VirtualFunctions,
    /// Bound driver.
    #[serde(rename = "Kernel driver in use")]
    Driver,
    /// IOMMU group.
    #[serde(rename = "IOMMU group")]
    IommuGroup,
    /// Memory node.
    #[serde(rename = "NUMA node")]
    NumaNode,
}

impl Key {
    /// All keys, in the order of a block.
    pub const ALL: [Self; 13] = [
        Self::Heading,
        Self::Buses,
        Self::Express,
        Self::LinkCapability,
        Self::LinkState,
        Self::AcsCapability,
        Self::AcsControl,
        Self::Window,
        Self::ResizableBar,
        Self::VirtualFunctions,
        Self::Driver,
        Self::IommuGroup,
        Self::NumaNode,
    ];

    /// The key as `lspci` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heading => "heading",
            Self::Buses => "Bus",
            Self::Express => "Express",
            Self::LinkCapability => "LnkCap",
            Self::LinkState => "LnkSta",
            Self::AcsCapability => "ACSCap",
            Self::AcsControl => "ACSCtl",
            Self::Window => "Region",
            Self::ResizableBar => "Resizable BAR",
            Self::VirtualFunctions => "Initial VFs",
            Self::Driver => "Kernel driver in use",
            Self::IommuGroup => "IOMMU group",
            Self::NumaNode => "NUMA node",
        }
    }
}

/// Reasons why an occurrence of a key is attached to no function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetAsideReason {
    /// No heading stands above it.
    NoHeading,
    /// It stands after an empty line or a sign of a cut.
    AfterGap,
    /// It stands inside a line that begins otherwise.
    InsideLine,
    /// Its value is cut off, or not one that `lspci` prints.
    Value,
    /// Its function has the register twice, with two values.
    Twice,
    /// It describes windows of virtual functions.
    OfVirtualFunctions,
    /// Its window has no address space.
    NoWindow,
    /// The size of the window is not shown.
    NoSize,
}

impl SetAsideReason {
    /// Returns whether a fact was lost; other reasons leave it out on purpose.
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::OfVirtualFunctions | Self::NoWindow | Self::NoSize)
    }
}

impl fmt::Display for SetAsideReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHeading => "no function stands above it",
            Self::AfterGap => "an empty line or a cut separates it from its function",
            Self::InsideLine => "it does not begin a line",
            Self::Value => "its value is cut off or not understood",
            Self::Twice => "its function has the register twice",
            Self::OfVirtualFunctions => "it describes windows of virtual functions",
            Self::NoWindow => "its window has no address space",
            Self::NoSize => "the size of the window is not shown",
        })
    }
}

/// Occurrences of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyCount {
    /// The key.
    pub key: Key,
    /// Occurrences in the text.
    pub in_text: usize,
    /// Occurrences that a function has.
    pub attached: usize,
}

/// An occurrence that no function has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// Line of the text, counted from 1.
    pub line: u32,
    /// The key.
    pub key: Key,
    /// The line, shortened.
    pub text: String,
    /// The reason.
    pub reason: SetAsideReason,
}

/// An account of a text: each key that facts are read from is attached to a function, or set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextAccount {
    /// Functions that were read; the same one listed twice counts once.
    pub functions: usize,
    /// Every key, in the order of a block.
    pub keys: Vec<KeyCount>,
    /// Occurrences that no function has, in order of line; 10,000 at most ([`TextAccount::MOST_LISTED`]).
    pub set_aside: Vec<SetAside>,
    /// Losses by key, listed or not.
    pub lost: BTreeMap<Key, usize>,
}

impl TextAccount {
    /// Occurrences that are listed at most.
    pub const MOST_LISTED: usize = 10_000;

    /// Counts of a key.
    pub fn count(&self, key: Key) -> KeyCount {
        let found = self.keys.iter().find(|count| count.key == key);
        found.copied().unwrap_or(KeyCount { key, in_text: 0, attached: 0 })
    }

    /// Number of occurrences of a key whose fact was lost.
    pub fn lost(&self, key: Key) -> usize {
        self.lost.get(&key).copied().unwrap_or(0)
    }

    /// Returns whether every fact in the text has its function.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty()
    }

    /// The account in one line: `517 functions; 55 of 55 ACS registers read; 231 of 231 links read`.
    pub fn summary(&self) -> String {
        let of = |key, what: &str| {
            let KeyCount { in_text, attached, .. } = self.count(key);
            match in_text {
                0 => format!("no {what} in the text"),
                _ => format!("{attached} of {in_text} {what} read"),
            }
        };
        let functions = self.functions;
        let plural = if functions == 1 { "" } else { "s" };
        let registers = of(Key::AcsControl, "ACS registers");
        let links = of(Key::LinkState, "links");
        format!("{functions} function{plural}; {registers}; {links}")
    }
}
