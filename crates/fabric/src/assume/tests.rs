//! Configurations of every form, and their effects.

use std::fs;
use std::path::Path;

use super::*;
use crate::{DriverBinding, IommuMode, QueueLimits};
use peerlane_units::Bytes;

fn parse(text: &str) -> Result<BootConfiguration, BootConfigurationError> {
    BootConfiguration::parse(Path::new("etc/assumed"), text)
}

fn option(module: &str, name: &str, value: &str) -> ModuleOption {
    let value = Some(value.to_owned());
    ModuleOption { module: module.to_owned(), name: name.to_owned(), value }
}

#[test]
fn every_parameter_form_is_read() {
    for text in [
        "quiet pci=realloc,noats iommu=pt",
        "\u{feff}# why\r\n\r\nquiet pci=realloc,noats \\\r\n  iommu=pt\r\n",
        "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX quiet\"\n\
         export GRUB_CMDLINE_LINUX_DEFAULT='pci=realloc,noats iommu=pt' # ours\n",
        "title Linux\nlinux /vmlinuz\noptions quiet pci=realloc,noats iommu=pt $tuned_params\n",
        "options $kernelopts quiet pci=realloc,noats iommu=pt\n",
        "\tlinux /boot/vmlinuz-7 quiet \"pci=realloc,noats\" iommu=pt\n",
    ] {
        let read = parse(text).expect(text);
        assert_eq!(read.parameters, ["quiet", "pci=realloc,noats", "iommu=pt"], "{text}");
        assert_eq!((read.options, read.modules), (vec![], vec![]));
    }
}

#[test]
fn module_options_and_modules_are_read() {
    let text = "blacklist nouveau\noptions nvme_core multipath=N  io_timeout=30\n\
                options nvidia NVreg_RegistryDwords=\"A=1;B=2\"\nmodule nvidia-fs\n";
    let read = parse(text).expect("it is read");
    let expected = [
        option("nvme_core", "multipath", "N"),
        option("nvme_core", "io_timeout", "30"),
        option("nvidia", "NVreg_RegistryDwords", "A=1;B=2"),
    ];
    assert_eq!(read.options, expected);
    assert_eq!(read.modules, ["nvidia-fs"]);
    let path = Path::new("etc/modules-load.d/p2p.conf");
    let read = BootConfiguration::parse(path, "; ours\n nvidia_fs # GDS\n\nnvidia_peermem\n");
    assert_eq!(read.expect("it is read").modules, ["nvidia_fs", "nvidia_peermem"]);
}

