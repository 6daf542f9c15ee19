"""``python -m slrbook``: run the chapters of the book, regenerate its published results."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
import sys

from . import notebooks


def _execute(arguments: argparse.Namespace) -> int:
    known = {path.stem: path for path in notebooks.chapters()}
    unknown = [name for name in arguments.chapters if Path(name).stem not in known]
    if unknown:
        print(f"No such chapter: {', '.join(unknown)}. There are: {', '.join(known)}.",
              file=sys.stderr)
        return 2
    chosen = [known[Path(name).stem] for name in arguments.chapters] or list(known.values())
    stale = chosen if arguments.all else [path for path in chosen if notebooks.is_stale(path)]
    if arguments.check:
        if stale:
            print(f"Outputs are out of date: {', '.join(path.stem for path in stale)}. "
                  "Run `make execute` and commit the notebooks.", file=sys.stderr)
        return 1 if stale else 0
    if not stale:
        print(f"Chapters are up to date ({len(chosen)} checked).")
        return 0
    print(f"Running {len(stale)} of {len(chosen)} chapters.")
    failures = notebooks.execute(stale)
    for failure in failures:
        print(f"\nFAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def _data(arguments: argparse.Namespace) -> int:
    from . import published, studies  # imports torch

    known = {study.name: study for study in studies.STUDIES}
    unknown = [name for name in arguments.studies if name not in known]
    if unknown:
        print(f"No such result: {', '.join(unknown)}. There are: {', '.join(known)}.",
              file=sys.stderr)
        return 2
    with ExitStack() as cluster:
        if arguments.dask:
            from distributed import Client
            from joblib import parallel_config

            cluster.enter_context(Client(arguments.dask))
            cluster.enter_context(parallel_config(backend="dask"))
        for name in arguments.studies or known:
            done = published.regenerate(known[name], jobs=arguments.jobs)
            print(f"{name}: {'written' if done else 'up to date'}.")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m slrbook")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("execute", help="run the chapters whose outputs are out of date")
    run.add_argument("chapters", nargs="*", help="chapter names; all by default")
    run.add_argument("--all", action="store_true", help="run also those that are up to date")
    run.add_argument("--check", action="store_true", help="run nothing; exit 1 naming the stale")
    run.set_defaults(action=_execute)
    data = commands.add_parser("data", help="regenerate the published results; resumes")
    data.add_argument("studies", nargs="*", help="names of results; all by default")
    data.add_argument("--jobs", type=int, default=-1, help="processes; all cores by default")
    data.add_argument("--dask", metavar="ADDRESS", help="work on the cluster of this scheduler")
    data.set_defaults(action=_data)
    chosen = parser.parse_args(arguments)
    return chosen.action(chosen)


if __name__ == "__main__":
    sys.exit(main())
