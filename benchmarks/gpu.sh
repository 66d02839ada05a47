#!/bin/sh
# Storage to a GPU and back by every route, beside gdsio and KvikIO, and the search for a picture on the GPU, in one
# run on one machine.
#
#   cargo build --release -p peerlane-cli
#   sudo benchmarks/gpu.sh --folder /mnt/nvme --gpu 0 --size 8G --repeats 5 [--only moves|scan] [--images 500]
#
# Writes gpu-DATE.md here: the machine, then the rate of every variant (median, lowest, highest) and its ratio to
# peerlane through pinned host memory. Variants take turns within each repeat. Hits of the GPU are compared with those
# of the processors byte by byte, and its kernels with what it could do at most. What is not installed is listed as
# not run. `--check` says what is there and ends. Exit status: 0 done, 2 failed, 77 not possible here.
# In FOLDER it makes and removes a folder of its own, and writes nothing else.
set -eu

folder=. gpu=0 size=8G repeats=5 block=4M depth=16 check=no only=all images=500
program=${PEERLANE:-$(dirname "$0")/../target/release/peerlane}
gdsio=${GDSIO:-/usr/local/cuda/gds/tools/gdsio}
python=${PYTHON:-python3}

usage() {
    sed -n '2,12s/^# \{0,1\}//p' "$0"
    exit "$1"
}

while [ $# -gt 0 ]; do
    case $1 in
    --folder) folder=$2 && shift ;;
    --gpu) gpu=$2 && shift ;;
    --size) size=$2 && shift ;;
    --repeats) repeats=$2 && shift ;;
    --block) block=$2 && shift ;;
    --depth) depth=$2 && shift ;;
    --only) only=$2 && shift ;;
    --images) images=$2 && shift ;;
    --check) check=yes ;;
    --help) usage 0 ;;
    *) usage 2 >&2 ;;
    esac
    shift
done

# What is there. Each line is of the form `name: yes` or `name: no, reason`.
has() { command -v "$1" >/dev/null 2>&1; }
there() {
    if [ -x "$program" ]; then echo "peerlane: yes"; else
        echo "peerlane: no, build it: cargo build --release -p peerlane-cli"
    fi
    if has nvidia-smi && nvidia-smi -L >/dev/null 2>&1; then echo "GPU: yes"; else
        echo "GPU: no, nvidia-smi shows none"
    fi
    if ldconfig -p 2>/dev/null | grep -q 'libcufile\.so\.0'; then echo "cuFile: yes"; else
        echo "cuFile: no, install it: apt install nvidia-gds"
    fi
    if ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so' || [ -n "${LD_LIBRARY_PATH:-}" ]; then echo "NVRTC: yes, or in LD_LIBRARY_PATH"; else
        echo "NVRTC: no, install it: apt install cuda-nvrtc-12-8, or pip install nvidia-cuda-nvrtc-cu12 and LD_LIBRARY_PATH"
    fi
    if [ -x "$gdsio" ]; then echo "gdsio: yes"; else
        echo "gdsio: no, $gdsio is not there: apt install nvidia-gds, or set GDSIO"
    fi
    if "$python" -c 'import cupy, kvikio' >/dev/null 2>&1; then echo "KvikIO: yes"; else
        echo "KvikIO: no, $python cannot import cupy and kvikio: pip install kvikio-cu12 cupy-cuda12x"
    fi
}
found=$(there)
echo "$found"
is_there() { echo "$found" | grep -q "^$1: yes"; }
[ $check = no ] || exit 0
if ! is_there peerlane || ! is_there GPU; then
    echo "not possible here: a GPU and the program are needed; nothing was changed" >&2
    exit 77
fi

date=$(date -u +%Y-%m-%dT%H%MZ)
page=gpu-$date.md
work=$(mktemp -d "$folder/peerlane-gpu.XXXXXX")
rates=$work/rates
trap 'rm -rf "$work"' EXIT INT TERM
bytes=$(numfmt --from=iec "$size")
block_bytes=$(numfmt --from=iec "$block")

