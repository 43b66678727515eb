"""The benchmark's figures as a table for people."""

from __future__ import annotations

from posse.bench.measure import BARS, LEARNER_BARS, SUBPAR_COUNTS, Report
from posse.bench.setting import ARMS, PLAYERS


def render(report: Report) -> str:
    """The report as text; a figure that misses its bar is marked."""
    machine = report.machine
    lines = [
        f"posse {machine['posse']}, Python {machine['python']}, NumPy {machine['numpy']}, numba {machine['numba']}, "
        f"{machine['machine']}, {machine['cores']} cores",
        "",
        f"One thread, M = {PLAYERS}, K = {ARMS}, mean over |I_5ε| = {', '.join(map(str, SUBPAR_COUNTS))}. "
        f"NumPy's {ARMS} normal draws: {report.numpy_ns:.0f} ns. Random words alone: {report.floor_ns:.1f} ns.",
        "",
        f"{'policy':<24}{'ns a player-round':>18}{'of NumPy':>10}{'bar':>7}{'of floor':>10}",
    ]
    for row in report.policies:
        lines.append(
            f"{row['label']:<24}{row['ns']:>18.1f}{row['to_numpy']:>10.3f}{_bar(row['bar']):>7}{row['to_floor']:>10.1f}"
            + _mark(row["to_numpy"], row["bar"])
        )
    lines += ["", *_others(report), "", *_learner(report)]
    return "\n".join(lines)


def _bar(bar: float | None) -> str:
    return "" if bar is None else f"{bar:.3g}"


def _others(report: Report) -> list[str]:
    large = report.large
    rows = []
    if report.naive_speedup is None:
        rows.append(
            "speed-up over naive.py: not measured (runs in a checkout of the repository, beside tests/naive.py)"
        )
    else:
        bar = BARS["speed-up over naive.py"]
        rows.append(
            f"speed-up over naive.py: {report.naive_speedup:.0f} × (bar: at least {bar:.0f})"
            + _mark(bar, report.naive_speedup)
        )
    if report.two_threads is None:
        rows.append("two threads against one: not measured (a single core)")
    else:
        bar = BARS["two threads"]
        rows.append(
            f"two threads against one: {report.two_threads:.2f} × (bar: at least {bar})"
            + _mark(bar, report.two_threads)
        )
    for name, growth in report.doubling.items():
        rows.append(
            f"doubling {name}: {growth:.2f} × the time (bar: at most {BARS['doubling']})"
            + _mark(growth, BARS["doubling"])
        )
    rows.append(
        f"large, M = {large['players']:,}, K = {large['arms']}: {large['ns'] / 1000:.2f} µs a player-round, "
        f"{large['ns_a_draw']:.1f} ns a draw"
    )
    rows.append("peak memory: " + ", ".join(f"{mb:.0f} MB at {name}" for name, mb in report.memory_mb.items()))
    bar = BARS["start-up seconds"]
    rows.append(
        f"new process to first result, warm cache: {report.startup_seconds:.2f} s (bar: at most {bar})"
        + _mark(report.startup_seconds, bar)
    )
    if report.paper is not None:
        paper = report.paper
        rows.append(
            f"the paper's own evaluation, full size with figures and report: {paper['seconds']:.0f} s (bar: at most "
            f"{paper['allowed_seconds']:.0f} s = 1.3 × {paper['kernel_seconds']:.0f} s kernel time ÷ cores + 20 s), "
            f"peak memory {paper['peak_memory_mb']:.0f} MB" + _mark(paper["seconds"], paper["allowed_seconds"])
        )
    return rows


def _learner(report: Report) -> list[str]:
    learner = report.learner
    rows = [
        f"The learner, after {learner['past_decisions']:,} decisions (none where new): µs for a choose, with exact "
        "propensities, and an observe; MABWiser and river give none.",
        "",
        f"{'':<28}{'median':>8}{'99 %':>8}{'bar':>7}",
    ]
    for name, us in learner["pair_us"].items():
        bar = None if name in ("MABWiser", "river") else LEARNER_BARS["pair"]
        rows.append(f"{name:<28}{us:>8.1f}{learner['pair_us_99'][name]:>8.1f}{bar or '':>7}" + _mark(us, bar))
    if learner["not_installed"]:
        rows.append(f"not installed, so not measured: {', '.join(learner['not_installed'])} (make bench installs them)")
    for factor, us in learner["propensity_us"].items():
        rows.append(
            f"exact propensities of {ARMS} arms, scales within a factor of {float(factor):,.0f}: {us:.1f} µs "
            f"(bar: at most {LEARNER_BARS[factor]:.0f})" + _mark(us, LEARNER_BARS[factor])
        )
    return rows


def _mark(value: float, bar: float | None) -> str:
    return "  ← misses its bar" if bar is not None and value > bar else ""
