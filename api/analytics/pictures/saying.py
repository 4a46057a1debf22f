"""Numbers as people read them."""

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def said(value: float | None, unit: str = "") -> str:
    """A number: `12,345`, `0.0123`; with the unit `%` a share (`34.5 %`), with `s` a length of time (`2 min 5 s`)."""
    if value is None:
        return "–"
    if unit == "%":
        return f"{_plain(round(value * 100, 1))} %"
    return _length(value) if unit == "s" else _plain(value)


def _plain(value: float) -> str:
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size >= 1e15 or (size < 1 and size != 0):
        return f"{sign}{size:.3g}"
    if size == int(size):
        return f"{sign}{int(size):,}"
    return sign + f"{size:,.2f}".rstrip("0").rstrip(".")


def _length(seconds: float) -> str:
    sign, size = ("−" if seconds < 0 else ""), abs(seconds)
    if size < 1:
        return f"{sign}{_plain(round(size * 1_000, 1))} ms" if size else "0 s"
    if size < _MINUTE:
        return f"{sign}{_plain(round(size, 1))} s"
    if size >= 10_000 * _DAY:
        return f"{sign}{_plain(round(size / _DAY))} d"
    for large, small, names in ((_DAY, _HOUR, ("d", "h")), (_HOUR, _MINUTE, ("h", "min")), (_MINUTE, 1, ("min", "s"))):
        parts = round(size / small)
        if parts * small >= large:
            whole, rest = divmod(parts, large // small)
            return f"{sign}{whole} {names[0]} {rest} {names[1]}" if rest else f"{sign}{whole} {names[0]}"
    return f"{sign}{_plain(round(size))} s"
