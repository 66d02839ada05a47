#!/bin/sh
# Installs the settings of this folder, which `peerlane doctor --write-fix` wrote. POSIX sh.
#
#     sudo ./install.sh        install; a second run doubles nothing
#     ./install.sh --check     after the restart: 0 where all settings are in force, else 1
#     sudo ./undo.sh           take back what install.sh added, and nothing else
#
# installed/journal lists each change, installed/before has the files as they were. A step that fails
# takes everything back. PEERLANE_ROOT names another root folder, for tests.
set -euf
cd -- "$(dirname -- "$0")"
root=${PEERLANE_ROOT:-}
tab=$(printf '\t')
# Kernel parameters, apart by spaces.
words=$(sed '/^#/d' cmdline.d/peerlane.conf 2>/dev/null || :)

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $1"
    [ -z "${2:-}" ] || say "hint: $2"
    exit 1
}
need_root() {
    [ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "$1 needs root" "run \`sudo $(pwd)/$1\`"
}
lines() { [ -z "$*" ] || printf '%s\n' "$@"; }

# ---- The boot loader of this machine: the first whose evidence is there.

has() { command -v "$1" >/dev/null 2>&1; }
succeeds() { "$@" >/dev/null 2>&1 </dev/null; }
exists() { [ -e "$root$1" ]; }
# A line of a file, or of a file in a folder, that is no comment and has a text.
mentions() { grep -qsr "^[^#]*$2" "$root$1"; }
distribution() { grep -Eqs "^ID(_LIKE)?=[\"']?([^\"']* )?$1([ \"']|\$)" "$root/etc/os-release"; }
# Loaders tell their name in an EFI variable. Where there is none, bootctl looks for the program.
systemd_boot() {
    set -- "$root/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
    if [ -e "$1" ]; then
        tr -d '\000' <"$1" | grep -q systemd-boot
    else
        succeeds bootctl is-installed
    fi
}
entries() (
    set +f
    for entry in "$root"/efi/loader/entries/*.conf "$root"/boot/loader/entries/*.conf \
        "$root"/boot/efi/loader/entries/*.conf; do
        [ ! -e "$entry" ] || lines "$entry"
    done
)
have_entries() { [ -n "$(entries)" ]; }

#@recognise@

# ---- Changes: each is noted in the journal before it is made.

note() { grep -qxFs -e "$1" installed/journal || lines "$1" >>installed/journal; }

# The first copy of a file; % stands for each slash in its name.
copy_of() { lines "installed/before/$(lines "$1" | tr / %)"; }
keep() { [ -e "$(copy_of "$1")" ] || cp -p "$1" "$(copy_of "$1")"; }

# Puts installed/new in the place of a file with its owner and mode; as it was, to the last newline,
# where nothing else changed it.
replace() {
    cp -p "$1" "$1.peerlane"
    if awk 1 "$(copy_of "$1")" | cmp -s - installed/new; then
        cat "$(copy_of "$1")" >"$1.peerlane"
    else
        cat installed/new >"$1.peerlane"
    fi
    mv "$1.peerlane" "$1"
}

make_folder() {
    [ ! -d "$1" ] || return 0
    make_folder "$(dirname "$1")"
    note "folder$tab$1"
    mkdir "$1"
}
place() {
    target=$root$2
    ! cmp -s "$1" "$target" || return 0
    make_folder "$(dirname "$target")"
    note "file$tab$1$tab$target"
    cp "$1" "$target.peerlane"
    chmod 644 "$target.peerlane"
    mv "$target.peerlane" "$target"
}

# Prints a file with a word added or removed: in the line `options` of a boot entry, else in the first
# line that is no comment.
with_word() {
    mode=$1 word=$2 awk '
        BEGIN { add = ENVIRON["mode"] == "add"; word = ENVIRON["word"] }
        function position(text) { gsub(/\t/, " ", text); return index(" " text " ", " " word " ") }
        FNR == 1 { entry = FILENAME ~ /\.conf$/ }
        { line[++n] = $0 }
        (entry ? $1 == "options" : NF && $1 !~ /^#/) { if (!first) first = n; if (position($0)) at = n }
        END {
            if (add && !at) {
                if (!first) line[first = ++n] = entry ? "options" : ""
                line[first] = line[first] " " word
            } else if (!add && at) {
                start = position(line[at])
                line[at] = substr(line[at], 1, start - 2) substr(line[at], start + length(word) + (start == 1))
            }
            for (i = 1; i <= n; i++) print line[i]
        }' "$3"
}
edit_word() {
    file=$(readlink -f "$3")
    with_word "$1" "$2" "$file" >installed/new
    ! awk 1 "$file" | cmp -s - installed/new || return 0
    keep "$file"
    [ "$1" = remove ] || note "word$tab$2$tab$file"
    replace "$file"
}

add_to_command_line() {
    if exists /etc/kernel/cmdline; then
        for word in $words; do edit_word add "$word" "$root/etc/kernel/cmdline"; done
    elif proxmox-boot-tool status </dev/null 2>/dev/null | grep -q 'with: uefi'; then
        fail 'there is no /etc/kernel/cmdline here' \
            'make it: sed "s/initrd=[^ ]* *//" /proc/cmdline | sudo tee /etc/kernel/cmdline'
    fi
}
add_to_entries() {
    for entry in $(entries); do
        for word in $words; do edit_word add "$word" "$entry"; done
    done
    ! exists /etc/kernel/cmdline || add_to_command_line
}
add_to_grub_drop_in() { place grub.d/peerlane.cfg /etc/default/grub.d/peerlane.cfg; }
add_to_grub_defaults() {
    file=$(readlink -f "$root/etc/default/grub")
    while IFS= read -r line; do
        ! grep -qxF -e "$line" "$file" || continue
        keep "$file"
        note "line$tab$line$tab$file"
        awk 1 "$file" >installed/new
        lines "$line" >>installed/new
        replace "$file"
    done <grub.d/peerlane.cfg
}

# Parameters on standard input, one a line and without quotes; each option of pci= by itself.
settings() {
    tr -d '"' | tr '\t' ' ' | tr -s ' ' '\n' | awk '
        /^pci=/ { n = split(substr($0, 5), option, ","); for (i = 1; i <= n; i++) print "pci=" option[i]; next }
        NF'
}
# The reverse for options of pci=, with the quotes that GRUB needs.
pci_word() {
    sed -n 's/^pci=//p' | awk '!seen[$0]++' | paste -sd , - | sed 's/..*/pci=&/; /;/s/=\(.*\)/="\1"/'
}
boot_arguments() { grubby --info=ALL </dev/null | sed -n 's/^args="\(.*\)"$/\1/p'; }
every_entry_has() {
    [ -n "$(boot_arguments)" ] || return 1
    boot_arguments | while IFS= read -r line; do
        lines "$line" | settings | grep -qxF -e "$1" || exit 1
    done
}
run_grubby() { grubby --update-kernel=ALL "$1" </dev/null; }

# grubby replaces a parameter by its name: options of pci= that are there stay in the new one.
add_by_grubby() {
    ours=$(lines "$words" | settings)
    for setting in $ours; do
        other=$(boot_arguments | settings | grep "^${setting%%=*}=" | grep -vxF -e "$setting" | head -n 1)
        case $setting in pci=*) other='' ;; esac
        [ -z "$other" ] || fail "the boot entries have $other, which grubby would replace by $setting" \
            "remove it first: sudo grubby --update-kernel=ALL --remove-args=$other"
    done
    grubby --info=ALL </dev/null >installed/before/grubby
    added='' pci=''
    for setting in $ours; do
        ! every_entry_has "$setting" || continue
        note "grubby$tab$setting"
        case $setting in pci=*) pci=1 ;; *) added="$added $setting" ;; esac
    done
    [ -z "$pci" ] || added="$added $({ boot_arguments | settings && lines "$ours"; } | pci_word)"
    [ -z "$added" ] || run_grubby "--args=${added# }"
    for setting in $ours; do
        [ -z "$(boot_arguments)" ] || every_entry_has "$setting" || fail "grubby did not add $setting"
    done
}
remove_by_grubby() {
    there=$(boot_arguments | tr ' ' '\n' | sort -u)
    # Without entries to read, as they were added.
    [ -n "$there" ] || there=$(lines "$@" | grep -v '^pci=' || :; lines "$@" | pci_word)
    lines "$@" >installed/ours
    with_ours=$(lines "$there" | while IFS= read -r word; do
        ! lines "$word" | settings | grep -qxFf installed/ours || lines "$word"
    done | paste -sd ' ' -)
    [ -z "$with_ours" ] || run_grubby "--remove-args=$with_ours"
    rest=$(lines "$there" | settings | grep '^pci=' | grep -vxFf installed/ours || :)
    for setting in $rest; do
        every_entry_has "$setting" || { run_grubby "--args=$(lines "$rest" | pci_word)" && break; }
    done
}

