//! Drives of other machines.

use peerlane_fabric::Fabric;

use super::gauge::Gauge;

/// State of the connection to each drive.
pub(super) fn families(fabric: &Fabric) -> Vec<Gauge> {
    let mut live = Gauge::new(
        "peerlane_remote_drive_live",
        "1 if the connection to a drive of another machine is up.",
    );
    for drive in &fabric.remote_drives {
        let address = drive.location.address().unwrap_or_default();
        let labels = [
            ("name", drive.name.as_str()),
            ("transport", &drive.location.transport),
            ("address", &address),
            ("subsystem", drive.location.subsystem.as_deref().unwrap_or_default()),
        ];
        live.add(&labels, drive.state.as_ref().map(|_| u64::from(drive.is_live())));
    }
    vec![live]
}

#[cfg(test)]
mod tests {
    use peerlane_fabric::{NetworkLocation, RemoteDrive};

    use super::*;

    #[test]
    fn lost_connection_is_zero() {
        let drive = |name: &str, state: Option<&str>| RemoteDrive {
            name: name.to_owned(),
            location: NetworkLocation {
                transport: "tcp".to_owned(),
                host: Some("10.0.0.1".to_owned()),
                port: Some("4420".to_owned()),
                subsystem: Some("nqn.lab".to_owned()),
                interface: None,
            },
            state: state.map(str::to_owned),
            namespaces: Vec::new(),
        };
        let mut fabric = Fabric::from_toml("name = 'm'").expect("a machine");
        fabric.remote_drives = vec![
            drive("nvme5", Some("live")),
            drive("nvme6", Some("connecting")),
            drive("a", None),
        ];
        let text: String = families(&fabric).iter().map(ToString::to_string).collect();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let labels = "transport=\"tcp\",address=\"10.0.0.1:4420\",subsystem=\"nqn.lab\"";
        let expected = [("nvme5", 1), ("nvme6", 0)].map(|(name, value)| {
            format!("peerlane_remote_drive_live{{name=\"{name}\",{labels}}} {value}")
        });
        assert_eq!(samples, expected, "an unknown state has no sample");
    }
}
