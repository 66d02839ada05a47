//! Workloads as TOML: the short form that a person writes, and the full one that names every transfer.

use peerlane_results::{WORKLOAD_SCHEMA, Workload};

use super::{Brief, BriefError};

/// Why a text is no workload.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// It is no TOML, or a field is not what it should be.
    #[error("cannot read a workload")]
    Toml(#[from] Box<toml::de::Error>),
    /// A schema of another version.
    #[error("cannot read a workload of schema `{found}`: this program knows `{WORKLOAD_SCHEMA}`")]
    Schema {
        /// What it says.
        found: String,
    },
    /// It leaves out what its kind needs, or has a number out of its bounds.
    #[error("cannot make a workload of it")]
    Brief(#[from] BriefError),
}

/// Reads either form; the full one begins with its schema.
///
/// # Errors
/// [`TextError`] with the line.
pub fn parse(text: &str) -> Result<Workload, TextError> {
    let table: toml::Table = toml::from_str(text).map_err(Box::new)?;
    match table.get("schema") {
        None => {
            let brief: Brief = toml::from_str(text).map_err(Box::new)?;
            Ok(brief.build()?)
        }
        Some(schema) if schema.as_str() == Some(WORKLOAD_SCHEMA) => {
            let workload = toml::from_str(text).map_err(Box::new)?;
            super::check(&workload)?;
            Ok(workload)
        }
        Some(schema) => Err(TextError::Schema { found: schema.to_string() }),
    }
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
    fn the_short_form_names_every_transfer_and_the_full_one_says_the_same() {
        let workload = parse(SHORT).unwrap();
        let names: Vec<&str> = workload.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["4K p2p", "4K host-serial", "1M p2p", "1M host-serial"]);
        assert_eq!(workload.kind, WorkloadKind::Sweep);
        let flow = &workload.cases[3].flows[0];
        assert_eq!((flow.path, flow.depth, flow.bytes), (Path::HostSerial, 1, Bytes::mib(8)));
        assert_eq!(parse(&print(&workload).unwrap()).unwrap(), workload);
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
