#!/usr/bin/env python3
"""Time a copy of one ordinary file by peerlane (host route), cp and dd, and the bound that fio gives for the same disk.

    benchmarks/copy_files.py [--dir DIR] [--size 4G] [--repeats 7] [--seed N] [--json FILE]

Every repeat runs all variants once, in an order drawn from the seed, on the same source file, with a fresh target, the page
cache dropped before each (needs root; said when it could not be). Every time ends when the target's data is on the disk
(fsync): peerlane and dd do that themselves, cp is followed by `sync FILE`, fio has end_fsync. The bound is fio reading one
file and writing another at the same time, direct, io_uring, the same block size and depth as peerlane's: the time until both are done.
Figures are ratios of medians in this run, with the lowest and highest ratio of a single repeat.
"""
import argparse, json, os, platform, random, shutil, statistics, subprocess, sys, tempfile, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    return int(float(text[:-1]) * UNITS[text[-1].upper()]) if text[-1].upper() in UNITS else int(text)


def drop_caches():
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError:
        return False


def fill(path, size, seed):
    """Writes bytes that neither compress nor repeat, so that no layer below can cheat."""
    generator, left = random.Random(seed), size
    with open(path, "wb") as out:
        while left:
            piece = generator.randbytes(min(left, 64 << 20))
            out.write(piece)
            left -= len(piece)
        out.flush()
        os.fsync(out.fileno())


def run(command):
    begin = time.monotonic_ns()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    elapsed = time.monotonic_ns() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr.decode()}")
    return elapsed, done.stdout


def variants(arguments, source, target):
    def peerlane(verify):
        elapsed, _ = run([arguments.peerlane, "copy", source, target, "--route", "host", "--block", arguments.block,
                          "--depth", str(arguments.depth), "--verify", verify, "-q"])
        return elapsed

    def cp():
        return run(["sh", "-c", 'cp --sparse=never --reflink=never "$0" "$1" && sync "$1"', source, target])[0]

    def dd():
        return run(["dd", f"if={source}", f"of={target}", "bs=1M", "iflag=direct", "oflag=direct", "conv=fsync"])[0]

    def fio():
        common = ["--ioengine=io_uring", "--direct=1", f"--bs={arguments.block}", f"--iodepth={arguments.depth}",
                  f"--size={arguments.bytes}", "--thread", "--group_reporting=0"]
        _, text = run(["fio", "--output-format=json", "--name=read", "--rw=read", f"--filename={source}", *common,
                       "--name=write", "--rw=write", f"--filename={target}", "--end_fsync=1", *common])
        jobs = json.loads(text[text.index(b"{"):])["jobs"]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=HERE.parent / "target", help="a folder on the disk to measure")
    parser.add_argument("--size", default="4G")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--block", default="1M")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peerlane", type=Path, default=HERE.parent / "target/release/peerlane")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.bytes = size_of(arguments.size)
    for tool in (str(arguments.peerlane), "fio", "dd", "cp"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: build with `cargo build --release`, install fio")
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
