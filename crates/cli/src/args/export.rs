//! `peerlane export`.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use peerlane_engine::endpoints::NVME_PORT;
use peerlane_nvmet::{AllowedHosts, Listen, Nqn};
use peerlane_units::Nanos;

use super::size;

/// Arguments of `peerlane export`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The drive is held for the kernel's NVMe target until a signal ends the program (Ctrl-C, or `kill`), \
which undoes everything. A drive that is mounted or otherwise in use is refused. Hosts that \
may connect can write to the drive; an NQN is a name and no password, so listen in a network that is \
yours. The export of a killed program serves on: the next `export` removes it, and so does --remove.

Examples:
  peerlane export /dev/nvme0n1 --listen 10.0.0.1 --allow nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427
  peerlane export /dev/nvme0n1 --transport loop --allow any
  peerlane export --list")]
pub(crate) struct ExportArgs {
    /// Drive: a block device or a PCI address
    #[arg(value_name = "DRIVE", required_unless_present_any = ["list", "remove"])]
    pub(crate) drive: Option<String>,
    /// Choose the transport; loop serves this machine only
    #[arg(long, value_name = "TRANSPORT", value_parser = Listen::TRANSPORTS, default_value = "tcp", requires = "drive")]
    pub(crate) transport: String,
    /// Listen on this address, e.g. 10.0.0.1, 10.0.0.1:4421 or fd00::1
    ///
    /// The port is 4420 unless given.
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "drive")]
    listen: Option<SocketAddr>,
    /// Choose the memory between drive and network
    ///
    /// off is host memory; auto is off, and for rdma the P2P memory that the kernel chooses; or a
    /// memory by name (cmb:nvme0) or PCI address.
    #[arg(long, value_name = "MEMORY", default_value = "auto", requires = "drive")]
    p2pmem: String,
    /// Name the subsystem; the default derives from the drive
    #[arg(long, value_name = "NQN", value_parser = Nqn::new, requires = "drive")]
    pub(crate) name: Option<Nqn>,
    /// Allow this host to connect, or any; may be repeated
    ///
    /// `cat /etc/nvme/hostnqn` shows the NQN of a host.
    #[arg(long, value_name = "HOSTNQN|any", value_parser = Nqn::new, required_unless_present_any = ["list", "remove"])]
    allow: Vec<Nqn>,
    /// List exports of this program, with leftovers of killed runs
    #[arg(long, conflicts_with_all = ["drive", "remove"])]
    pub(crate) list: bool,
    /// Remove a leftover of a killed run
    #[arg(long, value_name = "NQN", value_parser = Nqn::new, conflicts_with = "drive")]
    pub(crate) remove: Option<Nqn>,
    /// Treat a request as stuck after TIME without an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = size::duration)]
    timeout: Nanos,
}

/// Memory between drive and network, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskedMemory {
    /// P2P memory for RDMA if some reaches drive and network, else host memory.
    Auto,
    /// Host memory.
    Off,
    /// P2P memory by its name or PCI address.
    Named(String),
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse().or_else(|_| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse().map(|address: IpAddr| SocketAddr::new(address, NVME_PORT))
    });
    match parsed {
        Ok(address) if address.ip().is_unspecified() => {
            Err("name one address of this machine: `ip address` lists them".to_owned())
        }
        Ok(address) if address.port() == 0 => Err("port 0 is not a port".to_owned()),
        Ok(address) => Ok(address),
        Err(_) => {
            Err("write an IP address, or address and port: 10.0.0.1:4420, [fd00::1]:4420"
                .to_owned())
        }
    }
}

impl ExportArgs {
    /// Transport and address; `None` if the address is missing.
    pub(crate) fn listen(&self) -> Option<Listen> {
        Listen::new(&self.transport, self.listen)
    }

    /// True if `--listen` has no effect.
    pub(crate) fn has_idle_address(&self) -> bool {
        self.listen.is_some() && self.listen().is_some_and(|listen| listen.address().is_none())
    }

    /// Memory between drive and network.
    pub(crate) fn memory(&self) -> AskedMemory {
        match self.p2pmem.as_str() {
            "off" => AskedMemory::Off,
            "auto" => AskedMemory::Auto,
            name => AskedMemory::Named(name.to_owned()),
        }
    }

    /// Hosts allowed to connect.
    pub(crate) fn hosts(&self) -> AllowedHosts {
        if self.allow.iter().any(|host| host.as_str() == "any") {
            AllowedHosts::Any
        } else {
            AllowedHosts::These(self.allow.clone())
        }
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_default_port() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1:4420"),
            ("10.0.0.1:5", "10.0.0.1:5"),
            ("fd00::1", "[fd00::1]:4420"),
            ("[fd00::1]", "[fd00::1]:4420"),
            ("[fd00::1]:5", "[fd00::1]:5"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        for text in
            ["", "host", "10.0.0.1:", "10.0.0.1:0", "0.0.0.0", "[::]:4420", "10.0.0.1:99999"]
        {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
