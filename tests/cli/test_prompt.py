"""The prompt of `sql` in a pseudo terminal, and the shell's completion: real processes."""

from __future__ import annotations

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

from tests.captures import COMMITTED
from tests.cli.command import Command
from tests.cli.test_verbs import NEWEST

PROMPT = "kip848> "


class Terminal:
    """A command whose input and output are a terminal."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment, TERM="xterm", COLUMNS="100")
            os.execv(sys.executable, [sys.executable, "-m", "kip848_spark", *arguments])

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, words: str, seconds: float = 120) -> str:
        """What is written up to ``words``, or in so many ``seconds``."""
        said, end = b"", time.monotonic() + seconds
        while words.encode() not in said and time.monotonic() < end:
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    said += os.read(self._fd, 65536)
                except OSError:  # the other side is closed
                    break
        return said.decode()

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


@pytest.mark.usefixtures("spark")
def test_the_prompt(kip848: Command, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    assert kip848("run", "--source", f"parquet:{NEWEST / COMMITTED}", "--lake", lake).code == 0
    terminal = Terminal("sql", "--lake", lake, TZ="America/New_York")
    started = terminal.until(PROMPT)
    assert PROMPT in started, started
    assert terminal.until("nothing", 2) == "", "something is drawn over the prompt"
    terminal.type("SELEC 1\n")
    wrong = terminal.until(PROMPT)
    assert "line 1, position 1" in wrong
    assert "Syntax error" in wrong
    terminal.type("SELECT TIMESTAMP'2026-01-01 10:00:00' AS t\n")
    assert "2026-01-01 10:00:00" in re.sub(r"TIMESTAMP'.*'", "", terminal.until(PROMPT))
    terminal.type("\x1b[A\n")  # the line before once more
    assert "SELECT TIMESTAMP" in terminal.until(PROMPT)
    terminal.type("\n")
    assert terminal.end() == 0


@pytest.mark.usefixtures("spark")
def test_the_bar_of_a_run(kip848: Command, tmp_path: Path) -> None:
    source = f"parquet:{NEWEST / COMMITTED}"
    terminal = Terminal("run", "--source", source, "--lake", str(tmp_path / "terminal"))
    shown = terminal.until("Audit:")
    assert terminal.end() == 0
    for step, unit in (("reading and", "offsets"), ("rebuilding", "records"), ("judging", "rows")):
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
