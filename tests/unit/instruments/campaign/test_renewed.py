"""The store of a new campaign replaces the results of an earlier one."""

import os
import shutil

import pytest
from helpers.instruments.fake_runs import descriptions

from emu.host.user_error import UserError
from emu.instruments.campaign.description import Ended, RunResult
from emu.instruments.campaign.store import Store


def test_a_removal_that_is_interrupted_is_finished_by_the_next_one(tmp_path, monkeypatch):
    runs = [run.model_copy(update={"is_observed": True}) for run in descriptions(2)]
    Store.create(tmp_path, "few", runs).put(RunResult(name=runs[0].name, ended=Ended.PASSED))
    with monkeypatch.context() as patch:

        def interrupted(*_words, **_options):
            raise KeyboardInterrupt

        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Store.renew(tmp_path, "few", runs)
    assert Store.renew(tmp_path, "few", runs).results() == {}


@pytest.mark.parametrize("end", [OSError, KeyboardInterrupt])
def test_a_campaign_that_could_not_be_written_is_renewed_later(tmp_path, monkeypatch, end):
    """A full disk, or a Ctrl-C; the directory is new, then has results."""
    runs = [run.model_copy(update={"is_observed": True}) for run in descriptions(2)]
    result = RunResult(name=runs[0].name, ended=Ended.PASSED, record="{}")
    for _ in range(2):
        with monkeypatch.context() as patch:

            def fail(_descriptor):
                raise end

            patch.setattr(os, "fsync", fail)
            with pytest.raises(end):
                Store.renew(tmp_path / "few", "few", runs)
        store = Store.renew(tmp_path / "few", "few", runs)
        assert store.results() == {}
        store.put(result)
        assert [*store.results()] == [runs[0].name]


def test_a_lock_and_empty_folders_are_no_campaign_to_keep(tmp_path):
    (tmp_path / "lock").touch()
    for name in ("results", "records"):
        (tmp_path / name).mkdir()
    assert Store.renew(tmp_path, "few", descriptions(1)).results() == {}
    (tmp_path / "campaign.json").unlink()
    (tmp_path / "results" / "file").touch()
    with pytest.raises(UserError, match="no campaign directory"):
        Store.renew(tmp_path, "few", descriptions(1))
