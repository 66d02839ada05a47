//! What happens to a machine while its command runs, at moments that the command itself announces.
//!
//! The command says `peerlane lab moment NAME` in the guest, which returns once the host has done what
//! `NAME` stands for; so no clock decides what a fault meets. A power cut ends the machine at once and
//! keeps what the emulated drives were given: QEMU's drive has no cache of its own that would be lost.

use std::str::FromStr;

use crate::LabError;

/// Something that the host does to the running machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The moment, as the command in the guest names it.
    pub moment: String,
    /// What happens then.
    pub action: Action,
}

/// What can happen to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The drive of this name is pulled out.
    Unplug(String),
    /// The machine loses its power.
    PowerCut,
}

/// Why a text is no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write MOMENT=unplug:DRIVE or MOMENT=power-cut")]
pub struct NotAnEvent;

impl FromStr for Event {
    type Err = NotAnEvent;

    /// Reads `MOMENT=unplug:DRIVE` or `MOMENT=power-cut`.
    fn from_str(text: &str) -> Result<Self, NotAnEvent> {
        let (moment, action) = text.split_once('=').ok_or(NotAnEvent)?;
        let action = match action.split_once(':') {
            Some(("unplug", drive)) if !drive.is_empty() => Action::Unplug(drive.to_owned()),
            None if action == "power-cut" => Action::PowerCut,
            _ => return Err(NotAnEvent),
        };
        if moment.is_empty() || moment.chars().any(char::is_control) {
            return Err(NotAnEvent);
        }
        Ok(Self { moment: moment.to_owned(), action })
    }
}

/// Checks that every event is possible, with the machine's drives by name.
pub(crate) fn check(events: &[Event], devices: &[(String, String)]) -> Result<(), LabError> {
    for event in events {
        if let Action::Unplug(drive) = &event.action {
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
    fn an_event_is_a_moment_and_an_action() {
        let read = |text: &str| text.parse::<Event>();
        let moment = "half".to_owned();
        let unplug = Action::Unplug("a".to_owned());
        assert_eq!(read("half=unplug:a"), Ok(Event { moment: moment.clone(), action: unplug }));
        assert_eq!(read("half=power-cut"), Ok(Event { moment, action: Action::PowerCut }));
        for wrong in ["half", "=power-cut", "half=", "half=unplug", "half=unplug:", "a=power-cut:b"]
        {
            assert_eq!(read(wrong), Err(NotAnEvent), "{wrong}");
        }
    }

    #[test]
    fn a_drive_that_is_not_there_cannot_be_unplugged() {
        let devices = [("a".to_owned(), "fn4".to_owned())];
        let event = |text: &str| [text.parse::<Event>().expect("an event")];
        assert!(check(&event("m=unplug:a"), &devices).is_ok());
        let error = check(&event("m=unplug:b"), &devices).expect_err("refused");
        assert!(error.to_string().contains("no such drive, it has: a"), "{error}");
    }
}
