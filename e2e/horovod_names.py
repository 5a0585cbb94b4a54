"""Compares the names and arguments of our drop-in with those in a checkout of Horovod, which is read and not imported.

usage: horovod_names.py CHECKOUT torch | tensorflow

Ends with 1 if something that Horovod's modules define for users is missing, or takes other arguments.
"""

import ast
import importlib
import inspect
import sys
from pathlib import Path

COMMON = "common.basics common.process_sets common.elastic common.exceptions common.util runner"
MODULES = {
    "torch": """
torch torch.mpi_ops torch.functions torch.optimizer torch.compression torch.sync_batch_norm
torch.elastic torch.elastic.state torch.elastic.sampler
runner.common.util.config_parser runner.common.util.env runner.common.util.host_hash runner.common.util.hosts
runner.common.util.safe_shell_exec runner.common.util.secret runner.common.util.settings runner.common.util.timeout
runner.elastic.settings runner.util.network runner.util.threads
""",
    "tensorflow": """
tensorflow tensorflow.mpi_ops tensorflow.functions tensorflow.compression tensorflow.sync_batch_norm tensorflow.elastic
tensorflow.keras tensorflow.keras.callbacks tensorflow.keras.elastic keras keras.callbacks keras.elastic
""",
}
# What concerns Horovod's own library and versions; and the arguments of what nobody calls by name.
EXCEPT = """
torch.check_extension torch.elastic.init torch.elastic.shutdown common.basics.MPI common.process_sets.MPI
common.basics.HorovodBasics.__init__ common.exceptions.get_version_mismatch_message common.util.get_ext_suffix
common.util.get_extension_full_path common.util.get_average_backwards_compatibility_fun
common.util.check_installed_version torch.sync_batch_norm.SyncBatchNorm.forward
torch.elastic.state.ModelStateHandler.__init__ torch.elastic.state.OptimizerStateHandler.__init__
torch.elastic.state.SamplerStateHandler.__init__
runner.common.util.safe_shell_exec.terminate_executor_shell_and_children
tensorflow.check_extension tensorflow.gpu_available tensorflow.split_list tensorflow.check_num_rank_power_of_2
tensorflow.vars_to_refs tensorflow.refs_to_vars tensorflow.LocalGradientAggregationHelper
tensorflow.keras.is_version_greater_equal_than tensorflow.handle_average_backwards_compatibility
""".split()


def definitions(path, name):
    """Names that a module of Horovod has for users, with their arguments where it defines them itself."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield f"{name}.{node.name}", arguments(node)
        elif isinstance(node, ast.ClassDef):
            yield f"{name}.{node.name}", None
            for each in node.body:
                # Gradients are called by PyTorch, by place.
                if isinstance(each, ast.FunctionDef) and each.name != "backward":
                    yield f"{name}.{node.name}.{each.name}", arguments(each)
        elif isinstance(node, ast.ImportFrom) and path.name == "__init__.py" and "horovod" in (node.module or ""):
            for each in node.names:
                yield f"{name}.{each.asname or each.name}", None


def arguments(node):
    return [each.arg for each in node.args.args + node.args.kwonlyargs if each.arg not in ("self", "ctx")]


def is_public(name):
    return all(not part.startswith("_") or part == "__init__" for part in name.split("."))


def difference(module, name, wanted):
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
        if value is None:
            return "is missing"
    if wanted is None:
        return None
    there = inspect.signature(value).parameters
    known = [each for each in there if each in wanted]
    if any(each.kind == each.VAR_KEYWORD for each in there.values()):
        return None
    return None if known == wanted else f"takes {list(there)}, not {wanted}"


def main():
    root = Path(sys.argv[1]) / "horovod"
    checked = different = 0
    for name in [*MODULES[sys.argv[2]].split(), *COMMON.split()]:
        path = root / (name.replace(".", "/") + ".py")
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        module = importlib.import_module(f"horovod.{name}")
        for full, wanted in definitions(path, name):
            if not is_public(full) or full in EXCEPT:
                continue
            checked += 1
            said = difference(module, full[len(name) + 1 :], wanted)
            if said:
                different += 1
                print(f"horovod.{full} {said}")
    print(f"names and arguments: {checked} compared, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
