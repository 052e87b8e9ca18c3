"""The emulated gateway, its tokens, faults and readings, seen on the wire."""

import json

import pytest

from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import MINUTE_MS
from metricsbridge_pai._emulated import gateway as gate
from metricsbridge_pai.emulator import is_general, pod_ids, settings, sts_settings
from pai_wire import FLEET, GENERAL, IDS, KEYS, LIST, METRICS, OTHER, POINTS, STS, emulator, refused


@pytest.mark.parametrize("ahead_s", [16 * 60, -16 * 60])
async def test_signature_of_another_time_is_refused(ahead_s):
    async with emulator() as client:
        refused(await client.call("ListJobs", LIST, ahead_s=ahead_s), 400, "InvalidTimeStamp.Expired")
        assert (await client.call("ListJobs", LIST, ahead_s=ahead_s * 0.9))[0] == 200


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"Authorization": None}, 400, "MissingParameter"),
        ({"x_acs_date": None}, 400, "MissingParameter"),
        ({"x_acs_signature_nonce": None}, 400, "MissingParameter"),
        ({"Authorization": "Bearer abc"}, 400, "IncompleteSignature"),
        ({"Authorization": f"ACS3-HMAC-SHA256 Credential={KEYS[0]},SignedHeaders=host,Signature=0"}, 400, None),
        ({"keys": ("NOBODY", "x")}, 404, "InvalidAccessKeyId.NotFound"),
        ({"keys": (KEYS[0], "x")}, 400, None),
        ({"x_acs_date": "yesterday"}, 400, "InvalidTimeStamp.Format"),
        ({"x_acs_version": "2019-01-01"}, 400, "InvalidVersion"),
        ({"x_acs_action": "GetJob"}, 404, "InvalidAction.NotFound"),
        ({"x_acs_signature_nonce": "another"}, 400, None),
        ({"x_acs_content_sha256": "0" * 64}, 400, None),
        ({"x_acs_more": "unsigned"}, 400, None),
        ({"host": "elsewhere.test"}, 400, None),
    ],
)
async def test_bad_proof_is_refused_with_its_code(changed, status, code):
    async with emulator() as client:
        got, body, _ = await client.call("ListJobs", LIST, **changed)
    assert (got, body["Code"]) == (status, code or "SignatureDoesNotMatch")


async def test_changed_query_or_body_is_refused():
    async with emulator() as client:
        keep = client.session.request

        def change(method, url, *, data, headers):
            return keep(method, url.replace("=5", "=6"), data=data and data.replace(b"60", b"15"), headers=headers)

        client.session.request = change
        answer = await client.call("ListJobs", LIST, {"PageSize": "5"})
        refused(answer, 400, "SignatureDoesNotMatch")
        answer = await client.call("Cursor", method="POST", body=b"Period=60")
        assert "body" in refused(answer, 400, "SignatureDoesNotMatch")


async def test_nonce_passes_once_and_is_forgotten_when_no_signature_with_it_can_pass():
    async with emulator() as client:
        assert (await client.call("ListJobs", LIST))[0] == 200
        client.nonces = 0
        refused(await client.call("ListJobs", LIST), 400, "SignatureNonceUsed")
        client.nonces, client.now_ms = 0, client.now_ms + 29 * MINUTE_MS
        refused(await client.call("ListJobs", LIST), 400, "SignatureNonceUsed")
        client.nonces, client.now_ms = 0, client.now_ms + MINUTE_MS
        assert (await client.call("ListJobs", LIST))[0] == 200


@pytest.mark.parametrize(("action", "path"), [("ListJobs", "/api/v1/nothing"), ("DescribeNothing", "/"), ("", "/")])
async def test_what_there_is_not_is_not_found(action, path):
    async with emulator() as client:
        refused(await client.call(action, path), 404, "InvalidAction.NotFound")


@pytest.mark.parametrize(
    ("token", "code"),
    [(None, "MissingSecurityToken"), ("x", "InvalidSecurityToken.Malformed"), ("CAISemulated~/+=01", None)],
)
async def test_temporary_key_needs_a_token_that_was_given_out(token, code):
    async with emulator() as client:
        refused(
            await client.call("ListJobs", LIST, keys=STS, token=token), 400, code or "InvalidSecurityToken.Malformed"
        )
        assert (await client.call("ListJobs", LIST, keys=STS, token=gate.security_token(3)))[0] == 200


