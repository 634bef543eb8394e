"""The faults of a server: rules and links at all its functions, and the record of fired ones.

The modules that read plans and execute rules need a tenth of a second to load. Most servers never
use them, so the first rule, plan or record loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from emu.device.function.function import Function
from emu.host.user_error import UserError
from emu.server.service.adapter_view import vf_names
from emu.server.service.fault_options import FaultOptions
from emu.server.service.links import Cabling, Links, check_functions

if TYPE_CHECKING:
    from emu.device.faults.injector import Injector
    from emu.device.faults.link import PlannedLink
    from emu.device.faults.plan import Plan
    from emu.device.faults.record import Fired
    from emu.device.faults.rule import Rule
    from emu.server.service.record_file import RecordFile

_Entry = TypeVar("_Entry", "Rule", "PlannedLink")


class FaultSession:
    """The rules and links of a server, from its start to its end."""

    def __init__(
        self, functions: Sequence[Function], options: FaultOptions, cabling: Cabling
    ) -> None:
        """Start the plan and the record.

        Raises UserError for a plan with a virtual function that does not exist, and OSError for a
        record.
        """
        self._functions = functions
        self._vf_names = vf_names(functions)
        self._links = Links(functions, cabling)
        self._injectors: Sequence[Injector] = ()
        self._record: RecordFile | None = None
        self._seed = 0
        self._added = 0
        self.on_fired: Callable[[Fired], None] | None = None
        """Callback for each fault that fires, and each firing without effect, besides the record.
        """
        if options.plan is not None or options.record is not None:
            self._start(options)

    def _start(self, options: FaultOptions) -> None:
        """Create the record's file if requested, and apply the plan, before the driver starts.

        Raises UserError as :meth:`_numbered` does, and OSError for the record's file.
        """
        from emu.device.faults.plan import Plan
        from emu.server.service.record_file import RecordFile

        if options.record is not None:
            self._record = RecordFile(options.record, options.plan or Plan(), options)
        if options.plan is not None:
            self._seed = self._links.seed = options.plan.seed
            plan = self._numbered(options.plan)
            for injector in self._needed():
                injector.start(plan)
            for link in plan.link:
                self._plan_link(link)

    def _numbered(self, plan: Plan) -> Plan:
        """Return the plan with indices of functions.

        Raises UserError for a virtual function that does not exist.
        """
        try:
            rules = [self._limited(rule, None) for rule in plan.rule]
            links = [self._limited(link, None) for link in plan.link]
        except ValueError as error:
            raise UserError(f"plan: {error}") from None
        return plan.model_copy(update={"rule": rules, "link": links})

    def _needed(self) -> Sequence[Injector]:
        """Return the injectors, one for each function; the first call creates and attaches them."""
        if not self._injectors:
            from emu.device.faults.injector import Injector

            self._injectors = [
                Injector(function, index, self._note)
                for index, function in enumerate(self._functions)
            ]
            for function, injector in zip(self._functions, self._injectors):
                function.use_faults(injector)
        return self._injectors

    @property
    def complaint(self) -> str:
        """The missing end of the record, if any."""
        return self._record.complaint if self._record is not None else ""

    def close(self) -> None:
        """Remove all rules at all functions and close the record; links stay set."""
        for injector in self._injectors:
            injector.clear()
        if self._record is not None:
            self._record.close()

    def _plan_link(self, link: PlannedLink) -> None:
        """Set a link at each of its functions once that has executed ``link.after`` commands.

        Where the function has executed that many already, the link is set at once.
        """
        injectors = self._needed()
        for index in self._links.existing_functions(link):
            call = partial(self._links.set, link, index)
            injectors[index].at(link.after, link.direction or "", call)

    def set_link(self, link: PlannedLink, within: Sequence[int] | None = None) -> None:
        """Set or clear links at the entry's functions, and record the change.

        A link with ``after`` waits until its function has executed that many commands. ``within``
        limits the entry to these functions. Raises ValueError, without any change, for a function
        that is missing or not in ``within``, and for too many links that wait.
        """
        link = self._limited(link, within)
        self._check_links([link])
        self._set_link(link)

    def _set_link(self, link: PlannedLink) -> None:
        self._record_change({"link": link.to_table()})
        self._plan_link(link)

    def _check_links(self, links: Sequence[PlannedLink]) -> None:
        """Raise ValueError for a link whose function is missing, and for too many that wait."""
        from emu.device.faults.plan import MAX_LINKS

        waiting = [set(one.to_come) for one in self._injectors] or [set() for _ in self._functions]
        for link in links:
            self._links.check(link)
            for index in self._links.existing_functions(link):
                if link.after > self._functions[index].commands:
                    waiting[index].add((link.after, link.direction or ""))
        if any(len(links_of_one) > MAX_LINKS for links_of_one in waiting):
            raise ValueError(f"the limit of {MAX_LINKS} links that wait for commands is reached")

    def links(self) -> list[dict[str, Any]]:
        """Return the links that are or were set."""
        return list(self._links.listing())

    def load(self, plan: Plan, within: Sequence[int] | None = None, suffix: str = "") -> None:
        """Replace all rules by those of ``plan``, set the plan's links, and use the plan's seed.

        With ``within``, replace the rules of these functions only; append ``suffix`` to a rule's
        name that other functions already have. Links that the plan omits stay. The seed is the
        server's: later rules and links of all functions use it. Each change is recorded. Raises
        ValueError, without any change, for an entry whose function is not in ``within``, a link
        whose function is missing, and a used or too long name with suffix. Too many rules, or too
        many links that wait, are refused likewise.
        """
        links = [self._limited(link, within) for link in plan.link]
        self._check_links(links)
        rules = [self._limited(rule, within) for rule in plan.rule]
        if within is not None:
            taken = self._names(set(range(len(self._functions))).difference(within))
            rules = [_renamed(rule, suffix) if rule.name in taken else rule for rule in rules]
            _check_added(rules, taken)
        for name in self._names(within):
            self.remove(name, within)
        for rule in rules:
            self._record_change({"added": rule.to_table()})
        self._seed = self._links.seed = plan.seed
        self._record_change({"seed": plan.seed})
        for injector in self._needed():
            injector.add(rules, self._seed)
        for link in links:
            self._set_link(link)

    def add(self, rule: Rule, within: Sequence[int] | None = None) -> str:
        """Add a rule at the functions ``within`` (None: all); return the rule's name.

        Records the change. A rule without a name gets ``added-N``. Raises ValueError, without a
        change, for a used name, for too many rules, and for a function that does not exist or is
        not in ``within``.
        """
        from emu.device.faults.functions import listed

        rule = self._limited(rule, within)
        check_functions(listed(rule.function), len(self._functions))
        names = self._names()
        if not rule.name:
            self._added += 1
            while f"added-{self._added}" in names:
                self._added += 1
            rule = rule.model_copy(update={"name": f"added-{self._added}"})
        _check_added([rule], names)
        self._record_change({"added": rule.to_table()})
        for injector in self._needed():
            injector.add([rule], self._seed)
        name: str = rule.name
        return name

    def remove(self, name: str, within: Container[int] | None = None) -> bool:
        """Remove a rule and end its effects, at the functions ``within`` only (None: all).

        Return True, and record the change, if a function had the rule; False if none had it.
        """
        removed = [one.index for one in self._injectors_of(within) if one.remove(name)]
        if removed:
            is_left = {"functions": removed} if name in self._names() else {}
            self._record_change({"removed": name, **is_left})
        return bool(removed)

    def _limited(self, entry: _Entry, within: Sequence[int] | None) -> _Entry:
        """Return the entry with indices of functions, limited to ``within`` if not None.

        An entry for all functions then applies to all of ``within``. Raises ValueError if the entry
        names a function that is not among them, or a virtual one that does not exist.
        """
        from emu.device.faults.functions import numbered, restricted

        functions = numbered(entry.function, self._vf_names)
        if within is not None:
            functions = restricted(functions, list(within))
        return entry.model_copy(update={"function": functions})

    def _injectors_of(self, within: Container[int] | None) -> list[Injector]:
        """Return the injectors of these functions; of all for None."""
        return [one for one in self._injectors if within is None or one.index in within]

    def _names(self, within: Container[int] | None = None) -> Collection[str]:
        """Return the names of the rules at these functions (None: all), in order, each once."""
        return dict.fromkeys(
            state.rule.name for injector in self._injectors_of(within) for state in injector.states
        )

    def listing(self, within: Container[int] | None = None) -> list[dict[str, Any]]:
        """Return every rule of these functions (None: all) as plain values, each once.

        ``counts`` has an entry for each function with the rule: met, fired, without effect, held,
        in force.
        """
        rules: dict[str, dict[str, Any]] = {}
        for injector in self._injectors_of(within):
            for state in injector.states:
                rule = rules.setdefault(
                    state.rule.name,
                    {"name": state.rule.name, "rule": state.rule.to_table(), "counts": []},
                )
                rule["counts"].append(injector.counts_of(state))
        return list(rules.values())

    def _note(self, fired: Fired) -> None:
        """Write a fired fault to the record, if any, and call ``on_fired``."""
        if self._record is not None:
            self._record.fired(fired)
        if self.on_fired is not None:
            self.on_fired(fired)

    def _record_change(self, change: Mapping[str, Any]) -> None:
        """Write a change, and each function's number of executed commands, to the record if any."""
        if self._record is not None:
            self._record.changed(change, [function.commands for function in self._functions])


def _check_added(rules: Sequence[Rule], present: Collection[str]) -> None:
    """Raise ValueError unless ``rules`` fit beside the present ones: names and number of rules."""
    from emu.device.faults.plan import MAX_RULES
    from emu.device.faults.rule import MAX_NAME_CHARS

    if len(present) + len(rules) > MAX_RULES:
        raise ValueError(f"the limit of {MAX_RULES} rules is reached")
    names = set(present)
    for rule in rules:
        if rule.name in names:
            raise ValueError(f"a rule {rule.name!r} exists already")
        if len(rule.name) > MAX_NAME_CHARS:
            raise ValueError(f"the rule name {rule.name!r} is longer than {MAX_NAME_CHARS}")
        names.add(rule.name)


def _renamed(rule: Rule, suffix: str) -> Rule:
    return rule.model_copy(update={"name": rule.name + suffix})
