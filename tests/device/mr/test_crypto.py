"""Keys that encrypt: AES-XTS between memory and wire, alone and with block signatures."""

import pytest

from emu.device.models import MODELS
from emu.device.models.crypto import CREDENTIAL, IMPORT_KEK, KeyImport, with_crypto
from emu.driver.keys.crypto import (
    MEMORY_SIGNATURE,
    RAW_MEMORY,
    RAW_WIRE,
    WIRE_SIGNATURE,
    CryptoKey,
    create_dek,
    dek_fields,
    login,
    login_fields,
)
from emu.driver.keys.signatures import Crc, Dif
from emu.driver.verbs.outcomes import failure, good
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.general_object import GeneralObject
from layouts.function.crypto import crypto_login_obj, encryption_key_obj
from layouts.rings.wqe import bsf

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
aes_key_wrap = pytest.importorskip("cryptography.hazmat.primitives.keywrap").aes_key_wrap

KEYS = {0: bytes(range(32)), 1: bytes(range(100, 164))}
"""By key_size."""
SIZE = 4160
DATA = bytes(number * 11 + number // 256 & 0xFF for number in range(2 * SIZE))
TWEAK = (1 << 128) - 2
"""The third data unit's is 0."""
TAG = b"key tag!"
DEK, LOGIN = GeneralObject.ENCRYPTION_KEY, GeneralObject.CRYPTO_LOGIN


def xts(data, unit=512, tweak=TWEAK, size=0, *, decrypt=False):
    """As OpenSSL does it, data unit by data unit."""
    made = b""
    for number, at in enumerate(range(0, len(data), unit)):
        value = ((tweak + number) % (1 << 128)).to_bytes(16, "little")
        mode = ciphers.modes.XTS(value)
        cipher = ciphers.Cipher(ciphers.algorithms.AES(KEYS[size]), mode)
        context = cipher.decryptor() if decrypt else cipher.encryptor()
        made += context.update(data[at : at + unit]) + context.finalize()
    return made


@pytest.fixture
def way():
    return KeyImport.PLAINTEXT


@pytest.fixture
def model(way):
    return with_crypto(MODELS["connectx6"], way)


@pytest.fixture
def store(ends):
    return ends[0].region(len(DATA), va=0x5000_0000_0100)


@pytest.fixture
def far(ends):
    return ends[1].region(len(DATA), va=0x6000_0000_0000)


@pytest.fixture
def dek(ends):
    return create_dek(ends[0], KEYS[0])


@pytest.fixture
def key(ends):
    return CryptoKey(ends[0])


def run(ends):
    for end in ends:
        end.settle()


UNITS = pytest.mark.parametrize("unit", [512, 520, 4048, 4096, 4160, 1 << 20])


def length_of(unit):
    """Two units, or as much as there is room for."""
    return 2 * unit if unit < SIZE else SIZE


@UNITS
@pytest.mark.parametrize("order", [WIRE_SIGNATURE, RAW_WIRE])
def test_send_encrypts(ends, sides, key, dek, store, far, unit, order):
    """Memory has plaintext, the wire gets ciphertext."""
    (left, right), size = sides, length_of(unit)
    store.write(DATA[:size])
    key.encrypt(dek, order, unit, TWEAK)
    key.configure(left, [store.sge(0, size)])
    right.post_recv(far.sge())
    left.send((size, key.key, 0))
    run(ends)
    good(left)
    assert good(right)[0].byte_cnt == size
    assert far.read(0, size) == xts(DATA[:size], unit)
    assert store.read(0, size) == DATA[:size]


@UNITS
@pytest.mark.parametrize("order", [MEMORY_SIGNATURE, RAW_MEMORY])
def test_receive_encrypts(ends, sides, key, dek, store, far, unit, order):
    """The other way round: the wire has plaintext, memory gets ciphertext."""
    (left, right), size = sides, length_of(unit)
    far.write(DATA[:size])
    key.encrypt(dek, order, unit, TWEAK)
    key.configure(left, [store.sge(0, size)])
    left.post_recv((size, key.key, 0))
    right.send(far.sge(0, size))
    run(ends)
    good(left)
    assert store.read(0, size) == xts(DATA[:size], unit)


@pytest.mark.parametrize("order", [WIRE_SIGNATURE, MEMORY_SIGNATURE, RAW_WIRE, RAW_MEMORY])
def test_there_and_back(ends, sides, key, dek, store, far, order):
    """RDMA writes to the key and reads from it, each through the other direction."""
    left, right = sides
    key.encrypt(dek, order, 520, TWEAK)
    key.configure(left, [store.sge(0, 1040)])
    far.write(DATA[:1040])
    right.write((key.key, 0), far.sge(0, 1040))
    run(ends)
    good(right)
    decrypts = order in (WIRE_SIGNATURE, RAW_WIRE)
    assert store.read(0, 1040) == xts(DATA[:1040], 520, decrypt=decrypts)
    far.write(bytes(1040))
    right.read((key.key, 0), far.sge(0, 1040))
    run(ends)
    good(right)
    assert far.read(0, 1040) == DATA[:1040]


def test_in_place(ends, sides, key, dek, store):
    """DPDK: a queue pair writes memory to itself by way of the key, with no mask for the BSF."""
    left = ends[0].queue_pair()
    left.init(rwe=1)
    left.to_rtr(qpn=left.qpn, psn=7, path=ends[0].path_to(ends[0]))
    left.to_rts(7)
    store.write(DATA[:512])
    key.encrypt(dek, RAW_MEMORY, 512, TWEAK)
    key.configure(left, [store.sge(0, 512)])
    left.write((key.key, 0), store.sge(0, 512))
    run(ends)
    good(left)
    assert store.read(0, 512) == xts(DATA[:512])


@pytest.mark.parametrize("ends", ["one function"], indirect=True)
class TestKeys:
    def test_256_bits_with_a_tag(self, ends, sides, key, store, far):
        dek = create_dek(ends[0], KEYS[1] + TAG, 1, has_keytag=1)
        (left, right) = sides
        store.write(DATA[:512])
        key.encrypt(dek, RAW_WIRE, tweak=TWEAK, keytag=TAG)
        key.configure(left, [store.sge(0, 512)])
        right.post_recv(far.sge())
        left.send((512, key.key, 0))
        run(ends)
        good(right)
        assert far.read(0, 512) == xts(DATA[:512], size=1)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"keytag": b"another?"}, {"enc_standard": 1}, {"bs_pointer": 7}, {"bs_pointer": 0},
            {"enc_order": 4}, {"rsvd_dek_ptr": 99},
            {"bsf_size_type": 3 << 6 | 1}, {"bsf_size_type": 2 << 6 | 2},
        ],
        ids=str,
    )  # fmt: skip
    def test_bsf_that_cannot_be(self, ends, sides, key, store, wrong):
        dek = create_dek(ends[0], KEYS[0] + TAG, has_keytag=1)
        left = sides[0]
        key.encrypt(dek, RAW_WIRE, keytag=TAG)
        key.post(left, [store.sge(0, 512)], None, None, wrong=wrong)
        run(ends)
        assert failure(left) == CqeSyndrome.MW_BIND_ERR

    def test_a_key_of_another_domain(self, ends, sides, key, store):
        pdn = ends[0].driver.must(Op.ALLOC_PD).pd
        dek = create_dek(ends[0], KEYS[0], pd=pdn)
        key.encrypt(dek, RAW_WIRE)
        key.post(sides[0], [store.sge(0, 512)], None, None)
        run(ends)
        assert failure(sides[0]) == CqeSyndrome.MW_BIND_ERR

    def test_a_memory_key_that_is_not_for_it(self, ends, sides, dek, store):
        key = CryptoKey(ends[0], crypto_en=0)
        key.encrypt(dek, RAW_WIRE)
        key.post(sides[0], [store.sge(0, 512)], None, None)
        run(ends)
        assert failure(sides[0]) == CqeSyndrome.MW_BIND_ERR

    def test_nothing_without_encryption(self, ends, sides, store):
        """A key that is made for encryption gives nothing away before it has some."""
        left, right = sides
        key = CryptoKey(ends[0], is_signed=True)
        key.encrypt(0, RAW_WIRE)
        key.bsf = lambda *_: bytes(bsf.new(basic={"bsf_size_sbs": 2 << 6}).buf)
        key.configure(left, [store.sge(0, 512)])
        left.send((512, key.key, 0))
        run(ends)
        assert failure(left) == CqeSyndrome.LOCAL_PROT_ERR
        assert not right.cq.drain()

    def test_nothing_after_the_end_of_its_encryption_key(self, ends, sides, key, dek, store):
        left = sides[0]
        key.encrypt(dek, RAW_WIRE)
        key.configure(left, [store.sge(0, 512)])
        ends[0].driver.must(Op.DESTROY_GENERAL_OBJECT, op_mod=DEK, obj_id=dek)
        left.send((512, key.key, 0))
        run(ends)
        assert failure(left) == CqeSyndrome.LOCAL_PROT_ERR

    @pytest.mark.parametrize(("size", "sent", "is_good"), [
        (496, 496, True), (100, 96, True), (100, 100, False), (520, 520, False), (47, 47, False),
    ])  # fmt: skip
    def test_blocks_are_whole(self, ends, sides, key, dek, store, far, size, sent, is_good):
        """mlx5dv_wr_set_mkey_crypto(3): a part of a block cannot be encrypted."""
        left, right = sides
        store.write(DATA[:size])
        key.encrypt(dek, RAW_WIRE, tweak=TWEAK)
        key.configure(left, [store.sge(0, size)])
        right.post_recv(far.sge())
        left.send((sent, key.key, 0))
        run(ends)
        if is_good:
            good(right)
            assert far.read(0, sent) == xts(DATA[:sent])
        else:
            assert failure(left) == CqeSyndrome.LOCAL_PROT_ERR


