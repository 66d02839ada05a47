#!/usr/bin/env python3
"""Does a peer-to-peer copy read and write at the same time? Both drives are throttled to one rate in the lab.

    benchmarks/overlap.py [--repeats 3] [--machine machines/throttled.toml] [--kernel FILE]

A loop that reads and then writes gets half of the throttled rate; full overlap gets all of it. Depth 1 is that loop, by the same
program, for comparison. The machine is emulated: the figure says whether reading and writing overlap, nothing about speed.
"""
import argparse, json, statistics, subprocess, sys, tempfile, tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"K": 1000, "M": 1000_000, "G": 1000_000_000}


def throttled_rate(machine):
    """The rate of drive `a`, in bytes per second."""
    drive = next(f for f in tomllib.loads(machine.read_text())["function"] if f["name"] == "a")
    text = drive["throttle"]
    return int(text[:-1]) * UNITS[text[-1]]


def copies(arguments, depths):
    """One boot; a record for every repeat and depth."""
    script = "; ".join(f"peerlane copy /dev/lab/a /dev/lab/b --route p2p --block 256K --depth {depth} --verify none --force --json -q "
                       f"> $OUT/{repeat}-{depth}.json || exit 1"
                       for repeat in range(arguments.repeats) for depth in depths)
    with tempfile.TemporaryDirectory() as out:
        command = [arguments.peerlane, "lab", "run", "--machine", arguments.machine, "--out", out]
        command += ["--kernel", arguments.kernel] if arguments.kernel else []
        done = subprocess.run([*command, "--", "sh", "-c", script], stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"the lab run ended with status {done.returncode}")
        return {depth: [json.loads((Path(out) / f"{repeat}-{depth}.json").read_text()) for repeat in range(arguments.repeats)]
                for depth in depths}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--machine", type=Path, default=HERE.parent / "machines/throttled.toml")
    parser.add_argument("--kernel")
    parser.add_argument("--peerlane", type=Path, default=HERE.parent / "target/release/peerlane")
    arguments = parser.parse_args()
    limit = throttled_rate(arguments.machine)
    print(f"both drives throttled to {limit / 1e6:.0f} MB/s; emulated machine: overlap, not speed")
    for depth, records in copies(arguments, (1, 16)).items():
        for record in records:
            assert record["route"] == "p2p" and record["bytes_by_route"]["host"] == 0, record["route"]
        shares = [record["bytes"] * 1e9 / record["elapsed_ns"] / limit for record in records]
        print(f"depth {depth:>2}: {statistics.median(shares):.3f} of the throttled rate "
              f"({min(shares):.3f} to {max(shares):.3f}, {len(shares)} copies of {records[0]['bytes']} bytes)")


if __name__ == "__main__":
    main()
