"""posse demo: the service at work, with made-up shops."""

from __future__ import annotations

import argparse

PLACE = 52
RATE = 30.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the demonstration."""
    demo = commands.add_parser(
        "demo",
        help="show the decision service at work, with made-up shops, in the browser",
        description="Run the decision service on a free port of this machine, send it the passers-by of a made-up "
        "chain of shops, and open the dashboard. Twelve shops try five windows; one shop is unlike the others. Ctrl-C "
        "stops it. Nothing is kept unless --database says where.",
    )
    demo.add_argument("--rate", type=float, default=RATE, metavar="N", help=f"passers-by a second (default: {RATE:g})")
    demo.add_argument("--database", metavar="URL", help="keep everything in this database (default: keep nothing)")
    demo.add_argument("--no-browser", action="store_true", help="only print where the dashboard is")
    demo.set_defaults(run=_demo, extra="service")


def _demo(options: argparse.Namespace) -> None:
    import contextlib
    import signal
    import tempfile
    import webbrowser
    from pathlib import Path

    from posse.service import demo

    def announce(url: str) -> None:
        print(f"posse: the dashboard is at {url}/; Ctrl-C stops", flush=True)
        if not options.no_browser:
            webbrowser.open(f"{url}/")

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends it as Ctrl-C does
    with tempfile.TemporaryDirectory(prefix="posse-demo-") as folder:
        database = options.database or f"sqlite:///{Path(folder) / 'demo.db'}"
        with contextlib.suppress(KeyboardInterrupt):
            demo.run(database, options.rate, announce)
    print("posse: the demonstration has ended", flush=True)
