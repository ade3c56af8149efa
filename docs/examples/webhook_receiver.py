"""A receiver of webhooks: `WEBHOOK_SECRET=whsec_… python webhook_receiver.py 9000` logs each event once."""

import logging
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

log = logging.getLogger(__name__)
webhook = Webhook(os.environ["WEBHOOK_SECRET"])
processed: set[str] = set()  # a real receiver keeps the ids in its database


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(401)
            return
        self.answer(204)
        if self.headers["webhook-id"] not in processed:
            processed.add(self.headers["webhook-id"])
            log.info("%s %s", event["type"], event["data"])

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The events are enough."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log.info("receiving at http://127.0.0.1:%s", server.server_port)
    server.serve_forever()
