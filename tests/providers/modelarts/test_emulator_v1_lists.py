"""The lists of the emulated ModelArts v1, and how Open Telekom Cloud's IAM leads to them."""

import json
from contextlib import asynccontextmanager

import aiohttp
import attrs
import pytest

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from metricsbridge_modelarts import emulator_v1 as v1
from metricsbridge_modelarts._emulated import gateway as gate

FLEET = Fleet(size=60)
IDS = v1.job_ids(FLEET)
BASE = f"/v1/{gate.PROJECT_ID}/training-jobs"
GROUPS: dict[int, list] = {}
for fleet_job in FLEET.jobs:
    GROUPS.setdefault(int(IDS[fleet_job.id].split("/")[0]), []).append(fleet_job)
LATEST = {job_id: max(jobs, key=lambda job: job.create_time_ms) for job_id, jobs in GROUPS.items()}


@attrs.define
class Client:
    """Sends requests with a token."""

    url: str
    session: aiohttp.ClientSession
    token: str = ""

    async def log_in(self, query="", **project):
        person = {"name": gate.USER, "password": gate.PASSWORD, "domain": {"name": gate.DOMAIN}}
        identity = {"methods": ["password"], "password": {"user": person}}
        body = {"auth": {"identity": identity, "scope": {"project": project or {"id": gate.PROJECT_ID}}}}
        async with self.session.post(f"{self.url}/v3/auth/tokens{query}", json=body) as response:
            self.token = response.headers.get("X-Subject-Token", "")
            return response.status, await response.json()

    async def call(self, path, **params):
        headers = {"X-Auth-Token": self.token} if self.token else {}
        body = params.pop("body", None)
        async with self.session.get(self.url + path, params=params, data=body, headers=headers) as response:
            return response.status, await response.json()

    async def get(self, path, **params):
        status, document = await self.call(path, **params)
        assert (status, document.get("is_success")) == (200, True), document
        return document


@asynccontextmanager
async def emulator(create=v1.create_otc_app, **chosen):
    app = create(fleet=FLEET, now_ms=lambda: FLEET.now_ms, **chosen)
    async with serve(app) as url, aiohttp.ClientSession() as session:
        client = Client(url, session)
        await client.log_in()
        yield client


def version_id(job):
    return int(IDS[job.id].split("/")[1])


async def test_jobs_are_paged_from_one_in_tens_by_name():
    async with emulator() as client:
        first = await client.get(BASE)
        pages = [await client.get(BASE, page=number, per_page=7) for number in range(1, 7)]
    rows = [row for page in pages for row in page["jobs"]]
    assert first["jobs"] == rows[:10]
    assert {page["job_total_count"] for page in pages} == {len(GROUPS)}
    assert [row["job_name"] for row in rows] == sorted([jobs[0].name for jobs in GROUPS.values()])
    assert pages[-1]["jobs"] == []


async def test_job_stands_in_the_list_as_its_latest_version():
    async with emulator() as client:
        rows = (await client.get(BASE, per_page=1000))["jobs"]
    assert {row["job_id"]: row["version_id"] for row in rows} == {
        job_id: version_id(job) for job_id, job in LATEST.items()
    }
    for row in rows:
        assert row["version_count"] == len(GROUPS[row["job_id"]])
        assert row["create_time"] == LATEST[row["job_id"]].create_time_ms
        assert row.keys() == {
            "job_id", "job_name", "version_id", "status", "create_time", "duration", "job_desc", "version_count",
        }  # fmt: skip


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("field", ["job_name", "job_desc", "status", "duration", "version_count", "create_time"])
async def test_jobs_are_sorted_by_each_field(field, order):
    async with emulator() as client:
        rows = (await client.get(BASE, per_page=1000, sortBy=field, order=order))["jobs"]
    assert [row[field] for row in rows] == sorted([row[field] for row in rows], reverse=order == "desc")
    assert len(rows) == len(GROUPS)


