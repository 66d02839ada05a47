#!/usr/bin/env python3
"""Speed and recall of a search for a picture: `peerlane scan` against OpenCV's `matchTemplate` on the same images.

    benchmarks/haystack.py [--images 1000] [--side 2048] [--formats pgm,jpeg] [--sample 20] [--donard 40] [--rounds 3] [--dir DIR] [--json FILE]
    benchmarks/haystack.py --only-recall --images 200 --side 700 --seeds 10 --scales 0.5,1,2 --rotations 0,30
    benchmarks/haystack.py --only-recall --method donard --threshold 250

A haystack is made by seed for each format below --dir and removed afterwards. In every round the whole of it is scanned on
one core (`taskset -c 0`, `--threads 1`, which the reading thread shares) and OpenCV looks for the same picture
with TM_CCOEFF_NORMED in full resolution, one thread, in --sample of the same images, in an order drawn from the seed; so does
`scan --method donard` in --donard of them, on one core as well, with its usual threshold. All read and decode the files themselves, and all of them are read once before, to have them in the page cache. A rate is
Mpixel of the images over user and system time, which other programs on the machine change less than wall time; both are told.

Recall and false hits are counted from answers.jsonl in every run: a planted picture is found if a hit lies within two
pixels of it and no other hit is there. --only-recall leaves the times out and counts over many seeds; the highest score of a
false hit is told, as the bound for a lower --threshold.
"""
import json, os, platform, random, shutil, statistics, sys, tempfile, time
from pathlib import Path

import common
from common import HERE, need, parser, spread

DONARD = 534.19  # Mpixel/s; Bates, "Project Donard", 2014: TIFF, GPU, peer to peer


def run(command):
    """Runs a command, which may find nothing, and returns its output, seconds of wall time, and seconds of CPU."""
    done = common.run(command, statuses=(0, 1))
    return done.text, done.ns / 1e9, done.cpu


def make(arguments, folder, seed, form):
    run([arguments.peerlane, "haystack", "make", "--seed", seed, "--images", arguments.images, "--format", form, "-q",
         "--side", arguments.side, "--per-mille", arguments.per_mille, "--scales", arguments.scales,
         f"--rotations={arguments.rotations}", "-o", folder])
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def scan(arguments, folder, prefix=(), threads=1):
    how = ["--method", "donard"] if arguments.method == "donard" else ["--scales", arguments.scales, f"--rotations={arguments.rotations}"]
    how += ["--threshold", arguments.threshold] if arguments.threshold else []
    return run([*prefix, arguments.peerlane, "scan", folder / "picture.png", folder / "images", "--json", "-q", "--threads", threads, *how])


def donard(arguments, folder, paths, answers):
    """Mpixel, seconds of wall time, seconds of CPU, and the hits, of Donard's method in some of the images."""
    text, wall, cpu = run(["taskset", "-c", "0", arguments.peerlane, "scan", folder / "picture.png", *paths, "--json", "-q",
                           "--threads", "1", "--method", "donard"])
    names = {path.name for path in paths}
    return mpixel(paths), wall, cpu, judge(text, [answer for answer in answers if answer["image"] in names])


def judge(text, answers, tell=False):
    """Pictures planted, pictures found, hits that are none, the least score of those found, the highest of the others."""
    hits = {}
    for hit in map(json.loads, text.splitlines()):
        hits.setdefault(Path(hit["image"]).name, []).append(hit)
    planted, found, false, least, highest = 0, 0, [], float("inf"), 0.0
    for answer in answers:
        here = hits.get(answer["image"], [])
        right = [hit for hit in here if answer["planted"] and abs(hit["x"] - answer["x"]) <= 2
                 and abs(hit["y"] - answer["y"]) <= 2 and abs(hit["scale"] - answer["scale"]) < 1e-3
                 and abs(hit["degrees"] - answer["degrees"]) < 1e-3]
        planted += answer["planted"]
        found += bool(right)
        if answer["planted"] and not right and tell:
            print(f"  missed: {answer}, hits {here}", file=sys.stderr)
        least = min([least] + [max(hit["score"] for hit in right)] if right else [least])
        wrong = [hit for hit in here if hit not in right[:1]]
        highest = max([highest] + [hit["score"] for hit in wrong])
        false += wrong
    return {"planted": planted, "found": found, "false": len(false), "least_found": least if found else None, "highest_false": highest,
            "false_hits": false[:20]}


