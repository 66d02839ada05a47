use super::*;

/// Two switches below one host bridge, one of them with a switch below it; a second host bridge on
/// another memory node.
fn machine(acs: &str) -> Fabric {
    let function = |name: &str, kind: &str, under: &str, more: &str| {
        format!("[[function]]\nname = '{name}'\nkind = '{kind}'\nunder = '{under}'\n{more}\n")
    };
    let link = "link = '16GT/s x16'";
    let text = [
        "name = 'm'\n[cpu]\nvendor = 'GenuineIntel'\nfamily = 6\n".to_owned(),
        "[[host_bridge]]\nname = 'one'\nnuma_node = 0\n".to_owned(),
        "[[host_bridge]]\nname = 'two'\nnuma_node = 1\n".to_owned(),
        function("root-a", "root-port", "one", ""),
        function("up-a", "upstream-port", "root-a", link),
        function("down-1", "downstream-port", "up-a", acs),
        function("down-2", "downstream-port", "up-a", ""),
        function("down-3", "downstream-port", "up-a", ""),
        function("gpu-1", "gpu", "down-1", link),
        function("nic-1", "nic", "down-2", "link = '8GT/s x8'"),
        function("up-b", "upstream-port", "down-3", link),
        function("down-4", "downstream-port", "up-b", ""),
        function("gpu-2", "gpu", "down-4", link),
        function("root-b", "root-port", "one", ""),
        function("gpu-3", "gpu", "root-b", link),
        function("root-c", "root-port", "two", ""),
        function("gpu-4", "gpu", "root-c", ""),
    ];
    Fabric::from_toml(&text.concat()).expect("a machine")
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
    assert_eq!(pair(&fabric, "gpu-1", "nic-1").path.turn, Some(Turn::Switch(up)));
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
    assert_eq!(found.turn, Some(Turn::Switch(up)));
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
