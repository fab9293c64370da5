"""What may have happened to categories: called otherwise, counted as one, written another way, gone, or new."""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.merged import by_stretch, merged_into
from tidegate_validation.skew.diagnosis.suspect import Suspect, both, distance_of
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.points import heaviest
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

NEW_CATEGORY = "new category"
RENAMED = "renamed category"
MERGED = "merged categories"
RESPELLED = "written another way"
GONE = "missing categories"
EXCHANGED = "exchanged categories"
_APART = 0.03
_PART = 0.03
_GONE = 0.1
_NEARLY_ALL = 0.9
_LEAVES = 0.4
_BY_ITSELF = 0.2
"""A part of what is gone by which another one, that came lately, may grow on beyond training."""
_HALF = 0.5
_SHOWN = 3
_ROWS = 20
_SEVERAL = 3
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_LISTED = 5000
_OF_MANY = 0.5
_BY_DAYS = 1.5
_NATURALLY = 1.5
_SPELLINGS = 20
_MARKS = " .-_/:@"


def category_cause(suspect: Suspect) -> Cause | None:
    """The change of categories that explains the column, the plainest first."""
    renamed, gone = _renamed(suspect), _gone(suspect)
    if gone is not None and gone[0] <= _BY_DAYS * suspect.noise and (renamed is None or renamed[1].kind == MERGED):
        # That another has grown may be no more than days bring about.
        return counted_as_another(suspect.feature, suspect.reference, suspect.current, gone[1]) or gone[1]
    rivals = [one for one in (renamed, gone) if one is not None]
    best = min(rivals, key=lambda one: one[0])[1] if rivals else _exchanged(suspect)
    return best or _new_category(suspect)


def _exchanged(suspect: Suspect) -> Cause | None:
    """Two categories that each have the other's part of the rows, which alone explains the difference; of several such
    pairs, which days do not tell apart, none."""
    bins = suspect.feature.bins
    if not isinstance(bins, CategoryBins):
        return None
    p, q = both(suspect)
    before = distance_of(p, q)
    told = []
    for one, other in itertools.combinations(range(len(bins.top)), 2):
        if abs(p[one] - p[other]) >= _APART:
            turned = p.copy()
            turned[[one, other]] = p[[other, one]]
            told.append((distance_of(turned, q), one, other))
    told.sort()
    if not told or told[0][0] > min(_LEAVES * before, max(_BY_DAYS * suspect.noise, _HALF * _BY_ITSELF * before)):
        return None
    if len(told) > 1 and told[1][0] - told[0][0] < suspect.noise:
        return None
    names = sorted((bins.top[code] for code in told[0][1:]), key=lambda name: -p[bins.top.index(name)])
    return Cause(EXCHANGED, share=float(p[[*told[0][1:]]].sum()), details=(("values", names),))


def counted_as_another(
    feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts, gone: Cause
) -> Cause | None:
    """The cause where the categories that are `gone` are surely counted as another one; None where that, or which ones
    they are, cannot be told."""
    names = dict(gone.details)
    if not isinstance(feature.bins, CategoryBins) or names["number"] > len(names["values"]) or "rows" in names:
        return None
    top = feature.bins.top
    into = merged_into(reference, current, len(top), [top.index(one) for one in names["values"]])
    return None if into is None else _merged(names["values"], top[into], gone.share)


def _merged(old: list[str], new: str, share: float) -> Cause:
    also = (("also", old[1:]),) if len(old) > 1 else ()
    return Cause(MERGED, share=share, details=(("old", old[0]), ("new", new), *also))


def respelled(suspect: Suspect) -> Cause | None:
    """Categories that are new, and are known ones but for one change to how all of them are written.

    New ones that days bring anyway need not be known, nor those of which it cannot be told whether they are.
    """
    bins = suspect.feature.bins
    if not isinstance(bins, CategoryBins) or bins.told == 0:
        return None
    unseen = _unseen_categories(bins, suspect.sample, 0.0, _LISTED)
    p, q = both(suspect)
    new, everything = sum(share for _, share in unseen), min(1.0, float(q[bins.unseen]) / bins.told)
    usual = _NATURALLY * (suspect.feature.new_rate or 0.0)
    if not bins.complete:
        listed = float(p[: bins.other].sum()) + float(p[bins.other]) * bins.told
        usual = new - _OF_MANY * listed * new if everything > _NEARLY_ALL * (1 - usual) else new
    wanted = _NEARLY_ALL * (new - usual)
    if not unseen or wanted < _PART / 3:
        return None
    for change, old in _spellings((*bins.top, *bins.others), [name for name, _ in unseen]):
        found = [(old[name], name, share) for name, share in unseen if name in old]
        share = sum(one for *_, one in found)
        if share >= wanted:
            spellings = [[one, other] for one, other, _ in found[:_SPELLINGS]]
            share = everything * (min(1.0, share / new) if bins.complete else 1.0)
            return Cause(RESPELLED, share=share, details=(("change", change), ("spellings", spellings)))
    return None


