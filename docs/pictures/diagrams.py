"""The diagrams of the explanations, as SVG with little in it: the page that shows one gives it its colors."""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "images"
STYLE = """
.diagram { --ink: #1f2328; --soft: #59636e; --line: #8b949e; --fill: #f1f3f6; --hot: #5b2a86; --tint: #efe6f7 }
@media (prefers-color-scheme: dark) {
  .diagram { --ink: #e6edf3; --soft: #adb6c0; --line: #768390; --fill: #22272e; --hot: #c9a6ea; --tint: #3a2a4d }
}
.diagram text { font: 15px system-ui, sans-serif; fill: var(--ink); text-anchor: middle }
.diagram .soft { font-size: 13px; fill: var(--soft) }
.diagram .code { font-family: ui-monospace, monospace; font-size: 14px }
.diagram .left { text-anchor: start }
.diagram rect { fill: var(--fill); stroke: var(--line); rx: 6px }
.diagram rect.hot { fill: var(--tint); stroke: var(--hot); stroke-width: 2 }
.diagram path { fill: none; stroke: var(--line); stroke-width: 1.6 }
.diagram path.hot { stroke: var(--hot); stroke-width: 4 }
.diagram path.thick { stroke-width: 4 }
.diagram path.dashed { stroke: var(--hot); stroke-dasharray: 5 4 }
.diagram path.tip { fill: var(--line); stroke: none }
""".strip()


