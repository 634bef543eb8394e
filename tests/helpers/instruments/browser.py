"""Chromium without a window, driven over its debugging protocol: pages opened and looked at."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time

import pytest

WAIT_SECONDS = 60


class Browser:
    """A page in a browser; expressions are evaluated in it."""

    def __init__(self, directory):
        program = shutil.which("chromium")
        if program is None:
            pytest.skip("chromium is not installed")
        from_us, self._out = os.pipe()
        self._in, to_us = os.pipe()
        # It reads descriptor 3 and writes descriptor 4.
        script = f'exec "$@" 3<&{from_us} 4>&{to_us}'
        command = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,720",
            f"--user-data-dir={directory}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], pass_fds=(from_us, to_us),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(from_us)
        os.close(to_us)
        self._buffer = b""
        self._number = 0
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")
        self._session = self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method, **params):
        """A method of the protocol, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], WAIT_SECONDS)
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def open(self, path, condition):
        """Open a page and wait until the expression is true in it."""
        self.call("Page.navigate", url=path.as_uri())
        self.until(condition)

    def evaluate(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition):
        """Wait until the expression is true."""
        end = time.monotonic() + WAIT_SECONDS
        while not self.evaluate(condition):
            assert time.monotonic() < end, condition
        return self

    def click(self, x, y):
        """Press and release the mouse."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )  # fmt: skip

    def picture(self):
        """A PNG of what is seen."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])
