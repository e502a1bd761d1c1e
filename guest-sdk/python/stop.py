"""Why an event gives no rows."""

import traceback

from wit_world.imports.types import Rejection


class Skip(Exception):
    """Not for this consumer. Counted, not kept."""


class Reject(Exception):
    """Broken: to the dead letters."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


def skip(why: str) -> Skip:
    """`raise skip("not a payment")`"""
    return Skip(why)


def reject(code: str, message: str) -> Reject:
    """`raise reject("bad-amount", "amount is negative")`; the code is a short word to filter dead letters by."""
    return Reject(code, message)


def rejection_of(error: Exception) -> Rejection:
    """What the host is told of an event whose function has raised: of this event alone."""
    if isinstance(error, Reject):
        return Rejection(error.code, _plain(str(error)))
    # The innermost place outside of the SDK is where the author has to look.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_SDK)]
    place = f" ({frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return Rejection("exception", _plain(f"{type(error).__name__}: {error}{place}"))


def _plain(text: str) -> str:
    """Half of a surrogate pair cannot cross to the host."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


_SDK = __file__.rsplit("/", 1)[0]
