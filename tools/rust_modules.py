"""Finds circles among the modules of Rust crates: cargo refuses them between crates, and nothing does within one.

    python tools/rust_modules.py serving/native

In each folder of a crate's `src`, the modules and folders must depend on each other one way. A folder's own `mod.rs`,
and `lib.rs` at the top, count as one of its modules. Code for tests is left out.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Module = tuple[str, ...]

# Character literals go too: a quote or a brace in one would be taken for the start of something.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\[^\n]{1,8}?)'""", re.DOTALL
)
USE = re.compile(r"\buse\s+([^;]+);")
INLINE = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
NESTED = re.compile(r"\bmod\s+(\w+)\s*\{")


def main(workspace: str) -> int:
    """Prints every circle, and how it may be cut. 1 if there is one."""
    crates = list(crates_of(Path(workspace)))
    circles = [f"{name}: {' -> '.join(circle)}" for name, source in crates for circle in circles_in(source)]
    for circle in circles:
        print(f"a circle among modules of {circle}", file=sys.stderr)
    if circles:
        print("move what both sides need below them, or let the lower one call a trait", file=sys.stderr)
        return 1
    print(f"no circles among the modules of {', '.join(name for name, _ in crates)}")
    return 0


def crates_of(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Name and `src` of each crate of a workspace."""
    members = tomllib.loads((workspace / "Cargo.toml").read_text())["workspace"]["members"]
    for folder in (workspace, *(workspace / member for member in members)):
        manifest = tomllib.loads((folder / "Cargo.toml").read_text())
        if "package" in manifest:
            yield manifest["package"]["name"], folder / "src"


def circles_in(source: Path) -> Iterator[list[str]]:
    """One circle for each folder that has any, as names of its modules."""
    modules = modules_in(source)
    below: dict[Module, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, file in modules.items():
        for target in targets(module, file.read_text(), modules):
            shared = next((at for at, pair in enumerate(zip(module, target, strict=False)) if len(set(pair)) > 1), None)
            depth = min(len(module), len(target)) if shared is None else shared
            name_of = [path[depth] if len(path) > depth else "mod" if depth else "lib" for path in (module, target)]
            below[module[:depth]][name_of[0]].add(name_of[1])
    for folder, edges in sorted(below.items()):
        if found := circle_among(edges):
            yield ["/".join((*folder, name)) for name in found]


def modules_in(source: Path) -> dict[Module, Path]:
    """The file of each module; the crate itself is the empty path. Binaries are crates of their own."""
    found: dict[Module, Path] = {}
    for file in sorted(source.rglob("*.rs")):
        path = file.relative_to(source).with_suffix("").parts
        if path[0] != "bin" and path != ("main",):
            found[path[:-1] if path[-1] in ("mod", "lib") else path] = file
    return found


def targets(module: Module, text: str, modules: dict[Module, Path]) -> set[Module]:
    """The modules that a module's code names, but for itself."""
    code = NOT_CODE.sub("", text).partition("#[cfg(test)]")[0]
    spans = list(nested(code))
    found = set()
    for match in (*USE.finditer(code), *INLINE.finditer(USE.sub(lambda use: " " * len(use[0]), code))):
        here = module + tuple(name for name, start, end in spans if start <= match.start() < end)
        used = match[1] if match.re is USE else match[0]
        for path in expanded(used):
            if (target := resolved(path, here, modules)) is not None:
                found.add(target)
    return found - {module}


def nested(code: str) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of each module that is written inside of a file, outer ones first."""
    for match in NESTED.finditer(code):
        depth, end = 1, match.end()
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        yield match[1], match.end(), end


def expanded(use: str) -> Iterator[list[str]]:
    """The single paths of a `use` with groups in braces."""
    use = re.sub(r"\s+as\s+\w+", "", use)
    if (opening := use.find("{")) < 0:
        yield [part.strip() for part in use.split("::")]
        return
    depth, start = 0, opening + 1
    for at in range(opening, len(use)):
        depth += {"{": 1, "}": -1}.get(use[at], 0)
        if (depth == 1 and use[at] == ",") or depth == 0:
            yield from expanded(use[:opening] + use[start:at].strip())
            start = at + 1
        if depth == 0:
            return


def resolved(path: list[str], here: Module, modules: dict[Module, Path]) -> Module | None:
    """The module that a path leads into; none for another crate's."""
    if path[0] == "crate":
        base: Module = ()
    elif path[0] in ("self", "super"):
        base = here[: len(here) - sum(part == "super" for part in path)]
    elif (*here, path[0]) in modules:
        base = here
    else:
        return None
    full = (*base, *(part for part in path if part not in ("crate", "self", "super")))
    return next(full[:end] for end in range(len(full), -1, -1) if full[:end] in modules)


def circle_among(edges: dict[str, set[str]]) -> list[str] | None:
    """The names of a circle, the first one once more at its end."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        # It goes from what is used to what uses it.
        return list(reversed(error.args[1]))
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