@pytest.mark.parametrize("ends", ["one function", "packets"], indirect=True)
class TestWithSignatures:
    """The rows of the table of mlx5dv_wr_set_mkey_crypto(3). A plain key of block signatures, of
    which test_signature.py is about, makes what is expected."""

    @pytest.fixture
    def signed(self, ends, sides, store, far):
        """What a plain key with these signatures makes of data in memory."""

        def send(data, mem=None, wire=None):
            plain = CryptoKey(ends[0], crypto_en=0, is_signed=True)
            plain.bsf = lambda *args: super(CryptoKey, plain).bsf(*args)
            plain.configure(sides[0], [store.sge(0, len(data))], mem=mem, wire=wire)
            store.write(data)
            sides[1].post_recv(far.sge())
            blocks = len(data) // (512 + (8 if mem else 0))
            sides[0].send((512 * blocks, plain.key, 0))
            run(ends)
            good(sides[0])
            return far.read(0, good(sides[1])[0].byte_cnt)

        return send

    @pytest.fixture
    def key(self, ends):
        return CryptoKey(ends[0], is_signed=True)

    @pytest.mark.parametrize("order", [WIRE_SIGNATURE, RAW_WIRE])
    def test_signatures_on_the_wire(self, ends, sides, key, dek, store, far, signed, order):
        """Rows B and C: enc(data) + SIG, and enc(data + SIG)."""
        (left, right), data = sides, DATA[:1024]
        if order == RAW_WIRE:
            wanted = signed(xts(data), wire=Dif())
        else:
            wanted = xts(signed(data, wire=Dif()), 520)
        store.write(data)
        key.encrypt(dek, order, 520 if order == WIRE_SIGNATURE else 512, TWEAK)
        key.configure(left, [store.sge(0, 1024)], wire=Dif())
        right.post_recv(far.sge())
        left.send((1040, key.key, 0))
        run(ends)
        good(left)
        assert good(right)[0].byte_cnt == 1040
        assert far.read(0, 1040) == wanted
        # And back, into memory that has lost them.
        store.write(bytes(1024))
        left.post_recv((1040, key.key, 0))
        right.send(far.sge(0, 1040))
        run(ends)
        assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.RESP_SEND]
        assert store.read(0, 1024) == data

    @pytest.mark.parametrize("order", [MEMORY_SIGNATURE, RAW_MEMORY])
    def test_signatures_in_memory(self, ends, sides, key, dek, store, far, signed, order):
        """Rows H and J: enc(data + SIG), and enc(data) + SIG."""
        (left, right), data = sides, DATA[:1024]
        if order == RAW_MEMORY:
            stored = signed(xts(data), wire=Dif())
        else:
            stored = xts(signed(data, wire=Dif()), 520)
        store.write(stored)
        far.write(bytes(1024))
        key.encrypt(dek, order, 520 if order == MEMORY_SIGNATURE else 512, TWEAK)
        key.configure(left, [store.sge(0, 1040)], mem=Dif())
        right.post_recv(far.sge())
        left.send((1024, key.key, 0))
        run(ends)
        assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.REQ]
        assert far.read(0, good(right)[0].byte_cnt) == data
        store.write(bytes(1040))
        left.post_recv((1024, key.key, 0))
        right.send(far.sge(0, 1024))
        run(ends)
        good(left)
        assert store.read(0, 1040) == stored

    def test_wrong_signature_under_encryption(self, ends, sides, key, dek, store, far, signed):
        (left, right), data = sides, DATA[:512]
        stored = bytearray(signed(data, wire=Dif()))
        stored[7] ^= 1
        store.write(xts(bytes(stored), 520))
        key.encrypt(dek, MEMORY_SIGNATURE, 520, TWEAK)
        key.configure(left, [store.sge(0, 520)], mem=Dif())
        right.post_recv(far.sge())
        left.send((512, key.key, 0))
        run(ends)
        assert CqeOpcode.SIG_ERR in [done.opcode for done in left.cq.drain()]

    def test_rdma_cores_own(self, ends, sides, key, dek, store, far):
        """test_mlx5_crypto_signature_mkey: a segment is as long as what the wire gets of it."""
        left, right = sides
        store.write(DATA[:512])
        key.encrypt(dek, WIRE_SIGNATURE, 512, TWEAK)
        key.configure(left, [store.sge(0, 512)], wire=Crc())
        right.post_recv(far.sge(0, 512))
        left.send((512, key.key, 0))
        run(ends)
        assert good(right)[0].byte_cnt == 512
        assert far.read(0, 512) == xts(DATA[:512])


