"""What all memory keys cost the host together: bounded, and far from what drivers ask for."""

import pytest

from emu.device.engine.mr import cache
from emu.device.models import MODELS
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode

pytestmark = pytest.mark.hostile

MTT, KLM, KSM = AccessMode.MTT, AccessMode.KLMS, AccessMode.KSM
GIB_IN_PAGES = 1 << 18


def create(driver, pdn, octwords, mode=MTT):
    context = {"pd": pdn, "access_mode_1_0": mode, "translations_octword_size": octwords}
    return driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=context | {"free": 1}).mkey_index


class TestWhatDriversDo:
    """All of it at once, on a model as it is."""

    @pytest.fixture
    def model(self):
        return MODELS["connectx6"]

    def test_cache_and_large_regions(self, driver):
        """A PF's cache (core/main.c: profile[2]), regions of 1 GiB, implicit on-demand paging."""
        pdn = driver.alloc_pd()
        few = {12: 64, 13: 32, 14: 16, 15: 8}
        for order in range(16):
            for _ in range(few.get(order, 500)):
                create(driver, pdn, (4 << order) // 2)
        for _ in range(64):
            create(driver, pdn, GIB_IN_PAGES // 2)
            create(driver, pdn, 1 << 17, KSM)
            create(driver, pdn, 1 << 26, KSM)
            create(driver, pdn, 1 << 16, KLM)


class TestKeptTranslations:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch):
        monkeypatch.setattr(cache, "MAX_KEPT_VIEWS", 8)

    def kept(self, hca):
        ranges = sum(len(views) for key in hca.mkeys for views in key.views.values())
        single = sum(len(key.page_views) for key in hca.mkeys)
        listed = sum(sum(map(bool, pages)) for key in hca.mkeys for pages in key.scattered.values())
        return ranges + single + listed

    def test_all_keys_together(self, node, qps):
        """The pages of a region lie apart, so that an access has a view for each."""
        hca, sender = node.hca, qps[0]
        regions = [node.region(3 * 4096) for _ in range(5)]
        most = 0
        for turn in range(4):
            for region, target in zip(regions, [*regions[1:], regions[0]], strict=True):
                data = bytes([turn + 1]) * 64 + region.key.to_bytes(4, "big")
                region.write(data, at=8000)
                sender.write((target.key, target.va), region.sge(8000, 68))
                node.settle()
                assert target.read(0, 68) == data
                sender.write((target.key, target.va), region.sge())
                node.settle()
                assert target.read() == region.read()
                most = max(most, self.kept(hca))
        assert 0 < most <= 8
        assert len(sender.cq.drain()) == 40

    def test_a_longer_list_is_not_kept(self, node, qps):
        source, target = node.region(9 * 4096), node.region(9 * 4096)
        source.write(bytes(range(256)) * 144)
        qps[0].write((target.key, target.va), source.sge())
        node.settle()
        assert target.read() == source.read()
        assert not node.hca.mkeys.get(source.index).views

    def test_forgotten_when_memory_is_taken_back(self, node, qps, function, monkeypatch):
        """It costs what those keys kept that were used, however many keys there are."""
        hca = node.hca
        source, target, *_ = [node.region(4096) for _ in range(50)]
        qps[0].write((target.key, target.va), source.sge(0, 64))
        node.settle()
        assert self.kept(hca) == 2
        asked = []
        get = hca.mkeys.get
        monkeypatch.setattr(hca.mkeys, "get", lambda index: asked.append(index) or get(index))
        function.forget_views()
        assert sorted(asked) == [source.index, target.index]
        assert self.kept(hca) == 0
        function.forget_views()
        assert len(asked) == 2


class TestPagesOfManyPlaces:
    """Small messages from and to changing places, as from a ring of buffers."""

    def test_a_view_for_each_page(self, node, qps):
        source, target = node.region(2 * 4096), node.region(2 * 4096)
        source.write(bytes(range(256)) * 32)
        for at in range(0, 8192, 2):
            qps[0].write((target.key, target.va + at), source.sge(at, 2))
            node.settle()
            qps[0].cq.drain()
        assert target.read() == source.read()
        for region in source, target:
            key = node.hca.mkeys.get(region.index)
            assert len(key.page_views) == 2
            assert len(key.views) == 2048

    def test_a_page_of_which_not_all_is_granted(self, node, qps):
        """A region by an entry of 1 GiB, which is more than there is memory."""
        source = node.region(4096, log_page_size=30)
        target = node.region(4096)
        for at in 0, 64, 128, 64:
            data = bytes([at + 1]) * 64
            node.memory.write(source.pages[0] + at, data)
            qps[0].read((source.key, source.va + at), target.sge(0, 64))
            node.settle()
            assert target.read(0, 64) == data
        assert len(node.hca.mkeys.get(source.index).views) == 3
