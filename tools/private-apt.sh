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
