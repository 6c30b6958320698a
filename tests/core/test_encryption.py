from __future__ import annotations

import base64
import sys

import pytest
from cryptography.fernet import Fernet

from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.core.errors import ExtraMissing, NotConfigured, SecretUnreadable

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def test_an_encrypted_string_can_be_decrypted_and_does_not_contain_the_text():
    box = SecretBox([NEW])

    sealed = box.seal("whsec_Zoë")

    assert box.open(sealed, what="a secret") == "whsec_Zoë"
    assert "whsec" not in sealed
    assert box.seal("whsec_Zoë") != sealed


def test_during_rotation_the_first_key_encrypts_and_both_keys_decrypt():
    before = SecretBox([OLD]).seal("text")
    rotating = SecretBox([NEW, OLD])

    assert rotating.open(before, what="a secret") == "text"
    assert SecretBox([NEW]).open(rotating.seal("text"), what="a secret") == "text"


@pytest.mark.parametrize(
    "sealed", ["", "junk", "gAAAAA", SecretBox([OLD]).seal("text")], ids=["empty", "junk", "too short", "another key"]
)
def test_the_error_for_a_string_that_no_key_decrypts_names_the_secret(sealed):
    with pytest.raises(SecretUnreadable, match="the secret of x was encrypted with a key that SCHEDULED_ACTIONS_"):
        SecretBox([NEW]).open(sealed, what="the secret of x")


@pytest.mark.parametrize("keys", [[], ["hunter2"], [NEW[:-4]], [NEW, "junk"]])
def test_without_a_valid_key_nothing_is_encrypted_and_the_error_explains_how_to_create_one(keys):
    problem = "is invalid" if keys else "is not configured"
    with pytest.raises(
        NotConfigured, match=f"SCHEDULED_ACTIONS_ENCRYPTION_KEY {problem}: set it to 32 random"
    ) as caught:
        SecretBox(keys).seal("text")

    assert "hunter2" not in str(caught.value)


def test_without_the_library_the_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)

    with pytest.raises(ExtraMissing, match=r"pip install 'scheduled-actions\[encryption\]'"):
        SecretBox([NEW]).seal("text")


def test_a_key_may_be_in_either_base64_alphabet_and_without_padding():
    raw = bytes(range(224, 256))
    spellings = [base64.b64encode(raw), base64.urlsafe_b64encode(raw), base64.b64encode(raw).rstrip(b"=")]

    sealed = SecretBox([spellings[0].decode()]).seal("text")

    assert [SecretBox([one.decode()]).open(sealed, what="a secret") for one in spellings] == ["text"] * 3