#[test]
fn unknown_lines_are_refused_with_advice() {
    for (text, line, reason, hint) in [
        ("quiet\nupdate-grub\n", 2, "`update-grub` is of no known form", "kernel command line"),
        ("echo 0 > /x", 1, "is of no known form", "GRUB_CMDLINE_LINUX"),
        ("kargs = [\"pci=realloc\"]", 1, "is not a kernel parameter", "kernel command line"),
        ("options nvme", 1, "no option of a module", "options MODULE NAME=VALUE"),
        ("module a b", 1, "`a b` is not the name of a module", "module NAME"),
        ("a=\u{7}", 1, "control character 0x07", "kernel command line"),
        (
            "GRUB_CMDLINE_LINUX=\"pci=a;b\"",
            1,
            "ends the kernel's command line at `;`",
            "\\\"pci=a;b\\\"",
        ),
        ("\n\nGRUB_CMDLINE_LINUX=\"quiet", 3, "a quote is not closed", "kernel command line"),
    ] {
        let error = parse(text).expect_err(text);
        let told = format!("cannot understand line {line} of etc/assumed: ");
        assert!(error.to_string().starts_with(&told), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(error.hint().contains(hint), "{}", error.hint());
    }
    let long = format!("a={}", "x".repeat(2048));
    assert!(matches!(parse(&long), Err(BootConfigurationError::TooLong { bytes: 2051, .. })));
}

#[test]
fn folders_are_read_in_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(path, text).expect("it is written");
    };
    assert!(matches!(
        BootConfiguration::read(folder.path()),
        Err(BootConfigurationError::NothingFound { .. })
    ));
    put("etc/default/grub.d/20-b.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX b=2\"\n");
    put("etc/default/grub.d/10-a.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX a=1\"\n");
    put("etc/kernel/cmdline", "c=3\n");
    put("etc/kernel/cmdline.d/d.conf", "d=4\n");
    put("etc/modprobe.d/nvme.conf", "options nvme_core multipath=N\n");
    put("etc/modules-load.d/gds.conf", "nvidia_fs\n");
    put("etc/udev/rules.d/80-acs.rules", "ACTION==\"add\"\n");
    put("README.md", "How to install\n");
    put("etc/modprobe.d/nvme.conf.bak", "nonsense\n");
    let read = BootConfiguration::read(folder.path()).expect("it is read");
    assert_eq!(read.parameters, ["a=1", "b=2", "c=3", "d=4"]);
    assert_eq!(read.options, [option("nvme_core", "multipath", "N")]);
    assert_eq!(read.modules, ["nvidia_fs"]);
    let file = folder.path().join("etc/modules-load.d/gds.conf");
    assert_eq!(BootConfiguration::read(&file).expect("it is read").modules, ["nvidia_fs"]);
    put("etc/modprobe.d/nvme.conf", "options nvme_core\n");
    let error = BootConfiguration::read(folder.path()).expect_err("it is no option");
    assert!(error.to_string().contains("line 1 of ") && error.to_string().contains("nvme.conf"));
}

#[test]
fn files_without_text_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    let error = |content: &[u8]| {
        fs::write(&file, content).expect("it is written");
        BootConfiguration::read(&file).expect_err("it is refused")
    };
    assert!(matches!(error(b"quiet \xff"), BootConfigurationError::NotText { .. }));
    assert!(matches!(error(&[b'#'; 300 << 10]), BootConfigurationError::TooLarge { .. }));
    let missing = BootConfiguration::read(&folder.path().join("none")).expect_err("it is missing");
    assert!(missing.hint().starts_with("run `ls -l "), "{}", missing.hint());
}

/// A machine with one drive whose CMB holds submission queues, behind an IOMMU.
fn machine() -> Fabric {
    let mut fabric = Fabric::from_toml(
        "name = 'm'\niommu = 'translating'\n[cpu]\nvendor = 'GenuineIntel'\n\
         [kernel]\nrelease = '7.2.13'\nparameters = ['intel_iommu=on']\nuse_cmb_sqes = true\n\
         nvme_multipath = true\n[[kernel.modules]]\nname = 'nvme'\n\
         [[function]]\nname = 'a'\nkind = 'nvme'\nsize = '64M'\ncmb = '64M'\n",
    )
    .expect("a machine");
    let drive = &mut fabric.functions[0];
    drive.iommu_group = Some(3);
    drive.iommu_type = Some("DMA-FQ".to_owned());
    drive.driver = DriverBinding::Bound("nvme".to_owned());
    let nvme = drive.nvme.as_mut().expect("a drive");
    nvme.cmb = Some(crate::CmbRegisters { location: 2, size: 0x1 });
    nvme.namespaces[0].is_multipath_head = true;
    nvme.namespaces[0].limits.max_hw_request = Some(Bytes(128 << 10));
    let memory = drive.p2pmem.as_mut().expect("a CMB");
    memory.available = Bytes(memory.size.0 - 4096);
    fabric
}

/// The machine after a text, and the effect of its last setting.
fn after(mut fabric: Fabric, text: &str) -> (Fabric, SettingEffect) {
    let applied = parse(text).expect(text).apply(&mut fabric);
    (fabric, applied.last().expect("a setting").effect.clone())
}

fn is_changed(effect: &SettingEffect) -> bool {
    matches!(effect, SettingEffect::Changed(_))
}

