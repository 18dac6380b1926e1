"""The examples that the documents show for Spark build joins, on streams and on static frames."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

pytestmark = pytest.mark.spark

CLICKS, VIEWS = "user long, ts timestamp, page string", "user long, ts timestamp, ad string"


def examples(document: str) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    return [block for block in blocks if "clicks" in block and "band_join" in block and "ivjoin.spark" in block]


@pytest.mark.parametrize("document", ["README.md", "docs/guides/spark-from-native.md"])
@pytest.mark.parametrize("streaming", [True, False], ids=["streams", "static"])
def test_examples_build_a_left_join(spark: Any, tmp_path: Path, document: str, streaming: bool) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    frames = {}
    for name, ddl in (("clicks", CLICKS), ("views", VIEWS)):
        spark.createDataFrame([], ddl).write.parquet(str(tmp_path / name))
        reader = spark.readStream if streaming else spark.read
        frames[name] = reader.schema(ddl).parquet(str(tmp_path / name))
    (code,) = examples(document)
    names: dict[str, Any] = {**frames, "F": F}
    result = None
    for statement in re.split(r"\n(?=\S)(?!\))", code.strip()):
        try:
            value = eval(statement, names)
        except SyntaxError:
            exec(statement, names)
            value = names.get("matches")
        result = value if isinstance(value, DataFrame) else result
    assert result is not None
    assert result.isStreaming == streaming
    assert result.columns == ["user", "ts", "page", "ts_right", "ad"]
