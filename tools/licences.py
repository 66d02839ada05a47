"""Prints the licences of the crates that a program links, each text once: licences.py METADATA LINKED."""

import collections
import json
import pathlib
import sys

NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def texts(package):
    """License texts in the folder of a crate, one line of names before each."""
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.upper().startswith(NAMES):
            yield path.read_text(errors="replace").strip()


def main():
    metadata, linked = (pathlib.Path(path).read_text() for path in sys.argv[1:])
    wanted = {tuple(line.split()[:2]) for line in linked.splitlines()}
    users = collections.defaultdict(list)
    for package in json.loads(metadata)["packages"]:
        name, version = package["name"], package["version"]
        if package["source"] is None or (name, f"v{version}") not in wanted:
            continue
        found = list(texts(package)) or ["(its archive has no text of the licence)"]
        for text in found:
            users[text].append(f"{name} {version} ({package['license']})")
    for text, names in sorted(users.items(), key=lambda pair: pair[1]):
        print("=" * 78, *sorted(names), "-" * 78, text, "", sep="\n")


main()
