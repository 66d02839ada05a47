//! Output of other programs that people take for a machine, recognised by its content.

/// A text that no machine is read from, and the command to run instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is {program}, which is not read")]
pub struct OtherProgram {
    /// The program, in words.
    pub program: &'static str,
    run: Instead,
}

/// Commands whose output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// The whole output of `lspci`, or a capture.
    Lspci,
    /// The same, and the matrix of NVIDIA's tool.
    LspciAndMatrix,
    /// A dump of the topology.
    Topology,
    /// A machine file, written by Peerlane itself.
    MachineFile,
}

/// A program, the command to run instead, and the test of a text.
type Sign = (&'static str, Instead, fn(&str) -> bool);

/// Lines looked at: a prompt or a banner may stand before the output.
const LINES: usize = 200;

const SIGNS: [Sign; 16] = [
    ("XML of hwloc (lstopo)", Instead::Lspci, |text| {
        has_element(text, "topology") && has_element(text, "object")
    }),
    ("XML of a graph of NCCL (NCCL_GRAPH_DUMP_FILE)", Instead::Topology, |text| {
        has_element(text, "graphs")
    }),
    ("XML of lshw", Instead::Lspci, |text| has_element(text, "node") && text.contains("lshw")),
    ("XML of nvidia-smi", Instead::LspciAndMatrix, |text| has_element(text, "nvidia_smi_log")),
    ("XML of libvirt", Instead::Lspci, |text| {
        has_element(text, "domain") || has_element(text, "capabilities")
    }),
    ("a record or report of Peerlane", Instead::MachineFile, |text| {
        is_json(text) && text.contains("\"peerlane.")
    }),
    ("JSON", Instead::Lspci, is_json),
    ("output of `lspci -mm`", Instead::Lspci, |text| any_line(text, is_quoted_function)),
    ("output of `lspci -vmm`", Instead::Lspci, |text| {
        any_line(text, |line| line.starts_with("Class:\t"))
            && any_line(text, |line| line.starts_with("Vendor:\t"))
    }),
    ("output of `pciconf -l`", Instead::Lspci, |text| {
        any_line(text, |line| line.contains("@pci") && line.contains("class=0x"))
    }),
    ("output of `nvidia-smi -q`", Instead::LspciAndMatrix, |text| text.contains("NVSMI LOG")),
    ("output of `nvidia-smi`", Instead::LspciAndMatrix, |text| {
        any_line(text, |line| line.contains("NVIDIA-SMI") && line.contains("Driver Version"))
            || any_line(text, |line| line.starts_with("GPU 0: NVIDIA"))
    }),
    ("output of `rocm-smi`", Instead::Lspci, |text| {
        any_line(text, |line| line.contains("ROCm System Management Interface"))
    }),
    ("output of `lshw`", Instead::Lspci, |text| {
        any_line(text, |line| line.starts_with("*-core") || line.starts_with("H/W path"))
    }),
    ("output of `ibv_devinfo` or `ibstat`", Instead::Lspci, |text| {
        any_line(text, |line| line.starts_with("hca_id:") || line.starts_with("CA type:"))
    }),
    ("output of `dmidecode`", Instead::Lspci, |text| {
        any_line(text, |line| line.starts_with("# dmidecode"))
    }),
];

impl OtherProgram {
    /// The program that wrote a text, if it is a known one.
    pub(super) fn new(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let (program, run, _) = *SIGNS.iter().find(|(_, _, is_it)| is_it(text))?;
        Some(Self { program, run })
    }

    /// The commands to run instead.
    pub fn hint(self) -> String {
        const LSPCI: &str = "run `sudo lspci -Dvvvnn > lspci.txt`";
        const CAPTURE: &str = "or `sudo peerlane capture -o machine.tar.zst`";
        match self.run {
            Instead::Lspci => format!("{LSPCI}, {CAPTURE}"),
            Instead::LspciAndMatrix => {
                format!("{LSPCI}, then `nvidia-smi topo -m >> lspci.txt`; {CAPTURE}")
            }
            Instead::Topology => {
                "run `NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 2`".to_owned()
            }
            Instead::MachineFile => {
                "run `peerlane topo --format toml > machine.toml` on that machine".to_owned()
            }
        }
    }
}

fn any_line(text: &str, is_it: impl Fn(&str) -> bool) -> bool {
    text.lines().take(LINES).any(|line| is_it(line.trim()))
}

/// Returns whether an XML text has an element of a name.
fn has_element(text: &str, name: &str) -> bool {
    let is_end = |rest: &str| rest.starts_with(|c: char| c.is_whitespace() || ">/".contains(c));
    text.trim_start().starts_with('<')
        && text
            .match_indices('<')
            .any(|(at, _)| text[at + 1..].strip_prefix(name).is_some_and(is_end))
}

/// Returns whether a text is an object or a list of JSON; a table of TOML begins with a bracket, too.
fn is_json(text: &str) -> bool {
    let text = text.trim();
    let after = |open| text.strip_prefix(open).map(|rest| rest.trim_start().chars().next());
    let is_object = after('{').is_some_and(|next| matches!(next, Some('"' | '}')));
    let is_list = after('[').is_some_and(|next| matches!(next, Some('{' | '"')));
    (is_object && text.ends_with('}')) || (is_list && text.ends_with(']'))
}

/// Returns whether a line is `00:1f.0 "ISA bridge" "Intel Corporation" "Device 7a06"`.
fn is_quoted_function(line: &str) -> bool {
    let Some((address, rest)) = line.split_once(' ') else { return false };
    let is_short = address.len() >= "00:00.0".len() && address.contains(':');
    let address = if address.matches(':').count() == 1 {
        format!("0000:{address}")
    } else {
        address.to_owned()
    };
    is_short && rest.starts_with('"') && address.parse::<crate::Bdf>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of each program's output.
    const TEXTS: [(&str, &str); 19] = [
        (
            "XML of hwloc (lstopo)",
            "<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object type=\"Machine\"/>",
        ),
        (
            "XML of a graph of NCCL (NCCL_GRAPH_DUMP_FILE)",
            "<graphs version=\"1\">\n<graph id=\"0\"/>",
        ),
        ("XML of lshw", "<!-- generated by lshw -->\n<list><node id=\"h\"/></list>"),
        ("XML of nvidia-smi", "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>"),
        ("XML of libvirt", "<domain type='kvm'>"),
        ("a record or report of Peerlane", "{\n  \"schema\": \"peerlane.topo/1\"\n}\n"),
        ("JSON", "{\"blockdevices\": []}"),
        ("JSON", "[\n{\"id\": \"core\"}\n]"),
        (
            "output of `lspci -mm`",
            "00:1f.0 \"ISA bridge\" \"Intel Corporation\" \"Device 7a06\" -r11",
        ),
        ("output of `lspci -mm`", "0001:00:1f.0 \"0601\" \"8086\" \"7a06\""),
        ("output of `lspci -vmm`", "Device:\tx\nClass:\tISA bridge\nVendor:\tIntel Corporation\n"),
        (
            "output of `pciconf -l`",
            "hostb0@pci0:0:0:0:\tclass=0x060000 rev=0x00 hdr=0x00 vendor=0x8086",
        ),
        ("output of `nvidia-smi -q`", "\n==============NVSMI LOG==============\n\nTimestamp : x"),
        ("output of `nvidia-smi`", "+----+\n| NVIDIA-SMI 580.65  Driver Version: 580.65  CUDA"),
        ("output of `nvidia-smi`", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)"),
        ("output of `rocm-smi`", "==== ROCm System Management Interface ====\n"),
        ("output of `lshw`", "host\n    description: Computer\n  *-core\n"),
        ("output of `ibv_devinfo` or `ibstat`", "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n"),
        ("output of `dmidecode`", "# dmidecode 3.3\nGetting SMBIOS data from sysfs.\n"),
    ];

    #[test]
    fn programs_are_known_by_output() {
        for (program, text) in TEXTS {
            for text in [text.to_owned(), format!("\u{feff}{text}"), format!("\n{text}")] {
                let found = OtherProgram::new(&text).unwrap_or_else(|| panic!("{text}"));
                assert_eq!(found.program, program, "{text}");
                assert!(found.hint().starts_with("run `"), "{}", found.hint());
            }
        }
    }

    #[test]
    fn other_texts_are_of_no_program() {
        for text in [
            "",
            "<system version=\"1\"/>",
            "[[host_bridge]]\nname = \"a\"",
            "[kernel]\nrelease = \"7\"",
            "Dear list, see below",
            "00:1f.0 ISA bridge: Intel",
            "topology and object",
            "{ this is } no JSON",
        ] {
            assert_eq!(OtherProgram::new(text), None, "{text}");
        }
    }
}
