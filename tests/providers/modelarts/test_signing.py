"""Signatures against published vectors and against the vendor's own signer."""

import hashlib

import pytest
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.sdk_request import SdkRequest
from huaweicloudsdkcore.signer.signer import Signer
from hypothesis import given, settings
from hypothesis import strategies as st

from metricsbridge_modelarts._signing import Proof, SigningKey, authorization, canonical_request, signature

ACCESS, SECRET = "TESTAKEXAMPLE000", "TESTSKexample0000000000000000000"
KEY = SigningKey.of(ACCESS, SECRET)
PROJECT = "0123456789abcdef0123456789abcdef"
HEADERS = {
    "Host": "modelarts.eu-de.example.test",
    "X-Project-Id": PROJECT,
    "X-Sdk-Date": "20240115T083000Z",
}
GET = ("GET", f"/v2/{PROJECT}/training-jobs/3faf5c03-aaa1-4cbe-879d-24b05d997347/metrics/worker-0", [], HEADERS, b"")
POST = (
    "POST",
    f"/v2/{PROJECT}/training-job-searches",
    [("limit", "1")],
    {**HEADERS, "Content-Type": "application/json", "X-Security-Token": "tok~/+="},
    b'{"offset":0,"limit":50}',
)
VECTORS = [
    pytest.param(
        GET,
        "06c5c107d4db9b5f3c7e3ee6ccad374a305b2447bde64c8beaf01a3032e5c0f2",
        "6d708648bcb473898838623020b2fff2bfb4304b38f9acd8272706eccd4766be",
        id="get",
    ),
    pytest.param(
        POST,
        "5dc4de357e04ea7692964a53ca9bd908ec03d49fea00806894623a59c0baeebf",
        "07e1faa1811fd207293014d149601a2d517a8df57d43c2ecd0de575af4896667",
        id="post",
    ),
]


@pytest.mark.parametrize(("request_", "canonical", "expected"), VECTORS)
def test_known_requests_have_their_known_signature(request_, canonical, expected):
    method, path, params, headers, body = request_
    lower = {name.lower(): value for name, value in headers.items()}
    text = canonical_request(method, path, params, lower, sorted(lower), body)
    assert hashlib.sha256(text.encode()).hexdigest() == canonical
    assert authorization(KEY, *request_) == (
        f"SDK-HMAC-SHA256 Access={ACCESS}, SignedHeaders={';'.join(sorted(lower))}, Signature={expected}"
    )


ODD = st.text(st.sampled_from(" %+~/&=?#;:,._-'\"\\()*aZ0éß漢😀\u00a0"), max_size=12)
TEXT = ODD | st.text(st.characters(codec="utf-8"), max_size=12)
TOKEN = st.text(st.sampled_from("abcXYZ019-._"), min_size=1, max_size=8)
PATH = st.builds("/".join, st.lists(TEXT | st.sampled_from(["%2F", "%20", "%E6%BC%A2", "%zz", "%ff"]))).map("/".__add__)
PARAMS = st.lists(st.tuples(st.sampled_from(["a", "A", "limit", "a b", "ä", ""]) | TEXT, TEXT), max_size=5)
VALUE = TEXT | st.sampled_from(["", "  padded\t", "tok~/+="])
CONTENT = {
    "Content-Type": st.sampled_from(["application/json", "application/json;charset=UTF-8", "application/bson"])
    | st.sampled_from(["text/plain", "application/octet-stream"]),
    "X-Sdk-Content-Sha256": st.sampled_from(["UNSIGNED-PAYLOAD", " abc ", ""]),
}


@st.composite
def headers(draw):
    known = {"x-sdk-date", "host", "content-type", "x-sdk-content-sha256"}
    extra = draw(st.dictionaries(TOKEN.filter(lambda name: name.lower() not in known), VALUE, max_size=4))
    content = draw(st.fixed_dictionaries({}, optional=CONTENT))
    date = draw(st.sampled_from(["X-Sdk-Date", "x-sdk-date", "X-SDK-DATE"]))
    return {"Host": "example.test:8443", date: "20240229T235959Z", **extra, **content}


@settings(max_examples=800, deadline=None)
@given(st.sampled_from(["GET", "POST", "delete"]), PATH, PARAMS, headers(), st.binary(max_size=20), TOKEN)
def test_signature_is_that_of_the_vendors_signer(method, path, params, headers, body, secret):
    theirs = SdkRequest(method, "https", "example.test", path, None, list(params), dict(headers), body)
    Signer(BasicCredentials(ACCESS, secret)).sign(theirs)
    if "X-Sdk-Content-Sha256" in theirs.header_params:  # the vendor's client sets it for other types than JSON
        headers["X-Sdk-Content-Sha256"] = theirs.header_params["X-Sdk-Content-Sha256"]
    key = SigningKey.of(ACCESS, secret)
    ours = authorization(key, method, path, params, headers, body)
    assert ours == theirs.header_params["Authorization"]

    proof = Proof.parse(ours)
    received = {name.lower(): value for name, value in headers.items()}
    assert proof.access_key == ACCESS
    assert signature(key, method, path, params, received, proof.signed, body) == proof.signature


def test_headers_that_gateways_drop_are_not_signed():
    assert authorization(KEY, "GET", "/", [], {**HEADERS, "x_custom": "1"}) == authorization(
        KEY, "GET", "/", [], HEADERS
    )


def test_missing_date_is_refused():
    with pytest.raises(KeyError):
        authorization(KEY, "GET", "/", [], {"Host": "example.test"})


@pytest.mark.parametrize(
    "text", ["", "Bearer abc", "SDK-HMAC-SHA256 Access=a", "SDK-HMAC-SHA256 Access=a, Signature=b"]
)
def test_other_authorization_is_no_proof(text):
    assert Proof.parse(text) is None


def test_nothing_shows_the_secret():
    assert SECRET not in repr(KEY)
    assert "Signature" not in repr(Proof("a", ("host",), "Signature"))
