"""Keys over single bytes of what is computed: signed blocks, encrypted data units.

However little of a block is moved, all before it is read, so many such bytes are too many.
"""

import pytest

from emu.device.engine.mr.access import access
from emu.device.engine.mr.access_error import AccessError, Violation
from emu.device.models import MODELS
from emu.device.models.crypto import KeyImport, with_crypto
from emu.device.objects.memory.aes import HAS_AES
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.device.rounds.costs import LOG_SIGNED_BYTES_PER_STEP, STEPS_PER_CIPHER
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.crypto import WIRE_SIGNATURE, CryptoKey, create_dek
from emu.driver.keys.signatures import CRC64, Crc, SignatureKey
from emu.driver.keys.umr import ANY_QPN
from emu.driver.verbs.connect import connect
from layouts.enums.mkey import AccessMode

pytestmark = pytest.mark.hostile

BLOCK, UNIT, FEW, MANY = 4096, 1 << 20, 256, 4096
ONE_BLOCK = BLOCK >> LOG_SIGNED_BYTES_PER_STEP
needs_aes = pytest.mark.skipif(not HAS_AES, reason="needs the extra crypto")


@pytest.fixture
def model():
    return with_crypto(MODELS["connectx6"], KeyImport.PLAINTEXT) if HAS_AES else MODELS["connectx6"]


@pytest.fixture
def ends(node):
    return node, node


@pytest.fixture
def sides(ends):
    """Two connected queue pairs with small packets."""
    left, right = (end.queue_pair() for end in ends)
    connect(left, right, mtu=1)
    return left, right


@pytest.fixture
def translate(node):
    """Translate single bytes of a key; what that costs, and how it fails."""

    def look(key, places, need):
        listed = indirect_key(
            node, AccessMode.KLMS, [(1, key, place) for place in places], len(places)
        )
        hca = node.hca
        pd = hca.pds.need(node.pdn)
        before, failure = hca.budget.steps, None
        try:
            access(hca, pd, ANY_QPN, listed, (0, len(places), need))
        except AccessError as error:
            failure = error.violation
        return hca.budget.steps - before, failure

    return look


NEEDS = pytest.mark.parametrize("need", [LOCAL_READ, LOCAL_WRITE])


@pytest.fixture
def signed(node, sides):
    region = node.region(2 * BLOCK)
    key = SignatureKey(node)
    domain = Crc(block=BLOCK, bfs=CRC64)
    key.configure(sides[0], [(BLOCK + 8, region.key, region.va)], mem=domain, wire=domain)
    return key.key


@NEEDS
@pytest.mark.parametrize("count", [FEW, MANY])
def test_the_last_byte_of_a_signed_block_many_times(signed, translate, need, count):
    steps, failure = translate(signed, [BLOCK + 7] * count, need)
    assert failure is (Violation.TRANSLATION if count == FEW else Violation.TOO_FRAGMENTED)
    assert STEPS_PER_ACCESS < steps <= STEPS_PER_ACCESS + 2 * ONE_BLOCK


@NEEDS
def test_the_last_byte_of_a_signed_block_a_few_times(signed, translate, need):
    steps, failure = translate(signed, [BLOCK + 7] * 4, need)
    assert failure is None
    assert steps >= 4 * ONE_BLOCK


@needs_aes
@NEEDS
@pytest.mark.parametrize("count", [FEW, MANY])
def test_bytes_at_the_end_of_a_data_unit(node, sides, translate, need, count):
    region, key = node.region(UNIT), CryptoKey(node)
    key.encrypt(create_dek(node, bytes(range(32))), WIRE_SIGNATURE, UNIT)
    key.configure(sides[0], [(UNIT, region.key, region.va)])
    steps, failure = translate(key.key, range(UNIT - count, UNIT), need)
    assert failure is (None if count == FEW else Violation.TOO_FRAGMENTED)
    assert min(FEW * STEPS_PER_CIPHER, STEPS_PER_ACCESS) <= steps <= STEPS_PER_ACCESS + 32