class TestObjects:
    def test_what_is_told_of_a_key(self, node, driver):
        dek = create_dek(node, KEYS[0] + TAG, has_keytag=1, opaque=b"whose is")
        size = encryption_key_obj.size
        out = driver.must(Op.QUERY_GENERAL_OBJECT, op_mod=DEK, obj_id=dek, out_extra=size)
        obj = encryption_key_obj.view(b"".join(out.object))
        assert (obj.state, obj.opaque, obj.pd, obj.key_size) == (0, b"whose is", node.pdn, 0)
        assert (obj.has_keytag, obj.key_purpose) == (1, 3)
        assert not any(obj.key)

    @pytest.mark.parametrize(
        ("status", "fields"),
        [
            (Status.BAD_PARAM_ERR, {"key_purpose": 1}),
            (Status.BAD_PARAM_ERR, {"size": 2}),
            (Status.BAD_PARAM_ERR, {"sw_wrapped": 1}),
            (Status.BAD_PARAM_ERR, {"key": bytes(128)}),
            (Status.BAD_RES_ERR, {"pdn": 0xABCDE}),
        ],
    )
    def test_refused_keys(self, node, refused, status, fields):
        given = dek_fields(**{"pdn": node.pdn, "key": KEYS[0]} | fields)
        refused(status, Op.CREATE_GENERAL_OBJECT, **given)

    def test_one_at_a_time(self, node, refused):
        given = dek_fields(node.pdn, KEYS[0])
        refused(Status.LIM_ERR, Op.CREATE_GENERAL_OBJECT, log_obj_range=1, **given)

    def test_no_logins_where_keys_are_plaintext(self, refused):
        given = login_fields(aes_key_wrap(IMPORT_KEK, CREDENTIAL))
        refused(Status.BAD_PARAM_ERR, Op.CREATE_GENERAL_OBJECT, **given)

    def test_keys_hold_their_domain(self, node, driver, refused):
        dek = create_dek(node, KEYS[0], pd=(pdn := driver.must(Op.ALLOC_PD).pd))
        refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=pdn)
        driver.must(Op.DESTROY_GENERAL_OBJECT, op_mod=DEK, obj_id=dek)
        driver.must(Op.DEALLOC_PD, pd=pdn)

    def test_pages_are_not_for_encryption(self, node, refused):
        fields = {"pd": node.pdn, "access_mode_1_0": 1, "crypto_en": 1, "free": 1, "qpn": 0xFFFFFF}
        refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, memory_key_mkey_entry=fields)


