use std::path::{Path, PathBuf};

use peerlane_units::Bytes;

use super::*;
use crate::drives;

const PAIR: &str = r#"
name = "pair"
iommu = "off"
[[function]]
name = "root"
kind = "root-port"
[[function]]
name = "switch"
kind = "upstream-port"
under = "root"
[[function]]
name = "down-a"
kind = "downstream-port"
under = "switch"
[[function]]
name = "down-c"
kind = "downstream-port"
under = "switch"
[[function]]
name = "a"
kind = "nvme"
under = "down-a"
size = "64M"
[[function]]
name = "c"
kind = "nvme"
under = "down-c"
size = "32M"
cmb = "64M"
block_size = 4096
"#;

fn fabric(text: &str) -> Fabric {
    Fabric::from_toml(text).expect("machine")
}

fn kernel(release: &str) -> KernelImage {
    KernelImage { image: PathBuf::from("/vmlinuz"), release: release.to_owned(), modules: None }
}

fn build_on(text: &str, release: &str, features: QemuFeatures) -> Result<VirtualMachine, LabError> {
    let machine = fabric(text);
    let folder = tempfile::tempdir().expect("folder");
    let drives = drives::prepare(&machine, &[], folder.path())?;
    let cards = crate::cards::prepare(&machine, &Vec::new(), folder.path())?;
    build(&machine, &drives, &cards, &kernel(release), features)
}

fn built(text: &str) -> VirtualMachine {
    build_on(text, "7.2.13", QemuFeatures::default()).expect("virtual machine")
}

/// Values of an option, in order.
fn values<'a>(machine: &'a VirtualMachine, option: &str) -> Vec<&'a str> {
    machine
        .arguments
        .windows(2)
        .filter(|pair| pair[0] == option)
        .map(|pair| pair[1].as_str())
        .collect()
}

fn refusal(text: &str) -> String {
    build_on(text, "7.2.13", QemuFeatures::default()).expect_err("refused").to_string()
}

#[test]
fn a_switch_becomes_these_devices() {
    let machine = built(PAIR);
    let devices = values(&machine, "-device");
    assert_eq!(
        devices[..9],
        [
            "pcie-root-port,id=fn0,bus=pcie.0,addr=02.0,slot=1,chassis=1",
            "x3130-upstream,id=fn1,bus=fn0,addr=00.0",
            "xio3130-downstream,id=fn2,bus=fn1,addr=00.0,slot=3,chassis=3",
            "xio3130-downstream,id=fn3,bus=fn1,addr=01.0,slot=4,chassis=4",
            "nvme,id=fn4,bus=fn2,addr=00.0,serial=a",
            "nvme-ns,drive=drive1,bus=fn4,nsid=1,logical_block_size=512,physical_block_size=512",
            "nvme,id=fn5,bus=fn3,addr=00.0,serial=c,cmb_size_mb=64",
            "nvme-ns,drive=drive2,bus=fn5,nsid=2,logical_block_size=4096,physical_block_size=4096",
            "virtio-serial-pci,id=ports,bus=pcie.0,addr=1d.0",
        ]
    );
    assert_eq!(values(&machine, "-m"), ["1024M"]);
    assert_eq!(values(&machine, "-cpu"), ["max,erms=off,fsrm=off,la57=off,smap=off"]);
    let base = [
        "console=ttyS0",
        "quiet",
        "panic=-1",
        "no_timer_check",
        "cryptomgr.notests",
        "initcall_blacklist=load_system_certificate_list",
        "rdinit=/init",
    ];
    assert_eq!(machine.kernel_parameters, base);
}

#[test]
fn versions_choose_bounce_buffers_and_multipath() {
    let features = QemuFeatures { nvme_bounce_buffer: true, root_port_disable_acs: false };
    let machine = build_on(PAIR, "6.18.15", features).expect("virtual machine");
    let nvme: Vec<_> =
        values(&machine, "-device").into_iter().filter(|d| d.starts_with("nvme,")).collect();
    assert!(nvme.iter().all(|device| device.ends_with(",x-max-bounce-buffer-size=16M")));
    assert!(machine.kernel_parameters.contains(&"nvme_core.multipath=N".to_owned()));
}

