"""What a traced process begins is stopped, and makes calls for us, before it runs."""

import json
import subprocess
import sys

import pytest

from emu.instruments.coverage.inside.ptrace import can_trace

pytestmark = pytest.mark.skipif(not can_trace(), reason="not an x86-64")

PROGRAM = """
import errno, json, os, signal, sys, time
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

def is_stopped(task):
    with open(f"/proc/{task}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "t"

def go_on(task):
    stopped.append(task)
    if wants == "stopped":
        os.kill(task, signal.SIGCONT)
    os.write(line, b"awake\\n")

tracer = TaskTracer(begin, ended.append, go_on)
go, start = os.pipe()
text, line = os.pipe()
child = os.fork()
if child == 0:
    os.read(go, 1)
    os.dup2(text, 8)
    os.dup2(line, 9)
    os.execvp("sh", ["sh", "-c", sys.argv[1]])
tracer.seize(child)
os.write(start, b"g")
while child not in ended:
    tracer.serve()
    if not stopped and wants == "asleep" and is_asleep(child):
        tracer.interrupt(child)
        while not is_stopped(child):
            time.sleep(0.001)
        tracer.interrupt(child)
    if not stopped and wants == "stopped" and is_stopped(child):
        tracer.interrupt(child)
    time.sleep(0.001)
print(json.dumps([began, len(ended), stopped == [child]]))
"""
CONTINUED = """
(
    read line <&8
    while read pid name state rest </proc/$$/stat && [ $state != t ]; do :; done
    sleep 0.2
    kill -CONT $$
) &
echo stops >&9
kill -STOP $$
wait
echo went on
"""
THREADS = """
import threading
threads = [threading.Thread(target=print, args=("a thread",)) for _ in range(5)]
for each in threads:
    each.start()
    each.join()
"""


def traced(script, interrupt=""):
    """Return what a traced shell prints, what began in it, how many tasks ended, if it was stopped.

    The shell is interrupted once it is ``interrupt``: "asleep" or "stopped". After that stop it
    can read the line "awake" from descriptor 8; descriptor 9 is the pipe's other end.
    """
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
        (CONTINUED, ["went on"], 2),
    ],
)
def test_each_task_makes_calls_before_it_runs(script, output, tasks):
    printed, began, ended, _ = traced(script)
    assert printed == output
    assert began == ["/dev/null"] * tasks
    assert ended >= 1


def test_a_task_that_is_asleep_stops_once_for_two_requests_and_goes_on():
    printed, _, _, was_stopped = traced("read line <&8; echo $line", interrupt="asleep")
    assert printed == ["awake"]
    assert was_stopped


def test_a_request_for_a_task_in_a_group_stop_is_answered():
    printed, _, _, was_stopped = traced("kill -STOP $$; echo went on", interrupt="stopped")
    assert printed == ["went on"]
    assert was_stopped


def test_exit_codes_are_the_programs_own():
    printed, *_ = traced("(exit 3); echo $?; sh -c 'kill -TERM $$'; echo $?")
    assert printed == ["3", "143"]
