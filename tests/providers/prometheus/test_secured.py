"""A real server that asks for a client certificate and a password, with a certificate of an authority of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
import trustme

import metricsbridge as mb
from metricsbridge.testing import FakeClock
from prometheus_server import running

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD: Final = "test"
HASHED: Final = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"


@attrs.frozen
class Secured:
    settings: dict[str, Any]

    async def ask(self, **changes: Any) -> None:
        """Ask for a job that there is none of."""
        async with mb.open_provider("prometheus", **{**self.settings, **changes}) as provider:
            await provider.get_job("n/none")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, certificate in (
        ("server", authority.issue_cert("127.0.0.1")),
        ("client", authority.issue_cert("me@host")),
    ):
        certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    web = f"""
tls_server_config: {{cert_file: {folder}/server.pem, key_file: {folder}/server.key, client_ca_file: {folder}/ca.pem,
                    client_auth_type: RequireAndVerifyClientCert}}
basic_auth_users: {{ann: "{HASHED}"}}
"""
    with running(folder, web=web) as url:
        files = {"ca_file": "ca.pem", "client_cert": "client.pem", "client_key": "client.key"}
        named = {setting: str(folder / name) for setting, name in files.items()}
        yield Secured({"url": url, "username": "ann", "password": PASSWORD, **named})


async def test_a_server_is_read_with_its_authority_a_client_certificate_and_a_password(secured: Secured) -> None:
    with pytest.raises(mb.NotFoundError, match="no job 'n/none'"):
        await secured.ask()


async def test_a_wrong_password_is_refused_and_not_shown(secured: Secured) -> None:
    with pytest.raises(mb.AuthenticationError) as caught:
        await secured.ask(password="wrong-password")
    assert "check bearer_token, or username and password" in str(caught.value)
    assert "wrong-password" not in str(caught.value)


async def test_an_authority_that_is_not_known_is_not_trusted(secured: Secured) -> None:
    with pytest.raises(mb.TlsError):
        await secured.ask(ca_file=None)


async def test_no_answer_comes_without_the_client_certificate(secured: Secured) -> None:
    with pytest.raises(mb.TransportError):
        await secured.ask(client_cert=None, client_key=None, clock=FakeClock())  # the waits between attempts are free
