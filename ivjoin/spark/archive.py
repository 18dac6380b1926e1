"""Classes of Java from an archive, which a driver maps instead of reading, checking and laying them out from jars.

Four tenths of what a local session takes to start, and a fifth of its first join, are that. Java writes the archive
when a process ends (``-XX:ArchiveClassesAtExit``) and maps it where its own version and the jars are those that it was
written with (``-XX:SharedArchiveFile``); else it goes on without.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from ivjoin.errors import OptionError, came

__all__ = ["archive_options"]

# Of what is left out, and why a file is not taken, Java would tell some hundred lines on standard output.
_SILENT = "-Xlog:cds*=off"


def archive_options(folder: object, java: str, jars: Path | None) -> str:
    """Options of Java that have it take its classes from an archive in ``folder``, or write one there at its end.

    Parameters
    ----------
    folder : str or PathLike
        Made if it is not there.
    java : str
        The program.
    jars : Path or None
        Where Spark's jars are; None where that is not known.

    Returns
    -------
    str
        As ``spark.driver.extraJavaOptions`` has them. The file is another for another Java or other jars.

    Raises
    ------
    OptionError
        If it is no folder, or none that can be made.
    """
    if not isinstance(folder, (str, os.PathLike)) or not str(folder):
        raise OptionError(f"class_archive is {came(folder)}; expected the path of a folder, or None")
    place = Path(folder).expanduser().absolute()
    if ":" in str(place):
        raise OptionError(f"class_archive is {came(str(place))}; expected a path without ':', by which Java divides it")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"class_archive is {came(str(place))}; expected a folder that can be made: {error}") from None
    path = place / f"spark-{_digest(java, jars)}.jsa"
    option = "SharedArchiveFile" if _is_whole(path) else "ArchiveClassesAtExit"
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'{_SILENT} "-XX:{option}={quoted}"'


def _digest(java: str, jars: Path | None) -> str:
    """Of the program that Java is, and of the names, sizes and times of the jars."""
    program = Path(java).resolve()
    said = [str(program), *map(_stamp, [program, program.parent.parent / "release"])]
    said += [] if jars is None else [str(jars), *sorted(f"{p.name} {_stamp(p)}" for p in jars.glob("*.jar"))]
    return blake2b("\n".join(said).encode(), digest_size=8).hexdigest()


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "none"
    return f"{found.st_size} {found.st_mtime_ns}"


def _is_whole(path: Path) -> bool:
    """Whether an archive was written to its end: its first bytes are written last."""
    try:
        with path.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False
