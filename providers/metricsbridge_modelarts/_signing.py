"""The request signature of Huawei Cloud's API gateway, ``SDK-HMAC-SHA256``: pure, no clock, no I/O.

Source: API Gateway user guide, AK/SK signing; checked against the signer of ``huaweicloudsdkcore``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, unquote

import attrs

from metricsbridge.provider_kit import encode_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ALGORITHM: Final = "SDK-HMAC-SHA256"
DATE_HEADER: Final = "X-Sdk-Date"
DATE_FORMAT: Final = "%Y%m%dT%H%M%SZ"
"""How the date header writes an instant, in UTC."""

_EMPTY_BODY: Final = hashlib.sha256(b"").hexdigest()
_AUTHORIZATION = re.compile(ALGORITHM + r" Access=([^,]*), ?SignedHeaders=([^,]*), ?Signature=([^,]*)")


@attrs.frozen(repr=False, eq=False)
class SigningKey:
    """A pair of access key and secret key, made ready once so that each signature is cheap; it never shows itself."""

    access_key: str
    _keyed: hmac.HMAC

    @classmethod
    def of(cls, access_key: str, secret_key: str, /) -> Self:
        """Make the key; the secret is not kept but as the state of an HMAC."""
        return cls(access_key, hmac.new(secret_key.encode(), digestmod="sha256"))

    def sign(self, text: str, /) -> str:
        """Give the HMAC-SHA256 of a text, in hexadecimal."""
        mac = self._keyed.copy()
        mac.update(text.encode())
        return mac.hexdigest()

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
    values = {name.lower(): value for name, value in headers.items()}
    signed = sorted([name.lower() for name in headers if "_" not in name])
    return (
        f"{ALGORITHM} Access={key.access_key}, SignedHeaders={';'.join(signed)}, "
        f"Signature={signature(key, method, path, params, values, signed, body)}"
    )


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
    canonical = canonical_request(method, path, params, headers, signed, body)
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    return key.sign(f"{ALGORITHM}\n{headers['x-sdk-date'].strip()}\n{digest}")


def canonical_request(
    method: str,
    path: str,
    params: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
    body: bytes,
) -> str:
    """Give the text whose hash is signed; arguments as ``signature``."""
    plain_path = quote(unquote(path), safe="-_.~/")
    if plain_path[-1:] != "/":
        plain_path += "/"
    query = encode_query(sorted(params)) if params else ""
    lines = "".join([f"{name}:{headers[name].strip()}\n" for name in signed])
    content = _hash(headers, body) if body else _EMPTY_BODY
    return f"{method.upper()}\n{plain_path}\n{query}\n{lines}\n{';'.join(signed)}\n{content}"


def _hash(headers: Mapping[str, str], body: bytes) -> str:
    given = headers.get("x-sdk-content-sha256", "").strip()
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