async def test_security_tokens_expire():
    async with emulator(security_token_expires_ms=FLEET.now_ms + MINUTE_MS) as client:
        assert (await client.call("ListJobs", LIST, keys=STS, token=gate.security_token()))[0] == 200
        client.now_ms += MINUTE_MS
        answer = await client.call("ListJobs", LIST, keys=STS, token=gate.security_token())
        refused(answer, 400, "InvalidSecurityToken.Expired")
        assert (await client.call("ListJobs", LIST))[0] == 200


async def test_expired_token_stays_expired_and_the_next_one_passes():
    async with emulator() as client:
        client.faults.script("expired-token")
        for _ in range(2):
            answer = await client.call("ListJobs", LIST, keys=STS, token=gate.security_token(0))
            refused(answer, 400, "InvalidSecurityToken.Expired")
        assert (await client.call("ListJobs", LIST, keys=STS, token=gate.security_token(1)))[0] == 200
        client.faults.script("expired-token")
        assert (await client.call("ListJobs", LIST))[0] == 200
        assert client.faults.injected == {"expired-token": 1}


async def test_share_token_stands_for_the_signature_where_its_job_is_asked_about():
    job = f"{LIST}/{IDS[GENERAL.id]}"
    async with emulator() as client:
        given = {"TargetType": "job", "TargetId": IDS[GENERAL.id], "ExpireTime": "60"}
        token = (await client.call("GetToken", "/api/v1/tokens", given))[1]["Token"]
        params = {"Token": token, "MetricType": "CpuCoreUsage"}
        other = f"{LIST}/{IDS[OTHER.id]}"
        assert (await client.call("GetJobMetrics", METRICS, params, keys=None))[0] == 200
        assert (await client.call("GetJob", job, {"Token": token}, keys=None))[0] == 200
        proxied = {**POINTS, "Token": token, "JobId": IDS[GENERAL.id]}
        assert (await client.call("GetMetrics", "/api/v1/cms/metrics", proxied, keys=None))[0] == 200
        refused(await client.call("GetJob", other, {"Token": token}, keys=None), 403, "NoPermission")
        refused(await client.call("GetJob", job, {"Token": "x"}, keys=None), 403, "NoPermission")
        refused(await client.call("ListJobs", LIST, {"Token": token}, keys=None), 400, "MissingParameter")
        client.now_ms += MINUTE_MS
        refused(await client.call("GetJob", job, {"Token": token}, keys=None), 403, "NoPermission")
        refused(await client.call("GetToken", "/api/v1/tokens", {"TargetId": "dlc0"}), 404, "NotFound")


async def test_jobs_older_than_a_week_are_listed_only_on_request():
    async with emulator() as client:
        client.now_ms += 5 * 86_400_000
        recent = [job for job in FLEET.jobs if job.create_time_ms >= client.now_ms - 7 * 86_400_000]
        assert 0 < len(recent) < len(FLEET.jobs)
        _, default, _ = await client.call("ListJobs", LIST, {"PageSize": "100"})
        _, every, _ = await client.call("ListJobs", LIST, {"PageSize": "100", "StartTime": "2020-01-01T00:00:00Z"})
        _, running, _ = await client.call("ListJobs", LIST, {"TimeRangeField": "GmtFinishTime"})
    assert {job["JobId"] for job in default["Jobs"]} == {IDS[job.id] for job in recent}
    assert every["TotalCount"] == len(FLEET.jobs)
    assert all("GmtFinishTime" in job for job in running["Jobs"])


@pytest.mark.parametrize("listed", [False, True])
async def test_items_have_their_pods_where_that_is_the_reading(listed):
    async with emulator(list_pods=listed) as client:
        _, body, _ = await client.call("ListJobs", LIST)
    assert len(body["Jobs"]) == 10
    assert all(("Pods" in job) is listed for job in body["Jobs"])


@pytest.mark.parametrize(
    "given",
    [
        {"PageSize": "0"},
        {"PageSize": "ten"},
        {"PageNumber": "0"},
        {"SortBy": "Duration"},
        {"Order": "up"},
        {"StartTime": "2025-10-01 00:00:00"},
        {"FromAllWorkspaces": "true"},
        {"TimeRangeField": "Nothing"},
        {"Tags": "a=b"},
    ],
)
async def test_malformed_search_is_refused(given):
    async with emulator() as client:
        refused(await client.call("ListJobs", LIST, given), 400, "InvalidParameter")


