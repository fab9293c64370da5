"""The three trips on a year of real flights, from training to a skew report, told while they happen.

Everything it makes lies in one folder, and its exit status says whether all of it held.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_flights.airflow_runner import AirflowRunner
from tidegate_flights.data import Flights, read_flights
from tidegate_flights.engine import (
    Addresses,
    EngineProcess,
    count_primary_rows,
    version_states,
    wait_for_rows,
    wait_until_settled,
)
from tidegate_flights.folders import Folders
from tidegate_flights.hub import ADDRESS, HubProcess
from tidegate_flights.options import DemoOptions
from tidegate_flights.prepare import prepare
from tidegate_flights.releases import DagRunner, Refusal, Releases, dag_file
from tidegate_flights.skew_days import SkewDays, SkewReports, report_skew
from tidegate_flights.story import Story
from tidegate_flights.summary import LogCounts, Summary
from tidegate_flights.traffic import ReplayResult, TrafficMaker
from tidegate_serving.contract.errors import TidegateError

if TYPE_CHECKING:
    from rich.console import Console

_FIRST_ROWS = 1000
"""So much traffic is in the log before the next version is held against it."""


def run_demo(
    options: DemoOptions,
    *,
    console: Console | None = None,
    read: Callable[[], Flights] = read_flights,
    runner: AbstractContextManager[DagRunner] | None = None,
) -> int:
    """Runs all of it; 0 if everything held, else 1. No process of the demo stays; with `options.keep` it goes on,
    and so do engine and hub, until SIGINT or SIGTERM comes.

    `read` gives the flights and `runner` runs the release's DAG; tests pass fewer flights and no Airflow. Raises
    InvalidInput for a folder that holds something else.
    """
    from rich.console import Console

    story = Story(console or Console(highlight=False))
    folders = Folders(options.folder.absolute())
    folders.clean()
    try:
        with _ending_on_sigterm(), ExitStack() as stack:
            dags = stack.enter_context(runner or AirflowRunner(folders.airflow, dag_file().parent))
            return _Demo(options, folders, story, stack).run(read, dags)
    except TidegateError as error:
        story.bad(error.message)
        return 1


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the demo as an exception does, so that the processes it started are ended too."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class _Session:
    """The engine, the hub, and what talks to them."""

    engine: EngineProcess
    hub: HubProcess
    addresses: Addresses
    releases: Releases
    traffic: TrafficMaker


class _Demo:
    """The seven steps in order; whatever they start, `stack` ends."""

    def __init__(self, options: DemoOptions, folders: Folders, story: Story, stack: ExitStack) -> None:
        self._options, self._folders, self._story, self._stack = options, folders, story, stack

    def run(self, read: Callable[[], Flights], dags: DagRunner) -> int:
        """The exit status."""
        options, story = self._options, self._story
        story.step(1, "Train on January to May and publish to a model repository")
        prepared = prepare(options, read(), self._folders, story)
        self._stack.callback(prepared.answers.kill)

        story.step(2, "Start the engine and the hub, and release version 1 through Airflow")
        session = self._start_engine(dags)
        control = session.addresses.control
        session.releases.release(1)

        story.step(3, "Replay the flights of June from a client process, over gRPC and REST")
        prepared.answers.wait()
        june = session.traffic.june(options.corrupt_answers)
        self._stack.callback(june.kill)
        june_begun = datetime.now(UTC)
        june.start()
        logged = wait_for_rows(control, _FIRST_ROWS).written
        story.good(f"{prepared.june_rows:,} flights go round, every answer is compared; {logged:,} are logged so far")

        story.step(4, "Release version 2 against version 1")
        session.releases.release(2)
        canary = session.releases.canary(2)
        story.good(
            f"canary: {canary['compared']} of {canary['shadowed']} shadowed answers compared with those of version 1"
        )

        story.step(5, f"Try {'versions 3, 4 and 5' if options.mistake is None else 'version 3'}")
        refused = session.releases.try_candidates(options.candidates, prepared.titles)

        story.step(6, "Look for skew in the inference log")
        sent = june.stop()
        reports = SkewReports(self._folders, session.engine.log_root, control, session.hub)
        # June goes round, and a row that is sent twice would be told as repeated.
        last_round = max(june_begun, datetime.now(UTC) - june.one_round(prepared.june_rows))
        days = report_skew(reports, session.traffic, options, last_round, story)

        story.step(7, "Sum up")
        status = self._sum_up(session, canary, refused, days, (sent, *days.replays))
        return self._stay(session, status) if options.keep else status

    def _start_engine(self, dags: DagRunner) -> _Session:
        engine = EngineProcess(self._folders.engine, self._folders.repository, self._folders.public_key)
        self._stack.callback(engine.kill)
        addresses = engine.start()
        self._story.good(f"the engine serves gRPC at {addresses.grpc} and REST at {addresses.rest}")
        hub = HubProcess(self._folders, addresses.control)
        self._stack.callback(hub.kill)
        hub.start()
        releases = Releases(dags, self._folders, addresses.control, self._story, hub.released)
        return _Session(engine, hub, addresses, releases, TrafficMaker(self._folders, addresses))

    def _stay(self, session: _Session, status: int) -> int:
        """Waits for SIGINT or SIGTERM, and ends engine and hub in order."""
        try:
            while True:
                signal.pause()
        except (KeyboardInterrupt, SystemExit):
            self._story.note("engine and hub end")
        ended = session.hub.stop(), session.engine.stop()
        return status or int(ended != (0, 0))

    def _sum_up(
        self,
        session: _Session,
        canary: Mapping[str, Any],
        refused: Sequence[Refusal],
        days: SkewDays,
        replays: Sequence[ReplayResult],
    ) -> int:
        counters = wait_until_settled(session.addresses.control)
        versions = version_states(session.addresses.control)
        sentences = {refusal.version: refusal.sentence for refusal in refused}
        unseen = session.hub.problems(session.hub.pages(sentences, self._options.skew_column))
        status = None if self._options.keep else session.engine.stop()
        counted = count_primary_rows(session.engine.log_root)
        log = LogCounts(counters.eligible, counters.written, counters.dropped, counted, session.engine.log_root)
        summary = Summary(
            options=self._options,
            seconds=self._story.seconds,
            versions=versions,
            replays=replays,
            canary=canary,
            refused=refused,
            clean_day=days.clean,
            wrong_day=days.wrong,
            log=log,
            report=days.june,
            engine_status=status,
            hub=session.hub.address,
            hub_problems=unseen,
        )
        summary.write(self._folders.summary)
        if not self._options.keep:
            session.hub.stop()
        return tell(summary, self._folders, session.addresses, self._story)


def tell(summary: Summary, folders: Folders, addresses: Addresses, story: Story) -> int:
    """Prints what the summary says and returns the exit status."""
    found = summary.to_dict()
    requests, log = found["requests"], found["log"]
    story.good(
        f"{requests['grpc']:,} requests over gRPC and {requests['rest']:,} over REST, {requests['failed']} failed, "
        f"{requests['wrong']} wrong, median {requests['p50_ms']} ms, 99 % within {requests['p99_ms']} ms"
    )
    answered = ", ".join(f"version {version}: {n:,}" for version, n in requests["by_version"].items())
    story.good(f"answered by {answered}")
    story.good(f"{log['written']:,} of {log['eligible']:,} rows logged under {log['path']}")
    story.good(f"skew report: {found['report']}")
    for problem in summary.problems():
        story.bad(problem)
    words = "all of it holds" if found["ok"] else "not all of it holds"
    (story.good if found["ok"] else story.bad)(f"{words}: {folders.summary}")
    if summary.options.keep:
        endpoints = f"gRPC {addresses.grpc}, REST {addresses.rest}, control {addresses.control}"
        story.note(f"the engine stays up ({endpoints}), and so does the hub, until Ctrl-C")
        story.good(f"look at all of this in the hub: {summary.hub}")
    else:
        story.good(
            f"look at all of this in the hub: {_command()} hub --config {folders.hub_config}, then open {ADDRESS}"
        )
        story.note("the demo's engine has ended, and the hub says so; `tidegate demo --keep` leaves both running")
    return 0 if found["ok"] else 1


def _command() -> str:
    """`tidegate` as the reader's shell finds it: by its path where no environment was activated."""
    return "tidegate" if shutil.which("tidegate") else str(Path(sys.executable).with_name("tidegate"))
