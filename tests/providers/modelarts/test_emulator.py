"""The emulated gateway, IAM and their quirks, seen on the wire."""

import json
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import aiohttp
import attrs
import pytest

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_modelarts._emulated import gateway as gate
from metricsbridge_modelarts._signing import SigningKey, authorization
from metricsbridge_modelarts.emulator import create_app, password_settings, settings

FLEET = Fleet()
FRESH = next(job for job in FLEET.jobs if job.start_time_ms and job.minute_count(FLEET.now_ms) == 0)
RUNNING = FLEET.jobs[0]
ENDED = next(job for job in FLEET.jobs if job.status is JobStatus.SUCCEEDED)
BASE = f"/v2/{gate.PROJECT_ID}"


@attrs.define
class Client:
    """Sends requests, signed unless told otherwise, and has the service's clock in its hand."""

    now_ms: int = FLEET.now_ms
    url: str = ""
    session: aiohttp.ClientSession | None = None

    async def call(
        self, path, body=None, *, method=None, keys=(gate.ACCESS_KEY, gate.SECRET_KEY), ahead_s=0, **headers
    ):
        method = method or ("GET" if body is None else "POST")
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        signed = {"Host": urlsplit(self.url).netloc}
        date = datetime.fromtimestamp(self.now_ms / 1000 + ahead_s, UTC)
        signed["X-Sdk-Date"] = date.strftime("%Y%m%dT%H%M%SZ")
        if keys and "X-Auth-Token" not in headers:
            signed |= {"Authorization": authorization(SigningKey.of(*keys), method, path, [], signed, content)}
        async with self.session.request(method, self.url + path, data=content, headers=signed | headers) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text, response.headers

    async def token(self, *, user=gate.USER, password=gate.PASSWORD, scope=None):
        person = {"name": user, "password": password, "domain": {"name": gate.DOMAIN}}
        identity = {"methods": ["password"], "password": {"user": person}}
        scope = {"project": {"name": gate.REGION}} if scope is None else scope
        body = {"auth": {"identity": identity, "scope": scope}}
        return await self.call("/v3/auth/tokens", body, keys=None)


@asynccontextmanager
async def emulator(**chosen):
    client = Client()
    app = create_app(fleet=FLEET, now_ms=lambda: client.now_ms, **chosen)
    async with serve(app) as client.url, aiohttp.ClientSession() as client.session:
        client.session._retry_connection = False  # else a GET that is cut is sent again, unseen
        yield client


def metrics_of(job, task="worker-0"):
    return f"{BASE}/training-jobs/{job.id}/metrics/{task}"


def refused(answer, status, code):
    got, body, headers = answer
    assert (got, body["error_code"], bool(body["error_msg"])) == (status, code, True)
    assert headers["X-Request-Id"] == body["request_id"]
    return body["error_msg"]


async def test_fresh_job_answers_204_without_a_body_until_its_first_minute():
    async with emulator() as client:
        status, body, _ = await client.call(metrics_of(FRESH))
        assert (status, body) == (204, "")
        client.now_ms = FRESH.first_minute_ms + MINUTE_MS
        status, body, _ = await client.call(metrics_of(FRESH))
        assert (status, [entry["value"] for entry in body["metrics"]]) == (200, [[-1]] * 6)
        client.now_ms += 10 * MINUTE_MS
        _, body, _ = await client.call(metrics_of(FRESH))
        assert {len(entry["value"]) for entry in body["metrics"]} == {11}


async def test_whole_numbers_have_no_decimal_point():
    async with emulator() as client:
        status, body, _ = await client.call(metrics_of(RUNNING))
    values = {entry["metric"]: entry["value"] for entry in body["metrics"]}
    assert status == 200
    assert values["gpuUtil"] == values["gpuMemUsage"] == [-1] * RUNNING.minute_count(FLEET.now_ms)
    assert values["cpuUsage"][0] == -1
    kinds = {type(value) for value in values["npuUtil"]}
    assert kinds == {int, float}
    assert not any(isinstance(value, float) and value.is_integer() for value in values["npuUtil"])


async def test_retention_serves_the_tail():
    async with emulator(retention_minutes=100) as client:
        _, body, _ = await client.call(metrics_of(RUNNING))
        tail = body["metrics"][0]["value"]
        ended = await client.call(metrics_of(ENDED))
    async with emulator() as client:
        _, body, _ = await client.call(metrics_of(RUNNING))
    assert len(tail) == 100
    assert body["metrics"][0]["value"][-100:] == tail
    assert ended[0] == 204


@pytest.mark.parametrize("ahead_s", [16 * 60, -16 * 60])
async def test_signature_of_another_time_is_refused(ahead_s):
    async with emulator() as client:
        assert "expired" in refused(await client.call(metrics_of(RUNNING), ahead_s=ahead_s), 401, "APIGW.0301")
        assert (await client.call(metrics_of(RUNNING), ahead_s=ahead_s * 0.9))[0] == 200


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keys": None}, "x-auth-token not found"),
        ({"keys": ("NOBODY", "x")}, "ak NOBODY not exist"),
        ({"keys": (gate.ACCESS_KEY, "x")}, "verify aksk signature fail"),
        ({"Authorization": "Bearer abc"}, "malformed"),
        ({"Authorization": f"SDK-HMAC-SHA256 Access={gate.ACCESS_KEY}, SignedHeaders=host, Signature=0"}, "not signed"),
        ({"X-Sdk-Date": "yesterday"}, "X-Sdk-Date"),
        ({"X-Sdk-Date": "20251009T085333Z"}, "signature fail"),
    ],
)
async def test_bad_proof_is_refused_with_the_reason(given, message):
    async with emulator() as client:
        assert message in refused(await client.call(metrics_of(RUNNING), **given), 401, "APIGW.0301")


