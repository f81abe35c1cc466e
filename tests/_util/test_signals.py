"""Ctrl-C held back: raised afterwards, by whoever handled it before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from peekrank._util.signals import interrupt_later


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_waits_for_the_compiler() -> None:
    reached: list[bool] = []

    def compile_for_a_while() -> None:
        with interrupt_later():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        compile_for_a_while()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("ctrl_c")
def test_the_previous_handler_gets_ctrl_c() -> None:
    told: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    with interrupt_later():
        os.kill(os.getpid(), signal.SIGINT)
        assert not told
    assert told == [signal.SIGINT]


NOHUP = """
import os, signal
from peekrank._util.signals import interrupt_later
assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
with interrupt_later():
    os.kill(os.getpid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGINT)
print("went on")
"""


@pytest.mark.usefixtures("ctrl_c")
def test_a_process_begun_with_ctrl_c_ignored_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    done = subprocess.run([sys.executable, "-c", NOHUP], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr


def test_other_threads_are_left_alone() -> None:
    before, inside = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with interrupt_later():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
