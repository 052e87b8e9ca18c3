"""Signatures against published vectors and against the vendor's own signer."""

import hashlib
from types import SimpleNamespace

import pytest
from alibabacloud_tea_openapi.utils import Utils
from hypothesis import given, settings
from hypothesis import strategies as st

from metricsbridge_pai._signing import (
    ALGORITHM,
    Proof,
    SigningKey,
    authorization,
    canonical_request,
    content_hash,
    signature,
)

ACCESS, SECRET = "TESTAKEXAMPLE000", "TESTSKexample0000000000000000000"
KEY = SigningKey.of(ACCESS, SECRET)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HEADERS = {
    "accept": "application/json",
    "user-agent": "metricsbridge-test",
    "x-acs-date": "2024-01-15T08:30:00Z",
    "x-acs-signature-nonce": "0123456789abcdef0123456789abcdef",
    "x-acs-content-sha256": EMPTY,
}
GET = (
    "GET",
    "/api/v1/jobs/dlc-20210126170216-mtl37ge7gkvdz/metrics",
    [
        ("TimeStep", "5m"),
        ("MetricType", "GpuCoreUsage"),
        ("StartTime", "2024-01-15T08:00:00Z"),
        ("EndTime", "2024-01-15T08:30:00Z"),
    ],
    {
        **HEADERS,
        "host": "pai-dlc.cn-test.example.test",
        "x-acs-action": "GetJobMetrics",
        "x-acs-version": "2020-12-03",
    },
)
POST = (
    "POST",
    "/",
    [
        ("Namespace", "acs_pai_dlc"),
        ("MetricName", "CARD_GPU_SM_UTIL"),
        ("Period", "60"),
        ("Dimensions", '[{"jobId":"dlc-1"}]'),
    ],
    {
        **HEADERS,
        "host": "metrics.cn-test.example.test",
        "x-acs-action": "DescribeMetricList",
        "x-acs-version": "2019-01-01",
        "x-acs-accesskey-id": ACCESS,
        "x-acs-security-token": "tok~/+=",
    },
)
VECTORS = [
    pytest.param(
        GET,
        "d63bf817c87c4b2f788cfabe1b0d1cd79e6b1eeaf616835a008bfa3b43e887fa",
        "db04bc7b4571b113146718abd19faf1f1d41ba3c3cfc4d8fe97ef0aef94f46ba",
        id="get",
    ),
    pytest.param(
        POST,
        "25516424a952d93785dd817cd189bfc3a260735a0ace2b2b8e21e4bc07eca3d5",
        "84a71f43fcd275b0dd8538ee5ac82d0e422f35d545286b7c306cb41e44af29f1",
        id="post",
    ),
]


@pytest.mark.parametrize(("request_", "canonical", "expected"), VECTORS)
def test_known_requests_have_their_known_signature(request_, canonical, expected):
    names = sorted(request_[3])
    assert hashlib.sha256(canonical_request(*request_, names).encode()).hexdigest() == canonical
    assert authorization(KEY, *request_) == (
        f"ACS3-HMAC-SHA256 Credential={ACCESS},SignedHeaders={';'.join(names)},Signature={expected}"
    )


ODD = st.text(st.sampled_from(" %+~/&=?#;:,._-*'\"\\()aZ0éß漢😀\u00a0"), max_size=12)
TEXT = ODD | st.text(st.characters(codec="utf-8"), max_size=12)
TOKEN = st.text(st.sampled_from("abcXYZ019-._"), min_size=1, max_size=8)
PATH = st.builds("/".join, st.lists(TEXT | st.sampled_from(["%2F", "%20", "api", "v1", ""]))).map("/".__add__)
# The vendor's client sends and signs names as they are, the rule encodes them: alike for all that need no encoding.
PARAMS = st.dictionaries(TOKEN | st.sampled_from(["Matchers.1.Label", "a~b"]), TEXT, max_size=6)
VALUE = TEXT | st.sampled_from(["", "  padded\t", "tok~/+="])


@st.composite
def headers(draw):
    """Give what the vendor's client sends, and more: other headers, some spelled twice, and those of STS."""
    more = draw(st.dictionaries(TOKEN.map("x-".__add__), VALUE, max_size=4))
    doubled = {spelt: draw(VALUE) for name in more for spelt in (name.swapcase(), name.upper()) if draw(st.booleans())}
    optional = {"x-acs-security-token": VALUE, "x-acs-accesskey-id": TOKEN, "Content-Type": TEXT}
    return {
        **HEADERS,
        "Host": "example.test:8443",
        **more,
        **doubled,
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@settings(max_examples=800, deadline=None)
@given(st.sampled_from(["GET", "POST", "DELETE"]), PATH, PARAMS, headers(), st.binary(max_size=20), TOKEN)
def test_signature_is_that_of_the_vendors_signer(method, path, params, headers, body, secret):
    headers["x-acs-content-sha256"] = content_hash(body)
    assert headers["x-acs-content-sha256"] == Utils.hash(body, ALGORITHM).hex()
    theirs = SimpleNamespace(method=method, pathname=path, query=params, headers=headers)
    expected = Utils.get_authorization(theirs, ALGORITHM, Utils.hash(body, ALGORITHM).hex(), ACCESS, secret)
    key = SigningKey.of(ACCESS, secret)
    ours = authorization(key, method, path, params.items(), headers)
    assert ours == expected

    received = {}
    for name, value in headers.items():
        received[name.lower()] = [*received.get(name.lower(), []), value.strip()]
    received = {name: ",".join(sorted(values)) for name, values in received.items()}
    proof = Proof.parse(ours)
    assert proof.access_key_id == ACCESS
    assert signature(key, method, path, params.items(), received, proof.signed) == proof.signature


def test_one_key_signs_requests_with_other_headers_in_turn():
    fresh = [authorization(SigningKey.of(ACCESS, SECRET), *request) for request in (GET, POST, GET)]
    assert [authorization(KEY, *request) for request in (GET, POST, GET)] == fresh


def test_names_of_parameters_are_encoded_as_the_rule_says():
    headers = {"host": "example.test", "x-acs-content-sha256": EMPTY}
    text = canonical_request("GET", "/", [("b", ""), ("a b", "1"), ("a", "2"), ("a", "1")], headers, ["host"])
    assert text == f"GET\n/\na=1&a=2&a%20b=1&b=\nhost:example.test\n\nhost\n{EMPTY}"


def test_missing_content_hash_is_refused():
    with pytest.raises(KeyError):
        authorization(KEY, "GET", "/", [], {"host": "example.test"})


@pytest.mark.parametrize(
    "text", ["", "Bearer abc", "ACS3-HMAC-SHA256 Credential=a", "ACS3-HMAC-SHA256 Credential=a,Signature=b"]
)
def test_other_authorization_is_no_proof(text):
    assert Proof.parse(text) is None


def test_nothing_shows_the_secret():
    assert SECRET not in repr(KEY)
    assert "Signature" not in repr(Proof("a", ("host",), "Signature"))
