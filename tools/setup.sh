# shellcheck shell=bash
#
# What ./demo and ./test need from the machine: programs, a Rust toolchain, a kernel for the lab.
#
# Sourced, never run. `prepare_programs` is the entry point, with demo, test or full; and `prepare`, with the last two. Packages are chosen by
# asking apt what it offers, never by the name of the distribution. Nothing that is installed is
# removed, except a shared busybox that its static twin replaces. The kernel is only unpacked into a
# cache folder.

say() { printf '%s\n' "$@" >&2; }

# Ends with status 2, the program's own status for a failure.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    if (($#)); then printf 'hint: %s\n' "$@" >&2; fi
    exit 2
}

cache_folder() {
    printf '%s\n' "${PEERLANE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/peerlane}"
}

has() { command -v "$1" >/dev/null 2>&1; }

# Whether version $1 is $2 or later.
at_least() {
    local lowest
    lowest=$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n 1p)
    [[ $lowest == "$2" ]]
}

oldest_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml; }

pinned_rust() { sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml; }

# Prints the version of `cargo` or `rustc` as it answers in this folder; nothing if it does not.
version_of() { "$1" --version 2>/dev/null </dev/null | sed -n "s/^$1 \([0-9][0-9.]*\).*/\1/p"; }

rust_works() {
    local oldest program version
    oldest=$(oldest_rust)
    for program in cargo rustc; do
        has "$program" || return 1
        version=$(version_of "$program") || return 1
        [[ -n $version ]] && at_least "$version" "$oldest" || return 1
    done
}

# Names of installed rustup toolchains: stable first, then versions from the latest, then the rest.
rustup_toolchains() {
    local names
    names=$(rustup toolchain list 2>/dev/null | sed -n 's/^\([a-z0-9][^ ]*\).*/\1/p') || return 0
    { grep '^stable' <<<"$names"; grep '^[0-9]' <<<"$names" | sort -Vr; grep '^[^s0-9]' <<<"$names"; } || true
}

# Makes `cargo` and `rustc` in PATH a pair that is new enough, or fails.
#
# A rustup proxy that cannot provide the pinned toolchain gives way to another installed toolchain,
# and that to the folders where distributions put theirs.
find_rust() {
    local name folder
    if rust_works; then return 0; fi
    if has rustup; then
        while read -r name; do
            if RUSTUP_TOOLCHAIN=$name rust_works; then
                export RUSTUP_TOOLCHAIN=$name
                say "rust: toolchain $name of rustup stands in for the pinned $(pinned_rust)"
                return 0
            fi
        done < <(rustup_toolchains)
    fi
    while read -r folder; do
        if [[ -x $folder/cargo ]] && PATH=$folder:$PATH rust_works; then
            export PATH=$folder:$PATH
            say "rust: using $folder"
            return 0
        fi
    done < <(printf '%s\n' /usr/bin; find /usr/lib -maxdepth 2 -path '/usr/lib/rust-*/bin' | sort -Vr
        printf '%s\n' "${HOME:-/root}/.cargo/bin")
    return 1
}

# Lets a rustup that is there fetch the pinned toolchain; fails where there is none or no way out.
fetch_rust() {
    local pinned
    has rustup || return 1
    pinned=$(pinned_rust)
    say "rust: rustup fetches toolchain $pinned"
    timeout 600 rustup toolchain install "$pinned" --no-self-update --profile minimal \
        --component rustfmt --component clippy </dev/null >&2 || return 1
    find_rust
}

# Options that make apt read package lists of our own; empty when the machine's lists are used.
apt_lists=()

# Prints `package candidate-version` for each of the named packages that can be installed.
candidates() {
    apt-cache "${apt_lists[@]}" policy "$@" 2>/dev/null | awk '
        /^[^ ].*:$/ { name = substr($1, 1, length($1) - 1) }
        $1 == "Candidate:" && $2 != "(none)" { print name, $2 }'
}