# `NAME DIRECTION BYTES_PER_SECOND`, or a line that says why there is none.
note() { echo "$1 $2 $3" >>"$rates"; }
failed() { echo "- $1, $2: did not run: $(tail -n 3 "$work/error" | tr '\n' ' ')" >>"$work/failed"; }

ours() {
    route=$1 direction=$2
    if [ "$direction" = read ]; then ends="--source $work/data --target gpu:$gpu"; else
        ends="--source gpu:$gpu --target $work/written --scratch $work/written --force"
    fi
    # shellcheck disable=SC2086 # the ends are words
    if "$program" bench stream $ends --routes "$route" --block "$block" --depth "$depth" --length "$bytes" \
        --repeats 1 --warm-up 0 --json >"$work/record" 2>"$work/error"; then
        "$python" -c 'import json, sys
case = json.load(open(sys.argv[1]))["cases"][0]
print(case["bytes"] * 10**9 // case["elapsed_ns"])' "$work/record" >"$work/rate"
        note "peerlane,$route" "$direction" "$(cat "$work/rate")"
        cp "$work/record" "$work/record-$route-$direction.json"
    else failed "peerlane $route" "$direction"; fi
}

# gdsio prints what was asked for as the way, whatever it took; its GiB are binary.
theirs() {
    way=$1 direction=$2 name=$3
    number=0 && [ "$direction" = read ] || number=1
    if "$gdsio" -f "$work/gdsio" -d "$gpu" -w "$depth" -s "$size" -i "$block" -x "$way" -I "$number" \
        >"$work/out" 2>"$work/error"; then
        rate=$(sed -n 's/.*Throughput: \([0-9.]*\) GiB.*/\1/p' "$work/out" | tail -n 1)
        note "gdsio,$name" "$direction" "$(echo "$rate" | awk '{ printf "%.0f", $1 * 1073741824 }')"
    else failed "gdsio $name" "$direction"; fi
}

kvikio() {
    mode=$1 direction=$2
    if KVIKIO_COMPAT_MODE=$mode KVIKIO_NTHREADS=$depth KVIKIO_TASK_SIZE=$block_bytes "$python" - \
        "$work/data" "$work/kvikio" "$direction" "$bytes" "$gpu" >"$work/rate" 2>"$work/error" <<'PYTHON'
import os, sys, time
import cupy, kvikio
source, target, direction, length, gpu = sys.argv[1:]
cupy.cuda.Device(int(gpu)).use()
memory = cupy.zeros(int(length), dtype=cupy.uint8)
cupy.cuda.runtime.deviceSynchronize()
path, mode = (source, "r") if direction == "read" else (target, "w")
with kvikio.CuFile(path, mode) as file:
    start = time.perf_counter()
    moved = file.pread(memory).get() if direction == "read" else file.pwrite(memory).get()
    if direction == "write":
        os.fsync(os.open(path, os.O_RDONLY))
    elapsed = time.perf_counter() - start
assert moved == int(length), f"{moved} of {length} bytes"
print(int(moved / elapsed))
PYTHON
    then note "KvikIO,compat-$mode" "$direction" "$(cat "$work/rate")"; else failed "KvikIO compat-$mode" "$direction"; fi
}

cold() {
    sync
    if [ -w /proc/sys/vm/drop_caches ]; then echo 1 >/proc/sys/vm/drop_caches; fi
}

# A search by the words given, and whether its hits are those of the file `same`; no hit at all is an answer, too.
search() {
    name=$1 same=$2 status=0
    shift 2
    cold
    "$program" scan "$work/hay/picture.png" "$work/hay/images" --json "$@" >"$work/hits" 2>"$work/words" || status=$?
    echo "- $name, \`scan $*\`:"
    if [ "$status" -gt 1 ]; then
        echo "  did not run ($status): $(tail -n 3 "$work/words" | tr '\n' ' ')"
        return
    fi
    sort "$work/hits" >"$work/sorted"
    agree="OTHER HITS"
    if [ ! -e "$work/$same" ]; then cp "$work/sorted" "$work/$same" && agree="to compare with"; fi
    if [ "$agree" = "OTHER HITS" ] && cmp -s "$work/sorted" "$work/$same"; then agree="the same hits, byte for byte"; fi
    echo "  $(wc -l <"$work/hits") hits, $agree"
    sed 's/^/  /' "$work/words"
}

# One size and rotation, then eight; by each route; one image at a time for the times of kernels.
scan_part() {
    "$program" haystack make --seed 7 --images "$images" --format pgm -q -o "$work/hay"
    many="--scales 0.5,0.71,1,1.41 --rotations 0,90"
    for poses in "" "$many"; do
        same=hits-one && [ -z "$poses" ] || same=hits-many
        # shellcheck disable=SC2086 # the poses are words
        {
            search "processors" $same $poses
            for route in p2p host; do search "GPU" $same --on "gpu:$gpu" --route $route $poses; done
            search "GPU, one image at a time" $same --on "gpu:$gpu" --route host --threads 1 $poses
        }
    done
    rm -rf "$work/hay"
}

: >"$rates"
: >"$work/failed"
if [ "$only" != moves ]; then scan_part >"$work/scan.md"; fi
[ "$only" != scan ] || repeats=0
head -c "$bytes" /dev/urandom >"$work/data"
sync
repeat=0
while [ "$repeat" -lt "$repeats" ]; do
    repeat=$((repeat + 1))
    for turn in read write; do
        echo "repeat $repeat of $repeats, $turn" >&2
        for route in p2p host host-cufile host-page-cache; do cold && ours "$route" "$turn"; done
        if is_there gdsio; then
            [ -e "$work/gdsio" ] || theirs 1 write fill >/dev/null
            cold && theirs 0 "$turn" direct
            cold && theirs 2 "$turn" through-cpu
        fi
        if is_there KvikIO; then
            for mode in OFF ON; do cold && kvikio "$mode" "$turn"; done
        fi
    done
done

{
    echo "# Storage and GPU, $date"
    echo
    echo "$size in blocks of $block, depth $depth, $repeats repeats; file system: $(stat -f -c %T "$folder")."
    echo
    echo '```'
    uname -srm
    nvidia-smi --query-gpu=index,name,pci.bus_id,driver_version,memory.total --format=csv,noheader
    "$program" --version
    echo "$found"
    "$program" plan "$work/data" "gpu:$gpu" || true
    echo '```'
    echo
    "$python" - "$rates" <<'PYTHON'
import collections, statistics, sys
rates = collections.defaultdict(list)
for line in open(sys.argv[1]):
    name, direction, rate = line.split()
    if name != "gdsio,fill":
        rates[direction, name.replace(",", " ")].append(int(rate) / 1e9)
for direction, words in (("read", "Storage to GPU"), ("write", "GPU to storage")):
    base = rates.get((direction, "peerlane host"))
    print(f"## {words}\n\n| variant | GB/s, median | lowest to highest | to peerlane host |\n|---|---|---|---|")
    for (own, name), all in rates.items():
        if own == direction:
            ratio = f"{statistics.median(all) / statistics.median(base):.2f}" if base else "-"
            print(f"| {name} | {statistics.median(all):.2f} | {min(all):.2f} to {max(all):.2f} | {ratio} |")
    print()
PYTHON
    echo "## Which way the bytes of peerlane took"
    echo
    for record in "$work"/record-*.json; do
        [ -e "$record" ] || continue
        "$python" -c 'import json, sys
case = json.load(open(sys.argv[1]))["cases"][0]
for one in case["evidence"]:
    if "the way to" in one["looked_at"] or "cuFile" in one["looked_at"]:
        print("- " + case["asked"]["name"] + ": " + one["showed"])' "$record"
    done
    echo
    sort -u "$work/failed"
    if [ -e "$work/scan.md" ]; then
        echo
        echo "## The search for a picture"
        echo
        echo "$images images by seed 7, 2048 pixels a side in the mean, PGM. Shares in brackets are of what the driver says"
        echo "that the GPU could do at most."
        echo
        cat "$work/scan.md"
    fi
} >"$page"
echo "$page"