# ---- What carries the changes to the next start.

# Debian and Ubuntu have kernels in /boot, where add-all does not look.
kernel_install() (
    set +f
    found=
    for image in "$root"/boot/vmlinuz-*; do
        version=${image##*/vmlinuz-}
        [ -d "$root/lib/modules/$version" ] || continue
        kernel-install add "$version" "$image" || exit 1
        found=1
    done
    [ -n "$found" ] || kernel-install add-all
)
# Runs a command of the journal, which splits at its spaces.
run() {
    say "run: $1"
    if [ "$1" = 'kernel-install add-all' ]; then kernel_install; else $1; fi </dev/null
}
run_noted() {
    note "run$tab$1"
    run "$1" || fail "\`$1\` failed"
}
make_initial_ram_disk() {
    [ -e modprobe.d/peerlane.conf ] || return 0
    if has update-initramfs; then
        run_noted 'update-initramfs -u -k all'
    elif has mkinitcpio; then
        run_noted 'mkinitcpio -P'
    elif has dracut; then
        run_noted 'dracut --regenerate-all --force'
    else
        say 'note: where the initial RAM disk has the modules of modprobe.d/peerlane.conf, make it again'
    fi
}

# ---- The three commands.

install() {
    need_root install.sh
    loader='' change='' refresh=''
    if [ -n "$words" ]; then
        recognise
        if [ -z "$change" ]; then
            say "error: $loader: this script does not change it, and changed nothing"
            say "hint: $refresh: $words"
            exit 1
        fi
        say "boot loader: $loader"
    fi
    each_file conflict
    case $change in *grub_drop_in*) conflict grub.d/peerlane.cfg /etc/default/grub.d/peerlane.cfg ;; esac
    mkdir -p installed/before
    trap take_back EXIT
    trap 'exit 130' HUP INT TERM
    each_file place
    for one in $change; do "add_$one"; done
    make_initial_ram_disk
    [ -z "$refresh" ] || run_noted "$refresh"
    trap - EXIT HUP INT TERM
    [ ! -e cufile.d/peerlane.json ] ||
        say 'note: put the keys of cufile.d/peerlane.json into /etc/cufile.json, which is NVIDIA'"'"'s'
    [ -s installed/journal ] || { say 'nothing to change: all settings are there'; return; }
    say "installed; after the restart \`$(pwd)/install.sh --check\` tells whether it is in force"
    [ -z "$words" ] || say "by hand: /proc/cmdline then has $words"
}
each_file() {
    while read -r file target; do
        [ ! -e "$file" ] || "$1" "$file" "$target"
    done <<'END'
modprobe.d/peerlane.conf /etc/modprobe.d/peerlane.conf
modules-load.d/peerlane.conf /etc/modules-load.d/peerlane.conf
udev/60-peerlane-doctor.rules /etc/udev/rules.d/60-peerlane-doctor.rules
END
}
conflict() {
    [ ! -e "$root$2" ] || cmp -s "$1" "$root$2" ||
        fail "$2 is there and differs" "join it and $1 by hand; nothing was changed"
}