# Reads the package lists again: the machine's when root. An unprivileged user is still told exact
# names: where the machine's lists do not have what `$1` (whether Rust is needed) asks for, a private
# copy is read.
refresh_lists() {
    local lists
    if [[ $EUID == 0 ]]; then
        say 'packages: apt-get update'
        apt-get update -qq </dev/null >&2 || say 'packages: apt-get update failed, using the lists that are there'
        return 0
    fi
    if [[ -n $(candidates gcc) && ($1 == no || -n $(rust_package)) ]]; then return 0; fi
    lists=$(cache_folder)/apt-lists
    mkdir -p "$lists/partial"
    say "packages: the package lists of this machine are old or missing, reading them into $lists"
    apt_lists=(-o "Dir::State::lists=$lists" -o 'Dir::Cache::pkgcache=' -o 'Dir::Cache::srcpkgcache=')
    apt-get "${apt_lists[@]}" -o APT::Update::Post-Invoke= update -qq </dev/null >/dev/null 2>&1 ||
        say 'packages: cannot read the package lists without root'
}

# Prints the package that brings a new enough cargo: the plain one, else the one kept for building
# browsers, else the highest version that has a package of its own, else rustup.
rust_package() {
    local oldest names name version best=
    oldest=$(oldest_rust)
    names=$(apt-cache "${apt_lists[@]}" pkgnames cargo 2>/dev/null |
        grep -E '^cargo(-web|-[0-9]+(\.[0-9]+)+)?$' | sort -V) || true
    if [[ -n $names ]]; then
        while read -r name version; do
            version=${version#*:}
            at_least "${version%%[-+~]*}" "$oldest" || continue
            case $name in
            cargo) printf 'cargo rustc\n'; return ;;
            cargo-web) printf 'cargo-web rustc-web\n'; return ;;
            *) best="$name rustc-${name#cargo-}" ;;
            esac
        done < <(mapfile -t names <<<"$names"; candidates "${names[@]}")
    fi
    if [[ -z $best && -n $(candidates rustup) ]]; then best=rustup; fi
    [[ -z $best ]] || printf '%s\n' "$best"
}

busybox_is_static() {
    local listing
    has busybox || return 1
    listing=$(ldd "$(command -v busybox)" 2>&1) || true
    [[ $listing == *'not a dynamic executable'* || $listing == *'statically linked'* ]]
}

