"""The engines that a canary is tried on, one or a group: told together, and watched for one that goes away or comes.

Of an engine that went away the log counts as far as it was written. It is waited for; until it is back nothing grows
and nothing passes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tidegate_operators.steps.away import is_away, outlast
from tidegate_operators.steps.engine_group import Outcomes, engines_of, on_each, reconcile
from tidegate_operators.steps.log_copy import LogCopy, is_logged_here
from tidegate_operators.steps.superseded import require_live
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import DeadlinePassed, FailedPrecondition, NotFound, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_serving.inference_log.joined import joined_log
from tidegate_serving.inference_log.reader import logged_until
from tidegate_validation.canary.judgement import CanaryResult

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Missing:
    """Engines whose part is missing, as a sentence, empty for none; `awaited` where one of them is waited for."""

    sentence: str = ""
    awaited: bool = False

    def told_in(self, result: CanaryResult) -> CanaryResult:
        """The result with the sentence; nothing passes while an engine is waited for."""
        if not self.sentence:
            return result
        waits = self.awaited and result.outcome is Outcome.PASS
        outcome = Outcome.INCONCLUSIVE if waits else result.outcome
        return replace(result, outcome=outcome, sentence=f"{result.sentence} {self.sentence}")


@dataclass(slots=True)
class CanaryGroup:
    """Every engine that `control` names; with `resumed` a canary goes on that began when all of them answered."""

    control: str | EngineConnection
    resumed: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _logs: dict[str, str] = field(default_factory=dict)
    _alike: set[str] = field(default_factory=set)
    _away: dict[str, datetime] = field(default_factory=dict)
    _copy: LogCopy | None = None
    _waited: bool = False

    def tell(self, call: Callable[[ControlClient], T], what: str = "") -> Sequence[T]:
        """What each engine says that answers; the others are told once they are back. Where none answers they are
        waited for, once; Unavailable if that does not help. Raises the error of one that refuses."""
        outcomes = self._outlast(lambda: _some_answer(self._on_each(call), what))
        for engine, error in outcomes.failed:
            _log.warning("engine %s was not told, `tidegate reconcile` does that later: %s", engine, error.message)
        return [said for _, said in outcomes.done]

    def begin(self, identity: ServableId) -> tuple[DesiredState, int | None, Path | None]:
        """What is desired; the version that ordinary requests get, None for none; the folder of all logs, None where
        they keep none.

        Unavailable naming engines that do not answer, unless the canary is resumed; FailedPrecondition naming those in
        which the version is not live, or that serve different versions.
        """

        def look(client: ControlClient) -> tuple[DesiredState, int | None, str]:
            status = client.status(identity.name)
            found = status.servable(identity.name) or ServableStatus(identity.name, DesiredState(identity.name))
            require_live(found, identity.version, "before its canary")
            return found.desired, found.clients_get, status.log_path

        what = f"the canary of {identity} has not begun"
        if self.resumed:
            outcomes = self._outlast(lambda: _some_answer(self._on_each(look), what))
        else:
            outcomes = self._on_each(look)
            outcomes.all(what)
        seen = outcomes.done
        self._logs = {str(engine): path for engine, (_, _, path) in seen}
        self._alike = set(self._logs)
        self._away = {str(engine): self.clock() for engine, _ in outcomes.failed}
        serving = {str(engine): ordinary for engine, (_, ordinary, _) in seen}
        if len(set(serving.values())) > 1:
            told = ", ".join(f"{engine} serves {version}" for engine, version in serving.items())
            raise FailedPrecondition(
                f"{what}, because {told}: bring them together with `tidegate reconcile`, or decide about pins and "
                "blocks alike in all of them"
            )
        desired, ordinary, _ = seen[0][1]
        return desired, ordinary, self._log_root()

    def _outlast(self, call: Callable[[], T]) -> T:
        """Who waited in vain, or did not want to any more, does not wait again to clean up."""
        if self._waited:
            return call()
        try:
            return outlast(call)
        except TidegateError as error:
            self._waited = is_away(error)
            raise
        except BaseException:
            self._waited = True
            raise

    def _log_root(self) -> Path | None:
        paths = self._logs.values()
        if "" in paths or any(Path(path).is_dir() for path in paths):
            return joined_log(paths, some_away=bool(self._away))
        return Path(next(iter(paths)))

    def logged(self, log_path: Path, identity: ServableId, primary: int, since: datetime) -> Path:
        """The folder of the log by now: where this machine does not see it, a copy of both versions' part since then,
        in which an engine that does not answer has what it had told before."""
        if is_logged_here(log_path, identity.name):
            return log_path
        self._copy = copy = self._copy or LogCopy(identity.name, (primary, identity.version), since)
        for engine in engines_of(self.control):
            try:
                with ControlClient(engine) as client:
                    copy.renew(str(engine), client)
            except (Unavailable, DeadlinePassed) as error:
                _log.warning("engine %s does not give out its log now: %s", engine, error.message)
        return copy.root

    def missing(self, identity: ServableId, again: Callable[[ControlClient], object]) -> Missing:
        """Who does not answer now; an engine alone is not asked.

        One that is back, or came late, is made as the others are: by `reconcile`, and then by `again`. So is one that
        was back with nothing before it was missed.
        """
        if len(self._logs) + len(self._away) < 2:
            return Missing()

        def look(client: ControlClient) -> tuple[str, bool]:
            status = client.status(identity.name)
            found = status.servable(identity.name)
            return status.log_path, found is None or not found.desired.numbers

        outcomes = self._on_each(look)
        if not all(is_away(error) for _, error in outcomes.failed):
            outcomes.all("")
        answering = {str(engine): path for engine, (path, _) in outcomes.done}
        with_nothing = {str(engine) for engine, (_, nothing) in outcomes.done if nothing}
        if len(with_nothing) < len(answering):
            self._alike -= with_nothing
        self._logs |= answering
        for engine, error in outcomes.failed:
            if str(engine) not in self._away:
                _log.warning("engine %s does not answer, the canary waits for it: %s", engine, error.message)
        self._away = {str(engine): self._away.get(str(engine), self.clock()) for engine, _ in outcomes.failed}
        self._alike = self._alike & set(answering)
        late = [engine for engine, _ in outcomes.done if str(engine) not in self._alike]
        if late and not self._away:
            self._welcome(identity, late, again)
        gone = set(self._logs) - set(answering) - set(self._away)
        said = [f"{name} does not answer since {_time(since)}" for name, since in sorted(self._away.items())]
        said += [f"{name} is no longer in the group" for name in sorted(gone)]
        if not said:
            return Missing()
        ends = "; ".join(self._log_end(name, identity) for name in sorted({*self._away, *gone}))
        cure = ": bring it back, or take it out of the group" if self._away else ""
        return Missing(f"But {', '.join(said)} ({ends}){cure}.", bool(self._away))

    def check(self, servable: str, call: Callable[[ServableStatus], object]) -> None:
        """Raises what the call raises of where the servable stands in an engine that has all that the canary needs;
        those that do not answer are for `missing` to tell of."""
        alike = [one for one in engines_of(self.control) if str(one) in self._alike]
        outcomes = self._on_each(lambda client: call(client.servable(servable)), alike)
        if not all(is_away(error) for _, error in outcomes.failed):
            outcomes.all("")

    def _welcome(
        self, identity: ServableId, late: Sequence[EngineConnection], again: Callable[[ControlClient], object]
    ) -> None:
        """Tried again at the next look where an engine goes away meanwhile."""
        try:
            reconcile(control=self.control, servable=identity.name, reason=f"it came late to the canary of {identity}")
            for engine in late:
                with ControlClient(engine) as client:
                    again(client)
        except (Unavailable, DeadlinePassed) as error:
            _log.warning("%s is not tried on every engine yet: %s", identity, error.message)
        else:
            self._alike |= {str(engine) for engine in late}

    def _log_end(self, name: str, identity: ServableId) -> str:
        """Until when the log of an engine counts; what it answered after that is missing."""
        path = self._logs.get(name) if self._copy is None else str(self._copy.of(name))
        if path is None or list(self._logs.values()).count(path) > 1:
            return "what it had not written to its log is missing"
        with contextlib.suppress(NotFound):
            until = logged_until(Path(path), identity.name)
            return f"its log counts until {_time(until)}, what it answered after that is missing"
        return "it wrote no log of this model"

    def _on_each(
        self, call: Callable[[ControlClient], T], engines: Sequence[EngineConnection] | None = None
    ) -> Outcomes[T]:
        def ask(engine: EngineConnection) -> T:
            with ControlClient(engine) as client:
                return call(client)

        return on_each(engines_of(self.control) if engines is None else engines, ask)


def _some_answer(outcomes: Outcomes[T], what: str) -> Outcomes[T]:
    """The same. Raises where no engine answers, or one refuses."""
    if not outcomes.done or not all(is_away(error) for _, error in outcomes.failed):
        outcomes.all(what)
    return outcomes


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%S} UTC"
