"""What controllers of the draft length gain; a guide says 8 % over N = 5.

1. A map: equal acceptance everywhere, by acceptance and by what a draft costs.
2. Published sets: EAGLE for Llama-3.1-8B on four datasets of SpecDecode-Bench (arXiv:2601.11580),
   its tokens a round, its spread between requests, its step times on an H100.
3. Profiles given on the command line, such as one of ``capplan profile --demo``.
4. With ``--demo FILE.npz``: the demo target with its trained draft, traced into FILE first if it
   is not there (minutes on a CPU).

Run: ``python benchmarks/controllers.py [--demo FILE.npz] [--csv FILE.csv] [PROFILE ...]``
``--csv`` keeps what the guide's rule gains in every replay; ``capplan claims`` reads such a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from controllers_demo_pair import demo_pair
from controllers_published import acceptance_map, published
from controllers_replayed import Replayed, keep

from capplan.api.replayed_controllers import SimulationWishes
from capplan.api.simulation import simulate
from capplan.estimate.controller_gains import Order
from capplan.reporting.simulation_text import render_simulation

ORDERS: tuple[Order, ...] = ("mixed", "by-task", "hotter")


def profiles(paths: Sequence[str]) -> Iterator[Replayed]:
    """Print every controller on the traces of profiles, in three orders."""
    for path in paths:
        for order in ORDERS:
            print()
            found = simulate(path, SimulationWishes(order=order))
            print(render_simulation(found))
            pairing = f"{found.target} with {found.draft}"
            setting = f"{found.load}, {order}"
            best = found.best_fixed or 0
            yield Replayed(pairing, setting, found.requests, best, found.controllers)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profiles", nargs="*", help="of one pairing each")
    parser.add_argument("--demo", type=Path, metavar="FILE.npz", help="traces of the demo pair")
    parser.add_argument("--csv", type=Path, metavar="FILE.csv", help="keep the guide's gains")
    parser.add_argument("--as-of", default="", metavar="YYYY-MM-DD", help="date in that file")
    return parser.parse_args()


def main() -> None:
    """Print the map, the published sets, the demo pair and the profiles given."""
    given = arguments()
    acceptance_map()
    print()
    replays = list(published())
    if given.demo:
        print()
        replays += demo_pair(given.demo)
    replays += profiles(given.profiles)
    if given.csv:
        keep(replays, given.csv, given.as_of)


if __name__ == "__main__":
    main()