def opencv(picture, paths):
    """Mpixel, seconds of wall time, seconds of CPU, and images with a score of 0.9, of full-resolution matching."""
    import cv2
    cv2.setNumThreads(1)
    template, pixels, found = cv2.imread(str(picture), cv2.IMREAD_GRAYSCALE), 0, []
    wall, cpu = time.monotonic(), time.process_time()
    for path in paths:
        image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        score = cv2.minMaxLoc(cv2.matchTemplate(image, template, cv2.TM_CCOEFF_NORMED))[1]
        pixels += image.size
        found += [path.name] if score >= 0.9 else []
    return pixels / 1e6, time.monotonic() - wall, time.process_time() - cpu, found


def mpixel(paths):
    import cv2
    return sum(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).size for path in paths) / 1e6


def measure(arguments, form):
    folder = Path(tempfile.mkdtemp(dir=arguments.dir, prefix="peerlane-haystack-"))
    try:
        hay, order = (arguments.made or folder) / f"hay-{form}", random.Random(arguments.seed)
        if not hay.exists():
            make(arguments, hay, arguments.seed, form)
        answers = [json.loads(line) for line in (hay / "answers.jsonl").read_text().splitlines()]
        paths = sorted((hay / "images").iterdir())
        pixels = mpixel(paths)  # which reads all of them once
        ones, twos, theirs, donards, judged, of_donard = [], [], [], [], None, []
        for number in range(arguments.rounds):
            todo = ["one", "two", "opencv"] + (["donard"] if arguments.donard else [])
            order.shuffle(todo)
            for what in todo:
                if what == "opencv":
                    part, wall, cpu, _ = opencv(hay / "picture.png", order.sample(paths, arguments.sample))
                    theirs.append((part / wall, part / cpu))
                elif what == "donard":
                    part, wall, cpu, found = donard(arguments, hay, order.sample(paths, arguments.donard), answers)
                    donards.append((part / wall, part / cpu))
                    of_donard.append(found)
                else:
                    prefix, threads = (["taskset", "-c", "0"], 1) if what == "one" else (["taskset", "-c", "0,1"], 2)
                    text, wall, cpu = scan(arguments, hay, prefix, threads)
                    judged = judge(text, answers, tell=True)
                    (ones if what == "one" else twos).append((pixels / wall, pixels / cpu))
                print(f"  round {number + 1}  {form}  {what}: {wall:.2f} s, {cpu:.2f} s CPU", file=sys.stderr)
        return {"format": form, "mpixel": pixels, "bytes": sum(path.stat().st_size for path in paths), "one_core": ones,
                "two_cores": twos, "opencv": theirs, "donard": donards, "recall": judged, "recall_donard": of_donard}
    finally:
        shutil.rmtree(folder)


