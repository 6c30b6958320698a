"""Amazon SQS: send tickets to a standard queue, and receive them. boto3 reads its own environment variables."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from scheduled_actions.core.config import Executor
from scheduled_actions.core.errors import ExtraMissing
from scheduled_actions.core.errors.families import short_text
from scheduled_actions.core.log import log
from scheduled_actions.executors.carriers import ANSWER_SECONDS, CONNECT_SECONDS, CarrierUnavailable, SendOutcome
from scheduled_actions.executors.tickets import TicketMessage

if TYPE_CHECKING:
    from types import ModuleType

#: Maximum number of messages in one request to SQS.
BATCH = 10
#: Maximum size of the bodies in one request, in bytes. SQS allows more since 2025, other implementations do not.
_BATCH_BYTES = 256 * 1024
#: Longest time that SQS waits for a message.
POLL_SECONDS = 20
#: The first try and one more: a connection that was idle between two ticks may be closed.
_TRIES = 2
#: The codes for a missing queue, in both protocols of SQS.
_MISSING = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
#: From this HTTP status on, an error does not say whether SQS has the messages.
_SERVER_ERROR = 500


class SqsClient(Protocol):
    """The operations of boto3's client that are used here."""

    meta: Any

    def get_queue_url(self, **arguments: object) -> dict[str, Any]:
        """Return the URL of a queue."""

    def get_queue_attributes(self, **arguments: object) -> dict[str, Any]:
        """Return attributes of a queue."""

    def send_message_batch(self, **arguments: object) -> dict[str, Any]:
        """Send up to ten messages."""

    def receive_message(self, **arguments: object) -> dict[str, Any]:
        """Return up to ten messages."""

    def delete_message_batch(self, **arguments: object) -> dict[str, Any]:
        """Delete up to ten received messages."""

    def change_message_visibility_batch(self, **arguments: object) -> dict[str, Any]:
        """Change when up to ten received messages become visible again."""

    def close(self) -> None:
        """Close the connections."""


class ReceivedMessage(NamedTuple):
    """A message that SQS delivers again unless it is deleted."""

    body: str
    receipt: str


def build(name: str, executor: Executor, environ: Mapping[str, str]) -> "SqsCarrier":  # noqa: ARG001 - boto3 reads its own
    """Return the carrier of an executor.

    Raises:
        ExtraMissing: boto3 is not installed.
    """
    _boto3()
    return SqsCarrier(name, executor)


