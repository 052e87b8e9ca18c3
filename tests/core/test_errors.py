import copy
import pickle
import re

import pytest

from metricsbridge import errors
from metricsbridge.errors import (
    DecodeError,
    MetricsBridgeError,
    NotFoundError,
    PartialDataError,
    ProviderError,
    ServiceUnavailableError,
    ThrottledError,
    TlsError,
    TransportError,
)
from metricsbridge.http import error_class
from metricsbridge.model import Failure, Window
from metricsbridge.series.columns import SeriesBatch, concat

WHERE = {"provider": "p", "operation": "ShowJob", "status": 404, "code": "E.1", "request_id": "r-1"}
EMPTY = concat([])


def _public_errors() -> dict[str, type[MetricsBridgeError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, MetricsBridgeError) and not name.startswith("_")
    }


def _drawn_tree() -> dict[str, str]:
    """Give name to the name of its parent, as the docstring draws them."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.fullmatch(r" {4}((?:[│ ] {3})*)([├└]── )?(\w+Error)(?: {2,}\S.*)?", line)
        if match is not None:
            depth = len(match[1]) // 4 + bool(match[2])
            del above[depth:]
            parents[match[3]] = above[-1] if above else ""
            above.append(match[3])
    return parents


def _public_parent(cls: type) -> str:
    return next((base.__name__ for base in cls.__mro__[1:] if base.__name__ in _public_errors()), "")


def _table() -> list[tuple[str, str, str]]:
    """Give (cause, class, retried?) for each row of the docstring's table."""
    rows = (errors.__doc__ or "").split("========  \n")[-1].splitlines()
    found = [re.fullmatch(r"(\S.*?) {2,}(\w+Error) {2,}((?:yes|no).*)", row) for row in rows]
    return [(match[1], match[2], match[3]) for match in found if match is not None]


def _make(cls: type[MetricsBridgeError]) -> MetricsBridgeError:
    if not issubclass(cls, ProviderError):
        return cls("it failed")
    more = {
        ThrottledError: {"retry_after_s": 1.5},
        ServiceUnavailableError: {"retry_after_s": 0.0},
        DecodeError: {"path": "$.a[3]", "offset": 12},
        PartialDataError: {
            "series": EMPTY,
            "lost": [Failure(targets=(("1", "t"),), metrics=("m",), window=Window(0, 1), error=NotFoundError("gone"))],
        },
    }.get(cls, {})
    error = cls("it failed", **WHERE, **more)
    error.attempts = 3
    return error


def test_the_drawn_tree_is_the_real_one():
    assert _drawn_tree() == {name: _public_parent(cls) for name, cls in _public_errors().items()}


def test_the_table_says_what_is_retried():
    rows = _table()
    assert len(rows) == 11
    for _, name, retried in rows:
        assert _public_errors()[name].retried is retried.startswith("yes"), name


def test_the_table_holds_every_provider_error_but_the_partial_one():
    leaves = {name for name, cls in _public_errors().items() if issubclass(cls, ProviderError)}
    assert {name for _, name, _ in _table()} == leaves - {"ProviderError", "PartialDataError"}


def test_the_table_says_what_an_http_status_means():
    listed: set[int] = set()
    for cause, name, _ in _table():
        statuses = {int(number) for number in re.findall(r"\b\d{3}\b", cause)}
        if "5xx" in cause:
            statuses |= {500, 502, 503, 504, 599}
        listed |= statuses
        assert {error_class(status) for status in statuses} <= {_public_errors()[name]}, cause
    assert listed >= {401, 403, 404, 410, 429, 408, 500}


@pytest.mark.parametrize("cls", _public_errors().values(), ids=lambda cls: cls.__name__)
def test_an_error_ends_in_error_and_is_documented(cls):
    assert cls.__name__.endswith("Error")
    assert cls.__doc__


@pytest.mark.parametrize("clone", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
@pytest.mark.parametrize("cls", _public_errors().values(), ids=lambda cls: cls.__name__)
def test_an_error_keeps_its_fields_when_it_is_pickled(cls, clone):
    error = _make(cls)
    again = clone(error)
    assert type(again) is cls
    assert (str(again), again.args) == (str(error), error.args)
    before, after = dict(vars(error)), dict(vars(again))
    if cls is PartialDataError:
        lost, lost_again = before.pop("lost"), after.pop("lost")
        assert [(f.targets, str(f.error)) for f in lost_again] == [(f.targets, str(f.error)) for f in lost]
        assert isinstance(after.pop("series"), SeriesBatch)
        del before["series"]
    assert after == before


def test_pickling_keeps_the_notes():
    error = NotFoundError("gone")
    error.add_note("while planning")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while planning"]


def test_its_text_says_what_and_where():
    error = _make(NotFoundError)
    assert str(error) == "it failed [p ShowJob, HTTP 404, E.1, request r-1, 3 attempts]"
    assert error.message == "it failed"


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, "it failed"),
        ({"provider": "p"}, "it failed [p]"),
        ({"operation": "ShowJob"}, "it failed [ShowJob]"),
        ({"status": 0}, "it failed [HTTP 0]"),
        ({"code": "E.1"}, "it failed [E.1]"),
        ({"request_id": "r-1"}, "it failed [request r-1]"),
    ],
)
def test_its_text_leaves_out_what_is_not_known(where, text):
    assert str(ProviderError("it failed", **where)) == text


def test_a_tls_error_is_a_transport_error_that_is_not_retried():
    assert issubclass(TlsError, TransportError)
    assert (TransportError.retried, TlsError.retried) == (True, False)


@pytest.mark.parametrize("cls", [ThrottledError, ServiceUnavailableError])
def test_the_wait_that_the_server_asks_for_is_unknown_unless_given(cls):
    assert cls("slow down").retry_after_s is None
    assert cls("slow down", retry_after_s=2.0, status=429).retry_after_s == 2.0


def test_partial_data_keeps_what_is_lost_as_a_tuple():
    lost = [Failure(targets=(("1", ""),), metrics=(), window=None, error=NotFoundError("gone"))]
    error = PartialDataError("half of it", series=EMPTY, lost=lost)
    assert error.lost == tuple(lost)
    assert error.series is EMPTY
