"""`hvd.report`: one line a second at most, from the first rank; a call costs next to nothing and never waits."""

import os
import subprocess
import sys
import time

import pytest

from ronde._report import _Reporter, line

LIMIT_SECONDS = 5e-6


class Stuck:
    """An output that nobody reads."""

    def write(self, text):
        time.sleep(3600)


class Tensor:
    """What turns into a number only when it is asked to, as a tensor on a GPU does."""

    def __init__(self, value):
        self.value = value
        self.asked = False

    def __float__(self):
        self.asked = True
        return self.value


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((340, 0.047924, {}, None), "Step #340    Loss: 0.047924\n"),
        ((1, 2.5, {"accuracy": 0.5}, 1523.44), "Step #1    Loss: 2.500000    Samples/s: 1523.4    accuracy: 0.500000\n"),
        ((7, None, {}, 12.0), "Step #7    Samples/s: 12.0\n"),
        ((7, 1.5e-7, {}, None), "Step #7    Loss: 1.500000e-07\n"),
        ((7, float("nan"), {}, None), "Step #7    Loss: nan\n"),
    ],
)
def test_a_report_is_a_line(arguments, expected):
    assert line(*arguments) == expected


def test_a_call_is_cheap_and_never_waits():
    reporter = _Reporter(Stuck())
    loss = Tensor(1.0)
    reporter.report(step=0, loss=loss, samples=64)
    assert not loss.asked
    best = float("inf")
    for _ in range(20):
        before = time.perf_counter()
        for step in range(1000):
            reporter.report(step=step, loss=loss, samples=64, accuracy=0.5)
        best = min(best, (time.perf_counter() - before) / 1000)
    print(f"a call of report costs {best * 1e6:.2f} µs")
    assert best < LIMIT_SECONDS, best


def test_the_first_rank_tells_also_at_its_end(ring):
    def body():
        import ronde

        ronde.init()
        for step in range(100):
            ronde.report(step=step, loss=np.float32(0.5), samples=32)
        ronde.shutdown()

    (code, first), (_, second) = ring(2).run(body)
    assert "Step #99    Loss: 0.500000    Samples/s: " in first, first
    assert "Step #" not in second, second


def test_what_cannot_be_a_number_ends_nothing(ring):
    def body():
        import ronde

        ronde.report(step=1, loss="low")

    [(_, output)] = ring(1).run(body)
    assert "ronde: cannot report: could not convert string to float: 'low'" in output


def test_a_forked_child_does_not_tell_for_its_parent():
    code = (
        "import os, ronde\n"
        "ronde.report(step=1, loss=0.5)\n"
        "child = os.fork()\n"
        "if child == 0:\n    raise SystemExit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == "Step #1    Loss: 0.500000\n", told
