#!/usr/bin/env python3
"""Cost of verification and digests: a copy with `--verify none`, `sample` and `full`, with `--stage digest`, and
`peerlane verify`, on one large file.

    benchmarks/verification.py [--dir DIR] [--size 4G] [--repeats 5] [--seed N] [--json FILE]

Every repeat runs all variants once, in an order drawn from the seed, with a fresh target and the page cache dropped before
each (needs root; said when it could not be). A ratio is that of two runs of the same repeat: the median of the repeats, with
the lowest and the highest. Bytes read are those that the process itself caused to be read from the disk (`ru_inblock` of wait4),
without other programs; CPU is its user and system time.

Comparison and digests (xxh3-64 of both sides) are timed by `peerlane verify` itself on two equal files in memory (--memory DIR,
/dev/shm): bytes of one side over the time to compare and hash them, reading left out.
"""
import json, os, platform, random, statistics, sys, tempfile
from dataclasses import asdict
from pathlib import Path

from common import HERE, drop_caches, fill, need, parser, run, size_of, spread


def measure(arguments, folder):
    source, target = folder / "source.bin", folder / "target.bin"
    fill(source, arguments.bytes, arguments.seed)
    copies = {f"copy --verify {mode}": ["--verify", mode] for mode in ("none", "sample", "full")}
    manifest = folder / "digests"
    copies["copy --stage digest"] = ["--verify", "none", "--stage", "digest", "--manifest", manifest]
    order, dropped = random.Random(arguments.seed), True
    runs = {name: [] for name in copies}
    for repeat in range(arguments.repeats + 1):
        for name in order.sample(list(copies), len(copies)):
            for made in target, manifest:
                made.unlink(missing_ok=True)
            dropped &= drop_caches()
            one = run([arguments.peerlane, "copy", source, target, "--route", "host", *copies[name], "-q"])
            if repeat:  # the first round warms the disk up and is not counted
                runs[name].append(one)
            print(f"  {'warm-up' if not repeat else repeat:>7}  {name:<22}{one.ns / 1e9:8.3f} s"
                  f"{one.read / (1 << 30):8.3f} GiB read  {one.cpu:6.2f} s CPU", file=sys.stderr)
    return runs, dropped


def compare_in_memory(arguments):
    """Nanoseconds that comparing and hashing took in each `verify` of two files in memory, by its own record."""
    times = []
    with tempfile.TemporaryDirectory(dir=arguments.memory, prefix="peerlane-bench-") as folder:
        source, target = Path(folder) / "source.bin", Path(folder) / "target.bin"
        fill(source, arguments.memory_bytes, arguments.seed)
        target.write_bytes(source.read_bytes())
        for _ in range(arguments.repeats + 1):
            record = json.loads(run([arguments.peerlane, "verify", source, target, "--json"]).text)
            times.append(record["against"]["source"]["comparing_ns"])
    return times[1:]


def main():
    options = parser(__doc__)
    options.add_argument("--dir", type=Path, default=HERE.parent / "target", help="a folder on the disk to measure")
    options.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a folder in memory")
    options.add_argument("--size", default="4G")
    options.add_argument("--memory-size", default="1G")
    options.add_argument("--repeats", type=int, default=5)
    arguments = options.parse_args()
    arguments.bytes, arguments.memory_bytes = size_of(arguments.size), size_of(arguments.memory_size)
    need(arguments.peerlane)
    in_memory = compare_in_memory(arguments)
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="peerlane-bench-") as folder:
        runs, dropped = measure(arguments, Path(folder))
    load = os.getloadavg()[0]
    print(f"{arguments.size} file, {arguments.repeats} repeats, seed {arguments.seed}, {platform.release()}, "
          f"{os.cpu_count()} cores, load {load:.1f}, page cache {'dropped' if dropped else 'NOT dropped (needs root)'}")
    base = runs["copy --verify none"]
    print(f"{'variant':<24}{'median':>10}   time relative to none (lowest to highest)   read from disk, copies of the file")
    for name, ones in runs.items():
        ratios = [one.ns / other.ns for one, other in zip(ones, base)]
        reads = statistics.median(one.read for one in ones) / arguments.bytes
        cpu = statistics.median(one.cpu for one in ones)
        print(f"{name:<24}{statistics.median(one.ns for one in ones) / 1e9:8.3f} s   {spread(ratios):<42}"
              f" {reads:.3f}   {cpu:.2f} s CPU")
    rates = [arguments.memory_bytes / time_ns for time_ns in in_memory]
    print(f"comparing and hashing: {spread(rates)} GB/s of each side")
    if arguments.json:
        arguments.json.write_text(json.dumps({"bytes": arguments.bytes, "seed": arguments.seed, "load": load,
                                              "runs": {name: [asdict(one) for one in ones] for name, ones in runs.items()},
                                              "comparing_ns": in_memory}, indent=1) + "\n")


if __name__ == "__main__":
    main()
