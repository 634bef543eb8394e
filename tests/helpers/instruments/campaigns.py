"""A campaign carried out, and its report as bytes, to compare."""

from __future__ import annotations

from emu.guests.conformance.results import junit
from emu.instruments.campaign.drive import drive
from emu.instruments.campaign.page import page
from emu.instruments.campaign.report import cases, report, summary
from emu.instruments.campaign.store import Store, as_json


def reported(store):
    """JSON, JUnit and HTML."""
    told = report(store.name, store.runs, store.results())
    html = "".join(page(told, lambda name: (store.path / name).exists()))
    return as_json(summary(told)), junit(cases(told)), html


def driven(path, runs, executor, tell=lambda done, total, result: None):
    """The store of these runs, carried out by ``executor``."""
    store = Store.create(path, "many", runs)
    drive(store, executor, tell)
    return store
