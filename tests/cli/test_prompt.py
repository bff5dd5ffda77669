"""The prompt of `sql` in a pseudo terminal, and the shell's completion: real processes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kip848_spark.lake.tables import TABLES
from tests.captures import COMMITTED
from tests.cli.command import Command
from tests.cli.test_verbs import NEWEST
from tests.lake.written_lake import write_lake

pytestmark = pytest.mark.slow

PROMPT = "kip848>"


class Terminal:
    """A command whose input and output are a terminal."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._rest = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment, TERM="xterm", COLUMNS="100")
            os.execv(sys.executable, [sys.executable, "-m", "kip848_spark", *arguments])

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, words: str, seconds: float = 120) -> str:
        """What is written up to ``words``, or in so many ``seconds``. What follows is left for the
        next call."""
        output, end = self._rest, time.monotonic() + seconds
        while words.encode() not in output and time.monotonic() < end:
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    output += os.read(self._fd, 65536)
                except OSError:  # the other side is closed
                    break
        before, found, self._rest = output.partition(words.encode())
        return (before + found).decode()

    def end(self) -> int:
        """Its exit code; it is killed if it goes on for a minute."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.1)
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


ENTER, UP, TAB = "\r", "\x1b[A", "\t"
ON_TERMINAL = {"TZ": "America/New_York", "PROMPT_TOOLKIT_NO_CPR": "1"}
"""This terminal does not tell where its cursor is."""


@pytest.fixture
def lake(tmp_path: Path) -> str:
    groups = [{"group_id": "orders", "epoch": 7}, {"group_id": "evil\x1b[2J\x00", "epoch": 1}]
    write_lake(tmp_path / "lake", {"groups": groups})
    return str(tmp_path / "lake")


def test_the_prompt(lake: str, tmp_path: Path) -> None:
    terminal = Terminal("sql", "--lake", lake, KIP848_CACHE=str(tmp_path), **ON_TERMINAL)
    started = terminal.until(PROMPT)
    assert PROMPT in started, started
    terminal.type(f"SELEC 1{ENTER}")
    assert "Did you mean SELECT" in terminal.until("Did you mean SELECT")
    terminal.until(PROMPT)
    terminal.type(f"SELECT TIMESTAMP'2026-01-01 10:00:00' AS t, count(*) AS n FROM groups{ENTER}")
    assert "2026-01-01 10:00:00  2" in terminal.until("1 row")
    terminal.until(PROMPT)
    terminal.type(UP + ENTER)  # the line before once more
    assert "2026-01-01 10:00:00  2" in terminal.until("1 row")
    terminal.until(PROMPT)
    terminal.type(rf"\d{ENTER}")
    assert "group_history" in terminal.until("durations_ms")
    terminal.until(PROMPT)
    terminal.type(rf"\d groups{ENTER}")
    assert "Id of the consumer group" in terminal.until("cluster_id")
    terminal.until(PROMPT)
    terminal.type(rf"\?{ENTER}")
    assert "the columns of a table" in terminal.until("earlier queries")
    terminal.until(PROMPT)
    terminal.type(f"SELECT group_id FROM groups WHERE epoch = 1{ENTER}")
    shown = terminal.until("1 row")
    assert r"evil\x1b[2J\x00" in shown
    assert "evil\x1b" not in shown
    terminal.until(PROMPT)
    terminal.type(rf"\q{ENTER}")
    assert terminal.end() == 0
    history = (tmp_path / "sql_history").read_text()
    assert "+SELEC 1" in history
    assert (tmp_path / "sql_history").stat().st_mode & 0o077 == 0, "others can read it"


def test_a_prompt_that_is_told_to_stop(lake: str, tmp_path: Path) -> None:
    """Ctrl-C only drops the line, SIGTERM ends it."""
    terminal = Terminal("sql", "--lake", lake, KIP848_CACHE=str(tmp_path), **ON_TERMINAL)
    terminal.until(PROMPT)
    terminal.type("SELECT 1\x03")
    assert PROMPT in terminal.until(PROMPT)
    os.kill(terminal.pid, signal.SIGTERM)
    assert "terminated" in terminal.until("terminated", 30)
    assert terminal.end() == 143


def test_the_prompt_completes_and_remembers(lake: str, tmp_path: Path) -> None:
    (tmp_path / "sql_history").write_text("\n# 2026-11-20\n+SELECT 41 + 1 AS earlier\n")
    terminal = Terminal("sql", "--lake", lake, KIP848_CACHE=str(tmp_path), **ON_TERMINAL)
    terminal.until(PROMPT)
    terminal.type(UP + ENTER)
    assert "42" in terminal.until("1 row")
    terminal.until(PROMPT)
    terminal.type(f"SELECT max(epo{TAB}")
    terminal.until("ch", 30)  # the rest of the word
    terminal.type(f") AS m FROM group_hist{TAB}")
    terminal.until("ory", 30)
    terminal.type(ENTER)
    shown = terminal.until("1 row")
    assert "1 row" in shown, shown
    terminal.until(
        PROMPT
    )  # before it, the terminal itself would take the key for the end of a line
    terminal.type("\x04")
    assert terminal.end() == 0


def test_queries_from_a_pipe(lake: str) -> None:
    command = [sys.executable, "-m", "kip848_spark", "sql", "--lake", lake, "--json"]
    queries = (
        "SELECT epoch FROM groups WHERE group_id = 'orders'\nSELECT nope FROM groups\nSHOW TABLES"
    )
    done = subprocess.run(
        command, input=queries, capture_output=True, text=True, timeout=120, check=True
    )
    first, second = done.stdout.splitlines()
    assert json.loads(first) == [{"epoch": 7}]
    assert len(json.loads(second)) == len(TABLES)
    assert "There is no column nope" in done.stderr
    assert "kip848>" not in done.stdout


@pytest.mark.usefixtures("spark")
def test_the_prompt_starts_spark_once(kip848: Command, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    assert kip848("run", "--source", f"parquet:{NEWEST / COMMITTED}", "--lake", lake).code == 0
    terminal = Terminal("sql", "--lake", lake, **ON_TERMINAL)
    terminal.until(PROMPT)
    terminal.type(f"SELECT array_distinct(array(5, 5)) AS x{ENTER}")
    first = terminal.until("1 row", 300)
    assert "Spark is started: DuckDB does not answer the function array_distinct" in first
    terminal.until(PROMPT)
    terminal.type(f"SELECT array_distinct(array(6, 6)) AS x{ENTER}")
    second = terminal.until("1 row")
    assert "Spark is started" not in second
    terminal.until(PROMPT)
    terminal.type(rf"\q{ENTER}")
    assert terminal.end() == 0


@pytest.mark.usefixtures("spark")
def test_the_bar_of_a_run(kip848: Command, tmp_path: Path) -> None:
    source = f"parquet:{NEWEST / COMMITTED}"
    terminal = Terminal("run", "--source", source, "--lake", str(tmp_path / "terminal"))
    shown = terminal.until("Audit:")
    assert terminal.end() == 0
    for step, unit in (("reading and", "offsets"), ("replaying", "records"), ("auditing", "rows")):
        numbers = re.findall(rf"{step} [^\r\n]*? (\d+)/(\d+) {unit}", shown)
        assert numbers, shown
        done, planned = map(int, numbers[-1])
        assert 0 < done <= planned
    piped = kip848("run", "--source", source, "--lake", str(tmp_path / "piped"))
    assert re.fullmatch(r"(✓ [^✓/]+ \d+\.\d s ?)+", piped.err)


def test_completion() -> None:
    """bash, asked for the words that may follow, names every verb."""
    command = Path(sys.executable).with_name("kip848")
    bash = shutil.which("bash")
    assert bash is not None
    script = (
        "source <(kip848 --show-completion)\n"
        "function_=$(complete -p kip848 | sed 's/.*-F \\([^ ]*\\) .*/\\1/')\n"
        'COMP_WORDS=(kip848 "") COMP_CWORD=1 COMP_LINE="kip848 "\n'
        '"$function_" kip848\n'
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{command.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", script], env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert {"run", "groups", "sql", "audit", "dump", "doctor"} <= set(done.stdout.split())
