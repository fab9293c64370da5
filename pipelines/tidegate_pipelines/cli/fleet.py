"""`tidegate fleet`: many engines that look like one: the controller's process, and what people ask and say of a fleet.

Pushes, releases, rollbacks and `tidegate status` go to the controller's control address, as to an engine's. What is
here reads and writes etcd.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_log_lines, show_table
from tidegate_pipelines.cli.options import GrpcAddress, RestAddress
from tidegate_serving.contract.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tidegate_serving.fleet.controller.operations import FleetOperations
    from tidegate_serving.fleet.state.model import Copies
    from tidegate_serving.fleet.state.view import FleetView

app = typer.Typer(help="Run many engines as one.", no_args_is_help=True, rich_markup_mode=None)
_SERVERS = ("controller", "router")
DEFAULT_ETCD = "127.0.0.1:2379"
EtcdAt = Annotated[str, typer.Option("--etcd", metavar="HOST:PORT", help="etcd's endpoints, with commas between.")]
ServersEtcd = Annotated[
    str | None,
    typer.Option("--etcd", metavar="HOST:PORT", help=f"etcd's endpoints; else the config's, else {DEFAULT_ETCD}."),
]
Name = Annotated[str, typer.Option("--fleet", metavar="NAME", help="The fleet's name.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")]


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="fleet")


@app.callback()
def _group(context: typer.Context) -> None:
    """Run many engines as one."""
    if context.invoked_subcommand not in _SERVERS:
        show_log_lines(tracebacks=bool(context.find_root().params.get("debug")))


@app.command()
def controller(
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML as an engine's.")] = None,
    etcd: ServersEtcd = None,
    fleet: Annotated[str | None, typer.Option("--fleet", metavar="NAME", help="Instead of the config's.")] = None,
    control_address: Annotated[
        str | None, typer.Option("--control-address", metavar="HOST:PORT", help="Where pushes come in.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", metavar="FILE", help="Gets the address as JSON once it listens.")
    ] = None,
) -> None:
    """Run a controller: it places models on nodes and takes pushes.

    Several may run; one of them leads, and another takes over where it dies. Its control port is an engine's: push,
    release, roll back and look at it by its address.

    \b
    Example:
      tidegate fleet controller --etcd 127.0.0.1:2379 --control-address 127.0.0.1:8602
    """
    from dataclasses import replace

    from tidegate_serving.config import EngineConfig
    from tidegate_serving.fleet.controller.process import run_controller
    from tidegate_serving.log_lines import log_to_stderr

    log_to_stderr()
    overrides = {"control_address": control_address, "ready_file": ready_file}
    found = EngineConfig.load(config, overrides={"grpc_address": "", "rest_address": "", **overrides})
    table = replace(found.fleet, etcd=etcd or found.fleet.etcd or DEFAULT_ETCD, name=fleet or found.fleet.name)
    raise typer.Exit(run_controller(replace(found, fleet=table)))


@app.command()
def router(
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML as an engine's.")] = None,
    etcd: ServersEtcd = None,
    fleet: Annotated[str | None, typer.Option("--fleet", metavar="NAME", help="Instead of the config's.")] = None,
    grpc_address: GrpcAddress = None,
    rest_address: RestAddress = None,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", metavar="FILE", help="Gets the addresses as JSON once it listens.")
    ] = None,
) -> None:
    """Run a router: clients ask it as they would ask one engine.

    It forwards each request to a node that has the model, and has a model loaded that is on none. Any number may run.
    Ports are 8500 and 8501, as an engine's; SIGTERM drains and ends.

    \b
    Example:
      tidegate fleet router --etcd 127.0.0.1:2379
    """
    from dataclasses import replace

    from tidegate_serving.config import EngineConfig
    from tidegate_serving.fleet.router.process import run_router
    from tidegate_serving.log_lines import log_to_stderr

    log_to_stderr()
    overrides = {"grpc_address": grpc_address, "rest_address": rest_address, "ready_file": ready_file}
    found = EngineConfig.load(config, overrides=overrides)
    table = replace(found.fleet, etcd=etcd or found.fleet.etcd or DEFAULT_ETCD, name=fleet or found.fleet.name)
    raise typer.Exit(run_router(replace(found, fleet=table)))


@app.command()
def status(etcd: EtcdAt = DEFAULT_ETCD, fleet: Name = "default") -> None:
    """Show a fleet: who leads, its nodes and its models.

    \b
    Example:
      tidegate fleet status
    """
    with _view(etcd, fleet) as view:
        say(f"fleet {fleet}: controller {view.leader} leads" if view.leader else f"fleet {fleet}: no controller leads")
        _show_nodes(view)
        _show_models(view)


@app.command()
def nodes(etcd: EtcdAt = DEFAULT_ETCD, fleet: Name = "default") -> None:
    """Show a fleet's nodes: where they are, what is placed on them.

    \b
    Example:
      tidegate fleet nodes --fleet production
    """
    with _view(etcd, fleet) as view:
        _show_nodes(view)


@app.command()
def models(etcd: EtcdAt = DEFAULT_ETCD, fleet: Name = "default") -> None:
    """Show a fleet's models: copies, sizes, where they are placed.

    \b
    Example:
      tidegate fleet models
    """
    with _view(etcd, fleet) as view:
        _show_models(view)


@app.command("set-copies")
def set_copies(
    model: Model,
    least: Annotated[
        int | None, typer.Option("--min", metavar="N", help="On so many nodes always; 0: on demand.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max", metavar="N", help="On so many at most.")] = None,
    measured_bytes: Annotated[
        int | None,
        typer.Option("--bytes", metavar="N", min=0, help="Size on a node; 0: by the model's files."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", metavar="KEY=VALUE", help="Label that its nodes must have; may be repeated."),
    ] = None,
    unrequire: Annotated[bool, typer.Option("--no-require", help="On any nodes, whatever their labels.")] = False,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", min=0, help="Requests a second that one copy takes; 0: not by load."),
    ] = None,
    etcd: EtcdAt = DEFAULT_ETCD,
    fleet: Name = "default",
) -> None:
    """Say on how many nodes a model is, and on which it may be.

    A model with a minimum of 0 leaves where others need its room, the least recently used first. With --rate there are
    as many copies between minimum and maximum as its requests take.

    \b
    Examples:
      tidegate fleet set-copies flights --min 2 --max 2
      tidegate fleet set-copies rare --min 0 --max 1 --bytes 2000000000
      tidegate fleet set-copies busy --min 1 --max 8 --rate 500
    """
    from tidegate_serving.fleet.state.model import Copies

    if require and unrequire:
        raise InvalidInput("--require and --no-require say different things: give one of them")
    labels: dict[str, str] | None = {} if unrequire else None
    if require:
        labels = dict(one.partition("=")[::2] for one in require)
        if not all(labels.values()):
            raise InvalidInput(f"--require is {', '.join(require)}: write KEY=VALUE, such as gpu=yes")
    copies = None
    if least is not None or most is not None:
        first = most if least is None else least
        last = max(first or 0, 1) if most is None else most
        copies = Copies(first or 0, last)
    with _operations(etcd, fleet) as operations:
        found = operations.set_copies(model, copies, measured_bytes, labels, rate)
    noun = "copy" if found.copies.most == 1 else "copies"
    say(f"{model}: {_numbers(found.copies)} {noun} of {found.size:,} bytes")


@app.command()
def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")],
    undo: Annotated[bool, typer.Option("--undo", help="Models may be placed on it again.")] = False,
    etcd: EtcdAt = DEFAULT_ETCD,
    fleet: Name = "default",
) -> None:
    """Empty a node: its models leave once others have them.

    \b
    Example:
      tidegate fleet drain node-3
    """
    with _operations(etcd, fleet) as operations:
        operations.drain(node, empty=not undo)
    say(f"{node} {'gets models again' if undo else 'is being emptied, and gets no models until `drain --undo`'}")


@contextmanager
def _operations(etcd: str, fleet: str) -> Iterator[FleetOperations]:
    from tidegate_serving.fleet.controller.operations import FleetOperations
    from tidegate_serving.fleet.etcd.client import Etcd
    from tidegate_serving.fleet.state.keys import FleetKeys
    from tidegate_serving.journal.journal import Journal

    client = Etcd(etcd)
    try:
        yield FleetOperations(client, FleetKeys(fleet), Journal(None))
    finally:
        client.close()


@contextmanager
def _view(etcd: str, fleet: str) -> Iterator[FleetView]:
    from tidegate_serving.fleet.state.view import FleetView

    with _operations(etcd, fleet) as operations:
        found = operations.etcd.read(operations.keys.prefix)
        if not found.entries:
            others = ", ".join(sorted(operations.fleets())) or "none"
            raise NotFound(f"etcd at {etcd} has no fleet {fleet}: name another by --fleet, there are {others}")
        yield FleetView.of(found)


def _show_nodes(view: FleetView) -> None:
    placed = view.placement.nodes
    rows = []
    for name, node in sorted(view.nodes.items()):
        there = [model for model, nodes in sorted(placed.items()) if name in nodes]
        used = sum(view.models[model].size for model in there if model in view.models)
        state = "leaving" if node.leaving else "drained" if name in view.drains else ""
        rows.append((name, node.grpc, node.control, f"{used:,} of {node.capacity_bytes:,}", ", ".join(there), state))
    show_table("Nodes", ("node", "gRPC", "control", "bytes", "models", ""), rows)


def _show_models(view: FleetView) -> None:
    from tidegate_serving.fleet.state.routes import Routes

    states = Routes.from_bytes(view.routes).states if view.routes else {}
    rows = []
    for name, model in sorted(view.models.items()):
        serving = "" if model.serving is None or model.serving.stable is None else str(model.serving.stable)
        errors = (text for _, _, code, text in states.get(name, ()) if code)
        wrong = view.placement.missing.get(name, "") or next(errors, "")
        there = ", ".join(view.placement.nodes.get(name, ()))
        rows.append(
            (name, serving, _numbers(model.copies), f"{model.size:,}" if model.size else "unknown", there, wrong)
        )
    show_table("Models", ("model", "version", "copies", "bytes", "nodes", ""), rows)


def _numbers(copies: Copies) -> str:
    return f"{copies.least}" if copies.least == copies.most else f"{copies.least} to {copies.most}"
