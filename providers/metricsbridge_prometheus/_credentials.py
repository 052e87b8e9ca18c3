"""How an account proves who it is: a bearer token, a user name with a password, or not at all."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from metricsbridge.provider_kit import ConfigurationError, Credential, NoAuthentication, Secret

if TYPE_CHECKING:
    from metricsbridge.provider_kit import Authenticator, Request, Response, Transport
    from metricsbridge_prometheus._settings import PrometheusSettings


@attrs.frozen(repr=False)
class HeaderCredential(Credential):
    """The value of the header ``Authorization``, and the secret in it."""

    authorization: Secret
    secret: Secret


@attrs.frozen
class HeaderAuthenticator:
    """Sends the same header with each request; there is nothing to renew."""

    account: str
    _authorization: Secret
    _secret: Secret

    async def obtain(self, transport: Transport, now_ms: int, /) -> HeaderCredential:
        """Give the credential; nothing is asked."""
        return HeaderCredential(self._authorization, self._secret)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Add the header."""
        assert isinstance(credential, HeaderCredential)
        headers = {**request.headers, "Authorization": credential.authorization.reveal()}
        return attrs.evolve(request, headers=headers)

    def rejected(self, response: Response, /) -> bool:
        """Tell no: another attempt would send the same."""
        return False


def make_authenticator(settings: PrometheusSettings, /) -> Authenticator:
    """Make the authenticator that the settings ask for.

    Raises:
        ConfigurationError: Two ways are set, or half of one.
    """
    account = f"{settings.username or ''}@{urlsplit(settings.api_url()).netloc}/{settings.tenant or ''}"
    if (settings.username is None) != (settings.password is None):
        raise ConfigurationError("set both username and password, or neither")
    if settings.bearer_token is not None and settings.username is not None:
        raise ConfigurationError("set bearer_token, or username and password; not both")
    if settings.bearer_token is not None:
        token = settings.bearer_token
        if not (len(token) and token.reveal().isascii() and token.reveal().isprintable()):
            raise ConfigurationError("bearer_token: it is empty or has characters that no HTTP header may have")
        return HeaderAuthenticator(account, Secret(f"Bearer {token.reveal()}"), token)
    if settings.username is not None and settings.password is not None:
        if ":" in settings.username:
            raise ConfigurationError("username: it may have no colon (RFC 7617)")
        pair = b64encode(f"{settings.username}:{settings.password.reveal()}".encode()).decode()
        return HeaderAuthenticator(account, Secret(f"Basic {pair}"), settings.password)
    return NoAuthentication(account)
