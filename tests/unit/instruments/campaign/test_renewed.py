"""The store of a new campaign replaces the results of an earlier one."""

import shutil

import pytest
from helpers.instruments.fake_runs import descriptions

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
