"""Check whether the configured key decrypts the stored secrets: for `doctor`, `dev` and the first tick of a process."""

from collections.abc import Sequence
from typing import NamedTuple

from scheduled_actions.core.encryption import KEY_NAME, SecretBox
from scheduled_actions.core.errors import NotConfigured, SecretUnreadable
from scheduled_actions.core.messages import counted
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)


class StoredSecrets(NamedTuple):
    """The encrypted secrets in the database."""

    #: Number of webhook endpoints in the database.
    endpoints: int
    #: The secrets of the newest hundred of them.
    sealed: Sequence[str]


def read(connection: Connection) -> StoredSecrets:
    """Read the encrypted secrets with one statement."""
    rows = sql.run(connection, "sealed_secrets").fetchall()
    return StoredSecrets(rows[0][1] if rows else 0, [secret for secret, _ in rows])


def check(stored: StoredSecrets, keys: Sequence[str]) -> None:
    """Check that the secrets can be decrypted; without any, no key is required.

    Args:
        stored: The encrypted secrets.
        keys: The configured keys.

    Raises:
        SecretUnreadable: Some were encrypted with none of the keys; the message contains their number.
        NotConfigured: No key is configured, or a key is malformed.
        ExtraMissing: `cryptography` is not installed.
    """
    if not stored.sealed:
        return
    endpoints = counted(len(stored.sealed), "webhook endpoint")
    if not keys:
        raise NotConfigured(KEY_NAME, f"set it to the key that encrypted the secrets of {endpoints} in the database")
    box, unreadable = SecretBox(keys), 0
    for secret in stored.sealed:
        try:
            box.open(secret, what="a secret")
        except SecretUnreadable:
            unreadable += 1
    if unreadable:
        raise SecretUnreadable(f"the secret of {unreadable} of {endpoints}", KEY_NAME)


def check_database(connection: Connection, keys: Sequence[str]) -> None:
    """Read the encrypted secrets, and check that they can be decrypted; raises the errors of `check`."""
    check(read(connection), keys)
