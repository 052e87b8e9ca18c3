"""The query API as a function: it answers from the request, as far as a provider's own tests need it.

It evaluates no PromQL. It knows which pods there are, finds out which of them a query names, and gives each of them a
value at every instant of the range that it is asked for.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import attrs

from metricsbridge.http import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

URL: Final = "http://prometheus.test/base"
START: Final = 1_760_000_400_000 // 86_400_000 * 86_400_000
MINUTE: Final = 60_000
_PODS: Final = re.compile(r'(?:pod|pod_name)=~"([^"]*)"')
_NAMESPACE: Final = re.compile(r'namespace="([^"]*)"')


def answer(result: list[dict[str, Any]], kind: str, warnings: list[str] | None = None) -> Response:
    document: dict[str, Any] = {"status": "success", "data": {"resultType": kind, "result": result}}
    if warnings:
        document["warnings"] = warnings
    return Response(200, {"Content-Type": "application/json"}, json.dumps(document).encode())


def refusal(status: int, kind: str, text: str) -> Response:
    return Response(status, {}, json.dumps({"status": "error", "errorType": kind, "error": text}).encode())


@attrs.define
class Api:
    """A server that knows the pods of one running job, ``n/lab``.

    Attributes:
        pods: Their names; the first of them ended at ``end_ms`` where that is set.
        value: Gives the text of a pod's value at an instant in ms.
        labels: What a series has besides its pod.
        aligned: Whether it moves the instants of a range to multiples of the step.
        warnings: Operation to what it says is missing.
        silent: Whether it knows nothing of pods.
        queries: Every query, with the operation, start and end in ms.
        requests: Every request.
    """

    pods: tuple[str, ...] = ("lab-worker-0", "lab-worker-1")
    end_ms: int | None = None
    value: Callable[[str, int], str] = lambda pod, time_ms: str(time_ms)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    aligned: bool = False
    warnings: Mapping[str, list[str]] = attrs.field(factory=dict)
    silent: bool = False
    queries: list[tuple[str, str, int, int]] = attrs.field(factory=list)
    requests: list[Request] = attrs.field(factory=list)

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        assert request.method == "POST"
        assert request.params == ()
        assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
        given = {name: values[0] for name, values in parse_qs(request.body.decode(), strict_parsing=True).items()}
        operation = request.url.removeprefix(f"{URL}/api/v1/")
        assert operation == request.operation
        if operation == "query":
            assert set(given) == {"query"}
            self.queries.append((operation, given["query"], 0, 0))
            return answer(self._rows(given["query"]), "vector", self.warnings.get(operation))
        assert set(given) == {"query", "start", "end", "step"}
        start, end, step = (round(float(given[name]) * 1000) for name in ("start", "end", "step"))
        self.queries.append((operation, given["query"], start, end))
        if (end - start) / step > 11_000:
            return refusal(400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries. Try less")
        if self.aligned:
            start, end = start // step * step, end // step * step
        series = [
            {
                "metric": {"namespace": "n", "pod": pod, **self.labels},
                "values": [[time / 1000, self.value(pod, time)] for time in range(start, end + 1, step)],
            }
            for pod in self._named(given["query"])
        ]
        return answer(series, "matrix", self.warnings.get(operation))

    def _named(self, query: str) -> list[str]:
        wanted = _PODS.search(query)
        assert wanted is not None
        pattern = json.loads(f'"{wanted[1]}"')
        assert all(name == "n" for name in _NAMESPACE.findall(query))
        return [pod for pod in self.pods if re.fullmatch(pattern, pod)]

    def _rows(self, query: str) -> list[dict[str, Any]]:
        rows: list[tuple[dict[str, str], float]] = []
        if "count by" in query:
            if not self.silent:
                rows = [({}, 99.0), *[({"namespace": "n", "pod": pod}, 1.0) for pod in self._named(query)]]
        elif "kube_pod_owner" in query:
            if not self.silent and ('owner_name="lab"' in query or "owner_name" not in query.split("on (")[0]):
                kind = {"__name__": "kube_pod_owner", "owner_kind": "PyTorchJob", "owner_name": "lab"}
                rows = [({**kind, "namespace": "n", "pod": pod}, 1.0) for pod in self.pods]
        else:
            for pod in self._named(query):
                where = {"namespace": "n", "pod": pod, "uid": pod}
                over = self.end_ms is not None and pod == self.pods[0]
                phase = "Succeeded" if over else "Running"
                rows.append(({"__name__": "kube_pod_status_phase", **where, "phase": phase}, 1.0))
                rows.append(({"__name__": "kube_pod_start_time", **where}, START / 1000))
                if over and self.end_ms is not None:
                    rows.append(({"__name__": "kube_pod_completion_time", **where}, self.end_ms / 1000))
        return [{"metric": labels, "value": [START / 1000, repr(value)]} for labels, value in rows]
