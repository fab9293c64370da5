"""What one servable can be told apart from the others: where it lies, what is wanted of it, how it is batched.

`config` holds one of these per model name; the file system source, the manager and the endpoint read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import is_name, name_fault
from tidegate_serving.sources.file_system.version_policy import parse_version_policy
from tidegate_serving.typed_config import check_bounds, within

POLICIES = ("availability", "resources")
WHEN_FULL = ("refuse", "wait")
ISOLATIONS = ("auto", "engine", "pool", "own")
ROWS = (1, 2**31 - 1)
THREADS = (1, 1024)
LEVELS = (0, 8)
SECONDS = (0, 10**9)
SHARE = (0, 1)
_VERSIONS = (0, 2**63 - 1)
_PROCESSORS = (0, 1023)


@dataclass(frozen=True, slots=True)
class BatchingConfig:
    """When a batch closes and how long its queue may grow.

    max_batch_rows: a batch closes at this many rows, or sooner where its answers would take more than 16 MiB.
    timeout_us: above zero, a batch waits this many microseconds for more rows; 0 closes it when the sockets run dry.
    max_queued_rows: beyond this many waiting rows the queue is full. One request of more rows than that counts as one
        batch and runs max_batch_rows at a time.
    concurrency: executor threads per version, at most; they come with requests, and go after a minute without.
    allowed_batch_sizes: the only numbers of rows that a model is asked for, ascending, the last one max_batch_rows:
        fewer rows are filled up with copies of the first, more run in pieces; empty for any number.
    pad_variable_length_inputs: requests whose inputs differ in dimensions after the first share batches: each input is
        filled up with its own first element to the largest of its batch. Outputs keep the padded size.
    priority_levels: levels that requests may ask for, 1 the highest, 0 for none. Higher ones go first, but of eight
        batches one is the oldest of all; what waits behind a request does not count against its queue.
    default_priority_level: the level of requests that ask for none or for one that there is not; 0 for the lowest.
    when_full: "refuse" answers a request for which the queue has no place RESOURCE_EXHAUSTED at once, and one whose
        deadline would pass before its turn; "wait" lets it wait until its deadline, first in, first out, as far as
        request_memory_bytes go.
    """

    max_batch_rows: int = within(ROWS, 1024)
    timeout_us: int = within((0, 3_600_000_000), 0)
    max_queued_rows: int = within(ROWS, 16384)
    concurrency: int = within(THREADS, 1)
    allowed_batch_sizes: tuple[int, ...] = within(ROWS, ())
    pad_variable_length_inputs: bool = False
    priority_levels: int = within(LEVELS, 0)
    default_priority_level: int = within(LEVELS, 0)
    when_full: str = WHEN_FULL[0]

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.when_full not in WHEN_FULL:
            raise InvalidInput(f"when_full is {self.when_full!r}: use one of {', '.join(WHEN_FULL)}")
        if self.default_priority_level > self.priority_levels:
            raise InvalidInput(
                f"default_priority_level is {self.default_priority_level}, but priority_levels is "
                f"{self.priority_levels}: name one of the levels"
            )
        sizes = self.allowed_batch_sizes
        if sorted(set(sizes)) != list(sizes):
            raise InvalidInput(f"allowed_batch_sizes are {list(sizes)}: write them in ascending order, each once")
        if sizes and sizes[-1] != self.max_batch_rows:
            raise InvalidInput(
                f"allowed_batch_sizes end at {sizes[-1]}, but max_batch_rows is {self.max_batch_rows}: let the last of "
                "them be max_batch_rows"
            )

    def size_for(self, rows: int) -> int:
        """The number of rows that a model is asked for at once where `rows` of them wait."""
        sizes = self.allowed_batch_sizes
        return next((size for size in sizes if size >= rows), sizes[-1]) if sizes else rows


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What one servable wants differently.

    path: absolute folder that holds the servable's versions (PATH/VERSION), instead of one under the repository.
    platform: what loads version directories without a manifest; None where the names of their files tell it.
    versions: `latest:N`, `all`, `specific:1,4` or `none`; for servables that the file system source serves.
    versions_always_present: instead of the engine's.
    poll_seconds: instead of the engine's.
    policy: what a version change prefers, instead of the engine's.
    labels: label to version number; a label waits until its version is AVAILABLE.
    batching: instead of the engine's defaults.
    log_sampling_rate: instead of the engine's.
    keep_previous: instead of the engine's.
    isolation: instead of the engine's.
    interpreter: the Python that runs the servable's workers, of an environment that has this release of Tidegate and
        what the model imports; None for the engine's. A model that names one does not run
        in the engine.
    processors: the numbers of those that its workers may use; empty for all that the engine may. The same.
    call_seconds: instead of the engine's.
    """

    path: str | None = None
    platform: str | None = None
    versions: str | None = None
    versions_always_present: bool | None = None
    poll_seconds: float | None = within(SECONDS, None)
    policy: str | None = None
    labels: Mapping[str, int] = within(_VERSIONS, {})
    batching: BatchingConfig | None = None
    log_sampling_rate: float | None = within(SHARE, None)
    keep_previous: bool | None = None
    isolation: str | None = None
    interpreter: Path | None = None
    processors: tuple[int, ...] = within(_PROCESSORS, ())
    call_seconds: float | None = within(SECONDS, None)

    def __post_init__(self) -> None:
        if self.policy is not None:
            check_policy(self.policy)
        if self.isolation is not None:
            check_isolation(self.isolation)
        check_bounds(self)
        if self.versions is not None:
            parse_version_policy(self.versions)
        for label in self.labels:
            if not is_name(label):
                raise InvalidInput(f"label {label!r} cannot be used, {name_fault(label)}")


def check_policy(policy: str) -> None:
    """InvalidInput for a servable version policy that there is not."""
    if policy not in POLICIES:
        raise InvalidInput(f"policy is {policy!r}: use {' or '.join(POLICIES)}")


def check_isolation(isolation: str) -> None:
    """InvalidInput for a place to run models in that there is not."""
    if isolation not in ISOLATIONS:
        raise InvalidInput(f"isolation is {isolation!r}: use one of {', '.join(ISOLATIONS)}")
