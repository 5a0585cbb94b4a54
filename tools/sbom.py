#!/usr/bin/env python3
"""Prints what the program `ronde` is made of, as a CycloneDX 1.6 document.

usage: tools/sbom.py

Every crate that is linked into it, with version, licence, checksum and what it needs; no crates for tests or builds. Made
of what cargo says and Cargo.lock, so that the same tree gives the same bytes.
"""

import json
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "ronde"
TARGET = "x86_64-unknown-linux-gnu"


def metadata():
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    return json.loads(subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def linked(nodes, start):
    """Returns what each crate needs at run time, for all that a crate leads to."""
    found, left = {}, [start]
    while left:
        package = left.pop()
        if package not in found:
            kinds = [(dep["pkg"], [kind["kind"] for kind in dep["dep_kinds"]]) for dep in nodes[package]["deps"]]
            found[package] = sorted({name for name, kind in kinds if None in kind})
            left += found[package]
    return found


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums, kind="library"):
    entry = {
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package["license"]:
        # An older way to write a choice.
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def document():
    facts = metadata()
    packages = {package["id"]: package for package in facts["packages"]}
    nodes = {node["id"]: node for node in facts["resolve"]["nodes"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock}
    (start,) = (it for it in facts["workspace_members"] if packages[it]["name"] == PROGRAM)
    needs = linked(nodes, start)
    ref = lambda package: purl(packages[package])
    others = sorted((package for package in needs if package != start), key=ref)
    body = {
        "metadata": {"component": component(packages[start], checksums, "application")},
        "components": [component(packages[package], checksums) for package in others],
        "dependencies": [
            {"ref": ref(package), "dependsOn": sorted(map(ref, needs[package]))} for package in sorted(needs, key=ref)
        ],
    }
    # The same contents have the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1, **body}


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    print(json.dumps(document(), indent=1))


if __name__ == "__main__":
    main()