async def test_job_without_a_resource_type_leaves_the_member_out():
    async with emulator() as client:
        described = [(await client.call("GetJob", f"{LIST}/{job_id}"))[1] for job_id in IDS.values()]
    left_out = [IDS[job.id] for job, body in zip(FLEET.jobs, described, strict=True) if "ResourceType" not in body]
    general = {is_general(FLEET, job) for job in FLEET.jobs if IDS[job.id] in left_out}
    assert len(left_out) == 2
    assert general == {True, False}


@pytest.mark.parametrize(("status", "wait"), [(400, 250), (429, None), (503, 1)])
async def test_throttle_is_worded_as_the_reading_says(status, wait):
    async with emulator(throttle_status=status, retry_after_ms=wait) as client:
        client.faults.script("throttle")
        answer = await client.call("ListJobs", LIST)
    refused(answer, status, "Throttling.User")
    assert answer[2].get("x-acs-retry-after") == (None if wait is None else str(wait))


async def test_more_calls_in_a_second_than_the_limit_are_throttled():
    async with emulator(calls_per_s=2) as client:
        statuses = [(await client.call("ListJobs", LIST))[0] for _ in range(3)]
        assert (await client.call("GetJobMetrics", METRICS, {"MetricType": "MemoryUsage"}))[0] == 200
        client.now_ms += 1_000
        assert (await client.call("ListJobs", LIST))[0] == 200
    assert statuses == [200, 200, 400]


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("unavailable", 503, "ServiceUnavailable"),
        ("error", 500, "InternalError"),
        ("nonce-used", 400, "SignatureNonceUsed"),
    ],
)
async def test_faults_are_worded_as_the_vendor_does(kind, status, code):
    async with emulator() as client:
        client.faults.script(kind)
        refused(await client.call("ListJobs", LIST), status, code)


async def test_faults_meet_actions_of_cloudmonitor_by_their_names():
    faults = Faults(rates={"unavailable": 1.0}, operations={"DescribeMetricList"}, most_in_a_row=10)
    async with emulator(faults=faults) as client:
        assert (await client.call("DescribeMetricMetaList"))[0] == 200
        assert (await client.call("DescribeMetricList", "/", POINTS, method="POST"))[0] == 503
        assert (await client.call("GetMetrics", "/api/v1/cms/metrics", POINTS))[0] == 200


async def test_empty_answers_have_no_points():
    async with emulator() as client:
        client.faults.script("empty", "empty", "empty")
        assert await client.points() == {}
        assert await client.rows() == []
        _, body, _ = await client.call("GetMetrics", "/api/v1/cms/metrics", POINTS)
        assert body["DataPoints"] == "[]"
        assert await client.points()
        client.faults.script("empty")
        assert (await client.call("ListJobs", LIST))[1]["TotalCount"] == 12


async def test_shuffled_points_are_the_same_and_the_later_one_is_right():
    async with emulator() as client:
        points, rows = await client.points(), await client.rows()
        client.faults.script("shuffled", "shuffled", "shuffled")
        mixed, mixed_rows = await client.points(), await client.rows()
        assert (await client.call("ListJobs", LIST))[0] == 200
        assert client.faults.injected == {"shuffled": 2}
    for pod, expected in points.items():
        assert mixed[pod] != sorted(mixed[pod])
        assert len(mixed[pod]) > len(expected)
        assert dict(mixed[pod]) == dict(expected)
    assert len(mixed_rows) > len(rows)
    read = {(row["pod"], row["timestamp"]): row["Value"] for row in mixed_rows}
    assert read == {(row["pod"], row["timestamp"]): row["Value"] for row in rows}


async def test_settings_are_plain_values():
    for given in (settings("http://x"), sts_settings("http://x", 2)):
        assert json.loads(json.dumps(given)) == given
    assert sts_settings("http://x", 2)["security_token"] == gate.security_token(2)
    assert {job.id for job in FLEET.jobs} == set(IDS)
    assert all(len(pod_ids(FLEET, job)) == len(job.tasks) for job in FLEET.jobs)
    assert all(len(job_id) == 19 and job_id.startswith("dlc") for job_id in IDS.values())
