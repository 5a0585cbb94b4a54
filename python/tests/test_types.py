"""What type checkers see of the packages: it is what is there, and a program that uses it passes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")

# Private modules tell what users need; a state has the attributes that it was given; what needs TensorFlow has no
# stubs; JAX is not installed where this runs.
EXCEPT = r"""
ronde\.(torch\.)?_.*
ronde\.(tensorflow|keras|jax).*
ronde\.elastic\.State\.__[gs]etattr__
.*\.__all__
"""


def mypy(*words):
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def test_stubs_say_what_the_modules_have(tmp_path):
    allowed, config = tmp_path / "allowed", tmp_path / "mypy.ini"
    allowed.write_text(EXCEPT)
    # TensorFlow's own types are not known here.
    without = "[mypy-ronde.tensorflow.*]\nignore_errors = true\n"
    config.write_text(f"[mypy]\nignore_missing_imports = true\n{without}")
    words = ["--concise", "--allowlist", str(allowed), "--ignore-unused-allowlist", "--mypy-config-file", str(config)]
    code, said = mypy("mypy.stubtest", "ronde", *words)
    assert code == 0, said


def test_a_program_passes_and_its_mistakes_are_found(tmp_path):
    program = (Path(__file__).parent / "typed.py").read_text()
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(program)
    mistakes = ['hvd.allreduce("no tensor")', "hvd.broadcast(mean)", "hvd.allreduce_sync(mean)", "rank = hvd.Compression"]
    wrong.write_text(program + "".join(f"{each}\n" for each in mistakes))
    code, said = mypy("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(right))
    assert code == 0, said
    code, said = mypy("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(wrong))
    assert said.count("error:") == len(mistakes), said
