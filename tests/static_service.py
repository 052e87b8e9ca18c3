"""A service of canned answers in threads of its own: what a caller's thread does can be counted without it."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from servers import http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def serve_static(answer: Callable[[str], bytes]) -> Iterator[str]:
    """Answer each request with the body that stands for its path; gives the URL."""

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            while line := self.rfile.readline():
                while self.rfile.readline() not in (b"\r\n", b""):
                    pass
                self.wfile.write(http("200 OK", answer(line.split()[1].decode())))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