def _spellings(known: tuple[str, ...], new: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Ways to write categories, each with the known one for every new one that it explains."""
    alike: dict[str, Callable[[str], str | None]] = {
        "letter case": str.casefold,
        "spaces": lambda text: " ".join(text.split()),
        "number format": _number,
        "leading zeros": lambda text: _ZEROS.sub("", text),
        "composed or decomposed Unicode": lambda text: unicodedata.normalize("NFKC", text),
        "accents": _without_accents,
        "HTML escapes": html.unescape,
    }
    for change, plain in alike.items():
        yield change, _alike(known, new, plain)
    yield "text encoding", _decoded(known, new)
    yield "letters lost", _several(_lost_letters(known, new))
    cut, longest = _cut_off(known, new), max(map(len, new))
    yield "cut off", cut if len(new) > 1 and {one[:longest] for one in known} == {*new} else _several(cut)
    for change, added in (("an addition", _added(known, new)), ("a part left out", _added(new, known, turned=True))):
        yield change, _several(added)
    names, others = set(known), set(new)
    for mark in _MARKS:
        parts = {name: name.split(mark)[0] for name in new if mark in name}
        yield "an addition", _several({name: part for name, part in parts.items() if part in names})
    yield "punctuation", _alike(known, new, lambda text: re.sub(r"[\W_]", "", text))
    for mark in _MARKS:
        ends = {key: name for name in known if (key := name.split(mark)[0]) in others and key != name}
        yield "cut off", _several(ends)


def _alike(known: tuple[str, ...], new: list[str], plain: Callable[[str], str | None]) -> dict[str, str]:
    """The known category of each new one that is the same in a `plain` form."""
    old = {key: name for name in known if (key := plain(name)) is not None}
    return {name: old[key] for name in new if (key := plain(name)) in old and key is not None}


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _without_accents(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))


def _lost_letters(known: tuple[str, ...], new: list[str]) -> dict[str, str]:
    """Texts in which a mark stands for each letter beyond ASCII, or nothing at all, accents left out before or not."""
    forms = [(form, name) for name in known for form in (_without_accents(name), name)]
    old = {re.sub(r"[^\x00-\x7f]", mark, form): name for mark in ("", "_", "\ufffd", "?") for form, name in forms}
    return {name: old[name] for name in new if name in old}


def _decoded(known: tuple[str, ...], new: list[str]) -> dict[str, str]:
    """Text that was written as UTF-8 and read as Western European, once or twice, or the other way round."""
    old: dict[str, str] = {}
    for coding in ("latin-1", "cp1252"):
        for name in known:
            for written, read in (("utf-8", coding), (coding, "utf-8")):
                once = name.encode(written, "replace").decode(read, "replace")
                old.setdefault(once, name)
                if written == "utf-8" and "\ufffd" not in once:
                    old.setdefault(once.encode().decode(coding, "replace"), name)
    return {name: old[name] for name in new if name in old}


def _cut_off(known: tuple[str, ...], new: list[str]) -> dict[str, str]:
    """Known categories but for what comes after the length of the longest new one."""
    length = max(map(len, new))
    old = {name[:length]: name for name in known if len(name) > length}
    return {name: old[name] for name in new if name in old}


def _added(short: Iterable[str], long: Iterable[str], *, turned: bool = False) -> dict[str, str]:
    """Which of `long` are one of `short` with texts, the same for all, before it, after it or both; by `long`, or by
    `short`."""
    names = set(short)
    best: dict[str, str] = {}
    longer = list(long)
    for name in longer[:_SHOWN]:
        parts = itertools.combinations(range(len(name) + 1), 2)
        texts = {(name[:a], name[b:]) for a, b in parts if name[a:b] in names and b - a < len(name)}
        for before, after in texts:
            found = {
                one: one[len(before) : len(one) - len(after)]
                for one in longer
                if one.startswith(before) and one.endswith(after) and one[len(before) : len(one) - len(after)] in names
            }
            best = max(best, found, key=len)
    return {value: key for key, value in best.items()} if turned else best


def _several(found: dict[str, str]) -> dict[str, str]:
    """Two texts may share letters by chance, several do not."""
    return found if len(set(found.values())) >= _SEVERAL else {}


def _gone(suspect: Suspect) -> tuple[float, Cause] | None:
    """Categories that no row has any more, which alone explains why the others weigh more; with the Δ that is left."""
    bins = suspect.feature.bins
    if not isinstance(bins, CategoryBins):
        return None
    p, q = both(suspect)
    top, rows = len(bins.top), float(suspect.sample.n.sum())
    gone = [code for code in range(top) if p[code] * rows >= _ROWS and _is_gone(suspect, code, p, q)]
    lost = float(p[gone].sum())
    left = p.copy()
    left[gone] = q[gone]
    if not gone or left.sum() == 0:
        return None
    residual = distance_of(left / left.sum(), q)
    if residual > max(_LEAVES * distance_of(p, q), _BY_DAYS * suspect.noise):
        return None
    names = [bins.top[code] for code in sorted(gone, key=lambda code: -p[code])]
    held = round(float(q[gone].sum()) * rows)
    some = (("rows", held),) if held else ()
    return residual, Cause(GONE, share=lost, details=(("values", names[:_SHOWN]), ("number", len(names)), *some))


def _is_gone(suspect: Suspect, code: int, p: Floats, q: Floats) -> bool:
    """Whether a category hardly comes any more, and training's last blocks, as many as the window has, still had it."""
    lately = suspect.reference.n[-max(len(suspect.current.blocks), 1) :].sum()
    held = suspect.reference.of((code,))[-max(len(suspect.current.blocks), 1) :].sum()
    return bool(q[code] < _GONE * p[code] <= float(held) / max(float(lately), 1.0))


def _renamed(suspect: Suspect) -> tuple[float, Cause] | None:
    """A category that is gone, and another that has grown by as much or is new; or several that are gone into one;
    with the Δ that is left."""
    bins = suspect.feature.bins
    if not isinstance(bins, CategoryBins):
        return None
    p, q = both(suspect)
    top = len(bins.top)
    gone = [code for code in range(top) if p[code] >= _PART / 3 and _is_gone(suspect, code, p, q)]
    if not gone:
        return None
    old = max(gone, key=lambda code: p[code])
    before = distance_of(p, q)
    candidates = []
    unseen = _unseen_categories(bins, suspect.sample)
    as_heavy = unseen and bins.complete and 0.5 * p[old] <= unseen[0][1] <= 2 * p[old]
    if as_heavy and not _came_anyway(float(q[bins.unseen]), unseen[0][1], p[gone]):
        candidates.append((_after(p, q, [old], bins.unseen), RENAMED, unseen[0][0], [old]))
    for lost in ([old], gone):
        if q[bins.unseen] > p[lost].sum():
            continue  # What training never held weighs more than what is gone: it is no other one that grew by that.
        grown = [code for code in range(top) if code not in lost and q[code] - p[code] > 0.4 * p[lost].sum()]
        grown = [code for code in grown if _grown_beyond_training(suspect, code, lost, float(p[lost].sum()))]
        candidates += [(_after(p, q, lost, code), MERGED, bins.top[code], lost) for code in grown]
    if not candidates:
        return None
    left, kind, new, lost = min(candidates, key=lambda one: one[:3])
    if left > max(0.6 * before, _BY_DAYS * suspect.noise):
        return None
    names = [bins.top[code] for code in sorted(lost, key=lambda code: -p[code])]
    also = (("also", names[1:]),) if len(names) > 1 else ()
    return left, Cause(kind, share=float(p[lost].sum()), details=(("old", names[0]), ("new", new), *also))


def _grown_beyond_training(suspect: Suspect, code: int, lost: Sequence[int], share: float) -> bool:
    """Whether a category has more of the rows without the `lost` ones than in any stretch of training as long as the
    window, by a part of the `share` that they had: one that came lately, or now and then, has as much by itself."""
    known = [one for one in range(suspect.feature.bins.size if suspect.feature.bins else 0) if one not in lost]
    groups = [(code,), tuple(one for one in known if one != code)]
    before, now = (part.grouped(groups).astype(np.float64) for part in (suspect.reference, suspect.current))
    before, now = before[before.sum(axis=1) > 0], now[now.sum(axis=1) > 0]
    if not len(now) or len(before) < 2 * len(now):
        return True
    stretches = by_stretch(before[:, 0], before.sum(axis=1), len(now))
    still_growing = max(float(stretches[-1] - stretches[-1 - len(now)]), 0.0)
    served = float(now[:, 0].sum() / now.sum())
    return served - float(stretches.max()) - still_growing > _BY_ITSELF * share


def _came_anyway(new: float, heaviest: float, gone: Floats) -> bool:
    """Whether the heaviest new category, of all `new` ones, is hardly one that is `gone`: the others weigh more than
    what else is gone, and than half of it."""
    return bool(new - heaviest > max(gone.sum() - gone.max(), _HALF * heaviest))


def _after(p: Floats, q: Floats, old: list[int], into: int) -> float:
    moved = p.copy()
    moved[into] += moved[old].sum()
    moved[old] = 0
    return distance_of(moved, q)


def _unseen_categories(
    bins: CategoryBins, sample: ValueSample | TextSample, least: float = 0.002, most: int = 200
) -> list[tuple[str, float]]:
    """New categories among the `most` heaviest that hold a share `least` of the rows, with their shares."""
    known = {*bins.top, *bins.others}
    found = heaviest(sample, least, most)
    return [(str(value), share) for value, share in found if value not in known and bins.tells(str(value))]


def _new_category(suspect: Suspect) -> Cause | None:
    bins = suspect.feature.bins
    if not isinstance(bins, CategoryBins) or not (suspect.flagged(Aspect.UNSEEN) or suspect.flagged(Aspect.POINT)):
        return None
    unseen = _unseen_categories(bins, suspect.sample, 0.0, _LISTED)
    if not unseen:
        return None
    share = min(1.0, float(both(suspect)[1][bins.unseen]) / max(bins.told, 1e-9))
    return Cause(NEW_CATEGORY, share=share, details=(("values", [name for name, _ in unseen[:5]]),))
