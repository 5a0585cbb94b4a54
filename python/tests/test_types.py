"""What type checkers see of the packages: it is what is there, and a program that uses it passes."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")
# Private modules tell what users need; a state has the attributes that it was given.
EXCEPT = r"""
ronde\.((torch|torch\.distributed|torch\.elastic|tensorflow|keras|jax|mxnet)\.)?_.*
ronde\.elastic\.State\.__[gs]etattr__
.*\.__all__
"""
# Private modules have no stubs, and those that subclass what is torch's own disagree with its types.
# A note about an annotation in a function without types would be an error for stubtest.
CONFIG = """
[mypy]
ignore_missing_imports = true
disable_error_code = annotation-unchecked
[mypy-ronde.torch.distributed.*,ronde.torch.elastic._commit]
ignore_errors = true
"""
# What cannot be imported here cannot be compared: `make e2e-frameworks` does it where the frameworks are.
NEEDS = {
    "torch": ["torch"],
    "tensorflow": ["tensorflow"],
    "keras": ["keras", "tensorflow"],
    "jax": ["jax", "optax"],
    "mxnet": ["mxnet"],
}
MISSING = [name for name in NEEDS if not all(importlib.util.find_spec(each) for each in NEEDS[name])]


def mypy(*words):
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def test_stubs_say_what_the_modules_have(tmp_path):
    allowed, config = tmp_path / "allowed", tmp_path / "mypy.ini"
    allowed.write_text(EXCEPT + "".join(f"ronde\\.{name}.*\n" for name in MISSING))
    config.write_text(CONFIG.replace("[mypy]", f"[mypy]\ncache_dir = {tmp_path}/cache"))
    words = ["--concise", "--allowlist", str(allowed), "--ignore-unused-allowlist", "--mypy-config-file", str(config)]
    code, said = mypy("mypy.stubtest", "ronde", *words)
    assert code == 0, said


def check(folder, program, mistakes, *options):
    right, wrong = folder / "right.py", folder / "wrong.py"
    right.write_text(program)
    wrong.write_text(program + "".join(f"{each}\n" for each in mistakes))
    words = ["mypy", "--strict", "--cache-dir", str(folder / "cache"), *options]
    code, said = mypy(*words, str(right))
    assert code == 0, said
    code, said = mypy(*words, str(wrong))
    assert said.count("error:") == len(mistakes), said


@pytest.mark.skipif("torch" in MISSING, reason="PyTorch is not installed")
def test_a_program_passes_and_its_mistakes_are_found(tmp_path):
    program = (Path(__file__).parent / "typed.py").read_text()
    mistakes = ['hvd.allreduce("no tensor")', "hvd.broadcast(mean)", "hvd.allreduce_sync(mean)", "rank = hvd.Compression"]
    check(tmp_path, program, mistakes)


def test_a_program_for_frameworks_that_have_no_types(tmp_path):
    program = (Path(__file__).parent / "typed_frameworks.py").read_text()
    mistakes = [
        "hvd.broadcast(mean)",
        "hvd.allreduce_sync(mean)",
        "hvk.callbacks.MetricAverageCallback(devices=1)",
        "hvk.load_model()",
        "mxd.DistributedTrainer({}, 'sgd', compression=hvd.Compression.none)",
        "sampler.record_batch(0)",
    ]
    check(tmp_path, program, mistakes, "--ignore-missing-imports")
