"""The methods of the control protocol."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from emu.device.function.function import Function
from emu.device.ports import Clock
from emu.device.rounds.portions import Portions
from emu.server.control.server import ControlRequestError, Method, Streamed
from emu.server.net.eth.segments import Segments
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.service import subnet_methods, views
from emu.server.service.adapter_view import vf_names, virtual
from emu.server.service.fault_session import FaultSession
from emu.version import code, version

DEFAULT_LIMIT = 1000
MAX_LIMIT = 20_000


def methods(
    functions: Sequence[Function],
    clock: Clock,
    faults: FaultSession,
    segments: Segments,
    subnet: SubnetFabric | None = None,
    guests: Sequence[str] = (),
) -> Mapping[str, Method]:
    """Return the methods of the control protocol by name.

    ``subnet`` is the simulated one; None makes its methods refuse. ``guests`` has the name of each
    function's guest, or is empty. Imports the plan parser now.
    """
    # Import now: pydantic needs 0.2 s, for which a client's first plan would stop the loop.
    importlib.import_module("emu.device.faults.parser")
    control = _Methods(functions, clock, faults, segments, subnet, guests)
    return {
        "status": control.status,
        "objects": control.objects,
        "census": control.census,
        "fault.list": control.fault_list,
        "fault.add": control.fault_add,
        "fault.remove": control.fault_remove,
        "fault.load": control.fault_load,
        "net.show": control.net_show,
        "net.set": control.net_set,
        "subnet.show": control.subnet_show,
        "subnet.cut": control.subnet_cut,
    }


class _Methods:
    def __init__(
        self,
        functions: Sequence[Function],
        clock: Clock,
        faults: FaultSession,
        segments: Segments,
        subnet: SubnetFabric | None,
        guests: Sequence[str],
    ) -> None:
        self._about = {"mlx5emu": version(), "code": code()}
        self._functions = functions
        self._clock = clock
        self._faults = faults
        self._segments = segments
        self._subnet = subnet
        self._guests = tuple(guests) or ("",) * len(functions)

    def _indices(self, params: Mapping[str, Any]) -> list[int] | None:
        """Return the indices of the functions of the guest that a request names.

        None if it names none. Raises ControlRequestError for a guest without functions, and for an
        empty name.
        """
        guest = params.get("guest")
        if guest is None:
            return None
        indices = [index for index, name in enumerate(self._guests) if name == guest]
        if not indices or not guest:
            raise ControlRequestError(f"no function belongs to a guest {guest!r}")
        return indices

    def status(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Return versions, clock, state of each function (of the guest), and the segments' ports.

        The ports have no ``addresses``. Raises ControlRequestError for an unknown parameter or
        guest.
        """
        _only(params, "guest")
        indices = self._indices(params)
        states = [
            views.status(function, index, self._guests[index]) | virtual(self._functions, index)
            for index, function in enumerate(self._functions)
            if indices is None or index in indices
        ]
        ports = [_without_addresses(segment) for segment in self._segments.about()]
        now = {"t_ns": self._clock.now_ns(), "functions": states, "segments": ports}
        return self._about | now

    def objects(self, params: dict[str, Any]) -> Streamed:
        """Return a generator of the JSON text of functions' objects, up to ``limit`` of each kind.

        ``function`` is an index, or the name of a virtual one (``0.vf1``). With ``kind`` and
        ``guest`` it restricts the choice. Segments are included without ``function`` and ``kind``
        only. Raises ControlRequestError at once for an invalid parameter, an unknown kind, or
        another guest's function.
        """
        _only(params, "guest", "function", "kind", "limit")
        indices = self._indices(params)
        index, kind = params.get("function"), params.get("kind")
        if isinstance(index, str):
            names = vf_names(self._functions)
            if index not in names:
                which = ", ".join(names) or "none"
                raise ControlRequestError(f"no function {index}; virtual functions: {which}")
            index = names[index]
        limit = params.get("limit", DEFAULT_LIMIT)
        count = len(self._functions)
        if index is not None and (type(index) is not int or not 0 <= index < count):
            raise ControlRequestError(f"function must be a number below {count}")
        if index is not None and indices is not None and index not in indices:
            raise ControlRequestError(f"function {index} is another guest's; yours are {indices}")
        if type(limit) is not int or not 0 <= limit <= MAX_LIMIT:
            raise ControlRequestError(f"limit must be a number up to {MAX_LIMIT}")
        if kind is not None:
            try:
                kind = views.kind_named(str(kind))
            except ValueError as error:
                raise ControlRequestError(str(error)) from None
        segments = self._segments.about() if kind is None and index is None else []
        chosen = [index] if index is not None else range(count) if indices is None else indices
        return self._objects(chosen, kind, limit, segments)

    def _objects(
        self, indices: Sequence[int], kind: str | None, limit: int, segments: Sequence[Any]
    ) -> Streamed:
        """Yield the JSON text of the functions' objects in segments, then that of ``segments``."""
        yield b'{"functions":['
        for number, index in enumerate(indices):
            about = {"function": index, "guest": self._guests[index]}
            head = json.dumps(about | virtual(self._functions, index))[:-1].encode()
            yield b'%s%s,"objects":' % (b"," * bool(number), head)
            yield from views.objects(self._functions[index], kind, limit)
            yield b"}"
        yield b'],"segments":%s}' % json.dumps(segments).encode()

    def census(self, params: dict[str, Any]) -> Portions[Mapping[str, Any]]:
        _only(params)
        return {"objects": (yield from views.census(self._functions))}

    def fault_list(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Return all rules with counts at each function, which have the name of the guest.

        A ``guest`` limits rules and counts to its functions. Raises ControlRequestError.
        """
        _only(params, "guest")
        rules = self._faults.listing(self._indices(params))
        for rule in rules:
            for counts in rule["counts"]:
                counts["guest"] = self._guests[counts["function"]]
                counts.update(virtual(self._functions, counts["function"]))
        return {"rules": rules}

    def fault_add(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Add the rule of ``rule`` (a table as in a plan), limited to a guest's functions.

        Return its name. Raises ControlRequestError for an invalid rule, a used name, too many
        rules, or another's function.
        """
        from emu.device.faults.parser import rule_from_table

        _only(params, "guest", "rule")
        indices = self._indices(params)
        try:
            return {"name": self._faults.add(rule_from_table(params.get("rule")), indices)}
        except ValueError as error:
            raise ControlRequestError(str(error)) from None

    def fault_remove(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Remove the rule ``name``, at a guest's functions only if named.

        Raises ControlRequestError if no such function has the rule.
        """
        _only(params, "guest", "name")
        if not self._faults.remove(str(params.get("name")), self._indices(params)):
            raise ControlRequestError(f"no rule {params.get('name')!r}")
        return {}

    def fault_load(self, params: dict[str, Any]) -> Portions[Mapping[str, Any]]:
        """Parse ``plan`` (TOML text) in steps, and replace the rules.

        Returns the number of the plan's rules. Missing text removes all rules. With ``guest``, only
        its functions change, and a name that others use gets the suffix ``@GUEST``. Raises
        ControlRequestError, without a change, for an invalid plan.
        """
        from emu.device.faults.parser import PlanError, loading

        _only(params, "guest", "plan")
        indices, text = self._indices(params), params.get("plan", "")
        if not isinstance(text, str):
            raise ControlRequestError("plan must be the text of a plan")
        try:
            plan = yield from loading(text)
        except PlanError as error:
            raise ControlRequestError(str(error)) from None
        try:
            self._faults.load(plan, indices, f"@{params.get('guest')}")
        except ValueError as error:
            raise ControlRequestError(str(error)) from None
        return {"rules": len(plan.rule)}

    def net_show(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Return the links that are or were set, of all functions or of a guest's."""
        _only(params, "guest")
        indices = self._indices(params)
        links = [
            {
                "guest": self._guests[link["function"]],
                **link,
                **virtual(self._functions, link["function"]),
            }
            for link in self._faults.links()
            if indices is None or link["function"] in indices
        ]
        return {"links": links}

    def net_set(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Set or clear the links of ``link`` (a table as in a plan) at all functions or a guest's.

        Raises ControlRequestError for an invalid link, or a function that is missing or another
        guest's.
        """
        from emu.device.faults.parser import link_from_table

        _only(params, "guest", "link")
        indices = self._indices(params)
        try:
            self._faults.set_link(link_from_table(params.get("link")), indices)
        except ValueError as error:
            raise ControlRequestError(str(error)) from None
        return {}

    def _need_subnet(self) -> SubnetFabric:
        """Return the simulated subnet. Raises ControlRequestError when the server has none."""
        if self._subnet is None:
            raise ControlRequestError("no simulated subnet: start the server with --subnet FILE")
        return self._subnet

    def subnet_show(self, params: dict[str, Any]) -> Streamed:
        _only(params)
        return subnet_methods.show(self._need_subnet())

    def subnet_cut(self, params: dict[str, Any]) -> Mapping[str, Any]:
        _only(params, "node", "port", "is_cut")
        subnet_methods.cut(self._need_subnet(), params)
        return {}


def _without_addresses(segment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a segment's ports, without the addresses behind them."""
    ports = [
        {name: value for name, value in port.items() if name != "addresses"}
        for port in segment["ports"]
    ]
    return {**segment, "ports": ports}


def _only(params: Mapping[str, Any], *names: str) -> None:
    """Refuse with ControlRequestError a parameter that is not among ``names``."""
    for name in params:
        if name not in names:
            raise ControlRequestError(
                f"no parameter {name!r}; parameters: {', '.join(names) or 'none'}"
            )
