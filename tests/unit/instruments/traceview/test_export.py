"""A trace as Perfetto reads it, and as a page."""

import base64
import json
import re
import struct
import tracemalloc
import zlib

import pytest
from click.testing import CliRunner
from helpers.instruments.browser import Browser

from emu.cli.main import main
from emu.device.trace.event import TraceEvent
from emu.instruments.traceview import page, perfetto, queues, tracks

EVENTS = [
    TraceEvent(1_000_000, 0, "reset", {"model": "connectx6"}),
    TraceEvent(
        1_090_000, 0, "cmd",
        {"slot": 2, "op": "CREATE_CQ", "status": "OK", "duration_us": 40.0, "in": {"uid": 1 << 60}},
    ),
    TraceEvent(1_100_000, 0, "cmd", {"slot": 2, "op": "CREATE_CQ", "status": "BAD_RES_ERR"}),
    TraceEvent(1_200_000, 1, "wqe", {"qpn": 0x42, "index": 1, "op": "SEND"}),
    TraceEvent(
        1_201_000, 1, "cqe", {"cqn": 7, "qpn": 0x42, "type": "REQ_ERR", "syndrome": "FLUSH"}
    ),
    TraceEvent(1_202_000, 1, "eqe", {"eqn": 1, "type": "COMP"}),
    TraceEvent(1_203_000, 1, "irq", {"vector": 1, "eqn": 1}),
    TraceEvent(1_204_000, 0, "mmio", {"access": "write", "register": "CQ_ARM", "uar": 16}),
    TraceEvent(
        1_900_000, 0, "fault", {"token": 3, "qpn": 5, "outcome": "resumed", "duration_us": 300}
    ),
    TraceEvent(1_950_000, 0, "later", {"what": "</script><b>"}),
]  # fmt: skip


def perfetto_events(events):
    return json.loads("".join(perfetto.export(events)))["traceEvents"]


def test_tracks_are_named_by_queue_slot_and_vector():
    told = perfetto_events(EVENTS)
    names = {
        (one["pid"], one["args"]["name"]) for one in told if one["name"] == "thread_name"
    }  # fmt: skip
    assert names == {
        (1, "resets"), (1, "commands, slot 2"), (2, "WQEs, queue 0x42"), (2, "CQEs, CQ 7"),
        (2, "events, EQ 1"), (2, "interrupts, vector 1"), (1, "doorbells, UAR 0x10"),
        (1, "page faults, queue 5"), (1, "later"),
    }  # fmt: skip
    assert {(one["pid"], one["args"]["name"]) for one in told if one["name"] == "process_name"} == {
        (1, "function 0"), (2, "function 1"),
    }  # fmt: skip


def test_commands_are_slices_and_faults_may_overlap():
    told = [one for one in perfetto_events(EVENTS) if one["ph"] != "M"]
    assert [one["ph"] for one in told] == ["i", "X", "X", *"iiiii", "b", "e", "i"]
    slice_ = told[1]
    assert (slice_["ts"], slice_["dur"], slice_["name"]) == (1050, 40, "CREATE_CQ")
    assert slice_["args"]["in"] == {"uid": hex(1 << 60)}
    assert told[2]["name"] == "CREATE_CQ BAD_RES_ERR"
    begin, end = told[8:10]
    assert (begin["ts"], end["ts"], begin["id"]) == (1600, 1900, end["id"])


def blocks(text, kind):
    for block in re.findall(rf'<script type="x-{kind}">([^<]*)</script>', text):
        yield zlib.decompress(base64.b64decode(block), -zlib.MAX_WBITS)


def test_page_holds_every_event():
    text = "".join(page.export(EVENTS))
    meta = json.loads(re.search(r'id="meta">(.*?)</script>', text)[1])
    assert meta["events"] == len(EVENTS)
    fields = [json.loads(line) for block in blocks(text, "details") for line in block.splitlines()]
    assert [list(one) for one in fields] == [list(event.fields) for event in EVENTS]
    (index,) = blocks(text, "index")
    count = len(EVENTS)
    starts = struct.unpack_from(f"<{count}d", index)
    lasts = struct.unpack_from(f"<{count}f", index, 8 * count)
    lines, names, abouts, getters = (
        struct.unpack_from(f"<{count}H", index, at * count) for at in (12, 14, 16, 18)
    )
    assert starts[:3] == (0, 50, 100)
    assert lasts[8] == 300
    assert meta["tracks"][lines[4]][:2] == [1, "CQEs, CQ 7"]
    assert meta["names"][names[4]] == ["cqe", "REQ_ERR FLUSH"]
    assert meta["functions"]["1"] == "f1"
    places = {f"{row[2]} {row[3]}": row[0] for row in meta["queues"]}
    assert list(places) == ["QP 66", "CQ 7", "QP 5", "EQ 1"]  # what failed comes first
    assert (abouts[4], getters[4]) == (places["QP 66"], places["CQ 7"])


def many(number):
    for at in range(number):
        yield TraceEvent(at * 1000, 0, "wqe", {"qpn": at, "index": at & 0xFFFF, "op": f"op {at}"})


