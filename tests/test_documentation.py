"""The documentation: every code block runs, shows what really comes out, and every link leads
somewhere.

With KIP848_UPDATE_DOCUMENTATION=1 the outputs in the pages are replaced by the real ones.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kip848_spark.config import settings
from kip848_spark.local.broker import Broker
from kip848_spark.runtime import java
from tests import kafka_releases
from tests.captures import RECORDS
from tests.cli.command import Command
from tests.conftest import DATA
from tests.documentation import (
    ELLIPSIS,
    ROOT,
    Block,
    anchors,
    blocks,
    links,
    pages,
    replace_outputs,
)

LANGUAGES = {"sh", "sql", "python", "toml"}
"""What is run. Besides, `text` is output or a picture, `mermaid` a picture, and `json` the content
of the file in `examples` that is named before it."""
UPDATE = bool(os.environ.get("KIP848_UPDATE_DOCUMENTATION"))
LAKE = "lake"
"""The lake of README's first example, which all `sql` blocks query."""
LAKES = (LAKE, "damaged-lake", "kip848")
"""All lakes that README makes: of the simulated cluster, the damaged capture and the broker."""
ENVIRONMENT = dict.fromkeys(
    ("KAFKA_PASSWORD", "KEY_PASSWORD", "OAUTH_SECRET", "OAUTH_JAAS", "STORE_KEY", "STORE_SECRET"),
    "secret",
)
RUN_ID = re.compile(r"\d{8}T\d{6}\.\d+Z-[0-9a-f]+")
MAKE = re.compile(r"^make ([a-z-]+)", re.MULTILINE)


@pytest.mark.parametrize("page", pages())
def test_every_block_is_run_or_says_what_covers_it(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page):
        if block.covered is not None:
            path, _, name = block.covered.partition("::")
            assert (ROOT / path).is_file(), f"{block.place}: there is no {path}"
            if name:
                assert f"def {name}(" in (ROOT / path).read_text(), f"{block.place}: no {name}"
        elif block.language == "text":
            commands = r"(?m)^\s*(\$|kip848 |make |pip |spark-submit)"
            assert block.output or not re.search(commands, block.text), block.place
        else:
            assert block.language in LANGUAGES | {"mermaid", "json"}, (
                f"{block.place}: {block.language!r}"
            )
        assert set(MAKE.findall(block.text)) <= targets, block.place


def test_json_blocks_are_the_examples() -> None:
    shown = {b.text.strip() for page in pages() for b in blocks(page) if b.language == "json"}
    assert shown == {path.read_text().strip() for path in (ROOT / "examples").glob("*.jsonl")}


@pytest.mark.parametrize("page", pages())
def test_links_within_the_repository_lead_somewhere(page: str) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            inside = target.resolve().relative_to(ROOT).as_posix()
            assert anchor in anchors(inside), f"{page}: {link}"


def test_what_the_readme_shows_first_is_the_output_of_a_command() -> None:
    """It stands before the commands, so no test compares it with what they print."""
    first, *others = [block for block in blocks("README.md") if block.language == "text"]
    assert not first.output
    assert any(first.text in other.text for other in others if other.output)


def test_supported_versions_are_those_of_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pyspark = next(d for d in project["dependencies"] if d.startswith("pyspark>="))
    deltalake = next(d for d in project["dependencies"] if d.startswith("deltalake=="))
    jar = re.search(r"delta-spark_\S+-([\d.]+)\.jar", (ROOT / "conf" / "jars.lock").read_text())
    assert jar is not None
    table = dict(re.findall(r"^\| ([A-Za-z ]+) \| (.+) \|$", _section("Supported versions"), re.M))
    assert re.findall(r"\d\.\d+\.\d", table["Kafka"]) == list(kafka_releases.RELEASES)
    assert set(re.findall(r"[\d.]+", pyspark)) <= set(re.findall(r"[\d.]+\d", table["Spark"]))
    assert {jar[1], deltalake.removeprefix("deltalake==")} <= set(table["Delta Lake"].split())
    minors = re.findall(r"3\.(\d+)", table["Python"])
    assert f">=3.{minors[0]},<3.{int(minors[-1]) + 1}" == project["requires-python"]
    assert f"{java.MINIMUM} or later" in table["Java"]


