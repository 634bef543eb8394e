"""Functions of a server that are the ports of one board."""

import pytest

from emu.server.service.devicespec import parse_all
from emu.server.service.endpoints import ServedDevice
from emu.server.service.server import Server


@pytest.fixture
def serve(tmp_path):
    servers = []

    def make(*texts):
        sockets = [tmp_path / f"vfio{number}" for number in range(len(texts))]
        servers.append(Server([*map(ServedDevice, sockets, parse_all(texts))]))
        return servers[-1].functions

    yield make
    for server in servers:
        server.close()


def test_functions_with_one_number_share_a_board(serve):
    texts = ("connectx6dx,board=1", "connectx6dx,board=2", "connectx6dx,board=2", "connectx6dx")
    first, *others, alone, fourth = serve(*texts, "connectx6dx,board=1")
    boards = [function.adapter.board for function in (first, *others, alone, fourth)]
    assert boards[0] is boards[4]
    assert boards[1] is boards[2]
    assert len({*map(id, boards)}) == 3
    assert [len(board.adapters) for board in boards] == [2, 2, 2, 1, 2]
    assert first.adapter.guid == fourth.adapter.guid == first.hca.options.guid
    numbers = [function.adapter.number for function in (first, *others, fourth)]
    assert numbers == [1, 1, 2, 2]
