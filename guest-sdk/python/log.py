"""Lines for the operator's log."""

from wit_world.imports import log as _log


def debug(text: str) -> None:
    _log.write(_log.Level.DEBUG, str(text))


def info(text: str) -> None:
    _log.write(_log.Level.INFO, str(text))


def warn(text: str) -> None:
    _log.write(_log.Level.WARN, str(text))


def error(text: str) -> None:
    _log.write(_log.Level.ERROR, str(text))
