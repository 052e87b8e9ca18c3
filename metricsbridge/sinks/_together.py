"""Several observers in the place of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricsbridge.observer import guarded

if TYPE_CHECKING:
    from metricsbridge.observer import CallEvent, Observer, RequestEvent


class Together:
    """Tells each of its observers, in their order, whatever the others raise."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = tuple([guarded(observer) for observer in observers])

    def on_request(self, event: RequestEvent, /) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.on_request(event)

    def on_call(self, event: CallEvent, /) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.on_call(event)
