"""A transport that a test steps itself, without the loop."""

import contextlib

import pytest


class Stepped:
    """A transport that listens with its function, and the clients to close with it."""

    def __init__(self, transport, function):
        self.transport, self.function = transport, function
        transport.listen(function)
        self._cleanup = contextlib.ExitStack()

    def step(self):
        """What the loop does when the transport's descriptor is readable."""
        if self.transport.connected:
            self.transport.serve(0)
        else:
            self.transport.accept()

    def settle(self):
        """Step until the present client is gone, for a test that has just made it go."""
        for _ in range(100):
            if not self.transport.connected:
                return
            self.step()
        pytest.fail("the client is still there")

    def close(self):
        self.transport.close()
        self._cleanup.close()