#[test]
fn passthrough_lifts_limits_of_translation() {
    for text in ["iommu=pt", "iommu.passthrough=1", "iommu=force,pt"] {
        let (fabric, effect) = after(machine(), text);
        assert!(is_changed(&effect), "{text}");
        assert_eq!(fabric.iommu, IommuMode::Passthrough, "{text}");
        let drive = &fabric.functions[0];
        assert_eq!(drive.iommu_type.as_deref(), Some("identity"));
        let limits = drive.nvme.as_ref().expect("a drive").namespaces[0].limits;
        assert_eq!(limits, QueueLimits::default());
        assert!(!is_changed(&after(fabric.clone(), text).1), "{text} twice");
        let (fabric, effect) = after(fabric, "iommu=nopt");
        assert!(is_changed(&effect));
        assert_eq!(fabric.functions[0].iommu_type.as_deref(), Some("DMA"));
        let limits = fabric.functions[0].nvme.as_ref().expect("a drive").namespaces[0].limits;
        assert_eq!(limits.max_request, Some(Bytes(128 << 10)));
    }
}

#[test]
fn iommus_obey_their_makers_parameter() {
    let amd = || {
        let mut fabric = machine();
        fabric.cpu.vendor = Some("AuthenticAMD".to_owned());
        fabric
    };
    let arm = || {
        let mut fabric = machine();
        fabric.cpu.vendor = Some("CPU implementer 0x41".to_owned());
        fabric
    };
    let unknown = || {
        let mut fabric = machine();
        fabric.cpu.vendor = None;
        fabric
    };
    for (fabric, text, expected) in [
        (machine(), "intel_iommu=off", IommuMode::Off),
        (machine(), "intel_iommu=on,off", IommuMode::Off),
        (machine(), "intel_iommu=on", IommuMode::Translating),
        (machine(), "iommu=pt iommu=off", IommuMode::Off),
        (machine(), "iommu=soft", IommuMode::Translating),
        (machine(), "amd_iommu=off", IommuMode::Translating),
        (machine(), "intel_iommu=off iommu=pt", IommuMode::Off),
        (machine(), "intel_iommu=off intel_iommu=on", IommuMode::Unknown),
        (amd(), "intel_iommu=off", IommuMode::Translating),
        (amd(), "amd_iommu=off", IommuMode::Off),
        (unknown(), "intel_iommu=off", IommuMode::Translating),
        (unknown(), "iommu=off", IommuMode::Off),
        (arm(), "iommu=pt", IommuMode::Translating),
        (arm(), "iommu.passthrough=1", IommuMode::Passthrough),
    ] {
        let (fabric, _) = after(fabric, text);
        assert_eq!(fabric.iommu, expected, "{text}");
        let has_group = fabric.functions[0].iommu_group.is_some();
        assert_eq!(has_group, !matches!(expected, IommuMode::Off | IommuMode::Unknown), "{text}");
    }
    let (_, effect) = after(arm(), "iommu=pt");
    assert!(
        matches!(effect, SettingEffect::NotHonoured(why) if why.contains("iommu.passthrough=1"))
    );
}

#[test]
fn nvme_options_change_memory_and_heads() {
    for text in ["nvme.use_cmb_sqes=0", "options nvme use_cmb_sqes=N"] {
        let (fabric, effect) = after(machine(), text);
        assert!(is_changed(&effect), "{text}");
        assert_eq!(fabric.kernel.use_cmb_sqes, Some(false));
        let memory = fabric.functions[0].p2pmem.expect("a CMB");
        assert_eq!(memory.available, memory.size, "{text}");
        assert!(!is_changed(&after(fabric, text).1), "{text} twice");
    }
    for text in ["nvme-core.multipath=n", "options nvme_core multipath=0"] {
        let (fabric, effect) = after(machine(), text);
        assert!(is_changed(&effect), "{text}");
        assert_eq!(fabric.kernel.nvme_multipath, Some(false));
        let nvme = fabric.functions[0].nvme.as_ref().expect("a drive");
        assert!(!nvme.namespaces[0].is_multipath_head, "{text}");
    }
    let (fabric, effect) = after(machine(), "nvme_core.multipath=maybe");
    assert!(matches!(effect, SettingEffect::NotHonoured(_)), "{effect:?}");
    assert_eq!(
        fabric,
        after(machine(), "nvme_core.multipath=maybe nvme.poll_queues=4").0.without(4)
    );
}