class TestWrapped:
    @pytest.fixture
    def way(self):
        return KeyImport.WRAPPED

    @pytest.fixture
    def uid(self, driver):
        return driver.must(Op.CREATE_UCTX).uid

    @pytest.fixture
    def pdn(self, driver, uid):
        return driver.must(Op.ALLOC_PD, uid=uid).pd

    def test_a_login_and_a_key(self, driver, uid, pdn):
        one = login(driver, aes_key_wrap(IMPORT_KEK, CREDENTIAL), uid=uid)
        given = dek_fields(pdn, aes_key_wrap(IMPORT_KEK, KEYS[1] + TAG), 1, has_keytag=1)
        dek = driver.must(Op.CREATE_GENERAL_OBJECT, uid=uid, **given).obj_id
        driver.must(
            Op.QUERY_GENERAL_OBJECT, uid=uid, op_mod=DEK, obj_id=dek,
            out_extra=encryption_key_obj.size,
        )  # fmt: skip
        out = driver.must(
            Op.QUERY_GENERAL_OBJECT, uid=uid, op_mod=LOGIN, obj_id=one,
            out_extra=crypto_login_obj.size,
        )  # fmt: skip
        assert not any(b"".join(out.object))
        driver.must(Op.DESTROY_GENERAL_OBJECT, uid=uid, op_mod=LOGIN, obj_id=one)
        assert (
            driver.command(Op.QUERY_GENERAL_OBJECT, uid=uid, op_mod=DEK, obj_id=dek).status
            == Status.BAD_RES_STATE_ERR
        )
        driver.must(Op.DESTROY_GENERAL_OBJECT, uid=uid, op_mod=DEK, obj_id=dek)

    @pytest.mark.parametrize(
        "fields",
        [
            {"credential": aes_key_wrap(IMPORT_KEK, bytes(40))},
            {"credential": aes_key_wrap(bytes(16), CREDENTIAL)},
            {"credential": bytes(48)},
            {"credential": aes_key_wrap(IMPORT_KEK, CREDENTIAL), "credential_pointer": 1},
            {"credential": aes_key_wrap(IMPORT_KEK, CREDENTIAL), "session_import_kek_ptr": 1},
        ],
    )
    def test_refused_logins(self, refused, uid, fields):
        refused(Status.BAD_PARAM_ERR, Op.CREATE_GENERAL_OBJECT, uid=uid, **login_fields(**fields))

    def test_no_key_without_a_login_of_ones_own(self, driver, refused, uid, pdn):
        login(driver, aes_key_wrap(IMPORT_KEK, CREDENTIAL))
        given = dek_fields(pdn, aes_key_wrap(IMPORT_KEK, KEYS[0]))
        refused(Status.BAD_RES_STATE_ERR, Op.CREATE_GENERAL_OBJECT, uid=uid, **given)

    @pytest.mark.parametrize("key", [KEYS[0], aes_key_wrap(bytes(16), KEYS[0])], ids=["no", "kek"])
    def test_keys_are_wrapped_by_the_adapters_kek(self, driver, refused, uid, pdn, key):
        login(driver, aes_key_wrap(IMPORT_KEK, CREDENTIAL), uid=uid)
        given = dek_fields(pdn, key)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_GENERAL_OBJECT, uid=uid, **given)


@pytest.mark.parametrize("name", ["connectx4lx", "connectx5"])
def test_older_adapters_have_none(name):
    with pytest.raises(ValueError, match="no encryption"):
        with_crypto(MODELS[name], KeyImport.PLAINTEXT)


def test_tweaks_of_connectx7_have_their_first_byte_first():
    general = with_crypto(MODELS["connectx7"], KeyImport.PLAINTEXT).general
    assert general["aes_xts_multi_block_be_tweak"]
    assert "aes_xts_single_block_le_tweak" not in general
