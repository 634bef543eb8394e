"""A real function, for tests that look inside the engine while it works."""

from helpers.device.fixtures import *  # noqa: F403