# Prints a line `package...` for each program that `$1` (demo, test or full) needs and this machine lacks.
missing_packages() {
    has cc || echo gcc libc6-dev
    has git || echo git
    [[ -n ${PEERLANE_QEMU:-} ]] || has qemu-system-x86_64 || echo qemu-system-x86
    busybox_is_static || echo busybox-static
    has modprobe || [[ -x /sbin/modprobe ]] || echo kmod
    has xz || echo xz-utils
    has zstd || echo zstd
    [[ -s /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
    if [[ $1 != demo ]]; then
        has shellcheck || echo shellcheck
        # What the module for the lab's cards is built with.
        has make || echo make
        # What the Python package is tested in; Debian keeps parts of it in a package of its own.
        python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
        # What the lab's suites make file systems with; without them those cases are skipped.
        has mkfs.ext4 || [[ -x /sbin/mkfs.ext4 ]] || echo e2fsprogs
        has mkfs.xfs || [[ -x /sbin/mkfs.xfs ]] || echo xfsprogs
        has mkfs.btrfs || [[ -x /sbin/mkfs.btrfs ]] || echo btrfs-progs
        has mkfs.vfat || [[ -x /sbin/mkfs.vfat ]] || echo dosfstools
        has dmsetup || [[ -x /sbin/dmsetup ]] || echo dmsetup
        has fsverity || echo fsverity
        # What makes software RDMA devices in the lab.
        has rdma || [[ -x /sbin/rdma ]] || echo iproute2
        # What prints the machines that the reader of lspci is tested with.
        has lspci || echo pciutils
    fi
    if [[ $1 == full ]]; then
        has debootstrap || [[ -x /usr/sbin/debootstrap ]] || echo debootstrap
        # What boots a machine of Arm.
        has qemu-system-aarch64 || echo qemu-system-arm
        # What writes and unpacks packages for RPM.
        has rpmbuild || echo rpm
        has cpio || echo cpio
        has udevadm || echo udev
    fi
}

# Installs packages, or says what to type. Refuses when apt would remove something, because the
# machine belongs to its user; busybox-static takes the place of busybox, whose commands it has.
install_packages() {
    local removed log
    local -a install=(apt-get install -y --no-install-recommends)
    if [[ $EUID != 0 ]]; then
        rm -rf "$(cache_folder)/apt-lists"
        say '' "error: programs are missing, and installing them needs root" \
            'hint: run these commands, then this script again' '' \
            '    sudo apt-get update' "    sudo ${install[*]} $*"
        exit 2
    fi
    log=$(cache_folder)/packages.log
    mkdir -p "$(dirname "$log")"
    say "packages: installing $*"
    removed=$(apt-get -s install --no-install-recommends "$@" 2>/dev/null </dev/null |
        sed -n 's/^Remv \([^ ]*\).*/\1/p') || true
    removed=$(grep -vx busybox <<<"$removed" | xargs) || true
    [[ -z $removed ]] || die "cannot install packages: apt would remove $removed" \
        "if that is fine, run: ${install[*]} $*"
    if ! DEBIAN_FRONTEND=noninteractive "${install[@]}" -qq -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "cannot install packages: $*" "all that apt said is in $log"
    fi
}

prepare_programs() {
    local rust need_rust=no
    local -a packages
    [[ $(uname -m) == x86_64 ]] || say "warning: the lab boots x86-64 machines, this one is $(uname -m)"
    read -r -d '' -a packages < <(missing_packages "$1") || true
    find_rust || fetch_rust || need_rust=yes
    if ((${#packages[@]})) || [[ $need_rust == yes ]]; then
        has apt-get || die "programs are missing and this machine has no apt-get" \
            "install by hand what these Debian packages hold: ${packages[*]} cargo rustc" \
            "Rust $(oldest_rust) or later is needed"
        refresh_lists "$need_rust"
        if [[ $need_rust == yes ]]; then
            rust=$(rust_package)
            [[ -n $rust ]] || die "no package offers Rust $(oldest_rust) or later" \
                "install Rust $(pinned_rust) with rustup, then run this script again"
            read -r -a rust <<<"$rust"
            packages+=("${rust[@]}")
        fi
        install_packages "${packages[@]}"
        find_rust || fetch_rust || die "cannot find cargo and rustc $(oldest_rust) or later in PATH"
    fi
    say "rust: $(cargo --version)"
}

# Whether the lab can boot the running machine's own kernel.
running_kernel_serves() {
    local release
    release=$(uname -r)
    [[ -r /boot/vmlinuz-$release || -r /lib/modules/$release/vmlinuz ]] &&
        grep -qsx 'CONFIG_PCI_P2PDMA=y' "/boot/config-$release" "/lib/modules/$release/config"
}

# Gives the lab a kernel. Fails, and only warns, when none can be had: what needs one says so.
prepare_kernel() {
    if [[ -n ${PEERLANE_KERNEL:-} ]]; then
        say "kernel: $PEERLANE_KERNEL, as PEERLANE_KERNEL says"
    elif running_kernel_serves; then
        say "kernel: $(uname -r), the one that runs here"
    else
        tools/fetch-kernel >/dev/null
    fi
}

# Gives the lab a second kernel, for the tests of what older ones do differently; without one those
# are skipped.
prepare_older_kernel() {
    if [[ -n ${PEERLANE_KERNEL_OLDER:-} ]]; then
        say "older kernel: $PEERLANE_KERNEL_OLDER, as PEERLANE_KERNEL_OLDER says"
    elif ! tools/fetch-kernel --older >/dev/null; then
        say 'warning: there is no older kernel for the lab'
    fi
}

# Gives the lab a kernel with software RoCE; without one the tests of RDMA are skipped.
prepare_generic_kernel() {
    if [[ -n ${PEERLANE_KERNEL_GENERIC:-} ]]; then
        say "generic kernel: $PEERLANE_KERNEL_GENERIC, as PEERLANE_KERNEL_GENERIC says"
    elif ! tools/fetch-kernel --generic >/dev/null; then
        say 'warning: there is no generic kernel for the lab'
    fi
}

# Gives the lab the module for machines with a card; without it their tests are skipped.
prepare_ram_bar() {
    if ! tools/build-ram-bar >/dev/null; then
        say 'warning: there is no module for cards in the lab'
    fi
}

# Gives the tests what they need of NVIDIA's: CUDA's compiler, and headers and libraries of cuFile. Without them the
# tests that use them are skipped.
prepare_nvidia() {
    local found
    if [[ -n ${PEERLANE_NVRTC:-} ]]; then
        say "NVRTC: $PEERLANE_NVRTC, as PEERLANE_NVRTC says"
    elif found=$(tools/fetch-nvidia nvrtc); then
        export PEERLANE_NVRTC=$found
    else
        say 'warning: there is no NVRTC to compile the kernels of GPUs by'
    fi
    if [[ -n ${PEERLANE_CUFILE:-} ]]; then
        say "cuFile: $PEERLANE_CUFILE, as PEERLANE_CUFILE says"
    elif found=$(tools/fetch-nvidia cufile); then
        export PEERLANE_CUFILE=$found
    else
        say 'warning: there is no cuFile to compare its layouts with'
    fi
}

# Gives the tests the programs that read gauges; without them those tests are skipped.
prepare_prometheus() {
    local found
    if [[ -n ${PEERLANE_PROMETHEUS:-} ]]; then
        say "Prometheus: $PEERLANE_PROMETHEUS, as PEERLANE_PROMETHEUS says"
    elif found=$(tools/fetch-packages prometheus); then
        export PEERLANE_PROMETHEUS=$found
    else
        say 'warning: there are no node_exporter and prometheus_client to read gauges by'
    fi
}

# Gives the tests lspci of several releases; without them they print machines with the one in PATH alone.
prepare_lspci() {
    tools/fetch-lspci >/dev/null || say 'warning: there is no lspci of other releases'
}

# Installs Chromium and, for `full`, Firefox and XRT's no-op card, if the distribution has them. Without them their tests are skipped.
prepare_extras() {
    local package
    local -a packages=()
    has chromium || packages+=(chromium)
    if [[ $1 == full ]] && ! has firefox-esr && ! has firefox; then packages+=(firefox-esr); fi
    if [[ $1 == full ]] && ! ldconfig -p | grep -q 'libxrt_noop\.so\.2 '; then packages+=(libxrt1); fi
    for package in "${packages[@]}"; do
        if [[ $EUID != 0 || -z $(candidates "$package") ]] || ! (install_packages "$package"); then
            say "warning: $package is not installed here"
        fi
    done
}

# Downloads in parallel what the preparations below then find in the cache.
fetch_together() {
    local -a fetches=('tools/fetch-nvidia nvrtc' 'tools/fetch-nvidia cufile' 'tools/fetch-packages prometheus' tools/fetch-lspci)
    local fetch
    if [[ $1 == full ]]; then fetches+=('tools/fetch-kernel --older' 'tools/fetch-kernel --generic'); fi
    for fetch in "${fetches[@]}"; do
        # shellcheck disable=SC2086 # a command and its argument
        $fetch >/dev/null 2>&1 &
    done
    wait
}

prepare() {
    prepare_programs "$1"
    prepare_extras "$1"
    fetch_together "$1"
    if [[ $1 == full ]]; then
        prepare_older_kernel
        prepare_generic_kernel
    fi
    prepare_kernel
    prepare_ram_bar
    prepare_nvidia
    prepare_prometheus
    prepare_lspci
}
