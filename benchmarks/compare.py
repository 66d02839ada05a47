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
import json, os, tempfile
from pathlib import Path

from common import fill, parser, run, size_of


def bench(arguments, source, record, seed):
    run([arguments.peerlane, "bench", "stream", "--source", source, "--target", "host", "--length", arguments.size,
         "--repeats", arguments.repeats, "--seed", seed, "-o", record, "-q"])


def compare(arguments, before, after, threshold="0.1%"):
    answer = run([arguments.peerlane, "bench", "compare", before, after, "--threshold", threshold, "--json"], statuses=(0, 1))
    return json.loads(answer.text)


def slow_down(record, percent):
    """Makes every run of a record take longer."""
    text = json.loads(Path(record).read_text())
    for case in text["cases"]:
        case["elapsed_ns"] = round(case["elapsed_ns"] / (1 - percent / 100))
    Path(record).write_text(json.dumps(text))


def verdicts(answer):
    return [case["verdict"] for case in answer["cases"]]


def main():
    options = parser(__doc__)
    options.add_argument("--dir", default=".")
    options.add_argument("--size", default="1G")
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--repeats", type=int, default=20)
    options.add_argument("--slowdown", type=float, default=5.0, help="in percent")
    arguments = options.parse_args()
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
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