class SqsQueue:
    """The queue of an executor, and a client for it.

    Args:
        name: The name of the executor.
        executor: Its settings.
        answer_seconds: Maximum time of an answer.
    """

    def __init__(self, name: str, executor: Executor, *, answer_seconds: float) -> None:
        self._name = name
        self._queue = executor.queue or name
        self._answer_seconds = answer_seconds
        self._client: SqsClient | None = None
        self._url = ""

    def open(self) -> tuple[SqsClient, str]:
        """Return the client and the URL of the queue; the first call checks that the queue exists.

        Raises:
            CarrierUnavailable: SQS cannot be reached, or the region, credentials or queue are missing.
        """
        if self._client is not None:
            return self._client, self._url
        if self._queue.endswith(".fifo"):
            problem = f'"{self._queue}" is a FIFO queue; an executor needs a standard queue'
            raise CarrierUnavailable(f"{problem}: set executors.{self._name}.queue")
        client = self._new_client()
        try:
            url = self._find_url(client)
        except sqs_errors() as error:
            client.close()
            raise CarrierUnavailable(self._reason(error, client)) from error
        self._client, self._url = client, url
        return client, url

    def close(self) -> None:
        """Close the connections; `open` creates new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def unavailable(self, error: Exception) -> CarrierUnavailable:
        """Return an error of boto3 as an error of the carrier, and close the connections."""
        reason = self._reason(error, self._client)
        self.close()
        return CarrierUnavailable(reason)

    def _new_client(self) -> SqsClient:
        boto3 = _boto3()
        errors: tuple[type[Exception], ...] = (*sqs_errors(), ValueError)
        from botocore.config import Config  # noqa: PLC0415 - part of boto3

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=self._answer_seconds,
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
        )
        try:
            # The default session of boto3 is not thread-safe.
            client: SqsClient = boto3.session.Session().client("sqs", config=config)
        except errors as error:
            raise CarrierUnavailable(self._reason(error, None)) from error
        return client

    def _find_url(self, client: SqsClient) -> str:
        if "://" not in self._queue:
            return str(client.get_queue_url(QueueName=self._queue)["QueueUrl"])
        client.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        return self._queue

    def _reason(self, error: Exception, client: SqsClient | None) -> str:
        """Return why a request has failed, and what to do."""
        from botocore import exceptions  # noqa: PLC0415 - part of boto3

        reason = f"the configuration of boto3 is invalid, or the answer is not from SQS ({type(error).__name__})"
        match error:
            case exceptions.NoRegionError():
                reason = "no AWS region is configured: set AWS_DEFAULT_REGION"
            case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
                variables = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                reason = f"no AWS credentials were found: set {variables}, or give the process a role"
            case exceptions.ClientError() if error.response["Error"].get("Code") in _MISSING:
                where = "" if client is None else f" in {client.meta.region_name}"
                reason = f'SQS has no queue "{self._queue}"{where}: create it, or set executors.{self._name}.queue'
            case exceptions.ClientError():
                found = error.response["Error"]
                text = short_text(str(found.get("Message")), 300)
                reason = f"SQS has refused {error.operation_name}: {found.get('Code')}: {text}"
            case exceptions.HTTPClientError() | exceptions.ConnectionError() if client is not None:
                at = urlsplit(client.meta.endpoint_url)
                reason = f"SQS cannot be reached at {at.hostname}:{at.port or at.scheme} ({type(error).__name__})"
            case ValueError():
                reason = "the endpoint of SQS is not a URL: correct AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL"
            case _:
                pass
        return reason


class SqsCarrier:
    """Sends the messages of one executor.

    Args:
        name: The name of the executor.
        executor: Its settings.
    """

    def __init__(self, name: str, executor: Executor) -> None:
        self._name = name
        self._queue = SqsQueue(name, executor, answer_seconds=ANSWER_SECONDS)

    def open(self) -> None:
        """Find the queue unless it is known.

        Raises:
            CarrierUnavailable: SQS cannot be reached, or the region, credentials or queue are missing.
        """
        self._queue.open()

    def send(self, messages: Sequence[TicketMessage]) -> list[SendOutcome]:
        """Send messages in batches; return what became of each. After a failed request, no further one is sent."""
        client, url = self._queue.open()
        outcomes = [SendOutcome.REFUSED] * len(messages)
        for batch in _batches([_entry(number, one) for number, one in enumerate(messages)]):
            try:
                answer = client.send_message_batch(QueueUrl=url, Entries=batch)
            except sqs_errors() as error:
                log.warning("executor.send_failed executor=%s error=%s", self._name, self._queue.unavailable(error))
                failed = SendOutcome.REFUSED if _was_refused(error) else SendOutcome.UNKNOWN
                outcomes[_number(batch[0]) : _number(batch[-1]) + 1] = [failed] * len(batch)
                break
            for entry in batch:
                # An entry that is in neither list of the answer may have been sent.
                outcomes[_number(entry)] = SendOutcome.UNKNOWN
            for entry in answer.get("Successful", ()):
                outcomes[_number(entry)] = SendOutcome.SENT
            for entry in answer.get("Failed", ()):
                outcomes[_number(entry)] = SendOutcome.REFUSED
                log.warning("executor.send_failed executor=%s error=%s", self._name, entry.get("Code"))
        return outcomes

    def close(self) -> None:
        """Close the connections; `open` creates new ones."""
        self._queue.close()


class SqsReceiver:
    """Receives the messages of one executor; used by one thread at a time.

    Args:
        name: The name of the executor.
        executor: Its settings.

    Raises:
        ExtraMissing: boto3 is not installed.
    """

    def __init__(self, name: str, executor: Executor) -> None:
        _boto3()
        self._name = name
        self._queue = SqsQueue(name, executor, answer_seconds=POLL_SECONDS + ANSWER_SECONDS)

    def receive(self, most: int, *, seconds: int) -> list[ReceivedMessage]:
        """Return messages, as soon as there are any.

        Args:
            most: Maximum number of messages; SQS returns up to ten.
            seconds: Maximum time to wait for the first, at most `POLL_SECONDS`.

        Raises:
            CarrierUnavailable: SQS cannot be reached, or the region, credentials or queue are missing.
        """
        client, url = self._queue.open()
        try:
            answer = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=max(1, min(BATCH, most)), WaitTimeSeconds=seconds
            )
        except sqs_errors() as error:
            raise self._queue.unavailable(error) from error
        return [ReceivedMessage(one["Body"], one["ReceiptHandle"]) for one in answer.get("Messages", ())]

    def delete(self, messages: Sequence[ReceivedMessage]) -> None:
        """Delete received messages; a failure is only logged: they arrive once more, and their tickets are dropped."""
        client, url = self._queue.open()
        entries = [{"Id": str(number), "ReceiptHandle": one.receipt} for number, one in enumerate(messages)]
        self._log_failed("not_deleted", lambda: client.delete_message_batch(QueueUrl=url, Entries=entries))

    def give_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Make received messages visible to other workers now; a failure is only logged."""
        client, url = self._queue.open()
        entries = [
            {"Id": str(number), "ReceiptHandle": one.receipt, "VisibilityTimeout": 0}
            for number, one in enumerate(messages)
        ]
        self._log_failed(
            "not_given_back", lambda: client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
        )

    def close(self) -> None:
        """Close the connections."""
        self._queue.close()

    def _log_failed(self, event: str, request: "Request") -> None:
        try:
            failed = request().get("Failed", ())
        except sqs_errors() as error:
            log.warning("executor.%s executor=%s error=%s", event, self._name, self._queue.unavailable(error))
            return
        if failed:
            code = failed[0].get("Code")
            log.warning("executor.%s executor=%s messages=%d error=%s", event, self._name, len(failed), code)


