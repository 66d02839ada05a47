#!/usr/bin/env python3
"""Does `peerlane bench` agree with fio? Alternating runs on one file, at the same block size, depth and direction.

    benchmarks/bench_against_fio.py [--repeats 9] [--seconds 1] [--size 128M] [--folder DIR] [--peerlane FILE]

Both hand requests over one by one, which is fio's default. Our process gets no huge pages, since fio asks for none: a request on a huge
page is one segment, on small pages 256 a MiB, which a virtual disk feels. `--huge-pages` leaves them.

One row for each of the ten cases: the ratio of the medians, the lowest and highest ratio of a pair, the ratio of CPU time a GiB, and
how large the requests were that reached the drive: the block layer merges neighbouring blocks that are handed over together.
Every case is in the table, whatever it shows; the line above it has the load. Four minutes as it is.
"""
import argparse, ctypes, json, os, platform, random, statistics, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
CASES = [("4K", 1, ""), ("4K", 32, "random"), ("4K", 32, ""), ("64K", 8, ""), ("1M", 4, "")]
SECTOR = 512
PR_SET_THP_DISABLE = 41


def without_huge_pages():
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def drive_requests(folder, direction):
    """Requests and sectors that the drive below a folder has completed (Linux, Documentation/block/stat.rst)."""
    device = os.stat(folder).st_dev
    file = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    first = 0 if direction == "read" else 4
    numbers = [int(word) for word in file.read_text().split()] if file.exists() else [0] * 8
    return numbers[first], numbers[first + 2]


def peerlane(options, file, direction, block, depth, order):
    """Rate in bytes a second and CPU seconds a GiB."""
    ends = ["--source", file, "--target", "host"] if direction == "read" else ["--source", "host", "--target", file]
    scratch = [] if direction == "read" else ["--scratch", file, "--force"]
    command = [options.peerlane, "bench", "stream", *ends, *scratch, "--block", block, "--depth", str(depth), "--length", options.size,
               "--time", str(options.seconds), "--warm-up", "0", "--repeats", "1", "--json", "-q", *([f"--{order}"] if order else [])]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=None if options.huge_pages else without_huge_pages)
    if done.returncode:
        sys.exit(done.stderr)
    run = json.loads(done.stdout)["cases"][0]
    cpu = run["cpu"]["user_ns"] + run["cpu"]["system_ns"] + (run["cpu"]["workers_ns"] or 0)
    return run["bytes"] / run["elapsed_ns"] * 1e9, cpu / 1e9 / (run["bytes"] / GIB)


def fio(options, file, direction, block, depth, order):
    way = f"rand{direction}" if order else direction
    command = ["fio", "--name=x", f"--filename={file}", f"--rw={way}", f"--bs={block.lower()}", f"--iodepth={depth}",
               "--ioengine=io_uring", "--direct=1", f"--size={options.size}", "--time_based=1", f"--runtime={int(options.seconds * 1000)}ms",
               "--thread=1", "--output-format=json"] + (["--end_fsync=1"] if direction == "write" else [])
    done = subprocess.run(command, capture_output=True, text=True)
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return job[direction]["bw_bytes"], cpu / (job[direction]["io_bytes"] / GIB)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--size", default="128M")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--peerlane", default=str(HERE.parent / "target/release/peerlane"))
    parser.add_argument("--huge-pages", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = str(Path(folder) / "file")
        subprocess.run(["fio", "--name=fill", f"--filename={file}", "--rw=write", "--bs=1m", "--direct=1", f"--size={options.size}"],
                       stdout=subprocess.DEVNULL, check=True)
        begin = os.getloadavg()[0]
        rows = []
        for direction in ("read", "write"):
            for block, depth, order in CASES:
                pairs, sent = [], {peerlane: [0, 0], fio: [0, 0]}
                for _ in range(options.repeats):
                    both = {}
                    for tool in random.sample([peerlane, fio], 2):
                        before = drive_requests(folder, direction)
                        both[tool] = tool(options, file, direction, block, depth, order)
                        after = drive_requests(folder, direction)
                        sent[tool] = [sum_ + end - begin_ for sum_, begin_, end in zip(sent[tool], before, after)]
                    pairs.append((both[peerlane], both[fio]))
                ours, theirs = ([statistics.median(pair[who][what] for pair in pairs) for what in (0, 1)] for who in (0, 1))
                ratios = [pair[0][0] / pair[1][0] for pair in pairs]
                mean = [sectors * SECTOR / 1024 / max(requests, 1) for requests, sectors in (sent[peerlane], sent[fio])]
                case = f"{order} {direction} {block}, depth {depth}".strip()
                rows.append(f"| {case} | {ours[0] / theirs[0]:.3f} | {min(ratios):.2f} to {max(ratios):.2f} "
                            f"| {ours[1] / theirs[1]:.3f} | {mean[0]:.0f}, {mean[1]:.0f} |")
        print(f"{options.repeats} alternating runs of {options.seconds} s in {options.size}, {platform.release()}, {os.cpu_count()} cores, "
              f"load {begin:.1f} to {os.getloadavg()[0]:.1f}\n")
        print("| case | rate, peerlane over fio | lowest to highest pair | CPU a GiB, peerlane over fio "
              "| KiB a request of the drive: peerlane, fio |\n|---|---|---|---|---|")
        print("\n".join(rows))


if __name__ == "__main__":
    main()