#[test]
fn several_controllers_share_a_subsystem() {
    let text = PAIR.replacen("kind = \"nvme\"\n", "kind = \"nvme\"\nmultipath = true\n", 1);
    let machine = build_on(&text, "6.8.0", QemuFeatures::default()).expect("virtual machine");
    let devices = values(&machine, "-device");
    assert_eq!(devices[4], "nvme-subsys,id=subsystem-fn4,nqn=a");
    assert_eq!(devices[5], "nvme,id=fn4,bus=fn2,addr=00.0,serial=a,subsys=subsystem-fn4");
    assert!(!machine.kernel_parameters.iter().any(|word| word.contains("multipath")));
}

#[test]
fn acs_is_set_by_path() {
    let text =
        PAIR.replacen("under = \"switch\"\n", "under = \"switch\"\nacs = { control = 0x1d }\n", 1);
    let machine = built(&text);
    let devices = values(&machine, "-device");
    assert_eq!(devices[2], "pcie-root-port,id=fn2,bus=fn1,addr=00.0,slot=3,chassis=3");
    let parameter = "pci=config_acs=0011101@00:02.0/00.0/00.0";
    assert!(machine.kernel_parameters.contains(&parameter.to_owned()), "{machine:?}");

    let error = build_on(&text, "6.8.0", QemuFeatures::default()).expect_err("too old");
    assert!(error.to_string().contains("kernel 6.8.0 cannot set ACS"), "{error}");

    let own = "[lab]\nkernel_args = [\"pci=config_acs=0011101@pci:1b36:000c\"]\n[[function]]\n";
    let text = PAIR.replacen("[[function]]\n", own, 1);
    build_on(&text, "7.2.0", QemuFeatures::default()).expect("new enough");
    let error = build_on(&text, "6.8.0", QemuFeatures::default()).expect_err("too old");
    assert!(error.to_string().contains("which kernel 6.8.0 cannot"), "{error}");
}

#[test]
fn acs_is_set_only_where_needed() {
    let sets_acs = |machine: &VirtualMachine| {
        machine.kernel_parameters.iter().any(|word| word.contains("config_acs="))
    };
    for (control, is_asked) in [("0x1d", false), ("0x00", true)] {
        let port = format!("under = \"switch\"\nacs = {{ control = {control} }}\n");
        let text =
            PAIR.replacen("under = \"switch\"\n", &port, 1).replace("\"off\"", "\"passthrough\"");
        assert_eq!(sets_acs(&built(&text)), is_asked, "{control}");
        let own = "[lab]\nkernel_args = [\"pci=disable_acs_redir=pci:1b36:000c\"]\n[[function]]\n";
        let text = text.replacen("[[function]]\n", own, 1);
        assert!(text.contains("disable_acs_redir"), "{text}");
        assert!(!sets_acs(&built(&text)), "{control}: the machine's own parameter is what counts");
    }
}

#[test]
fn iommu_comes_first_with_its_parameters() {
    for (mode, passthrough) in [("passthrough", true), ("translating", false)] {
        let machine = built(&PAIR.replace("\"off\"", &format!("\"{mode}\"")));
        assert_eq!(values(&machine, "-device")[0], "intel-iommu,intremap=off");
        assert_eq!(values(&machine, "-machine"), ["q35,kernel-irqchip=split"]);
        assert!(machine.kernel_parameters.contains(&"intel_iommu=on".to_owned()));
        assert_eq!(machine.kernel_parameters.contains(&"iommu=pt".to_owned()), passthrough);
    }
}

#[test]
fn functions_of_device_share_slot() {
    let text = PAIR.replace("under = \"down-c\"", "under = \"down-a\"");
    let machine = built(&text);
    let devices = values(&machine, "-device").join("\n");
    assert!(devices.contains("nvme,id=fn4,bus=fn2,addr=00.0,multifunction=on,serial=a"));
    assert!(devices.contains("nvme,id=fn5,bus=fn2,addr=00.1,multifunction=on,serial=c"));
}

#[test]
fn described_root_address_is_kept() {
    let root = "kind = \"root-port\"\n";
    let text = PAIR.replacen(root, &format!("{root}address = \"0000:00:0a.0\"\n"), 1);
    assert!(values(&built(&text), "-device")[0].contains("bus=pcie.0,addr=0a.0,"));
    let text = PAIR.replacen(root, &format!("{root}address = \"0000:00:1f.0\"\n"), 1);
    assert!(refusal(&text).contains("slot 1f of the root bus"));
}

