# shellcheck shell=bash
#
# apt over lists, cache and status of our own below ${work:?}, so that nothing of the machine's changes and nothing that is
# installed matters. Sourced by the scripts that fetch packages.

# Runs an apt program that way. The hooks that a container image runs after an update are cleared: they
# are for the machine's cache.
private_apt() {
    local program=$1
    shift
    "$program" -c "${work:?}/apt.conf" "$@" </dev/null
}

# Prepares it for packages of architecture $1; $2 is further configuration.
write_apt_configuration() {
    mkdir -p "${work:?}"/apt/{lists,archives}/partial "${work:?}/tree/root"
    : >"${work:?}/apt/status"
    cat >"${work:?}/apt.conf" <<CONFIGURATION
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
APT::Sandbox::User "$(id -un)";
APT::Architecture "$1";
#clear APT::Architectures;
APT::Architectures { "$1"; };
Acquire::Languages "none";
Dir::State "${work:?}/apt";
Dir::State::lists "${work:?}/apt/lists";
Dir::State::status "${work:?}/apt/status";
Dir::Cache "${work:?}/apt";
Dir::Cache::archives "${work:?}/apt/archives";
$2
CONFIGURATION
}

# Prints `suite uri` for each repository of this machine that has a component `main`.
own_repositories() {
    apt-get indextargets --no-release-info --format "\$(RELEASE) \$(REPO_URI) \$(COMPONENT)" \
        'Created-By: Packages' 2>/dev/null | awk '$3 == "main" { print $1, $2 }'
}

# Prints the mirror base of Debian itself: the repository whose suite is this release.
debian_mirror() {
    if [[ -n ${PEERLANE_MIRROR:-} ]]; then printf '%s\n' "$PEERLANE_MIRROR"; return; fi
    own_repositories | awk -v codename="$1" '
        $1 == codename || $1 ~ /^(oldstable|stable|testing|unstable|sid)$/ { print $2; exit }'
}

# Points private apt at one suite of a mirror; the keyring is Debian's unless given, the architecture amd64.
use_suite() {
    local mirror=$1 suite=$2 architecture=${4:-amd64} keyring
    local options="arch=$architecture target=Packages"
    for keyring in ${3:+"$3"} /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        if [[ -r $keyring ]]; then options+=" signed-by=$keyring"; break; fi
    done
    write_apt_configuration "$architecture" "Dir::Etc::sourcelist \"$work/sources.list\";
Dir::Etc::sourceparts \"/dev/null\";
Dir::Etc::preferences \"/dev/null\";
Dir::Etc::preferencesparts \"/dev/null\";"
    printf 'deb [%s] %s %s main\n' "$options" "$mirror" "$suite" >"$work/sources.list"
}

# Prints the keyring of Ubuntu's archive: this machine's, or the one in the package that Debian has of
# it from trixie on, which Debian's keyring vouches for.
ubuntu_keyring() {
    local suite folder=/usr/share/keyrings
    for suite in here trixie sid; do
        if [[ $suite != here ]]; then
            folder=$work/keyring/usr/share/keyrings
            use_suite "$1" "$suite"
            say "apt: looking for the keyring of Ubuntu's archive in suite $suite of $1"
            private_apt apt-get -qq update >&2 || continue
            (cd "$work/apt/archives" && private_apt apt-get -qq download ubuntu-keyring) || continue
            dpkg-deb -x "$work"/apt/archives/ubuntu-keyring*.deb "$work/keyring" || continue
        fi
        find "$folder" -maxdepth 1 -name "ubuntu-archive-keyring.[gp]*" 2>/dev/null | grep -m 1 . && return 0
    done
    return 1
}