def report(result):
    wall, cpu = ([one[index] for one in result["one_core"]] for index in (0, 1))
    their_wall, their_cpu = ([one[index] for one in result["opencv"]] for index in (0, 1))
    ratios = [one / other for one, other in zip(cpu, their_cpu)]
    judged = result["recall"]
    print(f"{result['format']}: {result['mpixel']:.0f} Mpixel, {result['bytes'] / 1e9:.2f} GB; "
          f"{judged['found']} of {judged['planted']} found, {judged['false']} false")
    print(f"  one core   Mpixel/s by CPU time {spread(cpu, 0)}, by wall time {spread(wall, 0)}")
    print(f"  OpenCV     Mpixel/s by CPU time {spread(their_cpu, 0)}, by wall time {spread(their_wall, 0)}")
    print(f"  ratio by CPU time {spread(ratios, 1)}")
    if result["donard"]:
        wall, cpu = ([one[index] for one in result["donard"]] for index in (0, 1))
        found, planted, false = (sum(one[key] for one in result["recall_donard"]) for key in ("found", "planted", "false"))
        print(f"  Donard's   Mpixel/s by CPU time {spread(cpu, 0)}, by wall time {spread(wall, 0)}; "
              f"{found} of {planted} found, {false} false")
        by_ours = [one[1] / other for one, other in zip(result["one_core"], cpu)]
        print(f"  over Donard's method by CPU time {spread(by_ours, 1)}")
    two = [one[0] for one in result["two_cores"]]
    print(f"  two cores  Mpixel/s by wall time {spread(two, 0)}: {statistics.median(two) / DONARD:.1f} times {DONARD}")


def count(arguments):
    total = {"planted": 0, "found": 0, "false": 0, "least_found": None, "highest_false": 0.0}
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        for form in arguments.formats.split(","):
            with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="peerlane-haystack-") as folder:
                hay = Path(folder) / "hay"
                answers = make(arguments, hay, seed, form)
                judged = judge(scan(arguments, hay)[0], answers, tell=arguments.method == "ncc")
            for hit in judged["false_hits"] if arguments.verbose else []:
                print(f"  seed {seed}: {hit}", file=sys.stderr)
            for key in ("planted", "found", "false"):
                total[key] += judged[key]
            if judged["found"]:
                total["least_found"] = min(total["least_found"] or judged["least_found"], judged["least_found"])
            total["highest_false"] = max(total["highest_false"], judged["highest_false"])
    images = arguments.images * arguments.seeds * len(arguments.formats.split(","))
    total |= {"images": images, "mpixel": images * arguments.side ** 2 / 1e6}
    print(f"{images} images of about {arguments.side} pixels a side ({total['mpixel']:.0f} Mpixel), scales {arguments.scales}, "
          f"rotations {arguments.rotations}, {arguments.method}, threshold {arguments.threshold or 'usual'}: {total['found']} of {total['planted']} found, "
          f"least score {total['least_found'] or 0:.3f}; {total['false']} false, highest score {total['highest_false']:.3f}")
    return total


def main():
    options = parser(__doc__, seed=20260)
    options.add_argument("--dir", type=Path, default=HERE.parent / "target", help="where the haystacks are made")
    options.add_argument("--made", type=Path, help="a folder with hay-FORMAT made before, by the same seed and sizes")
    options.add_argument("--images", type=int, default=1000)
    options.add_argument("--side", type=int, default=2048)
    options.add_argument("--formats", default="pgm,jpeg")
    options.add_argument("--per-mille", type=int, default=100)
    options.add_argument("--sample", type=int, default=20)
    options.add_argument("--donard", type=int, default=40, help="images of a round that Donard's method searches; 0 leaves it out")
    options.add_argument("--method", choices=("ncc", "donard"), default="ncc", help="with --only-recall")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seeds", type=int, default=10, help="with --only-recall")
    options.add_argument("--scales", default="1")
    options.add_argument("--rotations", default="0")
    options.add_argument("--threshold", type=float, help="that of the method when not given")
    options.add_argument("--only-recall", action="store_true")
    options.add_argument("--verbose", action="store_true", help="tell of the first false hits of each haystack")
    arguments = options.parse_args()
    need(arguments.peerlane)
    if arguments.only_recall:
        out = count(arguments)
    else:
        results = [measure(arguments, form) for form in arguments.formats.split(",")]
        print(f"seed {arguments.seed}, {arguments.rounds} rounds, {arguments.sample} images a round for OpenCV, {platform.release()}, "
              f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for result in results:
            report(result)
        out = {"seed": arguments.seed, "load": os.getloadavg()[0], "results": results}
    if arguments.json:
        arguments.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
