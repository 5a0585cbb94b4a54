#!/usr/bin/env python3
"""Packs kubectl's plugin for krew: an archive with one static program, and the manifest that krew reads.

usage: tools/krew.py PROGRAM FOLDER URL

URL is the address of the folder from which users will get the archive. The same program makes the same archive.
"""

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

# Nothing is left in the tree.
sys.dont_write_bytecode = True

from image import ROOT, architecture, fail, version

MANIFEST = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: ronde
spec:
  version: v{version}
  shortDescription: Run and inspect distributed training jobs
  description: |
    Submits, lists, scales, suspends and deletes training jobs (TrainingJob,
    and the Job of Volcano) and their queues, says why they wait, installs the
    operator, and looks for what keeps jobs from running.
  caveats: |
    Jobs need Ronde's operator: kubectl ronde install operator
    What is missing or wrong in a cluster: kubectl ronde doctor
  platforms:
    - selector:
        matchLabels:
          os: linux
          arch: {arch}
      uri: {uri}
      sha256: {sha256}
      bin: kubectl-ronde
"""


def archive(program):
    """Returns an archive of the program and the licence, as krew wants it, that depends on nothing else."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, mode, content in [
            ("LICENSE", 0o644, (ROOT / "LICENSE").read_bytes()),
            ("kubectl-ronde", 0o755, program),
        ]:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(content)
            packed.addfile(entry, io.BytesIO(content))
    return gzip.compress(file.getvalue(), compresslevel=9, mtime=0)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, folder, url = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), sys.argv[3].rstrip("/")
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        fail("krew downloads over https only: say where the archive will be, as in `make krew URL=https://HOST/FOLDER`")
    arch = architecture(program)
    name, packed = f"ronde-linux-{arch}.tar.gz", archive(program)
    sha256 = hashlib.sha256(packed).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(packed)
    manifest = MANIFEST.format(version=version(), arch=arch, uri=f"{url}/{name}", sha256=sha256)
    (folder / "ronde.yaml").write_text(manifest)
    print(f"{folder / name} and {folder / 'ronde.yaml'} (sha256 {sha256})")


if __name__ == "__main__":
    main()
