//! The XML document in a pasted text.

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

/// The text without byte order mark, blank lines and fences of Markdown before it.
fn start(text: &str) -> &str {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while rest.starts_with("```") || rest.starts_with("~~~") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    rest
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
        for other in ["", "system", "<systems>", "<system", "a <system>", "<!--<system>", "```"] {
            assert_ne!(root(other), Some("system"), "{other}");
        }
    }

    #[test]
    fn fences_around_document_are_cut() {
        assert_eq!(cut("\n```xml\n<system></system>\n```\n"), (2, "<system></system>"));
        assert_eq!(cut("<system/>"), (0, "<system/>"));
    }
}