impl Fabric {
    /// The machine without a parameter that was added last.
    fn without(mut self, value: u32) -> Self {
        let parameters = self.kernel.parameters.as_mut().expect("known");
        assert_eq!(parameters.pop(), Some(format!("nvme.poll_queues={value}")));
        self
    }
}

#[test]
fn modules_are_loaded_once() {
    let (fabric, effect) = after(machine(), "module nvidia-fs");
    assert!(is_changed(&effect));
    assert_eq!(fabric.kernel.has_module("nvidia_fs"), Some(true));
    assert!(!is_changed(&after(fabric, "module nvidia_fs").1));
    assert!(!is_changed(&after(machine(), "module loop").1));
    let mut unknown = machine();
    unknown.kernel.modules = None;
    let (fabric, _) = after(unknown, "module amdgpu");
    assert_eq!(fabric.kernel.modules, None);
    assert_eq!(fabric.kernel.has_module("amdgpu"), Some(true));
}

#[test]
fn every_other_setting_has_a_reason() {
    for (text, is_refused, part) in [
        ("pci=realloc=on", false, "windows of memory"),
        ("pci=noacs", true, "no such option"),
        ("pcie_acs_override=downstream,multifunction", true, "mainline"),
        ("options snd_hda_intel power_save=1", false, "not known to bear"),
        ("options=1", false, "not known to bear"),
    ] {
        let mut fabric = machine();
        let (after, effect) = after(fabric.clone(), text);
        let why = match (&effect, is_refused) {
            (SettingEffect::NoChange(why), false) | (SettingEffect::NotHonoured(why), true) => why,
            _ => panic!("{text}: {effect:?}"),
        };
        assert!(why.contains(part), "{text}: {why}");
        fabric.kernel.parameters.clone_from(&after.kernel.parameters);
        fabric.origin = crate::Origin::Assumed;
        assert_eq!(after, fabric, "{text}");
    }
}

#[test]
fn options_of_nvidia_reach_its_driver() {
    let (fabric, effect) = after(machine(), "options nvidia NVreg_EnableResizableBar=1");
    assert!(matches!(effect, SettingEffect::Changed(_)), "{effect:?}");
    let driver = fabric.nvidia.expect("the driver");
    assert_eq!(driver.parameters["EnableResizableBar"], "1");
}

#[test]
fn settings_are_told_one_by_one() {
    let text =
        "options nvme use_cmb_sqes=0\npci=realloc,noats quiet nvme.poll_queues=2\nmodule xe\n";
    let mut fabric = machine();
    let applied = parse(text).expect("it is read").apply(&mut fabric);
    let told: Vec<&str> = applied.iter().map(|one| one.setting.as_str()).collect();
    let expected = [
        "pci=realloc",
        "pci=noats",
        "quiet",
        "nvme.poll_queues=2",
        "options nvme use_cmb_sqes=0",
        "module xe",
    ];
    assert_eq!(told, expected);
    let parameters = fabric.kernel.parameters.expect("they are known");
    assert_eq!(parameters, ["intel_iommu=on", "pci=realloc,noats", "nvme.poll_queues=2"]);
}

#[test]
fn broken_keys_of_cufile_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("cufile.d")).expect("a folder");
    let file = folder.path().join("cufile.d/keys.json");
    std::fs::write(&file, "{\"properties\": {\"use_pci_p2pdma\": true").expect("room");
    let error = BootConfiguration::read(folder.path()).expect_err("an open bracket");
    assert!(error.to_string().contains("keys.json"), "{error}");
    std::fs::write(&file, "{\"properties\": {\"use_pci_p2pdma\": true}}").expect("room");
    let found = BootConfiguration::read(folder.path()).expect("a configuration");
    assert_eq!(found.cufile.len(), 1);
}