@pytest.fixture
def examples(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """What stands for the names in the pages. The cluster has a topic and a group; the working
    folder is an empty one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic("documented", 3, 1)]).values():
        created.result(30)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "orders"})
    consumer.commit(offsets=[TopicPartition("documented", 0, 7)], asynchronous=False)
    consumer.close()
    (tmp_path / "api").mkdir()
    shutil.copy(DATA / "kafka-4.3.1" / RECORDS, tmp_path / "api")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(settings.ENVIRONMENT, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return {
        "HOST:PORT": broker.bootstrap,
        "broker:9092": broker.bootstrap,
        "/data/kip848": str(tmp_path / "kip848"),
        "/data/capture": str(tmp_path / "api"),
        "tests/data/": f"{DATA}/",
        "examples/": f"{ROOT}/examples/",
        "2026-11-20T06:00": "now",  # a time when the lake's first run has finished
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_block_runs(
    spark: SparkSession,
    examples: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The pages one after the other, in one folder: later ones use the lake that README makes."""
    kip848 = Command(monkeypatch, capfd)
    problems = []
    outputs: list[tuple[Block, str]] = []
    for page in pages():
        names: dict[str, Any] = {"spark": spark}
        printed = ""
        for block in blocks(page):
            if block.output:
                if UPDATE and ELLIPSIS not in block.text:
                    outputs.append((block, _plain(printed)))
                elif not _shows(block.text, printed):
                    problems.append(f"{block.place} shows another output than:\n{printed[:2000]}")
            elif block.covered is None and block.language in LANGUAGES:
                try:
                    printed = _run(block, kip848, capfd, examples, names)
                except Exception as error:
                    problems.append(f"{block.place}: {type(error).__name__}: {error}")
    replace_outputs(outputs)
    problems += _examples_without_a_row()
    assert not problems, "\n\n".join(problems)


def _run(
    block: Block,
    kip848: Command,
    capfd: pytest.CaptureFixture[str],
    examples: Mapping[str, str],
    names: dict[str, Any],
) -> str:
    """Runs a block; gives what it prints. Raises whatever it raises."""
    text = block.text
    for name, real in examples.items():
        text = text.replace(name, real)
    if block.language == "sql":
        return _command(kip848, ["sql", "--lake", LAKE, text], 0)
    if block.language == "sh":
        printed = ""
        for (program, *arguments), code in replace(block, text=text).commands():
            assert program == "kip848", f"{program} is not run: mark the block"
            printed += _command(kip848, arguments, code)
        return printed
    if block.language == "toml":
        path = Path("settings.toml")
        path.write_text(text)
        loaded = settings.load(path)
        loaded.client().librdkafka()
        loaded.stored().delta()
        return ""
    capfd.readouterr()
    exec(compile(text, block.place, "exec"), names)
    return capfd.readouterr().out


def _command(kip848: Command, arguments: list[str], code: int) -> str:
    ended = kip848(*arguments)
    assert ended.code == code, f"kip848 {shlex.join(arguments)} ended with {ended.code}: {ended}"
    return ended.out


def _plain(printed: str) -> str:
    """What is printed, without the blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())


def _shows(expected: str, printed: str) -> bool:
    """Whether an output is the expected one. An ellipsis stands for anything, alone in a line for
    any number of lines; run ids differ from run to run."""
    parts = [re.escape(RUN_ID.sub("RUN", part)) for part in _plain(expected).split(ELLIPSIS)]
    return re.fullmatch(".*?".join(parts), RUN_ID.sub("RUN", _plain(printed)), re.S) is not None


def _section(title: str) -> str:
    """The text of a section of README.md."""
    text = (ROOT / "README.md").read_text()
    return re.split(r"^## ", text.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def _examples_without_a_row() -> Iterator[str]:
    """The examples in README's list of tables that are not a row of any lake here."""
    for line in _section("The tables").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        wanted = re.findall(r"`(\w+)` ([^,]+)", cells[-1])
        if len(cells) == 3 and wanted:
            table = cells[0].strip("`")
            rows = [
                row
                for lake in LAKES
                for row in DeltaTable(f"{lake}/{table}").to_pyarrow_table().to_pylist()
            ]
            if not any(all(str(row[name]) == value for name, value in wanted) for row in rows):
                yield f"README.md: no row of {table} has {wanted}"
