# Written by scripts/gen-view-types from crypto.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

class CryptoCap(View):
    wrapped_crypto_operational: int
    wrapped_crypto_going_to_commissioning: int
    synchronize_dek: int
    int_kek_manual: int
    int_kek_auto: int
    wrapped_import_method: int
    log_dek_max_alloc: int
    log_max_num_deks: int
    log_max_num_import_keks: int
    log_max_num_creds: int
    failed_selftests: int
    num_nv_import_keks: int
    num_nv_credentials: int
    log_dek_granularity: int
    log_max_num_int_kek: int
    sw_wrapped_dek: int

crypto_cap: Prm[CryptoCap]

class EncryptionKeyObj(View):
    modify_field_select: int
    state: int
    sw_wrapped: int
    key_size: int
    has_keytag: int
    key_purpose: int
    pd: int
    opaque: Octets
    key: Octets
    sw_wrapped_dek: Octets

encryption_key_obj: Prm[EncryptionKeyObj]

class CryptoLoginObj(View):
    modify_field_select: int
    state: int
    credential_pointer: int
    session_import_kek_ptr: int
    credential: Octets

crypto_login_obj: Prm[CryptoLoginObj]