# Reverts what the journal lists, the last change first.
revert() {
    sed '1!G;h;$!d' installed/journal >installed/reversed
    by_grubby=''
    while IFS=$tab read -r what one two; do
        case $what in file | word | line) rm -f "$two.peerlane" ;; esac
        case $what in
        file)
            if cmp -s "$one" "$two"; then
                rm "$two"
            elif [ -e "$two" ]; then
                say "warning: $two differs from $one and stays"
            fi
            ;;
        folder) rmdir "$one" 2>/dev/null || : ;;
        word) [ ! -e "$two" ] || edit_word remove "$one" "$two" ;;
        line)
            [ -e "$two" ] || continue
            grep -vxF -e "$one" "$two" >installed/new || :
            awk 1 "$two" | cmp -s - installed/new || replace "$two"
            ;;
        grubby) by_grubby="$by_grubby $one" ;;
        esac
    done <installed/reversed
    # shellcheck disable=SC2086 # settings have no spaces
    [ -z "$by_grubby" ] || remove_by_grubby $by_grubby
}
take_back() {
    status=$?
    trap - EXIT HUP INT TERM
    say 'a step failed: taking back what was changed'
    sh ./install.sh --undo || say 'warning: the next start is as before once its commands work'
    exit "$status"
}
undo() {
    need_root undo.sh
    if [ ! -s installed/journal ]; then
        rm -rf installed
        say 'nothing to undo: installed/journal lists no change'
        return
    fi
    revert
    failed=''
    sed -n "s/^run$tab//p" installed/journal >installed/commands
    while IFS= read -r command; do
        run "$command" || failed=$command
    done <installed/commands
    [ -z "$failed" ] || fail "\`$failed\` failed; the files are as before" 'run undo.sh again once it works'
    rm -r installed
    say 'undone; a restart puts it in force'
}

