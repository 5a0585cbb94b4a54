"""The wheels for every Python that is here, installed where there is no compiler.

`make test-python` names the wheels and the Pythons.
"""

import os
import subprocess
from pathlib import Path

import pytest

WHEELS = os.environ.get("RONDE_WHEELS")
PYTHONS = os.environ.get("RONDE_PYTHONS", "").split()
# All that the installed commands use of the system.
PROGRAMS = ["sh", "env", "dirname", "readlink"]
SCRIPT = """
import sys, numpy, ronde, ronde.numpy as rn
from horovod.common.util import gloo_built
ronde.init()
total = rn.allreduce(numpy.arange(4.0) + rn.rank(), op=rn.Sum)
print(sys.version_info[:2], total.tolist(), gloo_built())
"""

pytestmark = pytest.mark.skipif(not WHEELS, reason="RONDE_WHEELS names no wheels: `make test-python` does")


@pytest.fixture
def bare(tmp_path):
    """The variables of a machine that has nothing but Python and a shell: no compiler is found."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(Path("/usr/bin") / name)
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_")) or name == "HOME"}
    return dict(kept, PATH=str(programs))


def test_one_wheel_is_for_all_pythons_and_the_other_for_all_machines():
    names = sorted(wheel.name for wheel in Path(WHEELS).glob("*.whl"))
    assert [name.split("-")[0] for name in names] == ["horovod", "ronde"]
    assert names[0].endswith("-py3-none-any.whl")
    assert "-cp39-abi3-manylinux_2_" in names[1], names


@pytest.mark.parametrize("python", PYTHONS)
def test_it_is_installed_without_a_compiler_and_reduces(python, bare, tmp_path):
    def run(*words):
        done = subprocess.run(words, env=bare, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    environment = tmp_path / "venv"
    run(python, "-m", "venv", str(environment))
    bare["PATH"] = f"{environment}/bin:{bare['PATH']}"
    wheels = [str(wheel) for wheel in Path(WHEELS).glob("*.whl")]
    run("pip", "install", "--quiet", "--only-binary", ":all:", *wheels)
    (tmp_path / "train.py").write_text(SCRIPT)
    said = run("horovodrun", "-np", "2", "python", "train.py")
    version = run("python", "-c", "import sys; print(sys.version_info[:2])").strip()
    expected = [f"[{rank}]<stdout>:{version} [1.0, 3.0, 5.0, 7.0] True" for rank in range(2)]
    assert sorted(said.splitlines()) == expected
