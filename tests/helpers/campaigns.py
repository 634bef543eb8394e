"""A campaign's report as bytes, to compare."""

from __future__ import annotations

from emu.campaign.page import page
from emu.campaign.report import cases, report, summary
from emu.campaign.store import as_json
from emu.lab.conformance.results import junit


def reported(store):
    """JSON, JUnit and HTML."""
    told = report(store.name, store.runs, store.results())
    html = "".join(page(told, lambda name: (store.path / name).exists()))
    return as_json(summary(told)), junit(cases(told)), html