class Request(Protocol):
    """A request to SQS."""

    def __call__(self) -> dict[str, Any]:
        """Send the request and return the answer."""


def _boto3() -> "ModuleType":
    try:
        import boto3  # noqa: PLC0415 - only with an executor that uses SQS
    except ImportError as error:
        raise ExtraMissing("boto3", "sqs") from error
    module: ModuleType = boto3
    return module


def sqs_errors() -> tuple[type[Exception], ...]:
    """Return the base classes of boto3's errors."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - part of boto3
    from botocore.parsers import ResponseParserError  # noqa: PLC0415 - part of boto3

    return BotoCoreError, ClientError, ResponseParserError


def _was_refused(error: Exception) -> bool:
    """Return whether SQS certainly has no message of a failed request."""
    from botocore import exceptions, parsers  # noqa: PLC0415 - part of boto3

    match error:
        case exceptions.ClientError():
            status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", _SERVER_ERROR)
            return status < _SERVER_ERROR
        case exceptions.EndpointConnectionError() | exceptions.ConnectTimeoutError():
            return True
        case exceptions.HTTPClientError() | exceptions.ConnectionError() | parsers.ResponseParserError():
            return False
        case _:
            # Credentials, parameters: the request was not sent.
            return True


def _entry(number: int, message: TicketMessage) -> dict[str, Any]:
    """Return a message as an entry of a batch; the messages of a team are a group of SQS's fair queues."""
    entry = {"Id": str(number), "MessageBody": json.dumps(message.as_json(), separators=(",", ":"))}
    return entry if message.team_id is None else entry | {"MessageGroupId": message_group(message.team_id)}


def message_group(team_id: str) -> str:
    """Return the message group of a team: its id, or a hash if SQS does not allow the id."""
    if re.fullmatch(r"[\x21-\x7e]{1,128}", team_id):
        return team_id
    return hashlib.sha256(team_id.encode()).hexdigest()


def _batches(entries: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield entries in batches that SQS accepts, in their order."""
    batch: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        length = len(entry["MessageBody"])
        if batch and (len(batch) == BATCH or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch


def _number(entry: Mapping[str, Any]) -> int:
    return int(entry["Id"])
