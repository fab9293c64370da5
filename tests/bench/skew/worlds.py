"""Made-up tables of four trades that share nothing with the rows on which the tests were made: days differ, weeks have
weekends, ids are many, texts have umlauts, numbers have the digits that people and machines give them.

A world is one table with the column `sent_at`; its last `WINDOW` days are the window, all others the reference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

TIME = "sent_at"
WINDOW = 7
_FIRST_DAY = 19_600
_DAY = 86_400

Random = np.random.Generator
Numbers = npt.NDArray[np.float64]


def _days(random: Random, count: int, rows: int, weekend: float) -> tuple[npt.NDArray[np.int64], Numbers]:
    """The day of each row, weekends with fewer rows, and its second of the day, ascending within a day."""
    usual = np.where((np.arange(count) + _FIRST_DAY + 3) % 7 >= 5, weekend, 1.0) * rows
    sizes = random.poisson(usual * np.exp(random.normal(0, 0.05, count)))
    day = np.repeat(np.arange(count), sizes)
    second = random.beta(3, 2.5, len(day)) * (_DAY - 1)
    return day, second[np.lexsort((second, day))]


def _mood(random: Random, count: int, spread: float, alike: float = 0.3) -> Numbers:
    """A level for each day, of which each resembles the one before."""
    found = random.normal(0, spread, count)
    for place in range(1, count):
        found[place] = alike * found[place - 1] + (1 - alike**2) ** 0.5 * found[place]
    return found


def _popular(random: Random, count: int, size: int, power: float) -> npt.NDArray[np.int64]:
    """Places of `count` values by popularity, a few of which hold most rows."""
    weights = 1 / (2 + np.arange(count)) ** power
    return random.choice(count, size, p=weights / weights.sum()).astype(np.int64)


def _stamped(columns: dict[str, object], day: npt.NDArray[np.int64], second: Numbers) -> pd.DataFrame:
    moment = (day + _FIRST_DAY) * _DAY + second.astype(np.int64)
    return pd.DataFrame({**columns, TIME: pd.to_datetime(moment, unit="s")})


def clinic(seed: int, days: int = 67, rows: int = 400) -> pd.DataFrame:
    """Visits to a hospital."""
    random = np.random.default_rng([seed, 1])
    day, second = _days(random, days, rows, 0.5)
    n, flu = len(day), _mood(random, days, 0.15)[day]
    wards = ("Kardiologie", "Chirurgie", "Säuglinge", "Gynäkologie", "Geriatrie", "Onkologie", "Ambulanz", "Röntgen")
    ward = random.choice(8, n, p=[0.2, 0.18, 0.07, 0.1, 0.12, 0.08, 0.18, 0.07])
    age = np.clip(np.where(random.random(n) < 0.3, random.gamma(2, 9, n), random.normal(62, 15, n)), 0, 99)
    fever = random.random(n) < 1 / (1 + np.exp(1.8 - 2 * flu))
    sick = 0.03 * (age - 50) + fever + random.normal(0, 1, n)
    systolic = np.round(105 + 0.4 * age + random.normal(0, 14, n))
    weight = np.round(np.clip(22 + 9 * np.sqrt(age) + random.normal(0, 11, n), 2.5, 170), 1)
    glucose = np.round(np.exp(1.7 + 0.25 * random.normal(size=n) + 0.002 * age), 2)
    code = _popular(random, 12_000, n, 1.0)
    stay = random.gamma(2, 1.6, n) * np.exp(0.2 * sick)
    born = (day + _FIRST_DAY - age * 365.25 - random.integers(0, 365, n)).astype(np.int64)
    words = np.array(["pain", "since", "night", "cough", "left", "arm", "no", "fever", "again", "sent", "home", "asks"])
    return _stamped(
        {
            "age": age.astype(np.int64),
            "temperature": np.round(36.6 + 0.35 * random.normal(size=n) + fever * random.gamma(3, 0.45, n), 1),
            "systolic": np.where(random.random(n) < 0.4, np.round(systolic, -1), systolic),
            "weight": np.where(random.random(n) < 0.08, np.nan, weight),
            "glucose": np.where(random.random(n) < 0.35, np.nan, glucose),
            "stay_days": stay,
            "ward": np.array(wards)[ward],
            "drug": np.array([f"N{place % 97:02d}B{place:05d}" for place in range(12_000)])[code],
            "insured": random.random(n) < 0.83,
            "born_on": pd.to_datetime(born, unit="D").date,
            "next_visit": pd.to_datetime(day + _FIRST_DAY + 1 + random.poisson(20, n), unit="D").date,
            "note": [f"{' '.join(random.choice(words, 6))} {place}" for place in random.integers(0, 10**9, n)],
            "risk": 1 / (1 + np.exp(2 - sick)),
            "readmitted": (random.random(n) < 1 / (1 + np.exp(2.5 - sick))).astype(np.int64),
        },
        day,
        second,
    )


def payments(seed: int, days: int = 67, rows: int = 600) -> pd.DataFrame:
    """Card payments of many merchants and very many accounts."""
    random = np.random.default_rng([seed, 2])
    day, second = _days(random, days, rows, 1.2)
    n, mood = len(day), _mood(random, days, 0.08)[day]
    countries = ("DE", "FR", "IT", "ES", "US", "PL", "NL", "AT", "SE", "CZ", "PT", "CH")
    country = _popular(random, len(countries), n, 1.1)
    merchant = _popular(random, 100_000, n, 0.9)
    taste = np.random.default_rng(9).normal(0, 0.7, 100_000)[merchant]
    amount = np.round(np.exp(3.2 + taste + mood + 0.9 * random.normal(size=n)), 2)
    devices = ("phone", "Desktop", "tablet", "Terminal", "watch")
    return _stamped(
        {
            "amount": amount,
            "fee_share": np.round(random.beta(2, 60, n), 4),
            "balance": np.round(40 * random.standard_t(3, n) + 60, 2),
            "limit_eur": 500 * (1 + random.poisson(3, n)),
            "account": 3_900_000_000 + random.integers(0, 1_000_000, n) * 397,
            "merchant": np.char.add("M", np.char.zfill(merchant.astype(str), 6)),
            "country": np.array(countries)[country],
            "device": random.choice(devices, n, p=[0.5, 0.22, 0.1, 0.13, 0.05]),
            "producer": np.char.add("node-", (random.integers(0, 16, n)).astype(str)),
            "hour_local": (second // 3600).astype(np.int64),
            "installments": np.where(random.random(n) < 0.8, 1, random.choice([3, 6, 12, 24], n)),
            "first_time": random.random(n) < 0.12,
            "risk": 1 / (1 + np.exp(5 - 0.9 * np.log(amount) - 0.3 * taste + random.normal(0, 0.4, n))),
            "fraud": (random.random(n) < 0.06).astype(np.int64),
        },
        day,
        second,
    )


def machines(seed: int, days: int = 67, rows: int = 500) -> pd.DataFrame:
    """Readings of machines, which change slowly within a day."""
    random = np.random.default_rng([seed, 3])
    day, _ = _days(random, days, rows, 0.9)
    sizes = np.bincount(day, minlength=days)
    second = np.concatenate([np.sort(random.random(one)) * (_DAY - 1) for one in sizes])
    n, mood = len(day), _mood(random, days, 0.3, 0.7)[day]
    machine = random.integers(0, 25, n)
    own = np.random.default_rng(17).normal(0, 1, 25)[machine]
    slow = np.sin(2 * np.pi * second / _DAY) + 0.5 * _mood(random, n, 1.0, 0.9)
    load = np.clip(0.5 + 0.15 * slow + 0.1 * own + random.normal(0, 0.1, n), 0, 1)
    mode = np.where(load < 0.35, 0, np.where(load < 0.7, 1, 2))
    return _stamped(
        {
            "temperature": np.round(48 + 22 * load + 2 * mood + random.normal(0, 1.5, n), 1),
            "vibration": np.exp(-1 + 1.2 * load + 0.5 * random.normal(size=n)),
            "rpm": np.round(np.array([900, 1450, 2900])[mode] + random.normal(0, 15, n)),
            "voltage": np.round(230 + 1.5 * random.normal(size=n) - 2 * load, 2),
            "humidity": np.round(100 * random.beta(6, 5, n), 1),
            "particles": random.lognormal(2, 2, n),
            "lifetime": 900 * random.weibull(0.8, n),
            "load": load,
            "errors": np.where(random.random(n) < 0.96, 0, random.geometric(0.4, n)),
            "mode": np.array(["idle", "normal", "boost"])[mode],
            "site": np.array(["north", "south", "harbour", "mill"])[machine % 4],
            "firmware": np.array(["4.1.0", "4.1.2", "4.2.0"])[random.choice(3, n, p=[0.5, 0.35, 0.15])],
            "wear": 1 / (1 + np.exp(3 - 3 * load - own)),
        },
        day,
        second,
    )


def rides(seed: int, days: int = 67, rows: int = 500) -> pd.DataFrame:
    """Taxi rides, with an embedding of the driver's text."""
    random = np.random.default_rng([seed, 4])
    day, second = _days(random, days, rows, 1.3)
    n, rain = len(day), np.abs(_mood(random, days, 1.0))[day]
    zone = _popular(random, 260, n, 0.8)
    km = np.round(random.lognormal(1.3, 0.7, n) + 0.3, 2)
    minutes = np.round(km * random.gamma(12, 0.22, n) * (1 + 0.1 * rain), 1)
    fare = np.round(2.5 + 1.9 * km + 0.35 * minutes, 2)
    mixing = np.random.default_rng(5).normal(0, 1, (6, 16))
    vectors = random.normal(0, 1, (n, 6)) @ mixing + 0.3 * random.normal(size=(n, 16)) + np.arange(16) / 8
    place = np.random.default_rng(3).normal(0, 1, (260, 2))[zone]
    return _stamped(
        {
            "km": km,
            "minutes": minutes,
            "fare": fare,
            "tip": np.where(random.random(n) < 0.55, 0.0, np.round(fare * random.beta(2, 9, n), 2)),
            "surge": random.choice([1.0, 1.2, 1.5, 2.0], n, p=[0.7, 0.15, 0.1, 0.05]),
            "latitude": np.round(48.14 + 0.05 * place[:, 0] + random.normal(0, 0.004, n), 6),
            "longitude": np.round(11.57 + 0.08 * place[:, 1] + random.normal(0, 0.006, n), 6),
            "zone": np.char.add("zone ", zone.astype(str)),
            "driver": random.integers(1, 20_000, n),
            "passengers": 1 + random.binomial(4, 0.15, n),
            "night": (second < 6 * 3600) | (second > 22 * 3600),
            "vector": list(vectors.astype(np.float32)),
            "score": 1 / (1 + np.exp(1 - 0.1 * fare - vectors[:, 0] + random.normal(0, 0.3, n))),
        },
        day,
        second,
    )


WORLDS: dict[str, Callable[[int], pd.DataFrame]] = {
    "clinic": clinic,
    "payments": payments,
    "machines": machines,
    "rides": rides,
}


def divided(rows: pd.DataFrame, window: int = WINDOW) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The reference, and the last days."""
    day = rows[TIME].dt.floor("D")
    now = day > day.max() - pd.Timedelta(days=window)
    return rows[~now].reset_index(drop=True), rows[now].reset_index(drop=True)