async def test_jobs_are_filtered_by_status_name_and_workspace():
    async with emulator() as client:
        running = (await client.get(BASE, per_page=1000, status="8"))["jobs"]
        named = (await client.get(BASE, per_page=1000, search_content="gpu"))["jobs"]
        elsewhere = await client.get(BASE, workspace_id="other")
    assert {row["job_id"] for row in running} == {
        job_id for job_id, job in LATEST.items() if job.status is JobStatus.RUNNING
    }
    assert {row["job_id"] for row in named} == {job_id for job_id, jobs in GROUPS.items() if "gpu" in jobs[0].name}
    assert (elsewhere["job_total_count"], elsewhere["jobs"]) == (0, [])


async def test_versions_of_a_job_are_all_there_unless_paged_from_one():
    job_id, jobs = next((job_id, jobs) for job_id, jobs in GROUPS.items() if len(jobs) == 3)
    newest_first = [version_id(job) for job in jobs[::-1]]
    path = f"{BASE}/{job_id}/versions"
    async with emulator() as client:
        whole = await client.get(path, per_page=1)
        pages = [await client.get(path, per_page=2, page=number) for number in (1, 2, 3)]
    assert [row["version_id"] for row in whole["versions"]] == newest_first
    assert [row["pre_version_id"] for row in whole["versions"]] == [*newest_first[1:], None]
    assert [row["version_name"] for row in whole["versions"]] == ["V0003", "V0002", "V0001"]
    assert [[row["version_id"] for row in page["versions"]] for page in pages] == [
        newest_first[:2], newest_first[2:], [],
    ]  # fmt: skip
    assert {(page["job_id"], page["job_name"], page["version_count"]) for page in pages} == {(job_id, jobs[0].name, 3)}


@pytest.mark.parametrize(
    ("path", "params"),
    [
        (BASE, {"page": 0}),
        (BASE, {"page": 65_536}),
        (BASE, {"per_page": 0}),
        (BASE, {"per_page": 1_001}),
        (BASE, {"page": "two"}),
        (BASE, {"sortBy": "colour"}),
        (BASE, {"order": "up"}),
        (BASE, {"status": "RUNNING"}),
        (BASE, {"search_content": "x" * 65}),
        (f"{BASE}/{next(iter(GROUPS))}/versions", {"page": -1}),
        (f"{BASE}/{next(iter(GROUPS))}/versions", {"per_page": 0}),
        (f"{BASE}/versions", {"limit": -1}),
        (f"{BASE}/versions", {"offset": "x"}),
        (f"{BASE}/versions", {"sort_by": "version_count"}),
    ],
)
async def test_parameter_out_of_range_is_refused(path, params):
    async with emulator() as client:
        status, body = await client.call(path, **params)
    assert (status, body["is_success"], body["error_code"]) == (400, False, "ModelArts.0104")


async def test_all_versions_tell_devices_but_not_their_job():
    async with emulator() as client:
        document = await client.get(f"{BASE}/versions", limit=0)
    rows = {row["version_id"]: row for row in document["versions"]}
    assert (document["total_count"], len(rows), document["limit"]) == (60, 60, 0)
    for job in FLEET.jobs:
        row = rows[version_id(job)]
        assert "job_id" not in row
        assert row["version_name"] == GROUPS[int(IDS[job.id].split("/")[0])][0].name
        assert row["gpu_num"] == (job.devices * len(job.tasks) if job.device_kind == "gpu" else 0)
        assert row["npu_num"] == (job.devices * len(job.tasks) if job.device_kind == "npu" else 0)
        assert (row["start_time"], row["end_time"]) == (job.start_time_ms, job.end_time_ms)
        if job.end_time_ms is not None:
            assert row["start_time"] + row["duration"] == row["end_time"]


