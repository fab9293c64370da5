"""`tidegate keys`: makes, adds, rotates, revokes and lists the keys of a key ring.

The work is `tidegate_operators.steps.keys`. Private keys belong to whoever signs, the folder's `keyring.json` to
whoever operates engines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate_pipelines.cli.console import say, show_table

if TYPE_CHECKING:
    from tidegate_operators.steps.keys import NewKey
    from tidegate_serving.admission import Role, TrustedKey

Ring = Annotated[Path, typer.Argument(metavar="RING", help="The key ring's folder.")]
Name = Annotated[str, typer.Option("--name", help="A person's or a machine's; it outlives a rotation.")]
RoleName = Annotated[
    str, typer.Option("--role", metavar="ROLE", help="validator signs verdicts, override overrides them.")
]
Comment = Annotated[str, typer.Option("--comment", help="Free text, for people.")]

_HELP = """Make, add, rotate, revoke and list signing keys.

A key ring is a folder whose keyring.json says whose signatures count. `tidegate serve --trusted-key` and `tidegate
verify --key` take it, and engines notice each change. Private keys (*.key) sign; training needs none, so it cannot
admit its own models.

\b
Examples:
  tidegate keys new keys/
  tidegate keys new keys/ --name alice --role override
  tidegate keys rotate keys/
  tidegate keys revoke keys/ alice --reason "laptop stolen"
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)


def register(root: typer.Typer) -> None:
    """Adds the group of commands."""
    root.add_typer(app, name="keys")


@app.command()
def new(
    ring: Ring,
    name: Name = "validator",
    role: RoleName = "validator",
    days: Annotated[
        float | None, typer.Option("--days", help="How long the key may sign; without it until it is revoked.")
    ] = None,
    comment: Comment = "",
) -> None:
    """Make a pair of keys and trust it.

    NAME.key signs, keep it secret; NAME.pub and its entry in keyring.json are for everybody.

    \b
    Examples:
      tidegate keys new keys/
      tidegate keys new keys/ --name alice --role override --days 90
    """
    from tidegate_operators.steps.keys import new_key

    _say_made(new_key(ring, name=name, role=_role(role), days=days, comment=comment))


@app.command()
def add(
    ring: Ring,
    public: Annotated[Path, typer.Argument(metavar="FILE", help="A public key (PEM) that was made elsewhere.")],
    name: Name,
    role: RoleName = "validator",
    comment: Comment = "",
) -> None:
    """Trust a public key that somebody else made.

    \b
    Example:
      tidegate keys add keys/ alice.pub --name alice --role override
    """
    from tidegate_operators.steps.keys import add_key

    key = add_key(ring, public, name=name, role=_role(role), comment=comment)
    say(f"{key} is trusted as {key.role}")


@app.command()
def rotate(
    ring: Ring,
    name: Name = "validator",
    overlap_days: Annotated[float, typer.Option("--overlap-days", help="How long the old key may still sign.")] = 7.0,
) -> None:
    """Make the next key of a name; the old one retires.

    What the old key signed stands until it expires. Give the new private key to whoever signs within the overlap.

    \b
    Example:
      tidegate keys rotate keys/ --name validator
    """
    from tidegate_operators.steps.keys import rotate_key

    made = rotate_key(ring, name=name, overlap_days=overlap_days)
    _say_made(made)
    say(f"the old one may sign for {overlap_days:g} more days, and what it signed stands until it expires")


@app.command()
def revoke(
    ring: Ring,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key's id, or a name for all its keys.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; shown wherever the key is refused.")],
    keep_signed: Annotated[
        bool,
        typer.Option("--keep-signed", help="What it signed until now stands; for a key that nobody else has got."),
    ] = False,
) -> None:
    """Revoke a key, as compromised unless you say otherwise.

    Engines notice by themselves. Nothing that a compromised key signed is admitted any more, not after a restart
    either; what serves now goes on serving, and its status says so.

    \b
    Example:
      tidegate keys revoke keys/ 3f0c9a5be1d27714 --reason "laptop stolen"
    """
    from tidegate_operators.steps.keys import revoke_key

    for one in revoke_key(ring, key=key, reason=reason, compromised=not keep_signed):
        stands = "what it signed before stands" if keep_signed else "nothing that it signed counts"
        say(f"{one} is revoked, {stands}")


@app.command("list")
def show(ring: Ring, as_json: Annotated[bool, typer.Option("--json", help="As keyring.json has it.")] = False) -> None:
    """List the keys and the revoked versions of a ring.

    \b
    Example:
      tidegate keys list keys/
    """
    from tidegate_serving.admission import read_ring

    found = read_ring(ring)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
        return
    columns = ("key", "name", "role", "created", "signs", "comment")
    show_table("", columns, [_row(key) for key in found.keys.values()])
    if found.revoked_versions:
        rows = [(one.name, one.manifest_digest[:12], one.at, one.reason) for one in found.revoked_versions.values()]
        show_table("revoked versions", ("version", "manifest", "at", "reason"), rows)


def _row(key: TrustedKey) -> tuple[str, ...]:
    return key.id, key.name, key.role.value, key.created_at, _signs(key), key.comment


def _signs(key: TrustedKey) -> str:
    if key.revoked is not None:
        kind = "REVOKED as compromised" if key.revoked.compromised else "revoked"
        return f"{kind} at {key.revoked.at}: {key.revoked.reason}"
    return f"until {key.not_after}" if key.not_after else "yes"


def _role(text: str) -> Role:
    from tidegate_serving.admission import Role

    if text not in list(Role):
        raise typer.BadParameter(f"{text!r} is neither validator nor override", param_hint="--role")
    return Role(text)


def _say_made(made: NewKey) -> None:
    say(f"made {made.private} (keep it secret) and {made.public}")
    end = f", until {made.key.not_after}" if made.key.not_after else ""
    say(f"{made.key} is trusted as {made.key.role} in {made.public.parent / 'keyring.json'}{end}")
