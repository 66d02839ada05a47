//! `tools/fetch-kernel` with an archive of one kernel, offered by programs that stand in for apt.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const APT_GET: &str = r#"#!/bin/sh
case " $* " in *' download '*) printf '%s\n' "$*" >>"$FETCHED"; : >one.deb ;; esac
"#;

const APT_CACHE: &str = r#"#!/bin/sh
case " $* " in
*' depends '*) echo '  Depends: linux-image-6.14.0-1' ;;
*' show '*) echo 'Version: 6.14.0-1.1' ;;
esac
"#;

/// Unpacks a kernel, and the keyring of Ubuntu's archive.
const DPKG_DEB: &str = r#"#!/bin/sh
modules=$3/usr/lib/modules/6.14.0-1
mkdir -p "$modules" "$3/usr/share/keyrings"
echo CONFIG_PCI_P2PDMA=y >"$modules/config"
echo kernel >"$modules/vmlinuz"
: >"$3/usr/share/keyrings/ubuntu-archive-keyring.gpg"
"#;

fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).expect("room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// Runs `tools/fetch-kernel` and returns the path that it prints.
fn fetch(folder: &Path, words: &[&str]) -> String {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/fetch-kernel");
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", folder.join("bin").display());
    let output = Command::new(tools)
        .args(words)
        .env("PATH", path)
        .env("FETCHED", folder.join("fetched"))
        .env("PEERLANE_CACHE", folder.join("cache"))
        .env("PEERLANE_MIRROR", "http://one.invalid/debian")
        .env("PEERLANE_OLDER_MIRROR", "http://one.invalid/ubuntu")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn single_kernel_is_fetched_once() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("bin")).expect("a folder");
    for (name, text) in [("apt-get", APT_GET), ("apt-cache", APT_CACHE), ("dpkg-deb", DPKG_DEB)] {
        program(&folder.path().join("bin"), name, text);
    }
    // Neither too old nor too new.
    program(&folder.path().join("bin"), "dpkg", "#!/bin/sh\nexit 1\n");
    let older = fetch(folder.path(), &["--older"]);
    let newer = fetch(folder.path(), &[]);
    for (image, place) in [(&older, "cache/kernel-older/root"), (&newer, "cache/kernel/root")] {
        assert!(image.contains(place), "{image}");
        assert_eq!(fs::read_to_string(image).expect("an image"), "kernel\n");
    }
    let fetched = fs::read_to_string(folder.path().join("fetched")).expect("a list");
    let kernels = fetched.lines().filter(|line| line.contains("linux-image")).count();
    assert_eq!(kernels, 1, "{fetched}");
}
