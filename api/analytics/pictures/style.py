"""How pictures look: sizes in pixels, calm colours that the colour-blind can tell apart."""

WIDTH = 880.0
MARGIN = 28.0

TITLE = 18.0
TEXT = 12.5
SMALL = 11.0

PAPER = "#ffffff"
INK = "#1f2733"
FAINT = "#66707f"
GRID = "#e6e9ee"
AXIS = "#a9b1bd"
GHOST = "#e3ebf4"
LOSS = "#a8442a"

SERIES = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#bbbbbb")
"""Paul Tol's *bright* scheme (SRON/EPS/TN/09-002), whose colours stay apart in the common kinds of colour-blindness."""
ON_SERIES = (PAPER, INK, PAPER, PAPER, INK, INK, INK)
"""For what is written on them."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4")
"""A line is told by its dashes, too."""

FONTS = "Roboto, 'Noto Sans', 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
WIDE_FONTS = (
    "'Noto Sans CJK SC', 'Noto Sans SC', 'Source Han Sans SC', 'PingFang SC', 'Microsoft YaHei', "
    "'WenQuanYi Micro Hei', Roboto, sans-serif"
)
"""For Chinese, Japanese and Korean, so that a viewer does not look for each character by itself."""


def shade(share: float) -> str:
    """A colour from nearly white (0) to dark blue (1)."""
    share = min(max(share, 0.0), 1.0)
    steps = ((247, 250, 253), (158, 195, 227), (68, 119, 170), (22, 56, 98))
    place = share * (len(steps) - 1)
    low = min(int(place), len(steps) - 2)
    parts = (round(a + (b - a) * (place - low)) for a, b in zip(steps[low], steps[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)
