import copy
import hmac
import logging
import pickle
import traceback

import attrs
import cattrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from metricsbridge.protocols import Credential
from metricsbridge.secret import HmacKey, Secret

HIDDEN = "hunter2-hunter2"


@attrs.frozen
class Settings:
    region: str
    key: Secret


@attrs.frozen(repr=False)
class Token(Credential):
    token: Secret


SHOWN = {
    "repr": repr,
    "str": str,
    "f-string": lambda value: f"{value}",
    "f-string with !r": lambda value: f"{value!r}",
    "f-string with a width": lambda value: f"{value:>20}",
    "percent": lambda value: "%s %r" % (value, value),  # noqa: UP031  # the old way is what is tested
    "format": lambda value: "{0} {0!r}".format(value),  # noqa: UP032  # likewise
    "inside a list": lambda value: repr([value, {"key": value}]),
    "inside an attrs class": lambda value: f"{Settings('r', value)} {attrs.asdict(Settings('r', value))}",
    "unstructured": lambda value: repr(cattrs.unstructure(Settings("r", value))),
    "in a credential": lambda value: f"{Token(value)!r} {Token(value)}",
    "pretty-printed": lambda value: pretty_repr([value, Settings("r", value), Token(value)]),
    "its attributes": lambda value: repr(getattr(value, "__dict__", None)) + repr(dir(value)),
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN.keys())
def test_a_secret_never_shows_itself(show):
    assert HIDDEN not in show(Secret(HIDDEN))


@given(st.text(min_size=1).filter(lambda text: text not in "Secret('***')"))
def test_no_secret_shows_itself(text):
    secret = Secret(text)
    assert (repr(secret), str(secret), f"{secret}") == ("Secret('***')", "***", "***")


def test_logging_does_not_show_it(caplog):
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("metricsbridge").warning("%s %r %s", Secret(HIDDEN), Secret(HIDDEN), {"key": Secret(HIDDEN)})
    assert caplog.messages == ["*** Secret('***') {'key': Secret('***')}"]


def test_a_traceback_with_its_locals_does_not_show_it():
    def fail(secret: Secret) -> None:
        raise RuntimeError(f"{secret} can't be used")

    with pytest.raises(RuntimeError) as caught:
        fail(Secret(HIDDEN))
    summary = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "Secret('***')" in "".join(summary.format())
    assert HIDDEN not in str([frame.locals for frame in summary.stack])


def test_it_is_revealed_on_request():
    assert Secret(HIDDEN).reveal() == HIDDEN


def test_secrets_are_compared_by_their_text_and_equal_no_plain_text():
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_an_empty_secret_is_false():
    assert not Secret("")
    assert Secret("a")
    assert len(Secret("abc")) == 3


def test_a_secret_is_never_changed():
    secret = Secret("a")
    with pytest.raises(AttributeError, match="never changed"):
        secret._value = "b"
    with pytest.raises(AttributeError, match="never changed"):
        del secret._value
    with pytest.raises(AttributeError):
        secret.other = "b"
    assert secret.reveal() == "a"


@pytest.mark.parametrize("clone", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy])
def test_a_copy_and_a_pickle_keep_the_text_for_another_process(clone):
    assert clone(Settings("r", Secret(HIDDEN))) == Settings("r", Secret(HIDDEN))


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_a_key_signs_as_the_standard_library_does(key, message):
    signer = HmacKey(key)
    for text in (message, b"", message):
        assert signer.sign(text) == hmac.digest(key, text, "sha256").hex()


@pytest.mark.parametrize("size", [63, 64, 65, 1000])
def test_keys_about_as_long_as_a_block_sign_right(size):
    assert HmacKey(b"k" * size).sign(b"text") == hmac.digest(b"k" * size, b"text", "sha256").hex()


def test_a_key_that_signs_never_shows_itself():
    key = HmacKey(HIDDEN.encode())
    shown = f"{key} {key!r} {[key]} {attrs.asdict(Settings('r', key))} {dir(key)} {pretty_repr(key)}"
    assert HIDDEN not in shown
    assert repr(key) == "HmacKey(***)"
