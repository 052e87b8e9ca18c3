import math
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_provider import FakeProvider
from metricsbridge.http import Request, Response, classify_by_status
from metricsbridge.protocols import (
    API_VERSION,
    Credential,
    NoAuthentication,
    ProviderSpec,
    Rate,
    SupportsBatchDecoding,
    SupportsBatchPlanning,
    SupportsJobSearch,
    TrainingJobMetrics,
)
from metricsbridge.testing import FakeTransport

# Rates


@pytest.mark.parametrize(
    ("text", "per_second"),
    [
        ("50/s", 50),
        ("0.5/s", 0.5),
        ("10/m", 10 / 60),
        ("1000/h", 1000 / 3600),
        ("600/m", 10),
        ("unlimited", math.inf),
    ],
)
def test_a_rate_is_read(text, per_second):
    assert Rate.parse(text) == Rate(per_second)


@given(st.integers(1, 10**6), st.sampled_from(["s", "m", "h"]))
def test_a_minute_has_sixty_seconds_and_an_hour_sixty_minutes(number, period):
    seconds = {"s": 1, "m": 60, "h": 3600}[period]
    assert Rate.parse(f"{number}/{period}").per_second * seconds == pytest.approx(number)


@pytest.mark.parametrize(
    "text", ["", "50", "/s", "50/", "50 /s", "50/d", "-5/s", "0/s", "0.0/m", ".5/s", "1e3/s", "inf/s", "50/s ", "50/S"]
)
def test_what_is_no_rate_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write for example '50/s'"):
        Rate.parse(text)


@pytest.mark.parametrize("per_second", [0, -1, math.nan])
def test_a_rate_is_more_than_zero(per_second):
    with pytest.raises(ValueError, match="per_second"):
        Rate(per_second)


def test_a_rate_is_a_value():
    assert pickle.loads(pickle.dumps(Rate.parse("50/s"))) == Rate(50.0)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Rate(1.0).per_second = 2.0


# What a provider is, and what it may be besides


class Searching(FakeProvider):
    async def list_jobs(self, search, /):
        yield await self.get_job("1")


class Batching(FakeProvider):
    max_jobs = 10

    def plan_jobs(self, jobs, query, /):
        return []


class Decoding(FakeProvider):
    async def send(self, call, /): ...

    def decode(self, answers, /): ...


class OnlySending(FakeProvider):
    async def send(self, call, /): ...


class NotFetching:
    async def get_job(self, job_id, /): ...

    def plan(self, job, query, /): ...


@pytest.mark.parametrize(
    ("provider", "ability"),
    [
        (FakeProvider, None), (Searching, SupportsJobSearch), (Batching, SupportsBatchPlanning),
        (Decoding, SupportsBatchDecoding), (OnlySending, None),
    ],
)  # fmt: skip
def test_abilities_are_told_apart_by_protocol(provider, ability):
    made = provider({})
    assert isinstance(made, TrainingJobMetrics)
    known = [SupportsJobSearch, SupportsBatchPlanning, SupportsBatchDecoding]
    assert [each for each in known if isinstance(made, each)] == [each for each in known if each is ability]


def test_what_can_not_fetch_is_no_provider():
    assert not isinstance(NotFetching(), TrainingJobMetrics)


def test_the_protocol_that_every_provider_has_is_never_extended():
    members = {name for name in vars(TrainingJobMetrics) if not name.startswith("_")}
    assert members == {"get_job", "plan", "fetch"}


# Specs and authenticators


async def _connect(settings, transport):
    return FakeProvider({})


def test_a_spec_has_defaults_for_all_but_settings_and_connect():
    spec = ProviderSpec(settings=Credential, connect=_connect)
    assert spec.api == API_VERSION == 1
    assert spec.limits == {}
    assert spec.classify is classify_by_status
    assert spec.authenticator(None) == NoAuthentication()
    with pytest.raises(TypeError):
        ProviderSpec(settings=Credential)


def test_the_limits_of_a_spec_can_not_be_changed():
    limits = {"Show": Rate(1.0)}
    spec = ProviderSpec(settings=Credential, connect=_connect, limits=limits)
    limits["Show"] = Rate(2.0)
    assert spec.limits == {"Show": Rate(1.0)}
    with pytest.raises(TypeError):
        spec.limits["Show"] = Rate(2.0)


async def test_no_authentication_changes_no_request():
    nobody = NoAuthentication()
    transport = FakeTransport(lambda request: Response(200))
    credential = await nobody.obtain(transport, 0)
    request = Request("GET", "https://h/")
    assert credential.expires_ms is None
    assert nobody.sign(request, credential, 0, "nonce") is request
    assert not nobody.rejected(Response(401))
    assert nobody.account == "anonymous"


def test_a_credential_never_shows_itself():
    @attrs.frozen(repr=False)
    class Key(Credential):
        text: str

    assert repr(Key("hunter2")) == str(Key("hunter2")) == "Key(***)"
    assert "hunter2" not in f"{Credential(expires_ms=3)!r}"
