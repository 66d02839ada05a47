#!/usr/bin/env python3
"""Does a peer-to-peer copy read and write at the same time? Both drives are throttled to one rate in the lab.

    benchmarks/overlap.py [--repeats 3] [--machine machines/throttled.toml] [--kernel FILE]

Full overlap gets the throttled rate; a loop that reads and then writes gets half of it. That loop runs next to it: `dd` with one
buffer of as many bytes as the copy has in flight (16 MiB). The buffer must be large: QEMU's throttle lets a tenth of a second of
traffic pass at once, so a loop over small blocks saves up while the other drive works and hides that it never overlaps.
The machine is emulated: the figure says whether reading and writing overlap, nothing about speed.
"""
import argparse, json, statistics, subprocess, sys, tempfile, tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"K": 1000, "M": 1000_000, "G": 1000_000_000}
BYTES = 64 << 20


def throttled_rate(machine):
    """The rate of drive `a`, in bytes per second."""
    drive = next(f for f in tomllib.loads(machine.read_text())["function"] if f["name"] == "a")
    text = drive["throttle"]
    return int(text[:-1]) * UNITS[text[-1]]


def guest_script(repeats):
    """One boot: in turn our copy, its record into $OUT, and dd, its seconds into $OUT."""
    copy = "peerlane copy /dev/lab/a /dev/lab/b --route p2p --verify none --force --json -q"
    dd = "dd if=/dev/lab/a of=/dev/lab/b bs=16M iflag=direct oflag=direct 2> /dev/null"
    uptime = "cut -d' ' -f1 /proc/uptime"
    return "set -e\n" + "".join(
        f"{copy} > $OUT/copy-{n}.json\n{uptime} > $OUT/dd-{n}\n{dd}\n{uptime} >> $OUT/dd-{n}\n" for n in range(repeats))


def measure(arguments):
    with tempfile.TemporaryDirectory() as out:
        command = [arguments.peerlane, "lab", "run", "--machine", arguments.machine, "--out", out]
        command += ["--kernel", arguments.kernel] if arguments.kernel else []
        done = subprocess.run([*command, "--", "sh", "-c", guest_script(arguments.repeats)], stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"the lab run ended with status {done.returncode}")
        records = [json.loads((Path(out) / f"copy-{n}.json").read_text()) for n in range(arguments.repeats)]
        copies = [record["jobs"][0]["targets"][0]["copied"] for record in records]
        times = [[float(line) for line in (Path(out) / f"dd-{n}").read_text().split()] for n in range(arguments.repeats)]
    for copied in copies:
        if copied["bytes_by_route"] != {"p2p": BYTES, "host": 0}:
            sys.exit(f"not a peer-to-peer copy of {BYTES} bytes: {copied['bytes_by_route']}")
    return {"peerlane copy, p2p, default block and depth": [BYTES * 1e9 / copied["elapsed_ns"] for copied in copies],
            "dd bs=16M direct: reads, then writes": [BYTES / (end - begin) for begin, end in times]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--machine", type=Path, default=HERE.parent / "machines/throttled.toml")
    parser.add_argument("--kernel")
    parser.add_argument("--peerlane", type=Path, default=HERE.parent / "target/release/peerlane")
    arguments = parser.parse_args()
    limit = throttled_rate(arguments.machine)
    print(f"both drives throttled to {limit / 1e6:.0f} MB/s, {BYTES} bytes a copy; emulated machine: overlap, not speed")
    for name, rates in measure(arguments).items():
        shares = sorted(rate / limit for rate in rates)
        print(f"{name:<42} {statistics.median(shares):.3f} of the throttled rate ({shares[0]:.3f} to {shares[-1]:.3f})")


if __name__ == "__main__":
    main()