const CARD: &str = "[[function]]\nname = \"card\"\nkind = \"other\"\nunder = \"down-a\"\n\
                    p2pmem = { size = \"64M\" }\nram_bar = true\n";

#[test]
fn card_is_file_memory_with_path() {
    let machine = fabric(&format!("{PAIR}{CARD}"));
    let folder = tempfile::tempdir().expect("folder");
    let cards = cards::prepare(&machine, &Vec::new(), folder.path()).expect("cards");
    let built = build(&machine, &[], &cards, &kernel("7.2.13"), QemuFeatures::default());
    let built = built.expect("virtual machine");
    let memory = folder.path().join("memory-card.img");
    assert_eq!(std::fs::metadata(&memory).expect("its memory").len(), Bytes::mib(64).0);
    let object = format!(
        "memory-backend-file,id=memory-fn6,size=67108864,share=on,mem-path={}",
        memory.display()
    );
    assert_eq!(values(&built, "-object"), [object]);
    let device = "ivshmem-plain,id=fn6,bus=fn2,addr=00.1,multifunction=on,memdev=memory-fn6";
    assert!(values(&built, "-device").contains(&device), "{built:?}");
    assert_eq!(built.cards, [("card".to_owned(), "00:02.0/00.0/00.0/00.1".to_owned())]);
}

#[test]
fn card_memory_must_fit() {
    let machine = fabric(&format!("{PAIR}{CARD}"));
    let folder = tempfile::tempdir().expect("folder");
    let image = folder.path().join("short");
    std::fs::write(&image, [0; 4096]).expect("image");
    let given = vec![("card".to_owned(), image.clone()), ("a".to_owned(), image.clone())];
    let (memories, images) = cards::part(&machine, &given);
    assert_eq!((memories.len(), images.len()), (1, 1));
    let refused = |memories: &cards::Images| {
        cards::prepare(&machine, memories, folder.path()).expect_err("refused").to_string()
    };
    assert!(refused(&memories).contains("4096 bytes, and the card's memory has 67108864"));
    let twice = [memories.clone(), memories].concat();
    assert!(refused(&twice).contains("given twice"));
    let small = format!("{PAIR}{CARD}").replace("64M\" }\nram", "48M\" }\nram");
    assert!(refusal(&small).contains("power of two"), "{}", refusal(&small));
}

#[test]
fn unsupported_functions_are_refused_by_name() {
    let gpu = format!("{PAIR}[[function]]\nname = \"gpu\"\nkind = \"gpu\"\nunder = \"down-a\"\n");
    assert!(refusal(&gpu).contains("cannot emulate gpu of machine pair"));
    assert!(can_boot(&fabric(&gpu)).is_err());
    assert!(refusal(&PAIR.replace("cmb = \"64M\"", "cmb = \"48M\"")).contains("power of two"));
    let loose = PAIR.replacen("under = \"switch\"", "under = \"root\"", 1);
    assert!(refusal(&loose).contains("cannot hang there"));
    let further = PAIR
        .replacen(
            "[[function]]",
            "[[host_bridge]]\nname = \"one\"\n[[host_bridge]]\nname = \"two\"\n[[function]]",
            1,
        )
        .replacen("kind = \"root-port\"", "kind = \"root-port\"\nunder = \"one\"", 1)
        .replacen("under = \"down-a\"", "under = \"two\"", 1);
    assert!(refusal(&further).contains("take ports alone"));
    let long = PAIR.replace("name = \"a\"", "name = \"a-name-of-more-than-20-letters\"");
    assert!(refusal(&long).contains("becomes its serial"));
}

