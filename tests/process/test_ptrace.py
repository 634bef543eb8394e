"""What a traced process begins is stopped, and makes calls for us, before it runs."""

import json
import subprocess
import sys

import pytest

from emu.instruments.coverage.inside.ptrace import can_trace

pytestmark = pytest.mark.skipif(not can_trace(), reason="not an x86-64")

PROGRAM = """
import errno, json, os, sys, time
from emu.instruments.coverage.inside.ptrace import TaskTracer, is_asleep

began, ended, stopped = [], [], []
wants = sys.argv[2]

def begin(task):
    fd = task.call(2, task.put(b"/dev/null\\0"), os.O_RDWR)
    began.append(os.readlink(f"/proc/{task.task}/fd/{fd}"))
    task.call(3, fd)
    try:
        task.call(3, fd)
    except OSError as error:
        assert error.errno == errno.EBADF
    else:
        raise AssertionError("the task closed a file twice")

tracer = TaskTracer(begin, ended.append, stopped.append)
go, start = os.pipe()
child = os.fork()
if child == 0:
    os.read(go, 1)
    os.execvp("sh", ["sh", "-c", sys.argv[1]])
tracer.seize(child)
os.write(start, b"g")
while child not in ended:
    tracer.serve()
    if wants and not stopped and is_asleep(child):
        tracer.interrupt(child)
    time.sleep(0.001)
print(json.dumps([began, len(ended), stopped == [child]]))
"""
THREADS = """
import threading
threads = [threading.Thread(target=print, args=("a thread",)) for _ in range(5)]
for each in threads:
    each.start()
    each.join()
"""


def traced(script, interrupt=""):
    """What a traced shell prints, what began in it, how many tasks ended, if it was stopped."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, script, interrupt],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    *output, last = done.stdout.splitlines()
    return output, *json.loads(last)


@pytest.mark.parametrize(
    ("script", "output", "tasks"),
    [
        ("echo none", ["none"], 0),
        ("(echo one); echo two", ["one", "two"], 1),
        ("/bin/echo program; true", ["program"], 1),
        (f"{sys.executable} -c '{THREADS}'; true", ["a thread"] * 5, 6),
        ("(kill -KILL $$) & wait", [], 1),
        ("trap 'echo signal' USR1; (kill -USR1 $$); echo after", ["signal", "after"], 1),
        ("(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; echo went on", ["went on"], 2),
    ],
)
def test_each_task_makes_calls_before_it_runs(script, output, tasks):
    printed, began, ended, _ = traced(script)
    assert printed == output
    assert began == ["/dev/null"] * tasks
    assert ended >= 1


def test_a_task_that_is_asleep_stops_on_request_and_goes_on():
    printed, _, _, was_stopped = traced("sleep 1; echo awake", interrupt="yes")
    assert printed == ["awake"]
    assert was_stopped


def test_exit_codes_are_the_programs_own():
    printed, *_ = traced("(exit 3); echo $?; sh -c 'kill -TERM $$'; echo $?")
    assert printed == ["3", "143"]
