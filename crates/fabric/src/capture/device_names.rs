//! Names of interfaces and nodes that say nothing but where a device is: those that the kernel and
//! systemd make of a number or a PCI address.
//!
//! Everything else is a person's own word, or a hardware address (`enx001b21...`).

/// Whole names, each `#` a number.
const NUMBERED: [&str; 20] = [
    "bnxt_re#",
    "card#",
    "controlD#",
    "efa_#",
    "erdma_#",
    "eth#",
    "hfi#_#",
    "hns_#",
    "ib#",
    "ionic_#",
    "irdma#",
    "mana_#",
    "mlx#_#",
    "qedr#",
    "renderD#",
    "rxe#",
    "siw#",
    "usb#",
    "wlan#",
    "wwan#",
];

/// Kinds of device that systemd names by place (systemd.net-naming-scheme(7)) and rdma-core likewise
/// (`kernel-boot/rdma_rename.c`).
const BY_PLACE: [&str; 8] = ["en", "hfi", "ib", "iw", "opa", "roce", "wl", "ww"];

/// Places: on board, hot-plug slot, device tree, PCI address without and with a domain.
const PLACES: [&str; 6] = ["P#p#s#", "P#s#", "p#s#", "o#", "s#", "d#"];

/// Parts that may follow a place: function, port, virtual function, port of a switch, USB.
const PARTS: [&str; 8] = ["f#", "np#", "n#", "d#", "v#", "r#", "u#", "i#"];

/// More digits than any place has are an address or a date.
const MOST_DIGITS: usize = 5;

/// Returns whether the kernel or systemd makes such a name out of small numbers.
pub(super) fn is_of_the_kernel(name: &str) -> bool {
    let Some(shape) = shape(name) else { return false };
    NUMBERED.contains(&shape.as_str())
        || BY_PLACE.iter().any(|kind| shape.strip_prefix(kind).is_some_and(is_place))
}

/// The name with a `#` for every number; `None` where it can be none of these.
fn shape(name: &str) -> Option<String> {
    let mut shape = String::new();
    let mut digits = 0;
    for letter in name.chars() {
        if letter.is_ascii_digit() {
            digits += 1;
            if digits > MOST_DIGITS {
                return None;
            }
            if digits > 1 {
                continue;
            }
            shape.push('#');
        } else if letter == '#' {
            return None;
        } else {
            digits = 0;
            shape.push(letter);
        }
    }
    Some(shape)
}

fn is_place(shape: &str) -> bool {
    let Some(mut rest) = PLACES.iter().find_map(|place| shape.strip_prefix(place)) else {
        return false;
    };
    while !rest.is_empty() {
        let Some(shorter) = PARTS.iter().find_map(|part| rest.strip_prefix(part)) else {
            return false;
        };
        rest = shorter;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_of_the_kernel;

    #[test]
    fn kernel_names_are_places_and_numbers() {
        for name in [
            "eth0",
            "eno1",
            "eno1np0",
            "ens3f1",
            "enp49s0f1np1",
            "enP2p1s0",
            "wlp3s0",
            "wlan0",
            "ib0",
            "ibp65s0",
            "mlx5_0",
            "mlx5_12",
            "rocep1s0f0",
            "bnxt_re1",
            "renderD128",
            "card1",
            "enp0s20f0u1i1",
            "end0",
            "hfi1_0",
        ] {
            assert!(is_of_the_kernel(name), "{name}");
        }
        for name in [
            "enx001b213c9d4e",
            "wlx00c0ca123456",
            "enterprise-db1-acme",
            "mlx5_bobs-host",
            "mlx5_",
            "eth0-acme",
            "en1",
            "engineering1",
            "ibm1",
            "rocex0",
            "eth20240131",
            "eth0\n",
            "net1",
            "rdma1",
            "",
            "card0 of bob",
            "eth#",
            "enp1s0acme",
        ] {
            assert!(!is_of_the_kernel(name), "{name}");
        }
    }
}
