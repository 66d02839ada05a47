#!/usr/bin/env python3
"""Lists the crates that the program for a target links, or whose data its build takes in.

    tools/linked.py licences TARGET    the licences of the outside ones, each text once
    tools/linked.py sbom TARGET        all of them as a bill of materials: CycloneDX 1.6

The same commit gives the same bytes: the time is SOURCE_DATE_EPOCH, or that of the commit.
"""

import collections
import datetime
import functools
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = "peerlane-cli"
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def said(*command):
    """What a command prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


@functools.cache
def metadata(target):
    """What cargo knows of the workspace for a target."""
    return json.loads(said("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))


def linked(target):
    """The packages behind the program, by their identifiers."""
    options = ["-p", PROGRAM, "-e", "normal,build", "--target", target, "--prefix", "none", "--format", "{p}"]
    wanted = {tuple(line.split()[:2]) for line in said("cargo", "tree", "--locked", *options).splitlines() if line}
    packages = metadata(target)["packages"]
    return {one["id"]: one for one in packages if (one["name"], f"v{one['version']}") in wanted}


def texts(package):
    """License texts in the folder of a crate."""
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.upper().startswith(NAMES):
            yield path.read_text(errors="replace").strip()


def licences(target):
    """Each text of a licence below the crates that have it."""
    users = collections.defaultdict(list)
    for package in linked(target).values():
        if package["source"] is None:
            continue
        found = list(texts(package)) or ["(its archive has no text of the licence)"]
        for text in found:
            users[text].append(f"{package['name']} {package['version']} ({package['license']})")
    for text, names in sorted(users.items(), key=lambda pair: pair[1]):
        print("=" * 78, *sorted(names), "-" * 78, text, "", sep="\n")


def reference(package):
    """The name of a package within the bill."""
    return f"{package['name']}@{package['version']}"


def component(package, checksums):
    """A package as a component; one from the registry has its URL and the digest of its archive."""
    made = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
    }
    if package["source"]:
        made["purl"] = f"pkg:cargo/{reference(package)}".replace("+", "%2B")
        made["hashes"] = [{"alg": "SHA-256", "content": checksums[package["name"], package["version"]]}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def dependencies(packages, target):
    """What each package is linked to or built with."""
    for node in sorted(metadata(target)["resolve"]["nodes"], key=lambda node: node["id"]):
        if node["id"] in packages:
            used = {
                reference(packages[one["pkg"]])
                for one in node["deps"]
                if one["pkg"] in packages and any(kind["kind"] != "dev" for kind in one["dep_kinds"])
            }
            yield {"ref": reference(packages[node["id"]]), "dependsOn": sorted(used)}


def sbom(target):
    """The bill of materials of the program, whose commit and target are its properties."""
    packages = linked(target)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    components = {one["id"]: component(one, checksums) for one in packages.values()}
    (program,) = (key for key, one in packages.items() if one["name"] == PROGRAM)
    subject = components.pop(program) | {"type": "application", "name": "peerlane"}
    commit = said("git", "rev-parse", "HEAD").strip()
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or said("git", "log", "-1", "--format=%ct"))
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"peerlane:{commit}:{target}").urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(when, datetime.UTC).isoformat(),
            "component": subject,
            "properties": [{"name": "peerlane:commit", "value": commit}, {"name": "peerlane:target", "value": target}],
        },
        "components": sorted(components.values(), key=lambda one: one["bom-ref"]),
        "dependencies": list(dependencies(packages, target)),
    }
    print(json.dumps(bill, indent=1))


def main():
    kinds = {"licences": licences, "sbom": sbom}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kinds[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
