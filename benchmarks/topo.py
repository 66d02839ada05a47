#!/usr/bin/env python3
"""What `peerlane topo` and `doctor` cost on machines of 100, 1,000 and 10,000 functions.

    benchmarks/topo.py [--counts 100 1000 10000] [--repeats 3] [--peerlane PROGRAM] [--json FILE]
    benchmarks/topo.py --write FOLDER [--counts 517 10000]     the machines alone, one device a port

Each machine has five switches below each root bus, with 14 ports; a root bus is 151 functions. In `one device a port`, a port has one
drive, NIC or GPU, and redirects as Linux sets it where it finds an IOMMU; one device in three has memory. In `four GPUs a port`, no port
redirects, and every device has memory: the most groups for the number of functions. One row for each machine and form of output: the
median time and time of CPU, the length of the output, and the most memory that the program had. `--matrix` is left out: it prints a cell
for every two devices.
"""
import json, os, platform, statistics, tempfile
from pathlib import Path

from common import need, parser, run

FORMS = {"topo --json": ["topo", "--json"], "topo": ["topo"], "topo --format svg": ["topo", "--format", "svg"], "doctor": ["doctor"]}
SHAPES = {"one device a port": ("{ control = '0x001d' }", 1), "four GPUs a port": ("'absent'", 4)}
# `doctor` ends with 1 where it finds obstacles.
STATUSES = (0, 1)
GPU = "vendor = '0x10de'\ndevice = '0x2331'\nclass = '0x030200'"
DEVICES = [("nvme", "controller = 'nvme{}'\nsize = '1G'"), ("gpu", GPU), ("nic", "kernel_names = ['eth{}']")]


def function(name, kind, under, keys=""):
    return f"[[function]]\nname = '{name}'\nkind = '{kind}'\nunder = '{under}'\n{keys}\n"


def machine(count, acs, per_port):
    """The text of a machine file with about so many functions."""
    text, functions, switch = ["name = 'large'\ncpu = { vendor = 'GenuineIntel', family = 6 }\n"], [], 0
    acs, devices = f"acs = {acs}", 0
    while len(functions) < count:
        bus = f"pci{switch // 5:04x}:00"
        if switch % 5 == 0:
            text.append(f"[[host_bridge]]\nname = '{bus}'\n")
            functions.append(function(f"h{switch}", "other", bus, "vendor = '0x8086'\ndevice = '0x29c0'"))
        functions.append(function(f"r{switch}", "root-port", bus, acs))
        functions.append(function(f"u{switch}", "upstream-port", f"r{switch}", "acs = 'absent'"))
        for port in range(14 if per_port == 1 else 6):
            functions.append(function(f"d{switch}-{port}", "downstream-port", f"u{switch}", acs))
            for _ in range(per_port):
                kind, keys = DEVICES[devices % 3] if per_port == 1 else DEVICES[1]
                functions.append(function(f"e{devices}", kind, f"d{switch}-{port}", keys.format(devices)))
                devices += 1
        switch += 1
    return "".join(text + functions), len(functions)


def main():
    options = parser(__doc__)
    options.add_argument("--counts", type=int, nargs="+", default=[100, 1000, 10000])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--write", type=Path)
    arguments = options.parse_args()
    if arguments.write:
        for count in arguments.counts:
            text, _ = machine(count, *SHAPES["one device a port"])
            (arguments.write / f"{count}.toml").write_text(text)
        return
    need(arguments.peerlane)
    rows = []
    print(f"{platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("\n| machine | functions | output | seconds | of CPU | MB | peak memory, MB |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="peerlane-bench-") as folder:
        path = Path(folder, "large.toml")
        for shape, (acs, per_port) in SHAPES.items():
            for count in arguments.counts:
                text, functions = machine(count, acs, per_port)
                path.write_text(text)
                for form, words in FORMS.items():
                    runs = [run([arguments.peerlane, *words, "--machine", path], STATUSES) for _ in range(arguments.repeats)]
                    row = {"shape": shape, "functions": functions, "form": form,
                           "seconds": statistics.median(one.ns for one in runs) / 1e9,
                           "cpu": statistics.median(one.cpu for one in runs),
                           "bytes": len(runs[0].text.encode()), "peak": max(one.peak for one in runs)}
                    rows.append(row)
                    print(f"| {shape} | {functions:,} | {form} | {row['seconds']:.2f} | {row['cpu']:.2f} | {row['bytes'] / 1e6:.2f} | "
                          f"{row['peak'] / 1e6:.0f} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
