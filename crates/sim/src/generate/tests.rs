use super::scenarios::{FAMILIES, scenario};
use super::*;

#[test]
fn machines_have_the_devices_that_were_asked_for_and_paths_within_groups() {
    for machine in [tree(3), tree(100), servers(4), pods(3, 7)] {
        let mut draws = Draws::new(1);
        for _ in 0..50 {
            let (source, target) = machine.pair(&mut draws);
            assert!(machine.topology.path(source, target).is_ok());
        }
    }
    assert_eq!(tree(100).groups[0].len(), 100);
    assert_eq!(servers(4).groups.iter().map(Vec::len).sum::<usize>(), 64);
}

#[test]
fn the_same_seed_gives_the_same_case_and_another_one_another() {
    for family in FAMILIES {
        let (one, same, other) = (scenario(family, 3), scenario(family, 3), scenario(family, 4));
        assert_eq!((&one.topology, &one.flows), (&same.topology, &same.flows));
        assert_ne!((&one.topology, &one.flows), (&other.topology, &other.flows), "{family}");
    }
}
