#!/usr/bin/env python3
"""Count the false alarms and the found slowdowns of `peerlane bench compare` on real files of this machine.

    benchmarks/compare.py [--dir DIR] [--size 1G] [--pairs 20] [--repeats 20] [--slowdown 5] [--seed N] [--json FILE]
                          [--peerlane PROGRAM]

Runs the same `bench stream` of one file twice, as many times as asked, and compares each pair: the share of pairs in which a
case is called faster or slower is to be no more than 5 %, the confidence that `compare` states. Then it lengthens every time of
the second run by the slowdown, and compares again: that is to be found.

The two runs of a pair follow each other; the machine's load is printed, since what changes between two runs and not within
one looks like a difference.
"""
import argparse, json, os, random, subprocess, sys, tempfile
from pathlib import Path

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    return int(float(text[:-1]) * UNITS[text[-1].upper()]) if text[-1].upper() in UNITS else int(text)


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


def run(command, statuses=(0,)):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in statuses:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def bench(arguments, source, record, seed):
    run([arguments.peerlane, "bench", "stream", "--source", source, "--target", "host", "--length", arguments.size,
               "--repeats", arguments.repeats, "--seed", seed, "-o", record, "-q"])


def compare(arguments, before, after, threshold="0.1%"):
    answer = run([arguments.peerlane, "bench", "compare", before, after, "--threshold", threshold, "--json"], statuses=(0, 1))
    return json.loads(answer)


def slow_down(record, percent):
    """Makes every run of a record take longer."""
    text = json.loads(Path(record).read_text())
    for case in text["cases"]:
        case["elapsed_ns"] = round(case["elapsed_ns"] / (1 - percent / 100))
    Path(record).write_text(json.dumps(text))


def verdicts(answer):
    return [case["verdict"] for case in answer["cases"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=".")
    parser.add_argument("--size", default="1G")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--slowdown", type=float, default=5.0, help="in percent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("--peerlane", default="target/release/peerlane")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    alarms, regressions, found, ratios = 0, 0, 0, []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        folder = Path(folder)
        source, before, after = folder / "source", folder / "before.json", folder / "after.json"
        fill(source, size_of(arguments.size), arguments.seed)
        for pair in range(arguments.pairs):
            seed = arguments.seed + 2 * pair
            bench(arguments, source, before, seed)
            bench(arguments, source, after, seed + 1)
            same = compare(arguments, before, after)
            alarms += any(verdict in ("faster", "slower") for verdict in verdicts(same))
            regressions += compare(arguments, before, after, threshold="5%")["has_regressed"]
            ratios += [case["ratio"] for case in same["cases"] if case["ratio"] is not None]
            slow_down(after, arguments.slowdown)
            found += "slower" in verdicts(compare(arguments, before, after))
    result = {"pairs": arguments.pairs, "false_alarms": alarms, "false_regressions_past_5_percent": regressions,
              "slowdowns_found": found, "slowdown_percent": arguments.slowdown, "ratios_of_equal_runs": ratios, "seed": arguments.seed}
    print(f"equal runs: {alarms} of {arguments.pairs} called different, {regressions} a regression past 5 %; "
          f"ratios {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"{arguments.slowdown:g} % slower: {found} of {arguments.pairs} found")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
