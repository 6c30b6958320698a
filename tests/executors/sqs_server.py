"""SQS over HTTP: moto's server, and a server whose answers are chosen by the test."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

REGION = "eu-central-1"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class TestQueue:
    """A queue of its own on moto's server."""

    __test__ = False

    def __init__(self, client):
        self.name = f"media-{uuid4().hex[:12]}"
        self.client = client
        self.url = self.client.create_queue(QueueName=self.name)["QueueUrl"]

    @property
    def numbers(self):
        """The numbers of visible messages, and of received ones that are not deleted."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return tuple(int(found[one]) for one in names)

    def send(self, body):
        self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def receive(self):
        """Return all visible messages."""
        received = []
        while batch := self.client.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages"):
            received += batch
        return received

    def purge(self):
        self.client.purge_queue(QueueUrl=self.url)


class ScriptedSqs:
    """A server that knows one queue, and answers batches as the test says."""

    def __init__(self):
        #: Called with the number of a batch and its entries; returns a status and an answer, or None: hang up.
        self.answer = lambda _number, entries: (200, {"Successful": [{"Id": one["Id"]} for one in entries]})
        self.batches = []

    @contextmanager
    def serving(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                given = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = 200, {"QueueUrl": f"http://{self.headers['host']}/1/media"}
                if self.headers["x-amz-target"].endswith("SendMessageBatch"):
                    outer.batches.append(given["Entries"])
                    answered = outer.answer(len(outer.batches), given["Entries"])
                    if answered is None:
                        self.close_connection = True
                        return
                    status, answer = answered
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/x-amz-json-1.0")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
