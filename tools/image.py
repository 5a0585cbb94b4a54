#!/usr/bin/env python3
"""Writes the operator's image: an OCI archive with one static program in it, and nothing else.

usage: tools/image.py PROGRAM ARCHIVE [NAME]

Prints the digest by which a registry will know the image. Neither Docker nor a registry is needed, and nothing of this
machine gets in: the same program, version and time make the same bytes. The time is SOURCE_DATE_EPOCH, else that of the
commit. NAME is `ronde:VERSION` unless told. `docker load`, `ctr images import`, `skopeo` and `ronde image load` read it.
"""

import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM_PATH = "usr/local/bin/ronde"
# Nobody's on any machine, and not root's: pods that must not run as root can check it, because it is a number.
USER = "65532:65532"
# What ELF calls machines, and what OCI calls them.
MACHINES = {62: "amd64", 183: "arm64"}


def fail(text):
    sys.exit(f"error: {text}")


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def version():
    import tomllib

    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def architecture(program):
    """Returns the machine that a program is for; one that needs libraries would not start in an empty image."""
    if program[:5] != b"\x7fELF\x02":
        fail("this is no 64-bit program for Linux")
    (machine,) = struct.unpack_from("<H", program, 18)
    start, size, count = *struct.unpack_from("<Q", program, 32), *struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, start + size * at)[0] for at in range(count)]
    if 3 in kinds:
        fail("this program is not static; `make static` builds one that is")
    return MACHINES.get(machine) or fail(f"there is no name for the machine {machine} that this program is for")


def tar(members):
    """Returns an archive of (name, content or none for a folder) that depends on nothing else."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if content is None or name == PROGRAM_PATH else 0o644
            entry.type, entry.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            archive.addfile(entry, io.BytesIO(content or b""))
    return file.getvalue()


def layer(program):
    parents = [str(folder) for folder in Path(PROGRAM_PATH).parents][-2::-1]
    return tar([(folder, None) for folder in parents] + [(PROGRAM_PATH, program)])


class Blobs(dict):
    """The parts of an image by their digests."""

    def add(self, content, media_type):
        digest = hashlib.sha256(content).hexdigest()
        self[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, value, media_type):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), media_type)


def labels(created):
    # A tree with changes is no commit.
    revision = git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    facts = {
        "created": created,
        "description": "Distributed training on Kubernetes: operator, scheduler and agent",
        "licenses": "Apache-2.0",
        "revision": revision,
        "title": "ronde",
        "version": version(),
    }
    return {f"org.opencontainers.image.{key}": value for key, value in facts.items()}


def archive(program, name):
    """Returns the archive and the digest of the image in it."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    created = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    blobs, plain = Blobs(), layer(program)
    # Compressed here: whoever pushes a plain layer compresses it in their own way, and the digest is another.
    packed = blobs.add(gzip.compress(plain, compresslevel=6, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    config = {
        "architecture": architecture(program),
        "os": "linux",
        "created": created,
        "config": {
            "User": USER,
            "Entrypoint": [f"/{PROGRAM_PATH}"],
            "Env": ["PATH=/usr/local/bin"],
            "WorkingDir": "/",
            "Labels": labels(created),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        "history": [{"created": created, "created_by": "make image"}],
    }
    config = blobs.add_json(config, "application/vnd.oci.image.config.v1+json")
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [packed]}
    manifest = blobs.add_json(manifest, manifest_type)
    return tar(members(blobs, manifest, config, packed, name)), manifest["digest"]


def members(blobs, manifest, config, packed, name):
    """Lists the files of the archive: as OCI wants them, and the list by which `docker load` finds them."""
    full = name if "/" in name else f"docker.io/library/{name}"
    names = {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**manifest, "annotations": names}],
    }
    path = lambda part: "blobs/sha256/" + part["digest"].removeprefix("sha256:")
    docker = [{"Config": path(config), "RepoTags": [name], "Layers": [path(packed)]}]
    texts = {"index.json": index, "manifest.json": docker, "oci-layout": {"imageLayoutVersion": "1.0.0"}}
    files = {**blobs, **{file: json.dumps(value, sort_keys=True).encode() for file, value in texts.items()}}
    return [("blobs", None), ("blobs/sha256", None), *sorted(files.items())]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    program, file = Path(sys.argv[1]), Path(sys.argv[2])
    name = sys.argv[3] if len(sys.argv) == 4 else f"ronde:{version()}"
    content, digest = archive(program.read_bytes(), name)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.rename(file)
    print(digest)


if __name__ == "__main__":
    main()
