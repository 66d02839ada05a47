//! Answers about a pair of memory and drive, and their differences.

use std::collections::BTreeSet;

use peerlane_fabric::{Fabric, FunctionId};
use peerlane_reach::{Fact, MapType};
use peerlane_results::{Plan, Probe, ProbeAnswer};

use super::guest;
use super::notation::MachineForms;

/// The kernel's log about a pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PairLog {
    /// Functions that redirect, as in the parameter that it proposes.
    pub(crate) redirects: BTreeSet<String>,
    /// The host bridge that it does not list; said only where something redirects.
    pub(crate) unlisted: Option<String>,
    /// The pair cannot be used.
    pub(crate) refuses: bool,
}

/// All that was said of one pair.
#[derive(Debug, Clone)]
pub(crate) struct PairVoices {
    pub(crate) memory: String,
    pub(crate) drive: String,
    /// The decision from the description of the machine.
    pub(crate) described: (MapType, Option<u32>),
    /// The decision from the guest's `/sys`.
    pub(crate) decided: (MapType, Option<u32>),
    /// Log expected by that decision.
    pub(crate) due: PairLog,
    /// Verdict of `plan`.
    pub(crate) planned: MapType,
    pub(crate) probe: ProbeAnswer,
    pub(crate) probe_log: PairLog,
    /// True when nvmet took the pair.
    pub(crate) nvmet: bool,
    pub(crate) nvmet_log: PairLog,
    /// Result of the kernel's functions: map type and distance.
    pub(crate) traced: (MapType, i32),
}

impl PairVoices {
    /// Differences between answers, in words.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        let (map, distance) = self.decided;
        let is_permitted = map != MapType::NotSupported;
        let returned = distance.map_or(-1, |hops| i32::try_from(hops).expect("few hops"));
        let probed = match &self.probe {
            ProbeAnswer::Permitted => is_permitted,
            ProbeAnswer::Refused { .. } => !is_permitted,
            ProbeAnswer::Registered { .. } | ProbeAnswer::NotAsked { .. } => false,
        };
        let agree = [
            ("description and /sys", self.described == self.decided),
            ("plan and decision", self.planned == map),
            ("probe and decision", probed),
            ("log of the probe and decision", self.probe_log == self.due),
            ("nvmet and decision", self.nvmet == is_permitted),
            ("log of nvmet and decision", self.nvmet_log == self.due),
            ("traced functions and decision", self.traced == (map, returned)),
        ];
        let differ = agree.into_iter().filter(|(_, agrees)| !agrees);
        differ.map(|(what, _)| format!("{what}: {self:?}")).collect()
    }
}

/// Files that came back from a guest.
pub(crate) struct Answers<'a> {
    /// The machine as asked for.
    pub(crate) description: &'a MachineForms,
    /// A file of the guest's by its name.
    pub(crate) text: &'a dyn Fn(&str) -> String,
}

/// Answers to the drives of a machine without memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoMemory {
    pub(crate) drive: String,
    /// Memories in the plans.
    pub(crate) candidates: usize,
    pub(crate) probes: usize,
    /// The kernel's line about it.
    pub(crate) log: Option<String>,
    /// True when nvmet, told to choose a memory, refused.
    pub(crate) is_refused: bool,
    /// Calls of the traced functions.
    pub(crate) calls: usize,
}

impl NoMemory {
    pub(crate) fn is_in_agreement(&self) -> bool {
        let nothing = (self.candidates, self.probes, self.calls) == (0, 0, 0);
        nothing && self.is_refused && self.log.is_some()
    }
}

