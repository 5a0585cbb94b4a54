"""What is said where a framework is missing or broken."""

import os
import subprocess
import sys

import pytest

# Hides modules, whether they are installed or not.
HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "tensorflow", "keras", "mxnet", "jax"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Hidden())
"""


def error_of(code, path=()):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*path, *sys.path]))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("torch", "horovod.torch needs PyTorch, which is not installed: pip install torch (tried with "),
        ("torch.mpi_ops", "horovod.torch needs PyTorch, which is not installed: pip install torch (tried with "),
        ("tensorflow", "horovod.tensorflow needs TensorFlow, which is not installed: pip install tensorflow (tried "),
        ("tensorflow.keras", "horovod.tensorflow needs TensorFlow, which is not installed: "),
        ("keras", "horovod.keras needs Keras, which is not installed: pip install keras tensorflow (tried with "),
        ("mxnet", "horovod.mxnet needs MXNet, which is not installed: pip install mxnet==1.9.1 numpy==1.23.5 (tried "),
    ],
)
@pytest.mark.parametrize("package", ["horovod", "ronde"])
def test_a_framework_that_is_missing_is_named_with_its_package(package, module, text):
    assert error_of(f"{HIDING}\nimport {package}.{module}").startswith(f"ImportError: {text}")


def test_jax_is_named_with_its_package():
    text = "ronde.jax needs JAX, which is not installed: pip install jax optax (tried with "
    assert error_of(f"{HIDING}\nimport ronde.jax").startswith(f"ImportError: {text}")


def test_what_a_framework_misses_is_its_own_error(tmp_path):
    (tmp_path / "torch.py").write_text("import nothing_like_it")
    found = error_of("import horovod.torch", [str(tmp_path)])
    assert found == "ModuleNotFoundError: No module named 'nothing_like_it'"
