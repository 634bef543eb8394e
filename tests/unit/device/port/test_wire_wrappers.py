"""A wire around another one forwards every call, also one that its interface gets later."""

import pytest

from emu.device.port.eth.wire import EthWire, EthWireWrapper
from emu.device.ports import Wire, WireWrapper

pytestmark = pytest.mark.pure("reads the code of classes, and passes a fake wire to them")

PAIRS = [(Wire, WireWrapper), (EthWire, EthWireWrapper)]


class Recorded:
    """A wire that notes each attribute that is read, and each call; both have it as result."""

    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        if name in ("changes", "wants_packets"):
            self.seen.append((name, ()))
            return name

        def call(*args):
            self.seen.append((name, args))
            return name

        return call


def members(of):
    return sorted(name for name in vars(of) if not name.startswith("_"))


@pytest.mark.parametrize(("interface", "wrapper"), PAIRS)
def test_every_member_is_forwarded(interface, wrapper):
    assert members(wrapper) == members(interface)


@pytest.mark.parametrize(("interface", "wrapper"), PAIRS)
def test_arguments_and_results_are_those_of_the_wrapped_wire(interface, wrapper):
    for name in members(interface):
        inner = Recorded()
        member = vars(interface)[name]
        if isinstance(member, property):
            result, args = getattr(wrapper(inner), name), ()
        else:
            args = tuple(range(member.__code__.co_argcount - 1))
            result = getattr(wrapper(inner), name)(*args)
        assert inner.seen == [(name, args)]
        assert result == (name if returns(member) else None)


def returns(member):
    function = member.fget if isinstance(member, property) else member
    return function.__annotations__["return"] != "None"
