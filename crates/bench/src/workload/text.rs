//! Workloads as TOML: the short form that a person writes, and the full one that names every transfer.

use peerlane_results::{WORKLOAD_SCHEMA, Workload};

use super::{Brief, BriefError};

/// Reasons why a text is not a workload.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// It is not TOML, or a field has a wrong value.
    #[error("cannot read a workload")]
    Toml(#[from] Box<toml::de::Error>),
    /// A schema of another version.
    #[error("cannot read a workload of schema `{found}`: this program knows `{WORKLOAD_SCHEMA}`")]
    Schema {
        /// Words of the parser.
        found: String,
    },
    /// It leaves out a field that its kind needs, or has a number out of its bounds.
    #[error("cannot make a workload of it")]
    Brief(#[from] BriefError),
}

/// A workload as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum WrittenWorkload {
    /// In a few words.
    Brief(Box<Brief>),
    /// With every transfer.
    Full(Workload),
}

impl WrittenWorkload {
    /// Names every transfer.
    ///
    /// # Errors
    /// [`TextError::Brief`] for workloads that cannot be run.
    pub fn build(self) -> Result<Workload, TextError> {
        match self {
            Self::Brief(brief) => Ok(brief.build()?),
            Self::Full(workload) => {
                super::check(&workload)?;
                Ok(workload)
            }
        }
    }
}

/// Reads either form as it is written; the full one begins with its schema.
///
/// # Errors
/// [`TextError`] with the line.
pub fn read(text: &str) -> Result<WrittenWorkload, TextError> {
    let table: toml::Table = toml::from_str(text).map_err(Box::new)?;
    match table.get("schema") {
        None => Ok(WrittenWorkload::Brief(toml::from_str(text).map_err(Box::new)?)),
        Some(schema) if schema.as_str() == Some(WORKLOAD_SCHEMA) => {
            Ok(WrittenWorkload::Full(toml::from_str(text).map_err(Box::new)?))
        }
        Some(schema) => Err(TextError::Schema { found: schema.to_string() }),
    }
}

/// Reads either form, and names every transfer; where a length is left out, it is the usual one.
///
/// # Errors
/// [`TextError`] with the line.
pub fn parse(text: &str) -> Result<Workload, TextError> {
    read(text)?.build()
}

/// Writes the full form.
///
/// # Errors
/// When a number is larger than TOML's integers, which go to 2^63 - 1.
pub fn print(workload: &Workload) -> Result<String, toml::ser::Error> {
    toml::to_string(workload)
}

#[cfg(test)]
mod tests {
    use peerlane_results::{Path, WorkloadKind};
    use peerlane_units::Bytes;

    use super::*;

    const SHORT: &str = "kind = 'sweep'\nsource = ['a']\ntarget = ['b']\nblocks = ['4K', '1M']\n\
                         length = '8M'\nroutes = ['p2p', 'host-serial']\nrepeats = 2\n";

    #[test]
    fn short_and_full_forms_agree() {
        let workload = parse(SHORT).unwrap();
        let names: Vec<&str> = workload.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["4K p2p", "4K host-serial", "1M p2p", "1M host-serial"]);
        assert_eq!(workload.kind, WorkloadKind::Sweep);
        let flow = &workload.cases[3].flows[0];
        assert_eq!((flow.path, flow.depth, flow.bytes), (Path::HostSerial, 1, Bytes::mib(8)));
        assert_eq!(parse(&print(&workload).unwrap()).unwrap(), workload);
    }

    #[test]
    fn runs_end_by_interval_unless_given() {
        let usual = parse(&SHORT.replace("repeats = 2\n", "")).unwrap().repeats;
        assert_eq!((usual.least, usual.most, usual.until_per_mille), (3, 20, Some(100)));
        assert!(usual.time_ns.is_some());
        let given = parse(SHORT).unwrap().repeats;
        assert_eq!((given.least, given.most, given.until_per_mille), (2, 2, None));
    }

    #[test]
    fn a_list_of_one_need_not_be_a_list() {
        let list =
            "kind = 'sweep'\nsource = ['a']\ntarget = ['b']\nblocks = [65536]\nroutes = ['p2p']\n";
        let plain = list.replace(['[', ']'], "");
        assert_eq!(parse(&plain).unwrap(), parse(list).unwrap());
        let crowd = |drives: &str| parse(&format!("kind = 'crowd'\ndrives = {drives}\n"));
        assert!(crowd("['a', 'b']").is_ok());
        assert!(crowd("'a'").unwrap_err().to_string().contains("cannot make a workload"));
        for wrong in
            ["routes = 'p3p'", "blocks = '64Q'", "blocks = -1", "blocks = 1.5", "source = {}"]
        {
            let text = format!("kind = 'sweep'\n{wrong}\n");
            assert!(matches!(parse(&text), Err(TextError::Toml(_))), "{wrong}");
        }
    }

    #[test]
    fn page_examples_agree() {
        let page = include_str!("../../../../docs/bench.md");
        let blocks: Vec<&str> = page.split("```toml\n").skip(1).collect();
        let text = |block: &str| parse(block.split("```").next().unwrap()).expect(block);
        let [short, full] = blocks[..] else { panic!("{} examples", blocks.len()) };
        assert_eq!(text(short), text(full));
    }

    #[test]
    fn what_is_no_workload_is_refused_with_its_reason() {
        for (text, reason) in [
            ("kind = 'sweep'\nsource = ['a']\n", "cannot make a workload of it"),
            ("kind = 'sweep'\nsauce = 1\n", "cannot read a workload"),
            ("schema = 'peerlane.workload/9'\n", "schema"),
            ("kind = ", "cannot read a workload"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
