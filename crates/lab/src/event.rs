//! Events of a machine while its command runs, at moments that the command itself announces.
//!
//! The command says `peerlane lab moment NAME` in the guest, which returns once the host has done
//! the event of `NAME`; so no clock decides when a fault strikes. A power cut ends the machine at
//! once. Data given to the emulated drives is kept: QEMU's drive has no cache of its own to lose.

use std::str::FromStr;

use crate::LabError;

/// Something that the host does to the running machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEvent {
    /// The moment, as the command in the guest names it.
    pub moment: String,
    /// The event at that moment.
    pub action: MachineAction,
}

/// An event of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineAction {
    /// The drive of this name is pulled out.
    Unplug(String),
    /// The machine loses its power.
    PowerCut,
    /// The link of its network goes down, or comes up.
    Link {
        /// True when it comes up.
        is_up: bool,
    },
}

/// Error for a text that is not an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write MOMENT=unplug:DRIVE, MOMENT=power-cut, MOMENT=link-down or MOMENT=link-up")]
pub struct NotAnEvent;

impl FromStr for HostEvent {
    type Err = NotAnEvent;

    /// Reads `MOMENT=unplug:DRIVE`, `MOMENT=power-cut`, `MOMENT=link-down` or `MOMENT=link-up`.
    fn from_str(text: &str) -> Result<Self, NotAnEvent> {
        let (moment, action) = text.split_once('=').ok_or(NotAnEvent)?;
        let action = match action.split_once(':') {
            Some(("unplug", drive)) if !drive.is_empty() => MachineAction::Unplug(drive.to_owned()),
            None if action == "power-cut" => MachineAction::PowerCut,
            None if action == "link-down" => MachineAction::Link { is_up: false },
            None if action == "link-up" => MachineAction::Link { is_up: true },
            _ => return Err(NotAnEvent),
        };
        if moment.is_empty() || moment.chars().any(char::is_control) {
            return Err(NotAnEvent);
        }
        Ok(Self { moment: moment.to_owned(), action })
    }
}

/// Checks that every event is possible, with the machine's drives by name.
pub(crate) fn check(
    events: &[HostEvent],
    devices: &[(String, String)],
    has_network: bool,
) -> Result<(), LabError> {
    for event in events {
        if matches!(event.action, MachineAction::Link { .. }) && !has_network {
            let reason = "cannot change the link: the machine has no --network";
            return Err(LabError::Usage(reason.to_owned()));
        }
        if let MachineAction::Unplug(drive) = &event.action {
            if !devices.iter().any(|(name, _)| name == drive) {
                let known: Vec<_> = devices.iter().map(|(name, _)| name.as_str()).collect();
                return Err(LabError::Usage(format!(
                    "cannot unplug `{drive}`: the machine has no such drive, it has: {}",
                    known.join(", ")
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_has_moment_and_action() {
        let read = |text: &str| text.parse::<HostEvent>();
        let moment = "half".to_owned();
        let unplug = MachineAction::Unplug("a".to_owned());
        assert_eq!(read("half=unplug:a"), Ok(HostEvent { moment: moment.clone(), action: unplug }));
        let down = MachineAction::Link { is_up: false };
        assert_eq!(read("half=link-down"), Ok(HostEvent { moment: moment.clone(), action: down }));
        assert_eq!(
            read("half=power-cut"),
            Ok(HostEvent { moment, action: MachineAction::PowerCut })
        );
        for wrong in ["half", "=power-cut", "half=", "half=unplug", "half=unplug:", "a=power-cut:b"]
        {
            assert_eq!(read(wrong), Err(NotAnEvent), "{wrong}");
        }
    }

    #[test]
    fn absent_drive_cannot_be_unplugged() {
        let devices = [("a".to_owned(), "fn4".to_owned())];
        let event = |text: &str| [text.parse::<HostEvent>().expect("an event")];
        assert!(check(&event("m=unplug:a"), &devices, false).is_ok());
        assert!(check(&event("m=link-up"), &devices, true).is_ok());
        assert!(check(&event("m=link-down"), &devices, false).is_err());
        let error = check(&event("m=unplug:b"), &devices, false).expect_err("refused");
        assert!(error.to_string().contains("no such drive, it has: a"), "{error}");
    }
}