class Diagram:
    """A drawing to which boxes, arrows and words are added."""

    def __init__(self, name: str, width: int, height: int) -> None:
        self.name, self.size = name, (width, height)
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: str = "") -> None:
        """A box with lines of words: the first as they are, the others small; `code` with a leading backtick."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{kind}"/>')
        first = y + height / 2 + 5 - 10 * (len(lines) - 1)
        for number, line in enumerate(lines):
            style = "code" if line.startswith("`") else "soft" if number else ""
            self.text(x + width / 2, first + 20 * number, line.strip("`"), style)

    def line(self, *points: tuple[float, float], kind: str = "") -> None:
        moves = " L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="M{moves}" class="{kind}"/>')

    def arrow(self, *points: tuple[float, float], kind: str = "") -> None:
        """A line with a tip at its end, which it reaches from the left or from above."""
        self.line(*points, kind=kind)
        (x0, y0), (x, y) = points[-2:]
        back, side = ((-9, 0), (0, 4.5)) if x > x0 else ((9, 0), (0, 4.5)) if x < x0 else ((0, -9), (4.5, 0))
        if x == x0 and y < y0:
            back = 0, 9
        corners = [(x + back[0] + way * side[0], y + back[1] + way * side[1]) for way in (1, -1)]
        self.parts.append(f'<path class="tip" d="M{x:g} {y:g} L{" L".join(f"{a:g} {b:g}" for a, b in corners)} Z"/>')

    def write(self) -> None:
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" viewBox="0 0 {width} {height}" width="{width}">'
        )
        (IMAGES / f"{self.name}.svg").write_text(
            "\n".join([head, f"<style>{STYLE}</style>", *self.parts, "</svg>", ""])
        )


def one_idea() -> None:
    """What goes into an index function, and who calls it."""
    drawn = Diagram("one-idea", 720, 290)
    inputs = [
        ("what the player remembers", "its pulls and rewards: n, s"),
        ("what is shared of the arm", "all players': N, S"),
        ("the policy's constants", "such as ε"),
    ]
    users = ["the simulator", "a GPU", "learner and service", "exact propensities"]
    for number, lines in enumerate(inputs):
        y = 26 + 86 * number
        drawn.box(5, y, 225, 64, *lines)
        drawn.arrow((230, y + 32), (252, y + 32), (252, 144), (275, 144))
    said = ("index", "one plain function,", "in the policy's own file", "→ center, scale")
    drawn.box(275, 92, 185, 104, *said, kind="hot")
    for number, words in enumerate(users):
        y = 18 + 66 * number
        drawn.arrow((460, 144), (490, 144), (490, y + 25), (520, y + 25))
        drawn.box(520, y, 190, 50, words)
    drawn.text(367, 232, "pull the arm with the largest", "soft")
    drawn.text(367, 254, "center + scale · Z", "code")
    drawn.write()


def randomness() -> None:
    """How a random number gets its name."""
    drawn = Diagram("randomness", 720, 300)
    drawn.text(10, 30, "The key names a run", "left")
    for number, words in enumerate(["seed", "the problem", "replication"]):
        drawn.box(10 + 128 * number, 44, 118, 40, words)
    drawn.text(10, 130, "The counter names a draw in it", "left")
    for number, words in enumerate(["purpose", "round", "player", "block"]):
        drawn.box(10 + 95 * number, 144, 87, 40, words)
    drawn.box(470, 76, 110, 76, "Philox", "a fixed mixing", "of bits", kind="hot")
    drawn.arrow((384, 64), (428, 64), (428, 100), (470, 100))
    drawn.arrow((382, 164), (428, 164), (428, 128), (470, 128))
    drawn.arrow((580, 114), (608, 114))
    drawn.box(608, 84, 102, 60, "four words", "of 32 bits")
    drawn.text(10, 226, "So every draw stands at a fixed place, and is computed when it is wanted:", "left soft")
    for number in range(14):
        chosen = number in (3, 4, 5, 11)
        drawn.box(10 + 50 * number, 242, 44, 34, str(number + 1), kind="hot" if chosen else "")
    drawn.write()


def lazy_pick() -> None:
    """Two decisions among five arms: one that bounds decide, and one that they leave open."""
    drawn = Diagram("lazy-pick", 720, 330)
    sides = [
        ("999 of 1,000 decisions: bounds decide", [(60, 40), (120, 50), (30, 36), (245, 46), (150, 44)]),
        ("1 of 1,000: two arms are drawn in full", [(60, 40), (205, 50), (30, 36), (228, 46), (150, 44)]),
    ]
    for side, (title, bounds) in enumerate(sides):
        left = 20 + 360 * side
        floor = max(low for low, _ in bounds)
        drawn.text(left + 160, 28, title)
        drawn.line((left + floor, 48), (left + floor, 262), kind="dashed")
        for number, (low, width) in enumerate(bounds):
            y = 72 + 42 * number
            reaches = low + width >= floor
            drawn.text(left - 8, y + 5, "abcde"[number], "left")
            drawn.line((left + low, y), (left + low + width, y), kind="hot" if reaches else "thick")
            if reaches and side:
                x = left + low + (22 if number == 1 else 31)
                drawn.line((x, y - 10), (x, y + 10))
        drawn.text(left + floor, 284, "the largest lower bound", "soft")
    drawn.text(
        360,
        318,
        "Each line is an index, as far as 16 bits of its draw tell it (the lines are drawn much too wide).",
        "soft",
    )
    drawn.write()


def log() -> None:
    """The rows of a log, the chain of their digests, and what follows from them."""
    drawn = Diagram("log", 720, 330)
    rows = [
        ("set-up", "policy, arms"),
        ("decision", "coupon for Lyon"),
        ("decision", "coupon for Nice"),
        ("reward", "Lyon's: 1"),
        ("change", "Lille joins"),
    ]
    for number, lines in enumerate(rows):
        x = 10 + 143 * number
        drawn.box(x, 44, 128, 64, *lines, kind="hot")
        drawn.box(x + 19, 122, 90, 30, "digest")
        drawn.line((x + 64, 108), (x + 64, 122))
        if number:
            drawn.arrow((x - 34, 137), (x + 19, 137))
    drawn.text(
        10, 28, "The log: rows are only ever added, and each digest covers its row and the digest before it", "left"
    )
    drawn.arrow((360, 152), (360, 196))
    drawn.text(372, 180, "replay", "left soft")
    drawn.box(250, 196, 220, 50, "what the learner knows", "a cache: it can be made again")
    uses = ["the next decision", "dashboard", "diagnosis, evaluation", "conclusion"]
    for number, words in enumerate(uses):
        x = 5 + 180 * number
        drawn.arrow((360, 246), (360, 264), (x + 85, 264), (x + 85, 284))
        drawn.box(x, 284, 170, 36, words)
    drawn.write()


for draw in (one_idea, randomness, lazy_pick, log):
    draw()
