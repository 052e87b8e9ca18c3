import time
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from metricsbridge.errors import (
    AuthenticationError,
    ConfigurationError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    ThrottledError,
)
from metricsbridge.http import (
    Request,
    Response,
    check_id,
    check_url,
    classify_by_status,
    encode,
    encode_query,
    error_class,
    make_error,
    path_segment,
    retry_after_s,
)

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
BAD_IDS = ["", ".", "..", "a\nb", "a\x00", "\x7f", "\x1b[2J", "\ud800", "a\u2028b", "\u202egpj"]
texts = st.text(st.characters(exclude_categories=["Cs"]))
ids = texts.filter(lambda text: text.isprintable() and text not in ("", ".", ".."))


# Encoding


@given(texts)
def test_encoding_is_undone_by_decoding(text):
    assert unquote(encode(text), errors="strict") == text


@given(texts)
def test_encoded_text_has_unreserved_characters_and_upper_case_escapes_only(text):
    encoded = encode(text)
    assert set(encoded) <= set(UNRESERVED + "%")
    assert all(part[:2] == part[:2].upper() for part in encoded.split("%")[1:])


def test_unreserved_characters_stay_and_all_others_are_escaped():
    assert encode(UNRESERVED) == UNRESERVED
    assert encode("a b/c+é%2F*") == "a%20b%2Fc%2B%C3%A9%252F%2A"


def test_half_of_a_surrogate_pair_is_refused():
    for attempt in (lambda: encode("a\ud800"), lambda: encode_query([("name", "\udfff")])):
        with pytest.raises(InvalidRequestError, match="can't be written as UTF-8"):
            attempt()


@given(ids)
def test_an_id_survives_the_way_through_a_path(value):
    url = URL(f"https://host/v2/jobs/{path_segment(value)}/metrics", encoded=True)
    assert url.raw_path.count("/") == 4
    assert unquote(url.raw_path.split("/")[3]) == value
    assert check_id(value) == value


@pytest.mark.parametrize("value", BAD_IDS)
def test_an_id_that_could_not_stand_in_a_path_is_refused(value):
    for check in (check_id, path_segment):
        with pytest.raises(InvalidRequestError, match="is no task id"):
            check(value, "task id")


@given(st.text())
def test_an_id_is_encoded_or_refused_and_nothing_else(value):
    try:
        assert path_segment(value)
    except InvalidRequestError:
        assert value in ("", ".", "..") or not value.isprintable()


@given(st.lists(st.tuples(texts, texts)))
def test_a_query_reads_back_as_its_pairs_in_order(params):
    query = encode_query(params)
    assert "+" not in query
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(params), errors="strict")
    assert pairs == params


def test_a_name_may_recur_in_a_query():
    assert encode_query([("m", "b"), ("m", "a"), ("q", "")]) == "m=b&m=a&q="


# Values


def test_headers_of_a_response_are_looked_up_without_regard_to_case():
    response = Response(200, {"X-Request-Id": "r-1"})
    assert response.headers["x-request-id"] == response.headers.get("X-REQUEST-ID") == "r-1"
    assert "x-REQUEST-id" in response.headers
    assert Response(200, response.headers).headers is response.headers


def test_a_request_and_a_response_show_no_secret():
    hidden = "hunter2-hunter2"
    request = Request("GET", "https://h/jobs", (("token", hidden),), {"Authorization": hidden}, hidden.encode(), "Show")
    assert repr(request) == "Request(GET https://h/jobs, operation='Show')"
    response = Response(200, {"X-Subject-Token": hidden}, hidden.encode())
    assert repr(response) == "Response(200, 15 bytes)"
    assert all(hidden not in f"{value!s}{value!r}" for value in (request, response))


def test_the_full_url_is_what_goes_on_the_wire():
    assert Request("GET", "https://h:8443/a%2Fb", (("q", "a b"),)).full_url == "https://h:8443/a%2Fb?q=a%20b"
    assert Request("GET", "https://h/a").full_url == "https://h/a"
    assert Request("GET", "https://h:8443/a").host == "h:8443"