@pytest.mark.hostile
@pytest.mark.parametrize("form", [page.export, perfetto.export])
def test_memory_does_not_grow_with_the_trace(form, monkeypatch):
    """Nor with the names in it, of which a file may have as many as lines."""
    monkeypatch.setattr(tracks, "MAX_TRACKS", 50)
    monkeypatch.setattr(page, "MAX_NAMES", 50)
    monkeypatch.setattr(queues, "MAX_QUEUES", 50)
    monkeypatch.setattr(page, "CHUNK", 50)

    def peak(number):
        tracemalloc.start()
        for _ in form(many(number)):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(100)  # what is made once
    assert peak(1000) < 1.2 * peak(200)


@pytest.mark.hostile
def test_no_field_ends_a_script():
    text = "".join(page.export([TraceEvent(0, 0, "</script>", {"</script>": "</script>"})]))
    assert text.count("</script>") == 4  # index, details, meta, program


@pytest.mark.hostile
@pytest.mark.parametrize("lasted", ["x", -1, 1e300, None, [], float("nan")])
def test_odd_durations_are_moments(lasted):
    (made,) = (one for one in perfetto_events([TraceEvent(5, 0, "cmd", {"duration_us": lasted})])
               if one["ph"] == "X")  # fmt: skip
    assert made["dur"] == 0


@pytest.mark.hostile
@pytest.mark.parametrize("value", ["[" * 600 + "]" * 600, "1e999"])
def test_values_that_no_reader_takes(value):
    """Lists in lists, and a number that becomes infinite."""
    event = TraceEvent.from_json(f'{{"t_ns":0,"function":0,"point":"cmd","in":{value}}}')
    text = "".join(page.export([event]))
    (fields,) = blocks(text, "details")
    for data in (fields, "".join(perfetto.export([event]))):
        json.loads(data, parse_constant=pytest.fail)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("".join(f"{event.to_json()}\n" for event in EVENTS))
    return path


def test_the_command_writes_both_forms(stored, tmp_path):
    forms = ["--perfetto", str(tmp_path / "p"), "--html", str(tmp_path / "h")]
    assert CliRunner().invoke(main, ["trace", "export", str(stored), *forms]).exit_code == 0
    assert len(json.loads((tmp_path / "p").read_text())["traceEvents"]) > len(EVENTS)
    assert (tmp_path / "h").read_text().startswith("<!doctype html>")
    for words in ([str(stored)], ["-", *forms]):
        assert CliRunner().invoke(main, ["trace", "export", *words]).exit_code == 2


@pytest.mark.parametrize("form", ["--html", "--perfetto"])
def test_a_file_without_a_trace_leaves_the_old_export(form, tmp_path):
    old = tmp_path / "old"
    old.write_text("the last export")
    result = CliRunner().invoke(main, ["trace", "export", __file__, form, str(old)])
    assert (result.exit_code, old.read_text()) == (1, "the last export")


@pytest.fixture
def browser(tmp_path):
    found = Browser(tmp_path / "browser")
    yield found
    found.close()


READY = "!!document.body && !!document.body.dataset.ready"


def says(browser):
    return browser.evaluate("document.getElementById('says').textContent")


@pytest.mark.browser
def test_the_page_in_a_browser(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("".join(page.export(EVENTS)))
    browser.open(path, READY)
    assert says(browser) == "10 of 10 events"
    browser.until("document.querySelectorAll('.row').length === 10")
    before = browser.picture()

    browser.evaluate("document.querySelectorAll('.row')[1].click()")
    browser.until("!!document.querySelector('#detail h2')")
    detail = browser.evaluate("document.getElementById('detail').innerText")
    assert "CREATE_CQ, f0 commands, slot 2, 0.000050 s" in detail
    assert hex(1 << 60) in detail
    assert browser.picture() != before

    first = "document.querySelectorAll('#queues tbody tr')[0]"
    assert browser.evaluate(f"{first}.cells[0].textContent") == "f1 QP 0x42"
    browser.evaluate(f"{first}.click()")
    assert says(browser) == "2 of 10 events"
    browser.evaluate("document.getElementById('queue').click()")
    assert says(browser) == "10 of 10 events"

    browser.evaluate("document.querySelector('header label input').click()")
    assert says(browser) == "9 of 10 events"
    for text, count in (("0x42", 2), ("bad_res", 1), ("</script>", 1), ("nowhere", 0)):
        browser.evaluate(f"search({json.dumps(text)})")
        browser.until(f"document.getElementById('says').textContent === '{count} of 10 events'")


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_of_a_million_events_opens_soon(browser, tmp_path):
    """In 2 s on an idle machine: measured is the processor's time that the page takes."""
    path = tmp_path / "page.html"
    events = list(many(1000))
    with path.open("w") as file:
        file.writelines(page.export(event for _ in range(1000) for event in events))
    browser.call("Performance.enable")
    browser.open(path, READY)
    assert says(browser) == "1,000,000 of 1,000,000 events"
    metrics = browser.call("Performance.getMetrics")["metrics"]
    (busy,) = (one["value"] for one in metrics if one["name"] == "ThreadTime")
    assert busy < 2
