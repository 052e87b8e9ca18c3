"""The request signature of Alibaba Cloud's OpenAPI, ``ACS3-HMAC-SHA256``: pure, no clock, no I/O.

Source: Alibaba Cloud OpenAPI guide, "Request structure and signature V3"; checked against the signer of
``alibabacloud_tea_openapi``.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, Self

import attrs

from metricsbridge.provider_kit import HmacKey, encode_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ALGORITHM: Final = "ACS3-HMAC-SHA256"
DATE_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
"""How ``x-acs-date`` writes an instant, in UTC."""

_CONTENT_HASH: Final = "x-acs-content-sha256"
_EMPTY_BODY: Final = hashlib.sha256(b"").hexdigest()
_AUTHORIZATION = re.compile(ALGORITHM + r" Credential=([^,]*), ?SignedHeaders=([^,]*), ?Signature=([^,]*)")


@attrs.frozen
class _Layout:
    """What the names of a request's headers put into what is signed."""

    names: tuple[tuple[str, str], ...]
    listed: str
    head: str


@attrs.define(repr=False, eq=False)
class SigningKey:
    """A pair of access key id and access key secret that signs; it never shows itself."""

    access_key_id: str
    _key: HmacKey
    _last: tuple[tuple[str, ...], _Layout] | None = None

    @classmethod
    def of(cls, access_key_id: str, access_key_secret: str, /) -> Self:
        """Make the key."""
        return cls(access_key_id, HmacKey(access_key_secret.encode()))

    def sign(self, canonical: str, /) -> str:
        """Give the signature of a canonical request, in hexadecimal."""
        digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
        return self._key.sign(f"{ALGORITHM}\n{digest}".encode())

    def layout(self, names: tuple[str, ...], /) -> _Layout:
        """Give the order of headers of these names; from call to call it is mostly the last one."""
        if self._last is None or self._last[0] != names:
            order = tuple(sorted([(name.lower(), name) for name in names]))
            listed = ";".join(dict.fromkeys([lower for lower, _ in order]))
            head = f"{ALGORITHM} Credential={self.access_key_id},SignedHeaders={listed},Signature="
            self._last = (names, _Layout(order, listed, head))
        return self._last[1]

    def __repr__(self) -> str:
        return "SigningKey(***)"


def content_hash(body: bytes, /) -> str:
    """Give what stands in ``x-acs-content-sha256``: the body's SHA-256 in hexadecimal."""
    return hashlib.sha256(body).hexdigest() if body else _EMPTY_BODY


def authorization(
    key: SigningKey, method: str, path: str, params: Iterable[tuple[str, str]], headers: Mapping[str, str]
) -> str:
    """Give the value of the ``Authorization`` header.

    All headers given are signed. The rule wants ``host``, ``content-type`` where there is a body, and every ``x-acs-*``
    among them; nothing on the way may alter what is signed.

    Args:
        key: Whose signature.
        method: The HTTP method, in upper case.
        path: The URL's path as on the wire, percent-encoded; "/" for RPC.
        params: The query as pairs of plain text, in any order.
        headers: What is sent, in plain text.

    Raises:
        KeyError: There is no ``x-acs-content-sha256`` (see ``content_hash``) among the headers.
    """
    layout = key.layout(tuple(headers))
    lower: dict[str, list[str]] = {}
    for name, given in layout.names:
        lower.setdefault(name, []).append(headers[given].strip())
    # The same name in two spellings is one header with both values.
    lines = "".join([f"{name}:{','.join(sorted(values))}\n" for name, values in lower.items()])
    return layout.head + key.sign(
        f"{method}\n{path or '/'}\n{_query(params)}\n{lines}\n{layout.listed}\n{lower[_CONTENT_HASH][0]}"
    )


def signature(
    key: SigningKey,
    method: str,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
) -> str:
    """Give the signature over the headers named, in hexadecimal: what a verifier recomputes.

    Args:
        key: Whose signature.
        method: As ``authorization``.
        path: As ``authorization``.
        params: As ``authorization``.
        headers: Lower-case name to value; more than the signed ones may be there.
        signed: Lower-case names, in the order in which ``SignedHeaders`` lists them.

    Raises:
        KeyError: A signed header, or ``x-acs-content-sha256``, is missing.
    """
    return key.sign(canonical_request(method, path, params, headers, signed))


def canonical_request(
    method: str,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
) -> str:
    """Give the text whose hash is signed; arguments as ``signature``."""
    lines = "".join([f"{name}:{headers[name].strip()}\n" for name in signed])
    content = headers[_CONTENT_HASH].strip()
    return f"{method}\n{path or '/'}\n{_query(params)}\n{lines}\n{';'.join(signed)}\n{content}"


def _query(params: Iterable[tuple[str, str]]) -> str:
    return encode_query(sorted(params))


@attrs.frozen(repr=False)
class Proof:
    """What an ``Authorization`` header claims."""

    access_key_id: str
    signed: tuple[str, ...]
    signature: str

    @classmethod
    def parse(cls, text: str, /) -> Self | None:
        """Read an ``Authorization`` header, or give None where it is not of this algorithm."""
        match = _AUTHORIZATION.fullmatch(text.strip())
        return match and cls(match[1], tuple(match[2].lower().split(";")), match[3])

    def __repr__(self) -> str:
        return "Proof(***)"
