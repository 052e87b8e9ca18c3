"""The request signature of Huawei Cloud's API gateway, ``SDK-HMAC-SHA256``: pure, no clock, no I/O.

Source: API Gateway user guide, AK/SK signing; checked against the signer of ``huaweicloudsdkcore``.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, unquote

import attrs

from metricsbridge.provider_kit import HmacKey, encode_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ALGORITHM: Final = "SDK-HMAC-SHA256"
DATE_HEADER: Final = "X-Sdk-Date"
DATE_FORMAT: Final = "%Y%m%dT%H%M%SZ"
"""How the date header writes an instant, in UTC."""

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.~/-]+")
"""A path in which nothing needs encoding."""

_EMPTY_BODY: Final = hashlib.sha256(b"").hexdigest()
_AUTHORIZATION = re.compile(ALGORITHM + r" Access=([^,]*), ?SignedHeaders=([^,]*), ?Signature=([^,]*)")


@attrs.frozen
class _Headers:
    """What the headers of a request put into what is signed."""

    head: str
    lines: str
    date: str
    content_hash: str


@attrs.define(repr=False, eq=False)
class SigningKey:
    """A pair of access key and secret key that signs; it never shows itself.

    Attributes:
        last: What headers were signed last, and what they put into what is signed: within a second mostly the same.
    """

    access_key: str
    _key: HmacKey
    last: tuple[tuple[tuple[str, str], ...], _Headers] | None = None

    @classmethod
    def of(cls, access_key: str, secret_key: str, /) -> Self:
        """Make the key."""
        return cls(access_key, HmacKey(secret_key.encode()))

    def sign(self, date: str, canonical: str, /) -> str:
        """Give the signature of a canonical request, in hexadecimal.

        Args:
            date: When it was made, as ``DATE_FORMAT`` writes it.
            canonical: Its text.
        """
        digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
        return self._key.sign(f"{ALGORITHM}\n{date}\n{digest}".encode())

    def names(self, headers: tuple[tuple[str, str], ...], /) -> _Headers:
        """Give the part of what is signed that comes from the headers."""
        values = {name.lower(): value.strip() for name, value in headers}
        signed = sorted([name.lower() for name, _ in headers if "_" not in name])
        listed = ";".join(signed)
        made = _Headers(
            head=f"{ALGORITHM} Access={self.access_key}, SignedHeaders={listed}, Signature=",
            lines="\n" + "".join([f"{name}:{values[name]}\n" for name in signed]) + f"\n{listed}\n",
            date=values["x-sdk-date"],
            content_hash=values.get("x-sdk-content-sha256", ""),
        )
        self.last = (headers, made)
        return made

    def __repr__(self) -> str:
        return "SigningKey(***)"


def authorization(
    key: SigningKey,
    method: str,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    body: bytes = b"",
) -> str:
    """Give the value of the ``Authorization`` header.

    All headers given are signed, but those with a ``_`` in their name, which gateways drop. ``Host`` and ``X-Sdk-Date``
    must be among them. For a body that is neither JSON nor BSON the vendor's client sets ``X-Sdk-Content-Sha256:
    UNSIGNED-PAYLOAD``; whatever is given there stands for the body's hash.

    Args:
        key: Whose signature.
        method: The HTTP method.
        path: The URL's path as on the wire, percent-encoded.
        params: The query as pairs of plain text, in any order; a name may recur.
        headers: What is sent, in plain text.
        body: The bytes to send.

    Raises:
        KeyError: There is no ``X-Sdk-Date`` among the headers.
    """
    given, last = tuple(headers.items()), key.last
    names = last[1] if last is not None and last[0] == given else key.names(given)
    content = _hash(names.content_hash, body) if body else _EMPTY_BODY
    canonical = f"{_begin(method, path, params)}{names.lines}{content}"
    return names.head + key.sign(names.date, canonical)


def signature(
    key: SigningKey,
    method: str,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
    body: bytes = b"",
) -> str:
    """Give the signature over the headers named, in hexadecimal: what a verifier recomputes.

    Args:
        key: Whose signature.
        method: As ``authorization``.
        path: As ``authorization``.
        params: As ``authorization``.
        headers: Lower-case name to value; more than the signed ones may be there.
        signed: Lower-case names, in the order in which ``SignedHeaders`` lists them.
        body: As ``authorization``.

    Raises:
        KeyError: A signed header, or ``x-sdk-date``, is missing.
    """
    return key.sign(headers["x-sdk-date"].strip(), canonical_request(method, path, params, headers, signed, body))


def canonical_request(
    method: str,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
    body: bytes,
) -> str:
    """Give the text whose hash is signed; arguments as ``signature``."""
    lines = "".join([f"{name}:{headers[name].strip()}\n" for name in signed])
    content = _hash(headers.get("x-sdk-content-sha256", "").strip(), body)
    return f"{_begin(method, path, params)}\n{lines}\n{';'.join(signed)}\n{content}"


def _begin(method: str, path: str, params: Iterable[tuple[str, str]]) -> str:
    plain_path = path if _PLAIN_PATH.fullmatch(path) else quote(unquote(path), safe="-_.~/")
    if plain_path[-1:] != "/":
        plain_path += "/"
    return f"{method.upper()}\n{plain_path}\n{encode_query(sorted(params)) if params else ''}"


def _hash(given: str, body: bytes) -> str:
    if not body:
        return _EMPTY_BODY
    return given or hashlib.sha256(body).hexdigest()


@attrs.frozen(repr=False)
class Proof:
    """What an ``Authorization`` header claims."""

    access_key: str
    signed: tuple[str, ...]
    signature: str

    @classmethod
    def parse(cls, text: str, /) -> Self | None:
        """Read an ``Authorization`` header, or give None where it is not of this algorithm."""
        match = _AUTHORIZATION.fullmatch(text.strip())
        return match and cls(match[1], tuple(match[2].lower().split(";")), match[3])

    def __repr__(self) -> str:
        return "Proof(***)"
