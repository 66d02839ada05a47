#!/usr/bin/env python3
"""Time a copy of one ordinary file by peerlane (host route), cp and dd, and the bound that fio gives for the same disk.

    benchmarks/copy_files.py [--dir DIR] [--size 4G] [--repeats 7] [--seed N] [--json FILE]

Every repeat runs all variants once, in an order drawn from the seed, on the same source file, with a fresh target, the page
cache dropped before each (needs root; said when it could not be). Every time ends when the target's data is on the disk
(fsync): peerlane and dd do that themselves, cp is followed by `sync FILE`, fio has end_fsync. The bound is fio reading one
file and writing another at the same time, direct, io_uring, the same block size and depth as peerlane's: the time until both are done.
Figures are ratios of medians in this run, with the lowest and highest ratio of a single repeat.
"""
import json, os, platform, random, shutil, statistics, sys, tempfile
from pathlib import Path

from common import HERE, drop_caches, fill, need, parser, run, size_of


def variants(arguments, source, target):
    def peerlane(verify):
        return run([arguments.peerlane, "copy", source, target, "--route", "host", "--block", arguments.block,
                    "--depth", arguments.depth, "--verify", verify, "-q"]).ns

    def cp():
        return run(["sh", "-c", 'cp --sparse=never --reflink=never "$0" "$1" && sync "$1"', source, target]).ns

    def dd():
        return run(["dd", f"if={source}", f"of={target}", "bs=1M", "iflag=direct", "oflag=direct", "conv=fsync"]).ns

    def fio():
        common = ["--ioengine=io_uring", "--direct=1", f"--bs={arguments.block}", f"--iodepth={arguments.depth}",
                  f"--size={arguments.bytes}", "--thread", "--group_reporting=0"]
        done = run(["fio", "--output-format=json", "--name=read", "--rw=read", f"--filename={source}", *common,
                    "--name=write", "--rw=write", f"--filename={target}", "--end_fsync=1", *common])
        jobs = json.loads(done.text[done.text.index("{"):])["jobs"]
        return max(max(job["read"]["runtime"], job["write"]["runtime"], job["job_runtime"]) for job in jobs) * 1_000_000

    return {
        "peerlane": lambda: peerlane("none"),
        "peerlane --verify sample": lambda: peerlane("sample"),
        "cp": cp,
        "dd bs=1M direct": dd,
        "fio read and write at once": fio,
    }


def measure(arguments, folder):
    source, target = folder / "source.bin", folder / "target.bin"
    fill(source, arguments.bytes, arguments.seed)
    runs, order, dropped = variants(arguments, source, target), random.Random(arguments.seed), True
    times = {name: [] for name in runs}
    for repeat in range(arguments.repeats + 1):
        for name in order.sample(list(runs), len(runs)):
            target.unlink(missing_ok=True)
            dropped &= drop_caches()
            elapsed = runs[name]()
            if repeat:  # the first round warms the disk up and is not counted
                times[name].append(elapsed)
            print(f"  {'warm-up' if not repeat else repeat:>7}  {name:<28}{elapsed / 1e9:8.3f} s", file=sys.stderr)
    target.unlink(missing_ok=True)
    return times, dropped


def ratio_row(name, times, base):
    ratios = [t / b for t, b in zip(times[name], times[base])]
    return {"name": name, "median_ns": int(statistics.median(times[name])),
            "ratio": statistics.median(times[name]) / statistics.median(times[base]),
            "lowest": min(ratios), "highest": max(ratios)}


def main():
    options = parser(__doc__)
    options.add_argument("--dir", type=Path, default=HERE.parent / "target", help="a folder on the disk to measure")
    options.add_argument("--size", default="4G")
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--block", default="1M")
    options.add_argument("--depth", type=int, default=16)
    arguments = options.parse_args()
    arguments.bytes = size_of(arguments.size)
    need(arguments.peerlane)
    for tool in ("fio", "dd", "cp"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: install it")
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="peerlane-bench-") as folder:
        times, dropped = measure(arguments, Path(folder))
    base = "peerlane"
    rows = [ratio_row(name, times, base) for name in times]
    print(f"{arguments.size} file, {arguments.repeats} repeats, seed {arguments.seed}, {platform.release()}, "
          f"{os.cpu_count()} cores, page cache {'dropped' if dropped else 'NOT dropped (needs root)'} before each run")
    print(f"{'variant':<30}{'median':>10}{'rate':>12}   time relative to {base} (lowest to highest)")
    for row in rows:
        rate = arguments.bytes / row["median_ns"]
        print(f"{row['name']:<30}{row['median_ns'] / 1e9:8.3f} s{rate:7.2f} GB/s   "
              f"{row['ratio']:.3f} ({row['lowest']:.3f} to {row['highest']:.3f})")
    if arguments.json:
        arguments.json.write_text(json.dumps({"bytes": arguments.bytes, "seed": arguments.seed, "times_ns": times,
                                              "page_cache_dropped": dropped, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
