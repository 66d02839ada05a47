//! Kinds of memory that payload may rest in, and the names that people type for each.

/// The way to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderKind {
    /// Host memory.
    Host,
    /// A pool that the kernel keeps.
    Pool,
    /// A window that the library of a card's maker maps.
    Card,
    /// Memory of a GPU, which is not mapped: cuFile or a copy engine moves payload there.
    Gpu,
}

impl ProviderKind {
    /// Every kind, in the order in which names are tried.
    const ALL: [Self; 4] = [Self::Pool, Self::Card, Self::Gpu, Self::Host];

    /// True if memory of a device is mapped: drives read and write it through the kernel's queue.
    pub fn is_mapped_device(self) -> bool {
        matches!(self, Self::Pool | Self::Card)
    }

    /// Names of the memory as usage texts show them: `cmb:NAME`, or `host` for a name without a colon.
    pub fn forms(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["host"],
            Self::Pool => &["cmb:NAME", "p2pmem:NAME"],
            Self::Card => &["fpga:ADDRESS"],
            Self::Gpu => &["gpu:N"],
        }
    }

    /// Splits the name of a memory into its kind and the rest: `nvme2` of `cmb:nvme2`, nothing of `host`. `None` for
    /// other words.
    pub fn split(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|kind| Some((kind, strip(kind.forms(), text)?)))
    }
}

/// The part of a text that the second half of one of these forms stands for.
pub fn strip<'a>(forms: &[&str], text: &'a str) -> Option<&'a str> {
    forms.iter().find_map(|form| match form.split_once(':') {
        Some((prefix, _)) => text.strip_prefix(prefix)?.strip_prefix(':'),
        None => (text == *form).then_some(""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_kind_and_rest() {
        for (text, expected) in [
            ("cmb:nvme2", Some((ProviderKind::Pool, "nvme2"))),
            ("p2pmem:0000:06:00.0", Some((ProviderKind::Pool, "0000:06:00.0"))),
            ("fpga:0000:04:00.1", Some((ProviderKind::Card, "0000:04:00.1"))),
            ("gpu:0", Some((ProviderKind::Gpu, "0"))),
            ("host", Some((ProviderKind::Host, ""))),
            ("nvme2", None),
            ("hosts", None),
        ] {
            assert_eq!(ProviderKind::split(text), expected, "{text}");
        }
    }
}
