"""What the services' refusals mean: by their codes, whatever the HTTP status."""

from __future__ import annotations

import json
from typing import Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Response
from metricsbridge_pai._errors import CODES, classify, credential_rejected

KINDS: list[tuple[str, int, type[mb.ProviderError]]] = [
    ("NotFound", 404, mb.NotFoundError),
    ("JobNotFound", 400, mb.NotFoundError),
    ("ResourceNotFound", 400, mb.NotFoundError),
    ("JobId.NotFound", 400, mb.NotFoundError),
    ("InvalidParameter", 400, mb.InvalidRequestError),
    ("InvalidParameter.TimeStep", 400, mb.InvalidRequestError),
    ("ParameterInvalid", 400, mb.InvalidRequestError),
    ("MissingParameter", 400, mb.InvalidRequestError),
    ("MissingMetricType", 400, mb.InvalidRequestError),
    ("InvalidVersion", 400, mb.InvalidRequestError),
    ("InvalidAction.NotFound", 404, mb.InvalidRequestError),
    ("InvalidApi.NotFound", 404, mb.InvalidRequestError),
    ("BadRequest", 400, mb.InvalidRequestError),
    ("Forbidden.RAM", 403, mb.PermissionDeniedError),
    ("Forbidden", 400, mb.PermissionDeniedError),
    ("NoPermission", 403, mb.PermissionDeniedError),
    ("AccessDenied", 400, mb.PermissionDeniedError),
    ("AccessForbidden", 400, mb.PermissionDeniedError),
    ("InvalidAccessKeyId.NotFound", 404, mb.AuthenticationError),
    ("InvalidAccessKeyId.Inactive", 403, mb.AuthenticationError),
    ("MissingAccessKeyId", 400, mb.AuthenticationError),
    ("SignatureDoesNotMatch", 400, mb.AuthenticationError),
    ("InvalidSignature", 400, mb.AuthenticationError),
    ("IncompleteSignature", 400, mb.AuthenticationError),
    ("InvalidTimeStamp.Expired", 400, mb.AuthenticationError),
    ("InvalidTimeStamp.Format", 400, mb.AuthenticationError),
    ("IllegalTimestamp", 400, mb.AuthenticationError),
    ("MissingSecurityToken", 400, mb.AuthenticationError),
    ("InvalidSecurityToken.Expired", 400, mb.AuthenticationError),
    ("InvalidSecurityToken.Malformed", 403, mb.AuthenticationError),
    ("InvalidSecurityToken.MismatchWithAccessKey", 400, mb.AuthenticationError),
    ("SecurityTokenExpired", 400, mb.AuthenticationError),
    ("SignatureNonceUsed", 400, mb.ServiceUnavailableError),
    ("Throttling", 400, mb.ThrottledError),
    ("Throttling.User", 400, mb.ThrottledError),
    ("Throttling.User", 429, mb.ThrottledError),
    ("Throttling.Api", 503, mb.ThrottledError),
    ("ThrottlingException", 400, mb.ThrottledError),
    ("RequestThrottled", 400, mb.ThrottledError),
    ("TooManyRequests", 400, mb.ThrottledError),
    ("QuotaExceeded.CallFrequency", 400, mb.ThrottledError),
    ("ServiceUnavailable", 503, mb.ServiceUnavailableError),
    ("ServiceUnavailable", 400, mb.ServiceUnavailableError),
    ("ServiceBusy", 400, mb.ServiceUnavailableError),
    ("SystemBusy", 400, mb.ServiceUnavailableError),
    ("InternalError", 500, mb.ServiceUnavailableError),
    ("InternalServerError", 400, mb.ServiceUnavailableError),
    ("Unheard.Of", 400, mb.InvalidRequestError),
    ("Unheard.Of", 403, mb.PermissionDeniedError),
    ("Unheard.Of", 429, mb.ThrottledError),
    ("", 502, mb.ServiceUnavailableError),
]


def answer(document: Any, status: int = 400, **headers: str) -> Response:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, 1)


@pytest.mark.parametrize(("code", "status", "kind"), KINDS)
def test_a_code_means_the_same_whatever_the_status(code: str, status: int, kind: type[mb.ProviderError]) -> None:
    error = classify(answer({"RequestId": "R-1", "HostId": "h", "Code": code, "Message": "it says why."}, status))
    assert type(error) is kind
    assert (error.status, error.code, error.request_id) == (status, code, "R-1")
    assert str(error).startswith("it says why")


def test_every_row_of_the_table_is_tested() -> None:
    codes = {code for code, _, _ in KINDS}
    assert [row for row in CODES if not any(code == row or code.startswith(f"{row}.") for code in codes)] == []
    for row, kind in CODES.items():
        assert {known for code, _, known in KINDS if code == row or code.startswith(f"{row}.")} == {kind}


