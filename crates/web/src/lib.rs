//! Peerlane in a page: a request as JSON in, an answer as JSON out.
//!
//! The page gives a pasted text or the bytes of a file; records are those that the program prints with `--json`.
//! Nothing here reads a file, a clock or the network.
#![deny(unsafe_code)]

mod assumed;
mod examined;
mod failure;
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code)]
mod ffi;
mod fix;
mod machine;
mod pair;
mod request;

use peerlane_doctor::difference;
use peerlane_fabric::Fabric;
use peerlane_results::AssumedSetting;
use serde::Serialize;

use assumed::{AssumedMachine, Assumption};
use failure::Failure;
use machine::Given;
use request::{Question, Request};

/// A page that asks: the machine of the last request is kept, since most requests are about the same one.
#[derive(Debug, Default)]
pub struct Session {
    last: Option<(Given, Fabric)>,
    /// The same machine with settings taken as in force.
    assumed: Option<(Assumption, AssumedMachine)>,
}

/// Either outcome of a request.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<T> {
    Ok(T),
    Error(Failure),
}

impl Session {
    /// Answers a request; what cannot be answered is an object with `error`.
    pub fn answer(&mut self, request: &str) -> String {
        let answer = match serde_json::from_str(request) {
            Ok(request) => self.reply(request),
            Err(error) => Err(Failure::new(&error, None)),
        };
        let text = match answer {
            Ok(text) => return text,
            Err(failure) => serde_json::to_string(&Answer::<()>::Error(failure)),
        };
        text.unwrap_or_else(|error| format!(r#"{{"error":{{"message":"{error}","causes":[]}}}}"#))
    }

    fn reply(&mut self, request: Request) -> Result<String, Failure> {
        let Request { machine, assume, question } = request;
        let given = machine.or_else(|| self.last.as_ref().map(|(given, _)| given.clone()));
        let given = given.ok_or_else(Failure::no_machine)?;
        if let Question::Scrub = question {
            return json(&machine::scrubbed(&given)?);
        }
        let described = self.machine(given)?;
        if let Question::Fix = question {
            return json(&fix::files(described));
        }
        let (fabric, settings) = match assume {
            Some(assumption) => self.with(assumption)?,
            None => (described, Vec::new()),
        };
        match question {
            Question::Examine => json(&examined::examine(fabric, settings)),
            Question::Pair { ends, guest } => json(&pair::answer(fabric, &ends, guest)?),
            Question::Diff { other } => json(&difference::record(fabric, &machine::read(&other)?)),
            Question::Nccl => json(&fix::nccl(fabric)?),
            Question::Svg => json(&peerlane_report::machine::svg(fabric)),
            Question::Fix | Question::Scrub => Err(Failure::no_machine()),
        }
    }

    /// The machine of a request, read where it is not that of the last one.
    fn machine(&mut self, given: Given) -> Result<&Fabric, Failure> {
        let known = self.last.take().filter(|(last, _)| *last == given);
        let entry = match known {
            Some(entry) => entry,
            None => {
                self.assumed = None;
                let fabric = machine::read(&given)?;
                (given, fabric)
            }
        };
        Ok(&self.last.insert(entry).1)
    }

    /// The same with settings taken as in force, and what these do.
    fn with(&mut self, assumption: Assumption) -> Result<(&Fabric, Vec<AssumedSetting>), Failure> {
        let known = self.assumed.take().filter(|(last, _)| *last == assumption);
        let entry = match (known, &self.last) {
            (Some(entry), _) => entry,
            (None, Some((_, fabric))) => {
                let machine = AssumedMachine::new(fabric, &assumption)?;
                (assumption, machine)
            }
            (None, None) => return Err(Failure::no_machine()),
        };
        let (_, machine) = self.assumed.insert(entry);
        Ok((&machine.fabric, machine.settings.clone()))
    }
}

/// Answers a single request.
pub fn answer(request: &str) -> String {
    Session::default().answer(request)
}

fn json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(&Answer::Ok(answer)).map_err(|error| Failure::new(&error, None))
}
