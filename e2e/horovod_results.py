"""Notes which of Horovod's tests did not pass, and why; compares that with what is expected.

As a plugin of pytest (`-p horovod_results --results FILE`) it writes one line for each test that failed or was skipped.
As a program it puts the lines of all ranks together:

usage: horovod_results.py check | update EXPECTED FOLDER

FOLDER has a folder for each file of tests that ran, with commas for slashes, and in it what each rank noted. `update` writes those lines into
EXPECTED; `check` ends with 1 if they are others: a test that fails, or one that passes though it is listed. The reason
is found by the rules below, so that nobody has to keep the list by hand; a failure without a reason is never expected.
"""

import re
import sys
from pathlib import Path

# Why tests skip themselves: a reason, and what their words have in them. The first that fits counts.
SKIPS = [
    ("no-test", r"Not a test"),
    ("gpu", r"GPU"),
    ("mpi-only", r"MPI"),
    ("tensorflow-1", r"TensorFlow v1 tests"),
    ("other-mode", r"eager execution mode|only support graph mode"),
    # With a link to an issue, or without a word.
    ("skipped-upstream", r"github\.com/horovod/horovod/issues/\d+|^Skipped$"),
]
# Why they fail, by the text of the error and what the test printed.
FAILURES = [
    ("tensorflow-1", r"module 'tensorflow' has no attribute 'ConfigProto'"),
    ("numpy-1", r"AssertionError: np\.float16\(0\.0\) not less than 1e-08"),
    ("keras-2", r"'Variable' object has no attribute 'ref'"),
    ("keras-2", r"ValueError: Argument\(s\) not recognized: \{'lr'"),
    ("keras-2", r"`keras\.optimizers\.legacy` is not supported in Keras 3"),
    ("keras-2", r"BaseOptimizer\.__init__\(\) missing 1 required positional argument: 'learning_rate'"),
    ("keras-2", r"keras\.losses' has no attribute 'mean_squared_error'"),
    ("jsrun", r"NotImplementedError: Ronde has no generate_jsrun_rankfile"),
    ("upstream-text", r"Expected regex: 'Neither MPI nor Gloo support has been built"),
    # The tests expect that a host is given up when one of its ranks fails; ours keeps the other ranks.
    ("host-is-kept", r"AssertionError: \d != 2[\s\S]*ronde: ring 2: 3 ranks \(3 kept, 0 new\)"),
]
UNKNOWN = "unknown"
TITLE = "Horovod's tests"
HEAD = """\
# Horovod's own tests that do not pass, and why: e2e/README.md has the reasons.
# Written by `make e2e-horovod UPDATE=1`."""
WORST = ["passed", "skipped", "failed"]


def reason(rules, text):
    return next((name for name, pattern in rules if re.search(pattern, text)), UNKNOWN)


# --- the plugin -----------------------------------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--results", help="where to note what did not pass")


def pytest_configure(config):
    path = config.getoption("results")
    if path:
        config.pluginmanager.register(Notes(Path(path)))


class Notes:
    """Writes down what does not pass, as it happens."""

    def __init__(self, path):
        self._path = path
        path.write_text("")

    def pytest_runtest_logreport(self, report):
        if report.passed:
            return
        why = reason(SKIPS, str(report.longrepr[-1])) if report.skipped else reason(FAILURES, _failure(report))
        with self._path.open("a", encoding="utf-8") as notes:
            notes.write(f"{report.nodeid.split('::', 1)[-1]}\t{report.outcome}\t{why}\n")

    pytest_collectreport = pytest_runtest_logreport


def _failure(report):
    """The error, without the lines of the program, and what the test and its job printed."""
    lines = report.longreprtext.splitlines()
    return "\n".join([*(line for line in lines if line.startswith("E ")), report.capstdout, report.capstderr])


# --- the program ----------------------------------------------------------------------------------------------------


def title(folder):
    return folder.name.replace(",", "/")


def merged(folder):
    """What the ranks noted of one file, by test: the worst outcome, and its reasons."""
    found = {}
    for notes in sorted(folder.glob("*.notes")):
        for line in notes.read_text().splitlines():
            test, outcome, why = line.split("\t")
            found.setdefault(test, {}).setdefault(outcome, set()).add(why)
    results = {}
    for test, outcomes in found.items():
        worst = max(outcomes, key=WORST.index)
        results[f"{title(folder)}::{test}"] = f"{worst} {'+'.join(sorted(outcomes[worst]))}"
    return results


def listed(path):
    """The lines of the list, by test."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def is_of(test, files):
    return test.split("::")[0] in files


def differences(results, expected):
    for test in sorted({*results, *expected}):
        now, before = results.get(test, "passed"), expected.get(test, "passed")
        if now != before:
            yield f"{test}: {now}, but {before} was expected"


def update(path, files, results):
    """Writes the lines of these files anew; what is known of others stays."""
    others = {test: rest for test, rest in listed(path).items() if not is_of(test, files)}
    explained = {test: rest for test, rest in results.items() if not is_unexplained(rest)}
    lines = [f"{test} {rest}" for test, rest in sorted({**others, **explained}.items())]
    path.write_text("\n".join([HEAD, *lines]) + "\n")


def is_unexplained(rest):
    return UNKNOWN in rest.split(" ")[1].split("+")


def main():
    how, path, root = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    folders = [each for each in sorted(root.iterdir()) if each.is_dir()]
    results = {test: rest for folder in folders for test, rest in merged(folder).items()}
    files = {title(folder) for folder in folders}
    if how == "update":
        update(path, files, results)
    expected = {test: rest for test, rest in listed(path).items() if is_of(test, files)}
    said = list(differences(results, expected))
    for line in said:
        print(line)
    print(f"{TITLE}: {len(results)} did not pass; {len(said)} differ from the list")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
