"""Known differences in structures about encryption, most of which only rdma-core names."""

from __future__ import annotations

from layouts.btf.report import Known, What

_USER_SPACE = "rdma-core names these bits; the kernel leaves them reserved and forwards them"
_KEYS_OF_TLS = "6.1 names fields that keys of TLS need"


def _fields(structure: str, names: str) -> tuple[str, ...]:
    return tuple(f"{structure}.{name}" for name in names.split())


KNOWN_CRYPTO: tuple[Known, ...] = (
    Known((), What.STRUCTURE, _USER_SPACE, ("crypto_bsf", "crypto_login_obj")),
    Known(
        (),
        What.FIELD,
        _USER_SPACE,
        (
            *_fields("cmd_hca_cap", "aes_xts_single_block_le_tweak aes_xts_multi_block_be_tweak"),
            "encryption_key_obj.has_keytag",
            "mkc.crypto_en",
        ),
    ),
    Known(
        ("6.12", "7.2"),
        What.FIELD,
        _USER_SPACE,
        _fields(
            "crypto_cap",
            "wrapped_crypto_operational wrapped_crypto_going_to_commissioning "
            "wrapped_import_method log_max_num_import_keks log_max_num_creds failed_selftests "
            "num_nv_import_keks num_nv_credentials",
        ),
    ),
    Known(("6.1",), What.STRUCTURE, _USER_SPACE, ("crypto_cap",)),
    Known(
        ("6.1",),
        What.FIELD,
        _KEYS_OF_TLS,
        _fields("encryption_key_obj", "state sw_wrapped key_purpose opaque sw_wrapped_dek"),
    ),
    Known(("6.1",), What.WIDTH, _KEYS_OF_TLS, ("encryption_key_obj.key",)),
    Known(("6.1",), What.SIZE, _KEYS_OF_TLS, ("encryption_key_obj",)),
)
