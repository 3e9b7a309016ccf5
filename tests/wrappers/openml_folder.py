"""A folder as scikit-learn keeps it, with small data sets made up here that have the columns of OpenML's."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

Column = tuple[str, list[str] | None]
"""A name, and the words that it may hold; None for numbers."""

MUSHROOM: list[Column] = [
    ("class", ["e", "p"]),
    ("cap-shape", ["b", "c", "x"]),
    ("odor", ["a", "l", "n"]),
    ("veil-type", ["p"]),
]
ADULT: list[Column] = [
    ("age", None),
    ("workclass", ["Private", "State-gov"]),
    ("hours", None),
    ("occupation", ["Adm-clerical", "Sales", "Tech-support"]),
    ("class", ["<=50K", ">50K"]),
]
MAGIC: list[Column] = [("fLength", None), ("fWidth", None), ("class", ["g", "h"])]
SETS = {("mushroom", 1): (24, MUSHROOM), ("adult", 1): (2, ADULT), ("MagicTelescope", 1): (1120, MAGIC)}


def write(folder: Path, count: int = 40) -> Path:
    """Writes all data sets; returns the folder."""
    for (name, version), (number, columns) in SETS.items():
        arff = _arff(name, columns, count, holes=name == "adult")
        url = f"https://www.openml.org/data/v1/download/{number}/{name}.arff"
        features = [
            {
                "index": str(i),
                "name": column,
                "data_type": "numeric" if words is None else "nominal",
                "is_target": str(column == "class").lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
                **({} if words is None else {"nominal_value": words}),
            }
            for i, (column, words) in enumerate(columns)
        ]
        about = {
            "id": str(number),
            "name": name,
            "version": str(version),
            "description": "made up",
            "format": "ARFF",
            "status": "active",
            "url": url,
            "file_id": str(number),
            "default_target_attribute": "class",
            "md5_checksum": hashlib.md5(arff).hexdigest(),
        }
        listed = {"did": number, "name": name, "version": version, "status": "active"}
        api = "api/v1/json/data"
        _put(
            folder,
            f"{api}/list/data_name/{name.lower()}/limit/2/data_version/{version}",
            {"data": {"dataset": [listed]}},
        )
        _put(folder, f"{api}/{number}", {"data_set_description": about})
        _put(folder, f"{api}/features/{number}", {"data_features": {"feature": features}})
        quality = [{"name": "NumberOfInstances", "value": str(count)}]
        _put(folder, f"{api}/qualities/{number}", {"data_qualities": {"quality": quality}})
        _put(folder, f"data/v1/download/{number}/{name}.arff", arff)
    return folder


def _put(folder: Path, where: str, what: Any) -> None:
    file = folder / "openml" / "openml.org" / f"{where}.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(what if isinstance(what, bytes) else json.dumps(what).encode()))


def _arff(name: str, columns: list[Column], count: int, *, holes: bool) -> bytes:
    rng = np.random.default_rng(0)
    lines = [f"@RELATION {name}", ""]
    for column, words in columns:
        lines.append(f"@ATTRIBUTE '{column}' " + ("REAL" if words is None else "{" + ",".join(words) + "}"))
    lines += ["", "@DATA"]
    for i in range(count):
        values = [
            f"{rng.normal():.4f}" if words is None else words[i % len(words) if i < 6 else rng.integers(len(words))]
            for _, words in columns
        ]
        if holes and i % 7 == 6:
            values[1] = "?"
        lines.append(",".join(values))
    return ("\n".join(lines) + "\n").encode()
