"""The scripts on the pages of frameworks: they run as they are printed, and learn."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HOROVODRUN, TIMEOUT_SECONDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
# What is needed for each; a page of Keras is for any backend.
NEEDS = {
    "jax": ["jax", "optax"],
    "keras": ["keras"],
    "mxnet": ["mxnet"],
    "pytorch": ["torch"],
    "tensorflow": ["tensorflow"],
}
PAGES = [page for page, needs in NEEDS.items() if all(importlib.util.find_spec(need) for need in needs)]
BACKEND = next((name for name in ("tensorflow", "jax", "torch") if importlib.util.find_spec(name)), "tensorflow")
QUIET = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": BACKEND}

if not PAGES:
    pytest.skip("no framework is installed", allow_module_level=True)


@pytest.mark.parametrize("page", PAGES)
def test_the_script_of_a_page_learns(page, tmp_path):
    script = tmp_path / "script.py"
    text = (DOCS / f"{page}.md").read_text()
    script.write_text(re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1))
    command = [HOROVODRUN, "-np", "2", sys.executable, str(script)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path), **QUIET)
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # They learn the sum of four numbers, whose variance is 4.
    losses = re.findall(r"loss:? (\d+\.\d+)", done.stdout)
    assert losses and all(float(loss) < 1 for loss in losses), done.stdout
