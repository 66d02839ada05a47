use peerlane_fabric::Fabric;

use super::*;

/// A drive and an NVIDIA GPU below one switch, with all that each way wants.
const SOUND: &str = concat!(
    include_str!("../../../tests/machines/gpu-stack.toml"),
    include_str!("../../../tests/machines/switch.toml"),
    include_str!("../../../tests/machines/gpu.toml"),
);

/// The same switch with other functions below it, one a port.
fn below_switch(acs: &str, one: &str, other: &str) -> String {
    let switch = include_str!("../../../tests/machines/switch.toml");
    format!(
        "name = 'm'\n[kernel]\nrelease = '7.2.13'\np2pdma = true\n\
         {}\n\
         [[function]]\nunder = 'down-a'\n{one}\n[[function]]\nunder = 'down-b'\n{other}\n",
        switch.replacen("under = 'up'\nacs = 'absent'", &format!("under = 'up'\nacs = '{acs}'"), 1)
    )
}

fn asked(text: &str, path: &str, device: &str) -> Result<RouteAnswer, PlanError> {
    let fabric = Fabric::from_toml(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    route_answer(&fabric, path, device)
}

fn answered(text: &str, path: &str, device: &str) -> (RouteWord, String) {
    let answer = asked(text, path, device).expect("an answer");
    assert!(!answer.reason.is_empty() && !answer.reason.contains('\n'), "{answer:?}");
    (answer.word, answer.reason)
}

fn machine(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    std::fs::read_to_string(format!("{folder}/{name}.toml")).expect("a machine file")
}

const AMD: &str = "kind = 'gpu'\nvendor = '0x1002'\ndevice = '0x7550'\ndriver = 'amdgpu'";
const MLX5: &str = "name = 'nic'\nkind = 'nic'\naddress = '0000:03:00.0'\n\
                    driver = 'mlx5_core'\nkernel_names = ['mlx5_0']";

fn amd(number: u32) -> String {
    format!("name = 'gpu-{number}'\naddress = '0000:0{number}:00.0'\n{AMD}")
}

#[test]
fn drives_take_their_plans_route() {
    let (word, reason) = answered(&machine("pair"), "a", "b");
    assert_eq!((word, reason.as_str()), (RouteWord::P2p, "a and b reach cmb:c inside the switch"));
    assert_eq!(answered(&machine("pair"), "/dev/lab/a", "b").0, RouteWord::P2p);
    assert_eq!(answered(&machine("split"), "a", "b").0, RouteWord::Host);
}

#[test]
fn drive_and_gpu_take_plans_route() {
    for (path, device) in [("nvme0", "gpu:0"), ("gpu:0", "nvme0"), ("nvme0n1", "0000:04:00.0")] {
        let (word, reason) = answered(SOUND, path, device);
        assert_eq!(word, RouteWord::P2p, "{reason}");
    }
    let without = SOUND.replace("'libcufile.so.0'", "'libx.so'");
    let (word, reason) = answered(&without, "nvme0", "gpu:0");
    assert_eq!(word, RouteWord::Host);
    assert!(reason.contains("libcufile.so.0 is not installed"), "{reason}");
    let (word, reason) = answered(&without.replace("'libcuda.so.1', ", ""), "nvme0", "gpu:0");
    assert_eq!(word, RouteWord::None);
    assert!(reason.contains("is not installed"), "{reason}");
}

#[test]
fn unread_acs_makes_gpu_pair_unknown() {
    let hidden = SOUND.replacen("under = 'up'\nacs = 'absent'", "under = 'up'\nacs = 'unknown'", 1);
    let (word, reason) = answered(&hidden, "nvme0", "gpu:0");
    assert_eq!(word, RouteWord::Unknown, "{reason}");
    assert!(reason.contains("ACS unknown on down-a") && reason.contains("lspci"), "{reason}");
}

#[test]
fn unserved_drive_has_no_route() {
    let held = SOUND.replace("kind = 'nvme'", "kind = 'nvme'\ndriver = 'vfio-pci'");
    let (word, reason) = answered(&held, "nvme0", "gpu:0");
    assert_eq!(word, RouteWord::None, "{reason}");
    assert!(reason.contains("vfio-pci"), "{reason}");
}

#[test]
fn device_memory_takes_its_plans_route() {
    let (word, reason) = answered(&machine("pair"), "a", "cmb:c");
    assert_eq!((word, reason.as_str()), (RouteWord::P2p, "a reaches cmb:c inside the switch"));
    for word in ["fpga0", "fpga:fpga0"] {
        let (word, reason) = answered(&machine("optiplex-smartssd"), "drive0", word);
        assert_eq!(word, RouteWord::Host);
        assert!(reason.contains("without CONFIG_PCI_P2PDMA"), "{reason}");
    }
}

#[test]
fn refusing_kernel_leads_through_host_memory() {
    let text = below_switch("redirect", &amd(4), MLX5);
    let (word, reason) = answered(&text, "mlx5_0", "gpu:0");
    assert_eq!(word, RouteWord::Host, "{reason}");
    assert!(reason.contains("down-a"), "{reason}");
}

#[test]
fn permitting_kernel_and_driver_give_p2p() {
    let text = below_switch("absent", &amd(4), MLX5);
    let (word, reason) = answered(&text, "mlx5_0", "gpu:0");
    assert_eq!(word, RouteWord::P2p, "{reason}");
    assert!(reason.starts_with("mlx5_0 to memory of gpu:0: the route is direct"), "{reason}");
}

#[test]
fn refusing_driver_leads_through_host_memory() {
    let text = below_switch("absent", &amd(4), MLX5);
    let i915 = text.replace("0x1002", "0x8086").replace("amdgpu", "i915");
    let (word, reason) = answered(&i915, "mlx5_0", "gpu:0000:04:00.0");
    assert_eq!(word, RouteWord::Host);
    assert!(reason.contains("i915 moves every buffer"), "{reason}");
}

#[test]
fn expected_driver_takes_peer_to_peer() {
    let nvidia = amd(4).replace("0x1002", "0x10de").replace("0x7550", "0x2330");
    let nvidia = nvidia.replace("amdgpu", "nvidia");
    let (word, reason) = answered(&below_switch("absent", &nvidia, MLX5), "mlx5_0", "gpu:0");
    assert_eq!(word, RouteWord::P2p, "{reason}");
    assert!(reason.contains("nvidia_peermem"), "{reason}");
    // nvidia-peermem asks no kernel, so nothing says that an unknown root complex forwards.
    let (word, reason) = answered(&below_switch("redirect", &nvidia, MLX5), "mlx5_0", "gpu:0");
    assert_eq!(word, RouteWord::Unknown, "{reason}");
    assert!(reason.contains("prove the route"), "{reason}");
}

#[test]
fn unread_acs_names_its_command() {
    let text = below_switch("unknown", &amd(4), MLX5);
    let (word, reason) = answered(&text, "mlx5_0", "gpu:0");
    assert_eq!(word, RouteWord::Unknown);
    assert!(reason.contains("ACS unknown on down-a") && reason.contains("lspci"), "{reason}");
}

#[test]
fn nvlink_comes_before_pcie() {
    let nvidia = |number| amd(number).replace("0x1002", "0x10de").replace("amdgpu", "nvidia");
    let text = below_switch("redirect", &nvidia(3), &nvidia(4));
    let linked = format!("{text}[[nvlink]]\ngpus = ['gpu-3', 'gpu-4']\nlinks = 4\n");
    let (word, reason) = answered(&linked, "gpu:0", "gpu:1");
    assert_eq!(
        (word, reason.as_str()),
        (RouteWord::P2p, "gpu:0 and gpu:1 are connected by 4 NVLinks")
    );
}

#[test]
fn devices_without_memory_use_host_memory() {
    let second = MLX5.replace("03:", "04:").replace("nic'", "nic-2'").replace("mlx5_0", "mlx5_1");
    let second = second.replace("kind = 'nic-2'", "kind = 'nic'");
    let (word, reason) = answered(&below_switch("absent", MLX5, &second), "mlx5_0", "mlx5_1");
    assert_eq!(word, RouteWord::Host);
    assert!(reason.contains("neither mlx5_0 nor mlx5_1 has memory"), "{reason}");
}

#[test]
fn device_reaches_its_own_memory() {
    let text = below_switch("redirect", &amd(4), MLX5);
    assert_eq!(answered(&text, "gpu:0", "0000:04:00.0").0, RouteWord::P2p);
    assert_eq!(answered(&text, "mlx5_0", "nic").0, RouteWord::Host);
}

#[test]
fn confidential_guest_makes_p2p_unknown() {
    let text = below_switch("absent", &amd(4), MLX5);
    let text = text.replacen("[kernel]", "[environment]\nconfidential = 'tdx'\n[kernel]", 1);
    let (word, reason) = answered(&text, "mlx5_0", "gpu:0");
    assert_eq!(word, RouteWord::Unknown);
    assert!(reason.contains("confidential virtual machine (tdx)"), "{reason}");
}

#[test]
fn words_that_name_nothing_are_errors() {
    for (path, device) in [("nvme0", "gpu:7"), ("nvme0", "eth9"), ("no/such/file", "gpu:0")] {
        let error = asked(SOUND, path, device).expect_err("nothing is called that");
        assert!(error.hint().is_some(), "{error}");
    }
    for (path, device) in [("", "gpu:0"), ("nvme0", "host"), ("cmb:nvme9", "nvme0")] {
        assert!(asked(SOUND, path, device).is_err(), "{path} {device}");
    }
}

#[test]
fn local_files_are_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    std::fs::write(&here, [7; 8192]).expect("a file");
    std::fs::write(&there, [7; 8192]).expect("a file");
    let fabric = Fabric::discover_quietly(Path::new("/")).expect("this machine");
    let words = (here.display().to_string(), there.display().to_string());
    let answer = route_answer(&fabric, &words.0, &words.1).expect("an answer");
    assert!(!answer.reason.is_empty(), "{answer:?}");
    std::fs::remove_file(&there).expect("a file");
    let error = route_answer(&fabric, &words.0, &words.1).expect_err("nothing is there");
    assert!(matches!(error, PlanError::UnknownDevice { .. }), "{error}");
}