@pytest.mark.parametrize("as_body", [False, True])
async def test_all_versions_are_paged_and_filtered_by_query_or_body(as_body):
    def given(**params):
        return {"body": json.dumps(params)} if as_body else params

    newest_first = [version_id(job) for job in sorted(FLEET.jobs, key=lambda job: -job.create_time_ms)]
    async with emulator() as client:
        first = await client.get(f"{BASE}/versions")
        third = await client.get(f"{BASE}/versions", **given(limit=10, offset=20))
        oldest = await client.get(f"{BASE}/versions", **given(limit=3, order="asc", sort_by="create_time"))
        failed = await client.get(f"{BASE}/versions", **given(limit=0, status="3,5,6,13", workspace_id="0"))
        pool = await client.get(f"{BASE}/versions", **given(limit=0, pool_id="poolnpu0001"))
    assert [row["version_id"] for row in first["versions"]] == newest_first[:20]
    assert (first["limit"], first["offset"], first["total_count"]) == (20, 0, 60)
    assert [row["version_id"] for row in third["versions"]] == newest_first[20:30]
    assert [row["version_id"] for row in oldest["versions"]] == newest_first[:-4:-1]
    assert {row["status"] for row in failed["versions"]} == {5}
    assert failed["total_count"] == len(failed["versions"]) < 60
    assert {row["version_id"] for row in pool["versions"]} == {
        version_id(job) for job in FLEET.jobs if job.device_kind == "npu"
    }


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"limit": [1]}'])
async def test_body_that_is_no_object_of_parameters_is_refused(body):
    async with emulator() as client:
        status, document = await client.call(f"{BASE}/versions", body=body)
    assert (status, document["error_code"]) == (400, "ModelArts.0101")


async def test_only_open_telekom_cloud_lists_versions_of_all_jobs_and_has_a_catalog():
    async with emulator(v1.create_app) as client:
        status, document = await client.call(f"{BASE}/versions")
        assert (status, document["error_code"]) == (404, "APIGW.0101")
        assert "catalog" not in (await client.log_in(name=gate.REGION))[1]["token"]
        assert (await client.call("/v3"))[0] == 404


async def test_iam_tells_its_version_and_where_the_services_are():
    async with emulator() as client:
        status, body = await client.log_in(name=v1.OTC_REGION)
        endpoints = {entry["type"]: entry["endpoints"][0] for entry in body["token"]["catalog"]}
        assert status == 201
        assert endpoints["modelartsv1"]["url"] == f"{client.url}/v1/{gate.PROJECT_ID}"
        assert endpoints["identity"]["url"] == f"{client.url}/v3"
        assert {endpoint["region"] for endpoint in endpoints.values()} == {v1.OTC_REGION}
        assert body["token"]["project"]["domain"]["name"] == gate.DOMAIN
        assert "catalog" not in (await client.log_in("?nocatalog=true"))[1]["token"]
        status, body = await client.log_in(name=gate.REGION)
        assert (status, body["error"]["code"]) == (401, 401)
        client.token = ""
        for path in ("/v3", "/v3/"):
            status, body = await client.call(path)
            assert (status, body["version"]["links"][0]["href"]) == (200, f"{client.url}/v3/")
        assert (await client.call(BASE))[0] == 401


async def test_project_is_found_by_its_regions_name():
    async with emulator() as client:
        _, found = await client.call("/v3/projects", name=v1.OTC_REGION)
        _, nothing = await client.call("/v3/projects", name=gate.REGION)
    assert [project["id"] for project in found["projects"]] == [gate.PROJECT_ID]
    assert nothing["projects"] == []


async def test_token_that_expired_mid_run_stays_expired():
    faults = Faults()
    async with emulator(faults=faults) as client:
        faults.script("expired-token")
        for _ in range(2):
            status, body = await client.call(BASE)
            assert (status, body["error_code"]) == (401, "APIGW.0307")
        await client.log_in()
        assert (await client.get(BASE))["jobs"]


@pytest.mark.parametrize(
    ("create", "settings", "by_password", "region"),
    [
        (v1.create_app, v1.settings, v1.password_settings, gate.REGION),
        (v1.create_otc_app, v1.otc_settings, v1.otc_password_settings, v1.OTC_REGION),
    ],
)
def test_application_says_how_it_is_reached(create, settings, by_password, region):
    told = create(fleet=FLEET)[EMULATOR]
    given = told.settings("http://x:1")
    assert json.loads(json.dumps(given)) == given == settings("http://x:1")
    assert (given["region"], given["endpoint"], given["limits"]) == (region, "http://x:1", {"*": "unlimited"})
    assert {"username", "password", "domain_name", "region"} <= by_password("http://x:1").keys()
    assert not {"access_key", "secret_key"} & by_password("http://x:1").keys()
    assert told.jobs == tuple(IDS.values())
