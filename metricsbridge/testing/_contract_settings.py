"""Checks of the spec and its settings, and that no secret is ever shown."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest

from metricsbridge.config import check_settings
from metricsbridge.errors import ConfigurationError, MetricsBridgeError
from metricsbridge.http import Response
from metricsbridge.model import Query
from metricsbridge.protocols import API_VERSION, ProviderSpec, Rate, TrainingJobMetrics
from metricsbridge.secret import Secret
from metricsbridge.testing._contract_conduct import ConductChecks
from metricsbridge.testing._contract_wire import watched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from metricsbridge.http import Request
    from metricsbridge.model import Call

_SECRET_WORDS: Final = ("password", "secret", "token", "passphrase")
_NOT_SECRET: Final = ("url", "endpoint", "file", "path", "name", "id", "kind", "type", "header")
_WRONG_URLS: Final = ("ftp://host", "http://", "https://user:pass@host/", "https://host/?a=b")
_SHORTEST: Final = 8


class SettingsChecks(ConductChecks):
    """The spec: what importing it does, which settings it takes, and what it keeps to itself."""

    def test_the_spec_is_one_that_the_library_can_use(self) -> None:
        """The spec is for this version of the contract, has an attrs class of settings and rates as limits."""
        spec = self.the_spec()
        assert isinstance(spec, ProviderSpec), f"the entry point names {type(spec).__name__}: name a ProviderSpec"
        assert spec.api == API_VERSION, f"the spec is for version {spec.api} of the contract, this is {API_VERSION}"
        assert attrs.has(spec.settings), f"settings is {spec.settings!r}: give an attrs class"
        one_line = bool(spec.description) and "\n" not in spec.description
        assert one_line, "say in one line which service this is: description"
        assert all(isinstance(rate, Rate) for rate in spec.limits.values()), "limits must be operation to Rate"

        async def check() -> None:
            async with self.open() as bench:
                fits = isinstance(bench.provider, TrainingJobMetrics)
                assert fits, f"connect made {type(bench.provider).__name__}, which lacks get_job, plan or fetch"

        self.run(check)

    def test_importing_the_spec_does_no_io_and_brings_nothing_heavy(self) -> None:
        """The provider's package, imported anew, connects to nothing, starts nothing, and needs no HTTP library."""
        package = self.package()
        module = (self.the_spec().provider or self.the_spec().settings).__module__
        before = {name: found for name, found in sys.modules.items() if name.partition(".")[0] == package}
        with watched(package) as noted:
            for name in before:
                del sys.modules[name]
            try:
                imported = _import_anew(module, before)
            finally:
                for name in [name for name in sys.modules if name.partition(".")[0] == package]:
                    del sys.modules[name]
                sys.modules.update(before)
        assert not noted, f"importing {module} {' and '.join(sorted(set(noted)))}: leave that to connect"
        used = {name.partition(".")[0] for name in imported} & {"aiohttp", "httpx", "requests", "urllib3"}
        assert not used, f"importing {module} brings {sorted(used)}: requests go through the transport"

    def test_wrong_settings_are_refused_before_anything_is_sent(self) -> None:
        """Unknown, missing and malformed settings are a ``ConfigurationError`` that names them."""

        async def check() -> None:
            for name, changed in self._wrong_settings():
                other = type(self)()
                other.settings = changed  # type: ignore[misc]  # this one's alone
                said = ""
                try:
                    async with other.open():
                        pytest.fail(f"{name!r} set wrongly is taken: check it in a converter or validator")
                except ConfigurationError as refused:
                    said = str(refused)
                except Exception as error:
                    pytest.fail(f"{name!r} set wrongly is {type(error).__name__}: {error}; raise ConfigurationError")
                sent = [] if other.wire is None else other.wire.requests
                assert not sent, f"{name!r} set wrongly is refused after {sent} was sent: check it before"
                assert name in said, f"the error does not name the setting {name!r}: {said}"

        self.run(check)

    def _wrong_settings(self) -> Iterator[tuple[str, dict[str, Any]]]:
        good = dict(self.settings)
        yield "no_such_setting", {**good, "no_such_setting": 1}
        fields = attrs.fields_dict(self.the_spec().settings)
        for name, value in good.items():
            if name in fields and isinstance(value, str):
                yield name, {**good, name: ["a", "list"]}
                if value.startswith(("http://", "https://")):
                    yield from ((name, {**good, name: url}) for url in _WRONG_URLS)
            if name in fields and fields[name].default is attrs.NOTHING:
                yield name, {key: kept for key, kept in good.items() if key != name}
        for change in self.wrong_settings:
            yield next(iter(change)), {**good, **change}

    def _secrets(self) -> list[str]:
        own, _ = check_settings(self.the_spec().settings, self.provider_name(), self.settings)
        values = {field.name: getattr(own, field.name) for field in attrs.fields(type(own))}
        texts = [value.reveal() for value in values.values() if isinstance(value, Secret)]
        short = [text for text in texts if len(text) < _SHORTEST]
        assert not short, f"give the secret settings of this test texts of at least {_SHORTEST} characters"
        return texts

    def test_what_is_secret_is_declared_as_secret(self) -> None:
        """Settings that are named like secrets are of type ``Secret``, and no repr shows one."""
        own, _ = check_settings(self.the_spec().settings, self.provider_name(), self.settings)
        for field in attrs.fields(type(own)):
            words = field.name.split("_")
            if set(words) & set(_SECRET_WORDS) and words[-1] not in _NOT_SECRET and field.name in self.settings:
                value = getattr(own, field.name)
                assert isinstance(value, Secret), f"the setting {field.name} is {type(value).__name__}: make it Secret"
        secrets = self._secrets()
        if not secrets:
            pytest.skip("no setting is secret")

        async def check() -> None:
            async with self.open() as bench:
                shown = {
                    "the settings": own, "the authenticator": self.the_spec().authenticator(own),
                    "the provider": bench.provider, "its variables": getattr(bench.provider, "__dict__", {}),
                }  # fmt: skip
                for operation in (await self.operations(bench)).values():
                    await operation()
                shown |= {f"the request {request.operation}": request for request in bench.wire.requests}
                for what, value in shown.items():
                    _check_hidden(secrets, repr(value), f"the repr of {what}")

        self.run(check)

    def test_no_secret_stands_in_an_error(self) -> None:
        """A service that sends back what it was sent brings no secret into errors, their causes and variables."""
        secrets = self._secrets()
        if not secrets:
            pytest.skip("no setting is secret")

        async def check() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():
                    for status in (400, 401, 403, 404, 409, 200):

                        async def echo(request: Request, status: int = status) -> Response:
                            said = f"{request.headers} {request.params} {request.body!r} {secrets}".replace('"', "'")
                            body = f'{{"code": "{secrets[0]}", "message": "{said}", "error": "{said}"}}'
                            return Response(status, {}, body.encode())

                        bench.wire.between = echo
                        try:
                            await operation()
                        except MetricsBridgeError as error:
                            self._check_error(error, secrets, name, variables=status != 200)
                        bench.wire.between = None

        self.run(check)

    def _check_error(self, error: BaseException, secrets: list[str], name: str, *, variables: bool) -> None:
        where = f"an error of {name}"
        seen: set[int] = set()
        queue: list[BaseException | None] = [error]
        while queue:
            one = queue.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            queue += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
            _check_hidden(secrets, f"{one!s} {one!r} {vars(one)!r} {_pickled(one)}", where)
            trace = one.__traceback__
            while trace is not None:
                if variables and self._is_own(trace.tb_frame):
                    for variable, value in trace.tb_frame.f_locals.items():
                        _check_hidden(secrets, repr(value), f"the variable {variable} in the traceback of {where}")
                trace = trace.tb_next

    def _is_own(self, frame: FrameType) -> bool:
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] == self.package()

    def test_no_secret_stands_in_a_job_or_a_call(self) -> None:
        """The payloads of jobs and calls hold no secret."""
        secrets = self._secrets()
        if not secrets:
            pytest.skip("no setting is secret")

        async def check() -> None:
            async with self.open() as bench:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    calls: list[Call] = [
                        call
                        for level in self.levels()
                        for call in bench.provider.plan(job, Query(window=self.life(subject), per=level))
                    ]
                    payloads = {"a Job": [job.payload], "a Call": [call.payload for call in calls]}
                    for what, values in payloads.items():
                        for value in values:
                            text = f"{value!r} {pickle.dumps(value).decode('latin-1')}"
                            _check_hidden(secrets, text, f"the payload of {what}")

        self.run(check)


def _pickled(error: BaseException) -> str:
    try:
        return pickle.dumps(error).decode("latin-1")
    except Exception:  # an error of another library, perhaps
        return ""


def _check_hidden(secrets: list[str], text: str, where: str) -> None:
    shown = [secret for secret in secrets if secret in text]
    assert not shown, f"{where} shows a secret: keep it in a Secret, and quote neither headers nor whole bodies"


def _import_anew(module: str, before: Mapping[str, Any]) -> set[str]:
    """Import a module whose package is not in ``sys.modules``; gives what that brought."""
    already = set(sys.modules)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        spec = before[module].__spec__
        if error.name != module or spec is None:
            raise
        fresh = importlib.util.module_from_spec(spec)  # a module of a test session, found by its file alone
        sys.modules[module] = fresh
        spec.loader.exec_module(fresh)
    return set(sys.modules) - already
