#!/usr/bin/env python3
"""Count the false alarms and the found slowdowns of `peerlane bench compare` on real files of this machine.

    benchmarks/compare.py [--dir DIR] [--size 128M] [--comparisons 20] [--turns 40] [--repeats 2] [--slowdown 5] [--seed N]
                          [--json FILE] [--peerlane PROGRAM]

Runs the same `bench stream` of one file for both sides, in turns, and compares: the share of
comparisons that call the case faster or slower is to be no more than 5 %, since `compare` states 95
%. Then it lengthens every time of the second side by
the slowdown, and compares again: that is to be found. `--turns 1 --repeats 20` measures either side once.

Which side of a turn comes first is drawn. The machine's load is printed: work of others meanwhile is in the figures.
"""
import json, os, random, tempfile
from pathlib import Path

from common import fill, parser, run, size_of


def bench(arguments, source, record, seed):
    run([arguments.peerlane, "bench", "stream", "--source", source, "--target", "host", "--length", arguments.size,
         "--repeats", arguments.repeats, "--warm-up", 0, "--seed", seed, "-o", record, "-q"])


def compare(arguments, files, threshold="0.1%"):
    answer = run([arguments.peerlane, "bench", "compare", *files, "--threshold", threshold, "--json"], statuses=(0, 1))
    return json.loads(answer.text)["nodes"][0]["comparison"]


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
    options.add_argument("--size", default="128M")
    options.add_argument("--comparisons", type=int, default=20)
    options.add_argument("--turns", type=int, default=40)
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--slowdown", type=float, default=5.0, help="in percent")
    arguments = options.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    alarms, regressions, found, ratios = 0, 0, 0, []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        folder = Path(folder)
        source = folder / "source"
        fill(source, size_of(arguments.size), arguments.seed)
        for _ in range(arguments.comparisons):
            turns = [(folder / f"before{turn}.json", folder / f"after{turn}.json") for turn in range(arguments.turns)]
            for turn in turns:
                for record in chance.sample(turn, 2):
                    bench(arguments, source, record, chance.randrange(1 << 32))
            files = [record for turn in turns for record in turn]
            same = compare(arguments, files)
            alarms += any(verdict in ("faster", "slower") for verdict in verdicts(same))
            regressions += compare(arguments, files, threshold="5%")["has_regressed"]
            ratios += [case["ratio"] for case in same["cases"] if case["ratio"] is not None]
            for _, after in turns:
                slow_down(after, arguments.slowdown)
            found += "slower" in verdicts(compare(arguments, files))
    count = arguments.comparisons
    result = {"comparisons": count, "turns": arguments.turns, "repeats": arguments.repeats, "false_alarms": alarms,
              "false_regressions_past_5_percent": regressions, "slowdowns_found": found, "slowdown_percent": arguments.slowdown,
              "ratios_of_equal_runs": ratios, "seed": arguments.seed}
    print(f"equal runs: {alarms} of {count} called different, {regressions} a regression past 5 %; "
          f"ratios {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"{arguments.slowdown:g} % slower: {found} of {count} found")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
