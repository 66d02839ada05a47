//! Moments that the guest announces, and the events that belong to them.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use super::{Devices, monitor};
use crate::LabError;
use crate::event::{HostEvent, MachineAction};
use crate::protocol::DONE;

/// Events by moment, and the moments announced so far.
#[derive(Debug, Default)]
pub(super) struct Moments {
    events: Vec<HostEvent>,
    devices: Devices,
    folder: PathBuf,
    pending: Vec<u8>,
    come: Vec<String>,
    power_cut: Option<String>,
}

impl Moments {
    /// The longest name a guest may send.
    const LONGEST: usize = 64 << 10;

    pub(super) fn new(events: &[HostEvent], devices: Devices, folder: &Path) -> Self {
        Self { events: events.to_vec(), devices, folder: folder.to_owned(), ..Self::default() }
    }

    /// Takes in the guest's bytes and begins the events of their moments; `answers` leads back to
    /// the guest.
    pub(super) fn add(&mut self, bytes: &[u8], answers: &UnixStream) -> Result<(), LabError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > Self::LONGEST {
            let error = io::Error::new(io::ErrorKind::InvalidData, "moment without an end");
            return Err(LabError::os("read the moments of the guest")(error));
        }
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let moment = String::from_utf8_lossy(&line[..end]).into_owned();
            let answers = answers.try_clone().map_err(LabError::os("answer the guest"))?;
            self.begin(moment, answers);
        }
        Ok(())
    }

    fn begin(&mut self, moment: String, mut answers: UnixStream) {
        tracing::debug!(moment, "the guest announces");
        let actions: Vec<MachineAction> = self
            .events
            .iter()
            .filter(|event| event.moment == moment)
            .map(|event| event.action.clone())
            .collect();
        if actions.contains(&MachineAction::PowerCut) {
            self.power_cut = Some(moment);
            return;
        }
        let (folder, devices) = (self.folder.clone(), self.devices.clone());
        let is_known = !actions.is_empty();
        let unknown =
            format!("nothing is to happen at `{moment}`; see `--at` of `peerlane lab run`");
        self.come.push(moment);
        thread::spawn(move || {
            let act = |action: &MachineAction| act(action, &devices, &folder);
            let answer = match actions.iter().try_for_each(act) {
                Ok(()) if is_known => DONE.to_owned(),
                Ok(()) => unknown,
                Err(fault) => fault,
            };
            // A guest that is gone needs no answer.
            let _ = writeln!(answers, "{}", answer.replace('\n', " "));
        });
    }

    /// The moment at which the power is to be cut, once it has come.
    pub(super) fn take_power_cut(&mut self) -> Option<String> {
        self.power_cut.take()
    }

    /// Moments at which something was to happen and that did not come.
    pub(super) fn missed(&self) -> Vec<String> {
        let mut missed: Vec<String> =
            self.events.iter().map(|event| event.moment.clone()).collect();
        missed.retain(|moment| !self.come.contains(moment));
        missed.dedup();
        missed
    }
}

fn act(action: &MachineAction, devices: &Devices, folder: &Path) -> Result<(), String> {
    match action {
        MachineAction::PowerCut => Ok(()),
        MachineAction::Link { is_up } => monitor::set_link(folder, *is_up)
            .map_err(|error| format!("cannot change the link: {error}")),
        MachineAction::Unplug(drive) => {
            let device = devices.iter().find(|(name, _)| name == drive);
            let unplugged = device.map_or(Ok(()), |(_, device)| monitor::unplug(folder, device));
            unplugged.map_err(|error| format!("cannot unplug {drive}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn moments(events: &[&str]) -> (Moments, UnixStream, BufReader<UnixStream>) {
        let events: Vec<HostEvent> =
            events.iter().map(|text| text.parse().expect("an event")).collect();
        let devices = vec![("a".to_owned(), "fn4".to_owned())];
        let (host, guest) = UnixStream::pair().expect("sockets");
        (Moments::new(&events, devices, Path::new("/nowhere")), host, BufReader::new(guest))
    }

    fn answer(guest: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        guest.read_line(&mut line).expect("an answer");
        line
    }

    #[test]
    fn moment_without_event_is_answered() {
        let (mut moments, host, mut guest) = moments(&["half=power-cut"]);
        moments.add(b"ha", &host).expect("short");
        moments.add(b"ve\n", &host).expect("short");
        assert!(answer(&mut guest).contains("nothing is to happen at `have`"));
        assert_eq!(moments.take_power_cut(), None);
        assert_eq!(moments.missed(), ["half"]);
        moments.add(b"half\n", &host).expect("short");
        assert_eq!(moments.take_power_cut().as_deref(), Some("half"));
    }

    #[test]
    fn failed_event_is_reported_to_guest() {
        let (mut moments, host, mut guest) = moments(&["half=unplug:a"]);
        moments.add(b"half\n", &host).expect("short");
        assert!(answer(&mut guest).contains("cannot unplug a"));
        assert_eq!(moments.missed(), [""; 0]);
    }

    #[test]
    fn unterminated_moment_is_refused() {
        let (mut moments, host, _guest) = moments(&[]);
        assert!(moments.add(&vec![b'x'; Moments::LONGEST], &host).is_ok());
        assert!(moments.add(b"x", &host).is_err());
    }
}