impl Answers<'_> {
    /// The guest's machine.
    pub(crate) fn live(&self) -> Fabric {
        Fabric::from_toml(&(self.text)("live.toml")).expect("a machine file")
    }

    /// All pairs, and the contradictions within the plans.
    pub(crate) fn pairs(&self, described: &Fabric) -> (Vec<PairVoices>, Vec<String>) {
        let live = self.live();
        let (plans, probes) = self.plans();
        let mut pairs = Vec::new();
        for memory in &self.description.memories {
            for drive in &self.description.drives {
                pairs.push(self.pair((memory.as_str(), drive.as_str()), described, &live, &probes));
            }
        }
        let problems = plans.iter().flat_map(|plan| distances(plan, &live, &pairs)).collect();
        (pairs, problems)
    }

    /// The drives of a machine without memory.
    pub(crate) fn without_memory(&self) -> Vec<NoMemory> {
        let (plans, probes) = self.plans();
        let is_said = |line: &&str| line.contains("no peer-to-peer memory is available");
        let told = |drive: &String| {
            let text = |kind: &str| (self.text)(&format!("none-{drive}.{kind}"));
            NoMemory {
                drive: drive.clone(),
                candidates: plans.iter().map(|plan| plan.candidates.len()).sum(),
                probes: probes.len(),
                log: text("log").lines().find(is_said).map(str::to_owned),
                is_refused: text("nvmet").trim() == "refused",
                calls: text("trace").lines().count(),
            }
        };
        self.description.drives.iter().map(told).collect()
    }

    fn plans(&self) -> (Vec<Plan>, Vec<Probe>) {
        let (mut plans, mut probes) = (Vec::new(), Vec::new());
        for (name, ..) in guest::plans(&self.description.drives) {
            let text = (self.text)(&format!("{name}.json"));
            let object: serde_json::Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{error}: {}", (self.text)(&format!("{name}.err"))));
            let target = &object["jobs"][0]["targets"][0];
            let found: Vec<Probe> =
                serde_json::from_value(target["probes"].clone()).expect("probes");
            probes.extend(found);
            plans.push(serde_json::from_value(target["plan"].clone()).expect("a plan"));
        }
        (plans, probes)
    }

    fn pair(
        &self,
        (memory, drive): (&str, &str),
        described: &Fabric,
        live: &Fabric,
        probes: &[Probe],
    ) -> PairVoices {
        let known =
            peerlane_reach::decide(described, named(described, memory), named(described, drive));
        let (provider, client) = (with_serial(live, memory), with_serial(live, drive));
        let reach = peerlane_reach::decide(live, provider, client);
        let (from, to) = (live.function(provider), live.function(client));
        let node = format!("/dev/{}", to.nvme.as_ref().map_or("", |nvme| block(nvme)));
        let lent = format!("cmb:{}", from.name);
        let probe = probes
            .iter()
            .find(|probe| probe.memory == lent && probe.endpoint == node)
            .unwrap_or_else(|| panic!("no probe of {lent} by {node}: {probes:?}"));
        let addresses = (address(live, provider), address(live, client));
        let text = |kind: &str| (self.text)(&format!("{memory}-{drive}.{kind}"));
        PairVoices {
            memory: memory.to_owned(),
            drive: drive.to_owned(),
            described: (known.map, known.distance),
            decided: (reach.map, reach.distance),
            due: due(live, &reach),
            planned: probe.predicted,
            probe: probe.answer.clone(),
            probe_log: read_log(&(self.text)("probe.log"), &addresses),
            nvmet: text("nvmet").trim() == "permitted",
            nvmet_log: read_log(&text("log"), &addresses),
            traced: read_trace(&text("trace"), live.kernel.version()),
        }
    }
}

/// Checks the distance of each candidate of a plan, both drives together, against the trace.
fn distances(plan: &Plan, live: &Fabric, pairs: &[PairVoices]) -> Vec<String> {
    let hops = |memory: &Option<String>, drive: &Option<String>| {
        let is = |name: &str, wanted: &Option<String>| {
            Some(address(live, with_serial(live, name))) == *wanted
        };
        let pair = pairs.iter().find(|pair| is(&pair.memory, memory) && is(&pair.drive, drive))?;
        u32::try_from(pair.traced.1).ok()
    };
    let mut problems = Vec::new();
    let mut last = 0;
    for candidate in &plan.candidates {
        let memory = &candidate.memory.address;
        let traced = hops(memory, &plan.source.address)
            .zip(hops(memory, &plan.target.address))
            .map(|(one, other)| one + other);
        if traced != candidate.distance {
            problems.push(format!("the kernel's distance is {traced:?}: {candidate:?}"));
        }
        let Some(distance) = candidate.distance.filter(|_| candidate.refusals.is_empty()) else {
            continue;
        };
        if distance < last {
            problems.push(format!("the nearest memory is not first: {candidate:?}"));
        }
        last = distance;
    }
    problems
}