async def test_changed_body_is_refused():
    async with emulator() as client:
        keep = client.session.request

        def change(method, url, *, data, headers):
            return keep(method, url, data=data.replace(b"5", b"6"), headers=headers)

        client.session.request = change
        answer = await client.call(f"{BASE}/training-job-searches", {"limit": 5})
    assert "signature" in refused(answer, 401, "APIGW.0301")


async def test_token_opens_the_routes_until_it_expires():
    async with emulator(token_life_ms=3_600_000) as client:
        status, body, headers = await client.token()
        token = headers["X-Subject-Token"]
        assert status == 201
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["token"]["expires_at"])
        assert (await client.call(metrics_of(RUNNING), **{"X-Auth-Token": token}))[0] == 200
        _, projects, _ = await client.call(f"/v3/projects?name={gate.REGION}", **{"X-Auth-Token": token})
        assert [project["id"] for project in projects["projects"]] == [gate.PROJECT_ID]
        client.now_ms += 3_600_000
        answer = await client.call(metrics_of(RUNNING), **{"X-Auth-Token": token})
        assert "token expires" in refused(answer, 401, "APIGW.0301")
        refused(await client.call(metrics_of(RUNNING), **{"X-Auth-Token": "forged"}), 401, "APIGW.0301")


async def test_token_without_a_project_is_refused():
    async with emulator() as client:
        _, _, headers = await client.token(scope={})
        answer = await client.call(metrics_of(RUNNING), **{"X-Auth-Token": headers["X-Subject-Token"]})
        refused(answer, 401, "ModelArts.0212")


@pytest.mark.parametrize(
    ("given", "status"),
    [({"password": "x"}, 401), ({"user": "x"}, 401), ({"scope": {"project": {"id": "x"}}}, 401), ({"user": 1}, 400)],
)
async def test_iam_refuses_in_keystones_form(given, status):
    async with emulator() as client:
        got, body, headers = await client.token(**given)
    assert (got, body["error"]["code"]) == (status, status)
    assert body["error"]["message"]
    assert body["error"]["title"]
    assert "X-Subject-Token" not in headers


async def test_another_project_is_forbidden():
    async with emulator() as client:
        refused(await client.call(f"/v2/{'f' * 32}/training-jobs/x"), 403, "ModelArts.0210")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "ModelArts.2787"),
        ({"limit": 0}, "ModelArts.2788"),
        ({"limit": 51}, "ModelArts.2788"),
        ({"offset": -1}, "ModelArts.2788"),
        ({"limit": "ten"}, "ModelArts.2788"),
        ({"sort_by": "colour"}, "ModelArts.2790"),
        ({"filters": [{"key": "colour", "operator": "in", "value": ["red"]}]}, "ModelArts.2789"),
        ({"filters": [{"key": "name", "operator": "near", "value": ["red"]}]}, "ModelArts.2808"),
        ({"filters": [{"key": "create_time", "operator": "between", "value": ["a", "b"]}]}, "ModelArts.2809"),
    ],
)
async def test_bad_search_is_refused(body, code):
    async with emulator() as client:
        refused(await client.call(f"{BASE}/training-job-searches", body), 400, code)


async def test_blank_filter_values_filter_nothing():
    filters = [{"key": key, "operator": "like", "value": [""]} for key in ("name", "algorithm_name")]
    async with emulator() as client:
        _, body, _ = await client.call(f"{BASE}/training-job-searches", {"limit": 50, "filters": filters})
    assert body["count"] == len(FLEET.jobs)


async def test_unknown_route_and_method_are_refused():
    async with emulator() as client:
        refused(await client.call("/v9/nothing"), 404, "APIGW.0101")
        refused(await client.call(f"{BASE}/training-jobs/x", method="DELETE"), 405, "ModelArts.2803")


async def test_faults_speak_the_vendors_language():
    faults = Faults(retry_after_s=3)
    async with emulator(faults=faults) as client:
        faults.script("throttle", "unavailable", "error", "html", "not-ready", "truncated")
        answer = await client.call(metrics_of(RUNNING))
        refused(answer, 429, "APIGW.0308")
        assert answer[2]["Retry-After"] == "3"
        refused(await client.call(metrics_of(RUNNING)), 503, "APIGW.0613")
        refused(await client.call(metrics_of(RUNNING)), 500, "ModelArts.0010")
        assert "<html>" in (await client.call(metrics_of(RUNNING)))[1]
        assert (await client.call(metrics_of(RUNNING)))[:2] == (204, "")
        with pytest.raises(aiohttp.ClientPayloadError):
            await client.call(metrics_of(RUNNING))
        assert (await client.call(metrics_of(RUNNING)))[0] == 200


async def test_token_that_expired_mid_run_stays_expired():
    faults = Faults()
    async with emulator(faults=faults) as client:
        token = (await client.token())[2]["X-Subject-Token"]
        faults.script("expired-token")
        for _ in range(2):
            refused(await client.call(metrics_of(RUNNING), **{"X-Auth-Token": token}), 401, "APIGW.0307")
        token = (await client.token())[2]["X-Subject-Token"]
        assert (await client.call(metrics_of(RUNNING), **{"X-Auth-Token": token}))[0] == 200
    assert faults.injected == {"expired-token": 1}


def test_application_says_how_it_is_reached():
    app = create_app(fleet=FLEET)
    told = app[EMULATOR]
    assert told.jobs == tuple(job.id for job in FLEET.jobs)
    assert json.loads(json.dumps(told.settings("http://x:1"))) == settings("http://x:1")
    assert settings("http://x:1")["endpoint"] == "http://x:1"
    assert {"username", "password", "domain_name"} <= password_settings("http://x:1").keys()
    assert "secret_key" not in password_settings("http://x:1")