#[test]
fn drives_and_images_must_fit() {
    let machine = fabric(PAIR);
    let folder = tempfile::tempdir().expect("folder");
    let image = folder.path().join("disk, with comma.img");
    std::fs::write(&image, [0; 4096]).expect("image");
    let refused = |name: &str, image: &Path| {
        let scratch = tempfile::tempdir().expect("folder");
        drives::prepare(&machine, &[(name.to_owned(), image.to_owned())], scratch.path())
            .expect_err("refused")
            .to_string()
    };
    assert!(refused("x", &image).contains("no such drive, it has: a, c"));
    assert!(refused("a", Path::new("/nowhere.img")).contains("No such file"));
    std::fs::write(folder.path().join("odd"), [0; 1000]).expect("image");
    assert!(
        refused("a", &folder.path().join("odd")).contains("not a whole number of blocks of 512")
    );

    let given = [("a".to_owned(), image.clone())];
    let drives = drives::prepare(&machine, &given, folder.path()).expect("drives");
    let scratch = drives[1].namespace.as_ref().expect("scratch image");
    assert_eq!(std::fs::metadata(&scratch.image).expect("image").len(), Bytes::mib(32).0);
    let machine = build(&machine, &drives, &[], &kernel("7.2"), QemuFeatures::default());
    let machine = machine.expect("virtual machine");
    assert!(values(&machine, "-drive")[0].contains("disk,, with comma.img,format=raw"));
}

#[test]
fn shipped_lab_machines_can_be_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut built = 0;
    for entry in std::fs::read_dir(folder).expect("machines") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("machine file");
        if fabric(&text).lab.is_some() {
            let machine = build_on(&text, "7.2.13", QemuFeatures::default());
            assert!(machine.is_ok(), "{}: {machine:?}", path.display());
            assert!(can_boot(&fabric(&text)).is_ok(), "{}", path.display());
            built += 1;
        }
    }
    assert!(built >= 5, "{built}");
}

#[test]
fn host_device_is_refused_as_image() {
    let scratch = tempfile::tempdir().expect("folder");
    let machine = Fabric::from_toml(PAIR).expect("fabric");
    // A character device is there without root; a block device only on some machines.
    let disks = std::fs::read_dir("/dev").expect("/dev").filter_map(|entry| {
        let entry = entry.ok()?;
        std::os::unix::fs::FileTypeExt::is_block_device(&entry.file_type().ok()?)
            .then(|| entry.path())
    });
    let others = ["/dev/zero", "/dev"].map(std::path::PathBuf::from);
    for image in disks.take(1).chain(others) {
        let given = [("a".to_owned(), image.clone())];
        let error = drives::prepare(&machine, &given, scratch.path()).expect_err("refused");
        let text = error.to_string();
        assert!(text.contains(&image.display().to_string()), "{text}");
        assert!(text.contains("an image is a regular file"), "{text}");
        assert!(error.hint().is_some_and(|hint| hint.contains("copy a device to a file")));
    }
}

#[test]
fn file_behind_two_drives_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let machine = Fabric::from_toml(PAIR).expect("fabric");
    let (image, link) = (folder.path().join("image"), folder.path().join("link"));
    std::fs::File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("image");
    std::fs::hard_link(&image, &link).expect("link");
    let given = [("a".to_owned(), image), ("c".to_owned(), link)];
    let error = drives::prepare(&machine, &given, folder.path()).expect_err("refused");
    assert!(error.to_string().contains("drive `a` has the same file"), "{error}");
}

#[test]
fn pasted_text_without_acs_is_refused() {
    let refused = |change: &dyn Fn(&mut Fabric)| {
        let mut machine = fabric(PAIR);
        machine.origin = peerlane_fabric::Origin::Text;
        change(&mut machine);
        let folder = tempfile::tempdir().expect("folder");
        let built = drives::prepare(&machine, &[], folder.path()).and_then(|drives| {
            build(&machine, &drives, &[], &kernel("7.2.13"), QemuFeatures::default())
        });
        built.map(drop).map_err(|error| (error.to_string(), error.hint().unwrap_or_default()))
    };
    assert_eq!(refused(&|_| {}), Ok(()));
    let port = |machine: &mut Fabric| machine.functions[2].acs = Acs::Unknown;
    let (said, hint) = refused(&port).unwrap_err();
    assert!(said.contains("emulate down-a") && said.contains("state `acs`"), "{said}");
    assert!(hint.contains("--format toml"), "{hint}");
    let drive = |machine: &mut Fabric| {
        machine.functions[4].nvme.as_mut().expect("a drive").namespaces.clear();
    };
    let (said, _) = refused(&drive).unwrap_err();
    assert!(said.contains("emulate a of") && said.contains("state `size`"), "{said}");
}
