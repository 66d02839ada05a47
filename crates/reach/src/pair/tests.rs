use super::*;

/// Two switches below one host bridge, one of them with a switch below it; a second host bridge on
/// another memory node.
fn machine(acs: &str) -> Fabric {
    peerlane_testing::machine(&format!(
        "cpu = {{ vendor = 'GenuineIntel', family = 6 }}
         one host-bridge numa_node = 0
           root-a root-port
             up-a upstream-port link = '16GT/s x16'
               down-1 downstream-port {acs}
                 gpu-1 gpu link = '16GT/s x16'
               down-2 downstream-port
                 nic-1 nic link = '8GT/s x8'
               down-3 downstream-port
                 up-b upstream-port link = '16GT/s x16'
                   down-4 downstream-port
                     gpu-2 gpu link = '16GT/s x16'
           root-b root-port
             gpu-3 gpu link = '16GT/s x16'
         two host-bridge numa_node = 1
           root-c root-port
             gpu-4 gpu"
    ))
}

fn pair(fabric: &Fabric, first: &str, second: &str) -> Pair {
    let id = |name| fabric.find(name).expect(name);
    Pair::new(fabric, id(first), id(second))
}

#[test]
fn classes_are_those_of_nvidia_smi() {
    let fabric = machine("");
    for (first, second, expected) in [
        ("gpu-1", "gpu-1", PathClass::X),
        ("gpu-1", "nic-1", PathClass::Pix),
        ("gpu-1", "gpu-2", PathClass::Pxb),
        ("gpu-1", "gpu-3", PathClass::Phb),
        ("gpu-1", "gpu-4", PathClass::Sys),
    ] {
        assert_eq!(pair(&fabric, first, second).path.class, Some(expected), "{first} {second}");
    }
}

#[test]
fn unlisted_root_ports_leave_class_open() {
    let mut fabric = machine("");
    fabric.bridges[0].root_bus = peerlane_fabric::RootBus::Partial;
    let path = pair(&fabric, "gpu-1", "gpu-3").path;
    assert_eq!((path.turn, path.class), (Some(Turn::RootComplex), None), "one memory node");
    let class = |first, second| pair(&fabric, first, second).path.class;
    assert_eq!(class("gpu-1", "nic-1"), Some(PathClass::Pix));
    assert_eq!(class("gpu-1", "gpu-4"), Some(PathClass::Sys));
    fabric.bridges[0].numa_node = None;
    let path = pair(&fabric, "gpu-1", "gpu-3").path;
    assert_eq!((path.turn, path.class), (None, None), "perhaps on two sockets");
}

#[test]
fn packets_turn_at_nearest_permitted_node() {
    let fabric = machine("");
    let up = fabric.find("up-a").expect("a switch");
    let below = pair(&fabric, "gpu-1", "nic-1").path;
    assert_eq!((below.turn, below.turn_at), (Some(Turn::Switch), Some(up)));
    assert_eq!(pair(&fabric, "gpu-1", "gpu-3").path.turn, Some(Turn::RootComplex));
    assert_eq!(pair(&fabric, "gpu-1", "gpu-4").path.turn, Some(Turn::SocketLink));
    let redirected = machine("acs = 'redirect'");
    let found = pair(&redirected, "gpu-1", "nic-1").path;
    assert_eq!((found.turn, found.class), (Some(Turn::RootComplex), Some(PathClass::Pix)));
    let hidden = machine("acs = 'unknown'");
    assert_eq!(pair(&hidden, "gpu-1", "nic-1").path.turn, None);
}

#[test]
fn the_slowest_link_bounds_the_path() {
    let fabric = machine("");
    let slowest = pair(&fabric, "gpu-1", "nic-1").path.slowest_link.expect("a link");
    assert_eq!(fabric.function(slowest.function).name, "nic-1");
    assert_eq!(slowest.speed.to_string(), "8GT/s x8");
    let far = pair(&fabric, "gpu-1", "gpu-4").path;
    assert_eq!(far.unknown_links, [fabric.find("gpu-4").expect("a GPU")]);
}

#[test]
fn directions_exist_towards_memory_alone() {
    let fabric = machine("");
    let found = pair(&fabric, "nic-1", "gpu-1");
    assert!(found.forward.is_some() && found.backward.is_none());
    assert!(found.directions().all(|one| one.kernel.is_permitted()));
    let refused = pair(&fabric, "gpu-1", "gpu-3");
    assert_eq!(refused.directions().count(), 2);
    for one in refused.directions() {
        assert!(!one.kernel.is_permitted() && one.kernel.conditions.is_empty());
    }
}

#[test]
fn functions_without_class_may_have_memory() {
    let picture = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n";
    let fabric = peerlane_fabric::lspci::read(picture).expect("a machine");
    let memory = |name| PeerMemory::new(&fabric, fabric.find(name).expect(name));
    assert_eq!(memory("0000:01:00.0"), PeerMemory::Unknown);
    assert_eq!(memory("0000:00:01.0"), PeerMemory::Absent, "a port");
}

#[test]
fn bridges_as_ends_turn_packets_themselves() {
    let fabric = machine("");
    let found = pair(&fabric, "up-a", "gpu-1").path;
    let up = fabric.find("up-a").expect("a switch");
    assert_eq!((found.turn, found.turn_at), (Some(Turn::Switch), Some(up)));
    let slowest = found.slowest_link.expect("a link");
    assert_eq!(fabric.function(slowest.function).name, "gpu-1");
}

#[test]
fn payload_goes_into_gpu_alone() {
    let fabric = Fabric::from_toml(
        "name = 'm'\n[[function]]\nname = 'up'\nkind = 'root-port'\n\
         [[function]]\nname = 'a'\nkind = 'gpu'\nunder = 'up'\n\
         [[function]]\nname = 'b'\nkind = 'nvme'\nunder = 'up'\n\
         p2pmem = { size = '1G', available = '1G', published = true }\n",
    )
    .expect("a machine");
    let [gpu, drive] = ["a", "b"].map(|name| fabric.find(name).expect("a function"));
    let pair = Pair::new(&fabric, gpu, drive);
    assert_eq!(pair.directions().count(), 2);
    let providers: Vec<FunctionId> =
        pair.payload_directions(&fabric).map(|one| one.provider).collect();
    assert_eq!(providers, [gpu]);
}
