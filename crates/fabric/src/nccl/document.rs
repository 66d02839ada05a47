//! The XML document in a pasted text.

/// The beginning of a topology in the middle of a text.
const OPENING: &str = "<system version=";

/// The name of the root element.
pub(super) fn root(text: &str) -> Option<&str> {
    let mut rest = start(text);
    loop {
        rest = rest.trim_start();
        rest = if let Some(comment) = rest.strip_prefix("<!--") {
            comment.split_once("-->")?.1
        } else if let Some(instruction) = rest.strip_prefix("<?") {
            instruction.split_once("?>")?.1
        } else if let Some(declaration) = rest.strip_prefix("<!DOCTYPE") {
            after_declaration(declaration)?
        } else {
            let name = rest.strip_prefix('<')?;
            let end = name.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
            return Some(&name[..end]);
        };
    }
}

/// The text behind a declaration of a document type, and of entities in brackets.
fn after_declaration(declaration: &str) -> Option<&str> {
    let end = declaration.find('>')?;
    match declaration[..end].contains('[') {
        false => Some(&declaration[end + 1..]),
        true => {
            let (_, rest) = declaration.split_once(']')?;
            Some(rest.split_once('>')?.1)
        }
    }
}

/// The text without byte order mark, blank lines and fences of Markdown before it. Of a letter with a topology in
/// it, the text from the first line that opens one.
fn start(text: &str) -> &str {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while rest.starts_with("```") || rest.starts_with("~~~") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    if rest.starts_with('<') {
        return rest;
    }
    let is_opened = |&(at, _): &(usize, &str)| {
        let before = rest[..at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    };
    rest.match_indices(OPENING).find(is_opened).map_or(rest, |(at, _)| &rest[at..])
}

/// The document, and the number of lines before it.
pub(super) fn cut(text: &str) -> (u32, &str) {
    const END: &str = "</system>";
    let document = start(text);
    let before = text.len() - document.len();
    let lines = text.as_bytes()[..before].iter().filter(|&&byte| byte == b'\n').count();
    let end = document.rfind(END).map_or(document.len(), |at| at + END.len());
    (u32::try_from(lines).unwrap_or(u32::MAX), &document[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_element_is_found_after_prologue() {
        for before in [
            "",
            "\u{feff}",
            " \r\n",
            "```xml\n",
            "~~~\n\n",
            "<?xml version=\"1.0\"?>\n",
            "<!-- <other> -->",
            "<!DOCTYPE system>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]>",
        ] {
            for root_tag in ["<system>", "<system version=\"1\">", "<system/>"] {
                assert_eq!(root(&format!("{before}{root_tag}")), Some("system"), "{before}");
            }
        }
        for before in ["Hi,\nsee below:\n\n```xml\n  ", "data:\n  topology.xml: |\n    "] {
            let text = format!("{before}<system version=\"1\"/>\n```\nThanks");
            assert_eq!(root(&text), Some("system"), "{before}");
        }
        assert_eq!(root("see <system version=\"1\"/> there"), None);
        for other in ["", "system", "<systems>", "<system", "a <system>", "<!--<system>", "```"] {
            assert_ne!(root(other), Some("system"), "{other}");
        }
    }

    #[test]
    fn fences_around_document_are_cut() {
        assert_eq!(cut("\n```xml\n<system></system>\n```\n"), (2, "<system></system>"));
        assert_eq!(cut("<system/>"), (0, "<system/>"));
        let document = "<system version=\"1\">\n</system>";
        assert_eq!(cut(&format!("Hi,\n{document}\nBye\n")), (1, document));
    }
}
