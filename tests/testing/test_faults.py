"""Every fault as an HTTP client sees it, and how faults are drawn."""

from collections import Counter
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from metricsbridge.testing.emulator import serve
from metricsbridge.testing.faults import KINDS, Faults

BODY = b"0123456789" * 1_000


@pytest.fixture(autouse=True)
def quiet(caplog):
    """What is injected is not an error of the server's."""
    yield
    assert not caplog.records


@asynccontextmanager
async def service(faults, responders=None):
    """Serve two operations behind the faults, and give a function that calls them by path."""

    async def answer(request):
        return web.Response(body=BODY if request.path != "/empty" else b"", headers={"X-Answer": "1"})

    app = web.Application(middlewares=[faults.middleware(responders)])
    app.router.add_get("/slow/{rest:.*}", answer, name="Slow")
    app.router.add_get("/{rest:.*}", answer, name="Get")
    async with serve(app) as url, aiohttp.ClientSession() as session:
        session._retry_connection = False  # as in aiohttp's own tests: else a GET that is cut is sent again, unseen

        async def get(path="/"):
            async with session.get(url + path) as response:
                return response.status, dict(response.headers), await response.read()

        yield get


@pytest.mark.parametrize(("kind", "status"), [("throttle", 429), ("unavailable", 503), ("error", 500), ("html", 200)])
async def test_refusal_replaces_the_answer(kind, status):
    faults = Faults(retry_after_s=7)
    faults.script(kind)
    async with service(faults) as get:
        got, headers, body = await get()
        assert got == status
        assert "X-Answer" not in headers
        assert headers.get("Retry-After") == ("7" if kind == "throttle" else None)
        assert (b"<html>" in body) == (kind == "html")
        assert (await get())[2] == BODY
    assert faults.injected == {kind: 1}


async def test_reset_cuts_before_a_byte():
    faults = Faults()
    faults.script("reset")
    async with service(faults) as get:
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await get()
        assert (await get())[2] == BODY


async def test_truncated_cuts_after_half_of_the_body():
    faults = Faults()
    faults.script("truncated")
    async with service(faults) as get:
        with pytest.raises(aiohttp.ClientPayloadError):
            await get()
        assert (await get())[2] == BODY


async def test_truncated_empty_answer_is_a_reset():
    faults = Faults()
    faults.script("truncated")
    async with service(faults) as get:
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await get("/empty")


async def test_slow_answer_is_whole():
    waits = []

    async def wait(seconds):
        waits.append(seconds)

    faults = Faults(sleep=wait, pause_s=0.5)
    faults.script("slow")
    async with service(faults) as get:
        status, headers, body = await get()
    assert (status, headers["X-Answer"], body) == (200, "1", BODY)
    assert waits == [0.5] * 4


async def test_vendor_words_its_own_faults():
    faults = Faults(rates={"odd": 1.0}, most_in_a_row=1)
    responders = {
        "odd": lambda request: web.Response(status=418),
        "throttle": lambda request: web.Response(status=400, text="Throttling"),
        "never": lambda request: None,
    }
    async with service(faults, responders) as get:
        faults.script("throttle", "never")
        assert [(await get())[0] for _ in range(4)] == [400, 200, 418, 200]
    assert faults.injected == {"throttle": 1, "odd": 1}


async def test_script_lets_requests_pass():
    faults = Faults()
    faults.script("error", "", "unavailable")
    async with service(faults) as get:
        assert [(await get())[0] for _ in range(4)] == [500, 200, 503, 200]


async def test_rates_are_met():
    faults = Faults(rates={"error": 0.2, "throttle": 0.1}, seed=5)
    async with service(faults) as get:
        seen = Counter([(await get(f"/{number}"))[0] for number in range(600)])
    assert seen == {200: seen[200], 500: faults.injected["error"], 429: faults.injected["throttle"]}
    assert 80 < seen[500] < 160
    assert 35 < seen[429] < 85


async def test_draws_depend_on_the_seed_and_not_on_the_order():
    async def statuses(seed, order):
        faults = Faults(rates={"error": 0.5}, seed=seed)
        async with service(faults) as get:
            seen = {number: (await get(f"/{number}"))[0] for number in order}
        return [seen[number] for number in range(30)]

    assert await statuses(1, range(30)) == await statuses(1, reversed(range(30)))
    assert await statuses(1, range(30)) != await statuses(2, range(30))


async def test_client_that_tries_again_succeeds_in_the_end():
    faults = Faults(rates={"error": 1.0}, most_in_a_row=3)
    async with service(faults) as get:
        assert [(await get())[0] for _ in range(8)] == [500, 500, 500, 200] * 2


async def test_only_the_operations_named_draw():
    faults = Faults(rates={"error": 1.0}, operations={"Slow"})
    async with service(faults) as get:
        assert (await get("/quick"))[0] == 200
        assert (await get("/slow/one"))[0] == 500


@pytest.mark.parametrize("rates", [{"error": -0.1}, {"error": 0.6, "reset": 0.6}])
def test_impossible_rates_are_refused(rates):
    with pytest.raises(ValueError, match="rates"):
        Faults(rates=rates)


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="no fault"):
        Faults(rates={"flood": 0.1}).middleware()
    Faults(rates=dict.fromkeys(KINDS, 0.1)).middleware()


async def test_serving_ends_at_once_with_a_kept_connection():
    app = web.Application()
    async with aiohttp.ClientSession() as session:
        async with serve(app) as url, session.get(url) as response:
            assert response.status == 404
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)