missing() {
    say "not in force: $1"
    status=1
}
# Compares a value that was asked for with the one that a file of /proc or /sys shows.
compare() {
    same='s/"//g; s/^Y$/1/; s/^N$/0/'
    [ "$(lines "$2" | sed "$same")" = "$(lines "$3" | sed "$same")" ] ||
        missing "$1 is ${3:-not there}, not $2"
}
shown() { cat "$root$1" 2>/dev/null || :; }
check() {
    status=0
    # Of parameters with one name the kernel takes the last. Those behind -- are for init.
    for setting in $({
        shown /proc/cmdline | sed 's/ -- .*//' | settings
        echo
        lines "$words" | settings
    } | awk '
        function name(part) { split($0, part, "="); return part[1] == "pci" ? "pci=" part[2] : part[1] }
        !NF { asked = 1; next }
        !asked { last[name()] = $0; next }
        last[name()] != $0'); do
        missing "/proc/cmdline lacks $setting"
    done
    while read -r _ module options; do
        for option in $options; do
            name=${option%%=*}
            file=/sys/module/$(lines "$module" | tr - _)/parameters/$name
            value=$(shown "$file")
            case $name in NVreg_*)
                file=/proc/driver/nvidia/params
                value=$(shown "$file" | sed -n "s/^${name#NVreg_}: //p")
                ;;
            esac
            compare "$name in $file" "${option#*=}" "$value"
        done
    done <<END
$(grep -s '^options ' modprobe.d/peerlane.conf)
END
    while read -r module; do
        [ -z "$module" ] || exists "/sys/module/$(lines "$module" | tr - _)" ||
            missing "module $module is not loaded"
    done <<END
$(sed '/^#/d' modules-load.d/peerlane.conf 2>/dev/null)
END
    while read -r device attribute value; do
        [ -z "$device" ] ||
            compare "$attribute of $device" "$value" "$(shown "/sys/class/block/$device/$attribute")"
    done <<END
$(sed -n 's/.*KERNEL=="\([^"]*\)".*ATTR{\([^}]*\)}="\([^"]*\)".*/\1 \2 \3/p' \
        udev/60-peerlane-doctor.rules 2>/dev/null)
END
    if [ "$status" = 0 ]; then
        say 'in force: all settings of this folder'
    else
        say 'hint: was the machine restarted after install.sh? Then another boot loader started it'
    fi
    return "$status"
}

case ${1:-} in
'') install ;;
--check) check ;;
--undo) undo ;;
*) fail "unknown option $1" 'the options are --check and --undo' ;;
esac