# Retry-After


def _hint(value: str, *, received_ms: int = 0, **headers: str) -> float | None:
    return retry_after_s(Response(429, {"Retry-After": value, **headers}, b"", received_ms))


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("7", 7), (" 120 ", 120), ("1.5", 1.5), ("2.", 2)])
def test_retry_after_may_be_a_number(text, seconds):
    assert _hint(text) == seconds


EPOCH_DATES = [
    "Thu, 01 Jan 1970 00:01:40 GMT",
    "Thursday, 01-Jan-70 00:01:40 GMT",
    "Thu Jan  1 00:01:40 1970",
    "Thu, 01 Jan 1970 00:01:40 -0000",
    "Thu, 01 Jan 1970 00:01:40",
]


@pytest.mark.parametrize("date", EPOCH_DATES)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_retry_after_may_be_an_http_date_which_is_in_utc_wherever_we_run(local_zone, date, zone):
    local_zone(zone)
    assert _hint(date, received_ms=40_000) == 60
    assert _hint(date, Date="Thu, 01 Jan 1970 00:01:30 GMT", received_ms=10**12) == 10
    assert _hint(date, received_ms=200_000) == 0


@pytest.fixture
def local_zone(monkeypatch):
    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "soon", "-5", "1e400", "inf", "nan", "Infinity", "1_0", "0x10", "5 s", ",", "٣", "9" * 400),
        *("Thu, 99 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT"),
    ],
)
def test_any_other_retry_after_is_no_hint(text):
    assert _hint(text) is None


def test_no_retry_after_is_no_hint():
    assert retry_after_s(Response(503)) is None


@given(st.text(), st.text())
def test_no_header_breaks_the_reading_of_retry_after(text, date):
    hint = _hint(text, Date=date)
    assert hint is None or 0 <= hint < float("inf")


# What a status means


@pytest.mark.parametrize("status", range(100, 600))
def test_every_status_means_success_or_one_error(status):
    error = classify_by_status(Response(status, {"Retry-After": "3"}))
    if status < 300:
        assert error is None
        assert error_class(status) is None
        return
    assert type(error) is error_class(status)
    assert error.status == status
    assert str(status) in str(error)
    assert getattr(error, "retry_after_s", 3) == 3
    assert error.retried is (status >= 500 or status in (408, 429))


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (302, InvalidRequestError),
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (408, ServiceUnavailableError),
        (410, NotFoundError),
        (418, InvalidRequestError),
        (429, ThrottledError),
        (500, ServiceUnavailableError),
        (503, ServiceUnavailableError),
    ],
)
def test_a_status_means_its_class(status, cls):
    assert error_class(status) is cls


def test_an_error_carries_the_code_and_the_wait_where_its_class_has_one():
    response = Response(400, {"Retry-After": "3"})
    throttled = make_error(ThrottledError, "slow down", response, code="Throttling.User")
    assert isinstance(throttled, ThrottledError)
    assert (throttled.status, throttled.code, throttled.retry_after_s) == (400, "Throttling.User", 3)
    assert make_error(NotFoundError, "gone", response, code="E.404").code == "E.404"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://host", "https://host"), ("http://host:8080/", "http://host:8080"), ("host.example", "https://host.example"),
        ("https://host/v3//", "https://host/v3"), ("http://[::1]:80", "http://[::1]:80"),
    ],
)  # fmt: skip
def test_the_url_of_an_endpoint_has_no_slash_at_its_end(given, url):
    assert check_url("endpoint", given) == url


@pytest.mark.parametrize(
    "bad",
    [
        "", "ftp://host", "https://", "https://user:pw@host", "https://host?x=1", "https://host#x", "https://ho st",
        "https://host:port", "https://host:0", "https://host\n", "://host", "https://[::1",
    ],
)  # fmt: skip
def test_what_is_no_url_of_an_endpoint_is_refused_with_the_setting(bad):
    with pytest.raises(ConfigurationError, match="iam_endpoint: write a URL") as caught:
        check_url("iam_endpoint", bad)
    assert "pw" not in str(caught.value)
