//! Width of words in a drawing.

/// Approximate width of a text in the font of the drawing.
pub(super) fn wide(text: &str) -> f64 {
    text.chars().count() as f64 * 6.4
}

/// A text cut to a width.
pub(super) fn cut(text: &str, width: f64) -> String {
    if wide(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        if wide(&kept) + 12.8 > width {
            break;
        }
        kept.push(character);
    }
    kept.trim_end().to_owned() + "\u{2026}"
}

/// A text in lines of at most a width.
pub(super) fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = |line: &String| line.is_empty() || wide(line) + wide(word) + 6.4 < width;
        match lines.last_mut().filter(|line| fits(line)) {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
