"""What tests of Ethernet functions share: the function, its cable, the objects that most need."""

from helpers.device.eth_fixtures import *  # noqa: F403
