//! A reader of JSON with comments that keeps the values of known keys, in bounded memory.
//!
//! It takes what jsoncpp takes, which is cuFile's reader: comments of both kinds, the last of several equal keys,
//! and anything after the root object. It takes commas before closing brackets, too, and says where one is.

use std::collections::BTreeMap;
use std::fmt;

use super::{CufileValue, KeptValue, MOST_ENTRIES, has_keys, kept};

/// Most bytes of the file; the installed one has 8 KiB.
const LONGEST_TEXT: usize = 256 << 10;
/// Objects and lists one in another.
const DEEPEST: usize = 32;
/// Longest text, and most texts of a list, that are kept.
const LONGEST_VALUE: usize = 1024;
const LONGEST_LIST: usize = 256;

/// The values of known keys.
#[derive(Debug, Default)]
pub(super) struct KnownValues {
    pub(super) settings: BTreeMap<String, CufileValue>,
    /// Line of the first comma before a closing bracket.
    pub(super) trailing_comma: Option<usize>,
}

/// The place where the text stops being JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: usize,
    wanted: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.wanted)
    }
}

/// Reads a text whose root is an object.
pub(super) fn read(text: &str) -> Result<KnownValues, Fault> {
    let mut reader = JsonReader { text, at: 0, found: KnownValues::default() };
    if text.len() > LONGEST_TEXT {
        return Err(Fault { line: 1, wanted: "a file of 256 KiB at most" });
    }
    reader.skip()?;
    if reader.peek() != Some(b'{') {
        return Err(reader.fault("an object"));
    }
    reader.value(Some(""), 0)?;
    Ok(reader.found)
}

/// A value as far as it may be kept; objects are looked into instead.
enum Scalar {
    Value(CufileValue),
    List(Vec<String>, usize),
    Nothing,
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    found: KnownValues,
}

impl JsonReader<'_> {
    fn fault(&self, wanted: &'static str) -> Fault {
        Fault { line: self.line(), wanted }
    }

    fn line(&self) -> usize {
        self.text.as_bytes()[..self.at].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), Fault> {
        loop {
            let rest = &self.text[self.at..];
            let blank =
                rest.len() - rest.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).len();
            self.at += blank;
            let rest = &rest[blank..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| self.fault("the end of a comment"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// Reads a value; `key` is its dotted name where it may be kept.
    fn value(&mut self, key: Option<&str>, depth: usize) -> Result<Scalar, Fault> {
        if depth > DEEPEST {
            return Err(self.fault("no more than 32 objects one in another"));
        }
        self.skip()?;
        match self.peek() {
            Some(b'{') => self.object(key, depth).map(|()| Scalar::Nothing),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Scalar::Value(CufileValue::Text(self.string()?))),
            _ => self.word(),
        }
    }

    fn object(&mut self, key: Option<&str>, depth: usize) -> Result<(), Fault> {
        self.at += 1;
        self.entries(b'}', |reader| {
            if reader.peek() != Some(b'"') {
                return Err(reader.fault("a name in quotes"));
            }
            let name = reader.string()?;
            let below = key.and_then(|key| below(key, &name));
            reader.skip()?;
            if !reader.takes(b':') {
                return Err(reader.fault("`:`"));
            }
            let value = reader.value(below.as_deref(), depth + 1)?;
            if let Some(below) = below {
                reader.keep(below, value);
            }
            Ok(())
        })
    }

    fn array(&mut self, depth: usize) -> Result<Scalar, Fault> {
        self.at += 1;
        let mut list = Vec::new();
        let mut length = 0;
        self.entries(b']', |reader| {
            let text = match reader.value(None, depth + 1)? {
                Scalar::Value(CufileValue::Text(text)) => Some(text),
                Scalar::Value(value) => Some(value.to_string()),
                Scalar::List(..) | Scalar::Nothing => None,
            };
            length += 1;
            let is_kept = |text: &String| text.len() <= LONGEST_VALUE && list.len() < LONGEST_LIST;
            if let Some(text) = text.filter(is_kept) {
                list.push(text);
            }
            Ok(())
        })?;
        Ok(Scalar::List(list, length))
    }

    /// Reads the entries between brackets, with commas between them.
    fn entries(
        &mut self,
        end: u8,
        mut entry: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut comma = None;
        loop {
            self.skip()?;
            if self.takes(end) {
                self.found.trailing_comma = self.found.trailing_comma.or(comma);
                return Ok(());
            }
            entry(self)?;
            self.skip()?;
            comma = Some(self.line()).filter(|_| self.peek() == Some(b','));
            if !self.takes(b',') && self.peek() != Some(end) {
                return Err(self.fault("`,` or a closing bracket"));
            }
        }
    }

    /// `true`, `false`, `null` or a number.
    fn word(&mut self) -> Result<Scalar, Fault> {
        let rest = &self.text[self.at..];
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        let is_number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let value = match word {
            "true" => Some(CufileValue::Flag(true)),
            "false" => Some(CufileValue::Flag(false)),
            "null" => None,
            _ if is_number && word.parse::<f64>().is_ok() => Some(
                word.parse()
                    .map_or_else(|_| CufileValue::Text(word.to_owned()), CufileValue::Number),
            ),
            _ => return Err(self.fault("a value")),
        };
        self.at += word.len();
        Ok(value.map_or(Scalar::Nothing, Scalar::Value))
    }

    /// A text in quotes.
    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(['"', '\\']).ok_or_else(|| self.fault("a closing quote"))?;
            text += &rest[..plain];
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    /// Reads the rest of an escape sequence, from the character after the backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        let letter = self.peek().ok_or_else(|| self.fault("an escaped character"))?;
        let plain = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let digits = self.text.get(self.at + 1..self.at + 5);
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let code = code.ok_or_else(|| self.fault("four hexadecimal digits"))?;
                self.at += 4;
                // Halves of a pair stand for themselves; no key has any.
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(self.fault("an escaped character")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn keep(&mut self, key: String, value: Scalar) {
        let value = match (kept(&key), value) {
            (Some(KeptValue::Length), Scalar::List(_, length)) => {
                CufileValue::Number(i64::try_from(length).unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES))
            }
            (Some(KeptValue::Length), Scalar::Value(CufileValue::Text(_))) => {
                CufileValue::Number(1)
            }
            (Some(KeptValue::Whole), Scalar::List(list, _)) => CufileValue::List(list),
            (Some(KeptValue::Whole), Scalar::Value(CufileValue::Text(text)))
                if text.len() > LONGEST_VALUE =>
            {
                return;
            }
            (Some(KeptValue::Whole), Scalar::Value(value)) => value,
            _ => return,
        };
        self.found.settings.insert(key, value);
    }
}

/// The dotted name of an entry, if it is a known key or leads to one.
fn below(key: &str, name: &str) -> Option<String> {
    let below = if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    (kept(&below).is_some() || has_keys(&below)).then_some(below)
}