/// Log expected by a decision (`calc_map_type_and_dist` with `verbose`).
fn due(live: &Fabric, reach: &peerlane_reach::Reach) -> PairLog {
    let mut log = PairLog { refuses: reach.map == MapType::NotSupported, ..PairLog::default() };
    for fact in &reach.facts {
        match fact {
            Fact::AcsRedirect { function, .. } => {
                log.redirects.insert(address(live, named(live, function)));
            }
            Fact::HostBridgeNotListed { vendor, device, .. } if !log.redirects.is_empty() => {
                log.unlisted = Some(format!("{vendor:04x}:{device:04x}"));
            }
            _ => {}
        }
    }
    log
}

/// Reads a log's lines on a memory's and a drive's function.
fn read_log(text: &str, (provider, client): &(String, String)) -> PairLog {
    const REDIRECT: &str = "ACS redirect is set between the client and provider";
    const PARAMETER: &str = "pci=disable_acs_redir=";
    const UNLISTED: &str = "Host bridge not in P2PDMA whitelist: ";
    const REFUSED: &str = "cannot be used for peer-to-peer DMA as the client and provider";
    let mut log = PairLog::default();
    let mut is_ours = false;
    for line in text.lines() {
        let names_both = line.contains(&format!(" {client}: "))
            && line.contains(&format!("provider ({provider})"));
        if line.contains(REDIRECT) {
            is_ours = names_both;
        } else if let Some((_, list)) = line.split_once(PARAMETER).filter(|_| is_ours) {
            log.redirects.extend(list.split(';').map(|word| word.trim().to_owned()));
        } else if let Some((_, bridge)) = line.split_once(UNLISTED).filter(|_| is_ours) {
            log.unlisted = Some(bridge.trim().to_owned());
        } else if line.contains(REFUSED) {
            log.refuses |= names_both;
            is_ours = false;
        }
    }
    log
}

/// Reads the return values of the two functions.
fn read_trace(text: &str, kernel: Option<(u32, u32)>) -> (MapType, i32) {
    let value = |event: &str| -> i32 {
        let mut found = text.lines().filter(|line| line.contains(&format!(" {event}: ")));
        let (line, more) = (found.next(), found.next());
        assert_eq!(more, None, "one question, several answers: {text}");
        let value = line.and_then(|line| line.rsplit_once("value="));
        value.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    // `enum pci_p2pdma_map_type`; Linux 6.16 put PCI_P2PDMA_MAP_NONE before these.
    let first = if kernel >= Some((6, 16)) { 2 } else { 1 };
    let map = match value("map") - first {
        0 => MapType::NotSupported,
        1 => MapType::BusAddress,
        2 => MapType::ThroughHostBridge,
        _ => MapType::Unknown,
    };
    (map, value("distance"))
}

fn named(fabric: &Fabric, name: &str) -> FunctionId {
    let found = fabric.iter().find(|(_, function)| function.name == name);
    found.unwrap_or_else(|| panic!("no function {name}")).0
}

fn with_serial(live: &Fabric, serial: &str) -> FunctionId {
    let is_it = |function: &peerlane_fabric::Function| {
        function.nvme.as_ref().is_some_and(|nvme| nvme.serial.as_deref() == Some(serial))
    };
    let found = live.iter().find(|(_, function)| is_it(function));
    found.unwrap_or_else(|| panic!("no drive {serial}")).0
}

fn address(fabric: &Fabric, id: FunctionId) -> String {
    fabric.function(id).address.map(|address| address.to_string()).unwrap_or_default()
}

fn block(nvme: &peerlane_fabric::NvmeController) -> &str {
    nvme.namespaces.first().and_then(|namespace| namespace.name.as_deref()).unwrap_or_default()
}
