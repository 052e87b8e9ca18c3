"""The contract, with a simulated Acme that answers from the request."""

import json

from metricsbridge.provider_kit import Response
from metricsbridge.testing.contract import ProviderContract
from metricsbridge_acme import METRICS, SPEC, STATES

URL = "https://acme.test"
WORDS = {status: word for word, status in STATES.items()}


class TestAcme(ProviderContract):
    spec = SPEC
    settings = {"endpoint": URL}

    def simulate(self, fleet, clock):
        def answer(request):
            _, id, *rest = request.url.removeprefix(f"{URL}/").split("/")
            job = next((job for job in fleet.jobs if job.id == id), None)
            if job is None:
                return Response(404)
            if rest:
                return Response(200, body=json.dumps({"series": measured(job, rest[1], request)}).encode())
            times = {"started_ms": job.start_time_ms, "ended_ms": job.end_time_ms}
            described = {"id": id, "state": WORDS[job.status], "tasks": job.tasks, **times}
            return Response(200, body=json.dumps(described).encode())

        def measured(job, task, request):
            first, last = (int(text) for _, text in request.params)
            minutes = [minute for minute in job.minutes(clock.now_ms()).tolist() if first <= minute < last]
            series = []
            for name, metric in METRICS.items():
                values = [None if v != v else v for v in fleet.wire_values(job, task, metric, minutes).tolist()]
                samples = [{"time_ms": time, "value": value} for time, value in zip(minutes, values, strict=True)]
                series.append({"metric": name, "samples": samples})
            return series

        return answer
