//! The matrix of memories and initiators agrees with the decision on every pair.

use peerlane_fabric::{Fabric, FunctionKind, MemoryKind};
use peerlane_reach::decide;
use peerlane_reach::{Decisions, Detail, Matrix};
use peerlane_units::Bytes;
use proptest::prelude::*;

use crate::random;

fn agrees(fabric: &Fabric, detail: Detail) -> Result<usize, TestCaseError> {
    let matrix = Matrix::new(fabric, detail);
    let mut pairs = 0;
    for (row, cells) in matrix.memories.iter().zip(&matrix.cells) {
        prop_assert_eq!(cells.len(), matrix.initiators.len());
        for (column, cell) in matrix.initiators.iter().zip(cells) {
            for &memory in &row.members {
                for &initiator in &column.members {
                    let are_alone = row.members.len() == 1 && column.members.len() == 1;
                    if memory == initiator && !are_alone {
                        continue;
                    }
                    let reach = decide(fabric, memory, initiator);
                    prop_assert_eq!((cell.map, cell.distance), (reach.map, reach.distance));
                    pairs += 1;
                }
            }
        }
    }
    Ok(pairs)
}

proptest! {
    #[test]
    fn cells_hold_for_every_pair(fabric in random::fabric()) {
        agrees(&fabric, Detail::Each)?;
        agrees(&fabric, Detail::Grouped)?;
        let members = |matrix: &Matrix| {
            let count = |peers: &[peerlane_reach::Peers]| {
                peers.iter().map(|peers| peers.members.len()).sum::<usize>()
            };
            (count(&matrix.memories), count(&matrix.initiators))
        };
        let (each, grouped) = (Matrix::new(&fabric, Detail::Each), Matrix::new(&fabric, Detail::Grouped));
        prop_assert_eq!(members(&each), members(&grouped));
        prop_assert_eq!(members(&each).0, fabric.memories().len());
    }
}

#[test]
fn drives_below_switch_share_a_row() {
    for machine in crate::handmade::all() {
        let pairs = agrees(&machine, Detail::Grouped).unwrap();
        let grouped = Matrix::new(&machine, Detail::Grouped);
        match machine.name.as_str() {
            // Drive and FPGA of each SmartSSD.
            "r7515" => assert_eq!((grouped.memories.len(), grouped.initiators.len()), (10, 10)),
            "arm-server" => assert_eq!((grouped.memories.len(), grouped.initiators.len()), (2, 3)),
            "laptop" | "cloud-vm" => assert_eq!(pairs, 0, "{}", machine.name),
            _ => assert!(pairs > 0, "{}", machine.name),
        }
    }
}

#[test]
fn memories_and_initiators_are_recognised() {
    use crate::handmade::machine;
    let server = machine("r7515");
    let fpgas = server.iter().filter(|(_, one)| one.kind == FunctionKind::Fpga);
    assert_eq!(fpgas.filter(|(id, _)| server.moves_payload(*id)).count(), 10, "not the managers");
    let memories = server.memories();
    assert_eq!(memories.len(), 10);
    assert!(memories.iter().all(|one| one.kind == MemoryKind::Fpga));
    assert!(memories.iter().all(|one| one.size == Some(Bytes(8 << 30))));
    assert!(machine("laptop").memories().is_empty(), "the graphics of the processor");
    let noload = machine("sr635").memories();
    assert_eq!(noload.iter().map(|one| one.kind).collect::<Vec<_>>(), [MemoryKind::P2pMem]);
}

#[test]
fn downgraded_link_is_below_both_ends() {
    let link = |current: &str, maximum: &str, port: &str, kind: &str| {
        let fabric = peerlane_testing::machine(&format!(
            "root root-port link_below = '{port}'
               a {kind} link = {{ current = '{current}', maximum = '{maximum}' }}"
        ));
        let id = fabric.find("a").unwrap();
        (fabric.is_downgraded(id), fabric.may_save_power(id))
    };
    let (gen4, gen3) = ("16GT/s x4", "8GT/s x4");
    assert_eq!(link(gen4, gen4, gen4, "nvme"), (false, false));
    assert_eq!(link(gen3, gen4, gen3, "nvme"), (false, false), "the port can do no more");
    assert_eq!(link("8GT/s x4", gen4, "16GT/s x16", "nvme"), (true, false));
    assert_eq!(link("16GT/s x2", gen4, "16GT/s x16", "nvme"), (true, false));
    assert_eq!(link("2.5GT/s x16", "16GT/s x16", "16GT/s x16", "gpu"), (true, true), "idle");
    assert_eq!(link("16GT/s x8", "16GT/s x16", "16GT/s x16", "gpu"), (true, false), "narrow");
}

#[test]
fn link_speed_is_capped_by_port() {
    let speed = |port: &str, own: &str| {
        let text = format!("root root-port {port}\n a nvme {own}");
        let fabric = peerlane_testing::machine(&text);
        fabric.speed_above(fabric.find("a").unwrap()).map(|speed| speed.to_string())
    };
    let (x2, x4) = ("link_below = '16GT/s x2'", "link = '16GT/s x4'");
    let down = "link = { maximum = '32GT/s x4' }";
    let trained = "link = { current = '8GT/s x4', maximum = '32GT/s x4' }";
    for (port, own, expected) in [
        ("", x4, Some("16GT/s x4")),
        (x2, x4, Some("16GT/s x2")),
        (x2, trained, Some("8GT/s x2")),
        ("", down, Some("32GT/s x4")),
        (x2, down, Some("16GT/s x2")),
        (x2, "", Some("16GT/s x2")),
        ("", "", None),
    ] {
        assert_eq!(speed(port, own).as_deref(), expected, "{port} {own}");
    }
}

#[test]
fn virtual_functions_share_physical_link() {
    let fabric = peerlane_testing::machine(
        "root root-port
           pf nic @0000:03:00.0 link = { current = '8GT/s x4', maximum = '32GT/s x16' }
           vf nic @0000:03:00.1 physical_function = '0000:03:00.0'",
    );
    let speed = fabric.speed_above(fabric.find("vf").unwrap());
    assert_eq!(speed.map(|speed| speed.to_string()).as_deref(), Some("8GT/s x4"));
}

#[test]
fn redirecting_ports_list_every_member() {
    let ports = (0..4).map(|number| {
        format!(
            "
                 down{number} downstream-port acs = 'redirect'
                   gpu{number} gpu acs = 'absent'"
        )
    });
    let fabric = peerlane_testing::machine(&format!(
        "
             root root-port acs = 'absent'
               up upstream-port acs = 'absent'{}",
        ports.collect::<String>()
    ));
    let matrix = Matrix::new(&fabric, Detail::Grouped);
    assert_eq!(matrix.memories.len(), 1, "four GPUs with the same way up");
    let found = Decisions::new(&fabric).redirecting(&matrix.memories[0], &matrix.initiators[0]);
    let names: Vec<&str> = found.iter().map(|&id| fabric.function(id).name.as_str()).collect();
    assert_eq!(names, ["down0", "down1", "down2", "down3"]);
}