@pytest.mark.parametrize(
    "body",
    [
        {"code": "Throttling.User", "message": "slow", "requestId": "R"},
        {"Code": "Throttling.User", "Message": "slow", "RequestId": "R", "Recommend": "https://x"},
        {"Code": "Throttling.User", "Message": "slow", "RequestId": "R", "Success": False},
        b"<?xml version='1.0'?><Error><RequestId>R</RequestId><HostId>h</HostId><Code>Throttling.User</Code>"
        b"<Message>slow</Message></Error>",
    ],
)
def test_every_form_of_an_error_is_read(body: Any) -> None:
    error = classify(answer(body))
    assert type(error) is mb.ThrottledError
    assert (error.code, error.request_id) == ("Throttling.User", "R")
    assert "slow" in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>proxy</html>", b"[]", b'"x"', b'{"Code": 5}', b"\xff", b"{"])
def test_an_error_without_a_readable_body_goes_by_its_status(body: bytes) -> None:
    assert type(classify(answer(body, 503))) is mb.ServiceUnavailableError
    assert type(classify(answer(body, 404))) is mb.NotFoundError


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"x_acs_retry_after": "1500"}, 1.5), ({"x_acs_retry_after": "0"}, 0.0), ({"Retry_After": "3"}, 3.0),
        ({"x_acs_retry_after": "20", "Retry_After": "3"}, 0.02), ({"x_acs_retry_after": "soon"}, None), ({}, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("code", ["Throttling.User", "ServiceUnavailable"])
def test_the_wait_that_is_asked_for_is_in_milliseconds(code: str, headers: dict[str, str], wait_s: float) -> None:
    error = classify(answer({"Code": code}, 503, **headers))
    assert isinstance(error, (mb.ThrottledError, mb.ServiceUnavailableError))
    assert error.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"Success": False, "Code": "InvalidParameter", "Message": "no"}, mb.InvalidRequestError),
        ({"Success": False, "Code": "403", "Message": "no"}, mb.PermissionDeniedError),
        ({"Success": False, "Code": 404, "Message": "no"}, mb.NotFoundError),
        ({"Success": False, "Code": "500"}, mb.ServiceUnavailableError),
        ({"Success": False}, mb.InvalidRequestError),
        ({"success": "false", "code": "Throttling.User"}, mb.ThrottledError),
        ({"Code": "Throttling.User", "Message": "slow"}, mb.ThrottledError),
    ],
)
def test_a_failure_under_200_is_one(document: Any, kind: type[mb.ProviderError]) -> None:
    error = classify(answer(document, 200))
    assert type(error) is kind
    assert error.status == 200


@pytest.mark.parametrize(
    "document",
    [
        {"Code": "200", "Success": True, "Datapoints": "[]"},
        {"Code": 200, "Success": True},
        {"Success": True, "Code": "", "DataPoints": '[{"Code":"x","Success":false}]'},
        {"JobId": "dlc1", "Envs": {"Code": "prod", "Success": False}},
        {"JobId": "dlc1", "PodMetrics": []},
        {"Code": "Partial", "Success": True},
        {"code": "InvalidSecurityToken.Expired", "success": "true"},
        {"Code": None, "Success": None},
        [],
        b"",
        b"<html>",
    ],
)
def test_a_success_is_none(document: Any) -> None:
    assert classify(answer(document, 200)) is None
    assert not credential_rejected(answer(document, 200))


def test_what_is_said_of_accounts_and_policies_is_not_shown() -> None:
    detail = {"AuthPrincipalOwnerId": "1234567890", "EncodedDiagnosticMessage": "AQFsecretdiagnosis"}
    error = classify(answer({"Code": "NoPermission", "Message": "You may not.", "AccessDeniedDetail": detail}, 403))
    assert error is not None
    assert "1234567890" not in repr(vars(error)) + str(error)
    assert "AQF" not in repr(vars(error)) + str(error)
    assert "paidlc:GetJobMetrics" in str(error)


@pytest.mark.parametrize(
    ("status", "code", "rejected"),
    [
        (401, "", True), (400, "InvalidSecurityToken.Expired", True), (403, "InvalidSecurityToken.Malformed", True),
        (404, "InvalidAccessKeyId.NotFound", True), (403, "InvalidAccessKeyId.Inactive", True),
        (400, "MissingSecurityToken", True), (400, "SecurityTokenExpired", True),
        (400, "SignatureNonceUsed", False), (400, "SignatureDoesNotMatch", False), (403, "NoPermission", False),
        (404, "NotFound", False), (200, "InvalidSecurityToken.Expired", True),
        (200, "InvalidParameter", False), (200, "200", False), (500, "InvalidSecurityToken.Expired", False),
        (429, "Throttling.User", False),
    ],
)  # fmt: skip
def test_only_a_refused_key_or_token_asks_for_another_one(status: int, code: str, rejected: bool) -> None:
    assert credential_rejected(answer({"Code": code}, status)) is rejected
