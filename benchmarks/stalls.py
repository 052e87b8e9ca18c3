"""How long one callback holds up the event loop: large and small answers, throttling and a new log-in together."""

from __future__ import annotations

import asyncio
import json
import socketserver
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from statistics import median
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.inputs import METRICS, details_body
from benchmarks.kernel import has_kernel, without_kernel
from benchmarks.measure import SPREAD, Gate, Table
from metricsbridge.collector import Collector
from metricsbridge.registry import open_provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONCURRENCY = 64
MOST_MS = 20.0
"""Gate: processor time of the longest callback."""

_MIB = 1024 * 1024
_USER = {"username": "user", "password": "an example", "domain_name": "example", "project_id": "p"}
_LIMITS = dict.fromkeys(("*", "ShowTrainingJobMetrics", "ShowTrainingJobDetails"), "unlimited")


@attrs.frozen
class Case:
    """What the service answers: each of ``tasks`` tasks with as many bytes as the next of ``sizes``, in turns."""

    title: str
    sizes: tuple[int, ...]
    tasks: int
    kernel: bool = True


_FULL = (
    Case("bodies up to 63 MiB", (63 * _MIB, *[2_000] * 15, 2 * _MIB, *[2_000] * 15, 16 * _MIB, *[2_000] * 15), 96),
    Case("bodies up to 2 MiB, without the kernel", (2 * _MIB, *[2_000] * 7), 256, kernel=False),
)
_SHORT = (Case("bodies up to 2 MiB", (2 * _MIB, *[2_000] * 7), 64, kernel=False),)


def run(*, short: bool) -> list[Table]:
    """Measure each case, after checking that every sample arrives."""
    cases = [case for case in (_SHORT if short else _FULL) if has_kernel() or not case.kernel]
    found = {case: _measure(case, rounds=1 if short else 3) for case in cases}
    gates = [
        Gate(f"{case.title}: {MOST_MS:.0f} ms over the longest callback", MOST_MS / row[2], 1.0)
        for case, row in found.items()
    ]
    return [
        Table(
            title=f"stalls: {CONCURRENCY} at once, with 429s and a new log-in",
            columns=("", "longest callback, ms of CPU", *SPREAD, "callbacks", "samples"),
            rows=tuple([(case.title, *row) for case, row in found.items()]),
            gates=() if short else tuple(gates),
            notes=("The gate holds for the longest callback of all rounds.",),
        )
    ]


def _measure(case: Case, *, rounds: int) -> tuple[float, float, float, int, int]:
    service, longest, count, samples = Service(case), [], 0, 0
    with serve(service) as url, without_kernel() if has_kernel() and not case.kernel else nullcontext():
        for _ in range(rounds):
            service.begin()
            callbacks: list[float] = []
            samples = asyncio.run(read(url, callbacks.append))
            assert samples == service.samples, "not every sample arrived"
            assert service.tokens == 2, "there was no second log-in"
            longest.append(max(callbacks) * 1e3)
            count = len(callbacks)
    return median(longest), min(longest), max(longest), count, samples


class Service:
    """Answers from threads, so that only the client's callbacks run in the event loop.

    In the middle of it the token is taken back, and every eighth request is told to come again.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._bodies = {size: _body(size) for size in set(case.sizes)}
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Forget who asked before."""
        self._asked = 0
        self.tokens = 0

    @property
    def samples(self) -> int:
        """How many samples there are in all."""
        sizes = self._case.sizes
        return sum([_points(sizes[task % len(sizes)]) * len(METRICS) for task in range(self._case.tasks)])

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Give status, headers and body."""
        with self._lock:
            if path.startswith("/v3/auth/tokens"):
                self.tokens += 1
                body = json.dumps({"token": {"expires_at": "2100-01-01T00:00:00.000000Z"}}).encode()
                return 201, {"X-Subject-Token": f"token-{self.tokens}"}, body
            self._asked += 1
            if headers.get("x-auth-token") != f"token-{1 + (self._asked > self._case.tasks // 2)}":
                return 401, {}, b"{}"
            if self._asked % 8 == 0:
                return 429, {"Retry-After": "0.01"}, b"{}"
        if "/metrics/" not in path:
            points = _points(max(self._case.sizes))
            return 200, {}, details_body(path.rpartition("/")[2], self._case.tasks, points).encode()
        task = int(path.rpartition("-")[2])
        return 200, {}, self._bodies[self._case.sizes[task % len(self._case.sizes)]]


def _points(size: int) -> int:
    return size // (len(METRICS) * 6)


def _body(size: int) -> bytes:
    values = ",".join([f"{10 + index % 90}.{index % 90 + 10}" for index in range(_points(size))])
    entries = ",".join([f'{{"metric":"{name}","value":[{values}]}}' for name in METRICS])
    return f'{{"metrics":[{entries}]}}'.encode()


@contextmanager
def serve(service: Service) -> Iterator[str]:
    """Serve in threads; gives the URL."""

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with suppress(ConnectionError):
                while line := self.rfile.readline():
                    self._answer(line)

        def _answer(self, line: bytes) -> None:
            lines = iter(self.rfile.readline, b"\r\n")
            headers = {name.lower(): text.strip() for name, _, text in (_.decode().partition(":") for _ in lines)}
            self.rfile.read(int(headers.get("content-length", 0)))
            status, more, body = service.answer(line.split()[1].decode(), headers)
            head = "".join([f"{name}: {value}\r\n" for name, value in more.items()])
            self.wfile.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode())
            self.wfile.write(body)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 256

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def timed_callbacks(note: Callable[[float], object]) -> Iterator[None]:
    """Tell of each callback of the event loop how many seconds of processor time it took."""
    original = asyncio.Handle._run  # type: ignore[attr-defined]  # there is no public way to time callbacks

    def run(self: Any) -> Any:
        begun = time.thread_time()
        try:
            return original(self)
        finally:
            note(time.thread_time() - begun)

    asyncio.Handle._run = run  # type: ignore[attr-defined]  # likewise
    try:
        yield
    finally:
        asyncio.Handle._run = original  # type: ignore[attr-defined]  # likewise


async def read(url: str, note: Callable[[float], object]) -> int:
    """Collect all tasks while callbacks are timed; gives the number of samples."""
    provider = open_provider("modelarts", endpoint=url, iam_endpoint=url, limits=_LIMITS, **_USER)
    samples = 0
    async with Collector({"hw": provider}, concurrency=CONCURRENCY) as collector:
        with timed_callbacks(note):
            async with collector.stream("hw/job") as parts:
                async for part in parts:
                    part.raise_failures()
                    samples += len(part.series.values)
    return samples
