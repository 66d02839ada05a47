//! Elements of a document, and their text.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

/// An element with attributes and further elements in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    elements: Vec<Element>,
}

impl Element {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), elements: Vec::new() }
    }

    /// Adds an attribute, if its value is known.
    pub(super) fn with(mut self, name: &'static str, value: Option<impl Display>) -> Self {
        self.attributes.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Adds elements below.
    pub(super) fn above(mut self, elements: impl IntoIterator<Item = Element>) -> Self {
        self.elements.extend(elements);
        self
    }

    /// Number of elements, itself included.
    pub(super) fn count(&self) -> usize {
        1 + self.elements.iter().map(Self::count).sum::<usize>()
    }

    /// Writes the element on lines of its own, indented as by NCCL.
    pub(super) fn print(&self, depth: usize, text: &mut String) {
        let (name, width) = (self.name, 2 * depth);
        // Writing to a String cannot fail.
        let _ = write!(text, "{:width$}<{name}", "");
        for (attribute, value) in &self.attributes {
            let _ = write!(text, " {attribute}=\"{}\"", escaped(value));
        }
        if self.elements.is_empty() {
            text.push_str("/>\n");
            return;
        }
        text.push_str(">\n");
        for element in &self.elements {
            element.print(depth + 1, text);
        }
        let _ = writeln!(text, "{:width$}</{name}>", "");
    }
}

/// A value as it stands between quotes (XML 1.0 section 2.4).
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['&', '<', '>', '"']) {
        return Cow::Borrowed(value);
    }
    let entities = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Cow::Owned(entities.replace('"', "&quot;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_unknown_omitted() {
        let below = Element::new("b").with("c", Some("<\"&\">")).with("d", None::<u8>);
        let element = Element::new("a").with("e", Some(1)).above([below]);
        let mut text = String::new();
        element.print(1, &mut text);
        let inner = "    <b c=\"&lt;&quot;&amp;&quot;&gt;\"/>\n";
        assert_eq!(text, format!("  <a e=\"1\">\n{inner}  </a>\n"));
        assert_eq!(element.count(), 2);
    }
}
