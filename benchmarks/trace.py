#!/usr/bin/env python3
"""Cost of `--trace` to a copy of an ordinary file by the host route.

    benchmarks/trace.py [--dir DIR] [--size 512M] [--repeats 9] [--block 1M] [--depth 16] [--seed N] [--json FILE]

Every repeat runs the copy with and without `--trace`, in an order drawn from the seed, on the same source, with a fresh target, the
page cache dropped before each (needs root; said when it could not be). `copy` is the time that the record gives: first request to
end of flush. `program` is the whole program, which with `--trace` also writes the file. Next to each stands its CPU time. A ratio is that
of two runs of one repeat. `--dir /dev/shm` leaves the disk out: every request is a copy in memory, the worst case for the cost of a trace.
One row for each; a minute as it is, and no more than two.
"""
import argparse, json, os, platform, random, resource, statistics, subprocess, sys, tempfile, time
from pathlib import Path

from common import HERE, drop_caches, fill, size_of


def copy(arguments, source, target, trace):
    words = [arguments.peerlane, "copy", source, target, "--route", "host", "--block", arguments.block, "--depth",
             str(arguments.depth), "--verify", "none", "--json", "-q", *(["--trace", trace] if trace else [])]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic_ns()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program, after = time.monotonic_ns() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stderr.decode()}")
    cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    record = json.loads(done.stdout)["jobs"][0]["targets"][0]["copied"]
    return {"copy": record["elapsed_ns"], "copy cpu": record["cpu"]["user_ns"] + record["cpu"]["system_ns"],
            "program": program, "program cpu": int(cpu * 1e9)}


def measure(arguments, folder):
    source, target, trace = folder / "source.bin", folder / "target.bin", folder / "copy.pftrace"
    fill(source, arguments.bytes, arguments.seed)
    order, dropped, runs, size = random.Random(arguments.seed), True, [], 0
    for repeat in range(arguments.repeats + 1):
        pair = {}
        for is_traced in order.sample([False, True], 2):
            target.unlink(missing_ok=True)
            trace.unlink(missing_ok=True)
            dropped &= drop_caches()
            pair[is_traced] = copy(arguments, source, target, trace if is_traced else None)
            size = trace.stat().st_size if is_traced else size
        if repeat:  # the first round warms the disk up and is not counted
            runs.append(pair)
    return runs, dropped, size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=HERE.parent / "target", help="a folder on the disk to measure")
    parser.add_argument("--size", default="512M")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--block", default="1M")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peerlane", type=Path, default=HERE.parent / "target/release/peerlane")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.bytes = size_of(arguments.size)
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="peerlane-bench-") as folder:
        runs, dropped, size = measure(arguments, Path(folder))
    print(f"{arguments.size} file, blocks of {arguments.block}, depth {arguments.depth}, {arguments.repeats} repeats, seed {arguments.seed}, "
          f"{platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, page cache "
          f"{'dropped' if dropped else 'NOT dropped (needs root)'}; the trace has {size / 1e6:.2f} MB")
    print("\n| case | with over without: ratio of medians | median pair (lowest to highest) |\n|---|---|---|")
    for what in ("copy", "copy cpu", "program", "program cpu"):
        ratios = [pair[True][what] / pair[False][what] for pair in runs]
        without, traced = (statistics.median(pair[one][what] for pair in runs) for one in (False, True))
        print(f"| {what} | {traced / without:.3f} | {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"bytes": arguments.bytes, "seed": arguments.seed, "trace_bytes": size,
                                              "untraced": [pair[False] for pair in runs], "traced": [pair[True] for pair in runs]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
