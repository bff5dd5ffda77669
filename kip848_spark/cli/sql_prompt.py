"""The prompt of `sql`: a history that is kept, and completion of keywords, tables and columns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kip848_spark.cli.display import out, print_rows, printable, say
from kip848_spark.errors import EnvironmentFault, Kip848Error, Terminated
from kip848_spark.lake.sql.engine import describe
from kip848_spark.lake.sql.unknown import unknown_table
from kip848_spark.lake.tables import TABLES
from kip848_spark.runtime.cache import cache_folder

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completion
    from prompt_toolkit.document import Document

    from kip848_spark.cli.sql_engines import Engines

PROMPT = "kip848> "
HISTORY = "sql_history"
"""The file in the cache folder that has the queries of earlier prompts."""
HELP = r"""\d         the tables
\d TABLE   the columns of a table
\?         this help
\q         end (as do Ctrl-D and an empty line)
Everything else is a query. Tab completes words, and the arrow keys go through earlier queries."""
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "HAVING", "LIMIT", "JOIN", "LEFT", "USING",
    "ON", "AS", "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN",
    "ELSE", "END", "DISTINCT", "UNION", "ALL", "WITH", "OVER", "PARTITION", "QUALIFY", "LATERAL",
    "VIEW", "DESC", "ASC", "DESCRIBE", "TABLE", "TABLES", "SHOW", "EXPLAIN", "INTERVAL",
    "TIMESTAMP", "DATE", "COUNT", "SUM", "MIN", "MAX", "AVG", "COUNT_IF", "MAX_BY", "MIN_BY",
    "COLLECT_LIST", "COLLECT_SET", "EXPLODE", "DATE_TRUNC", "TIMESTAMPDIFF", "PERCENTILE_APPROX",
    "COALESCE", "ROUND", "LAG", "LEAD", "ROW_NUMBER",
)  # fmt: skip


def prompt(engines: Engines, answer: Callable[[str], None]) -> None:
    """Reads queries and prints their results with ``answer`` until the input ends. A query that
    fails prints its error."""
    if sys.stdin.isatty():
        say(r"Spark SQL. \? shows help; an empty line or Ctrl-D ends.", style="dim", wrap=True)
    read = _reader(engines)
    while True:
        try:
            text = read().strip()
        except EOFError:
            return
        except Terminated:
            raise
        except KeyboardInterrupt:
            continue
        if text in ("", r"\q"):
            return
        try:
            if text.startswith("\\"):
                _command(engines, text)
            else:
                answer(text)
        except Kip848Error as error:
            words, hint = error.message, error.hint
            say(words, level="error", style="red", hint=hint, hint_line="[dim]{}[/]")
        except Terminated:
            raise
        except KeyboardInterrupt:
            say("interrupted", level="error", style="yellow", wrap=True)


def _command(engines: Engines, text: str) -> None:
    command, _, name = text.partition(" ")
    name = name.strip().rstrip(";").lower()
    if command == r"\d" and name:
        if name not in TABLES:
            raise unknown_table(name)
        print_rows(describe(TABLES[name].schema))
    elif command == r"\d":
        print_rows(
            {"table": table.name, "columns": ", ".join(table.fields)} for table in TABLES.values()
        )
    else:
        out.print(printable(HELP, lines=True))


def _reader(engines: Engines) -> Callable[[], str]:
    if not sys.stdin.isatty():
        return lambda: input("")
    session = _session()
    return lambda: session.prompt(PROMPT)


def _session() -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    class Names(Completer):
        """Completes the word before the cursor."""

        def get_completions(self, document: Document, event: object) -> Iterable[Completion]:
            word = document.get_word_before_cursor(pattern=re.compile(r"[\w]+"))
            if not word:
                return
            for name, kind in completions(document.text, word):
                yield Completion(name, -len(word), display_meta=kind)

    history: History = InMemoryHistory()
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / HISTORY
        file.touch(mode=0o600)
        history = FileHistory(str(file))
    except (OSError, EnvironmentFault):
        pass  # without the file, the history ends with the prompt
    return PromptSession(history=history, completer=Names(), complete_while_typing=False)


def completions(text: str, word: str) -> Iterator[tuple[str, str]]:
    """The names that begin with ``word``, each with its kind. Columns of the tables in ``text``
    come first; without a table in it, the columns of all tables are offered."""
    used = [table for table in TABLES if re.search(rf"\b{table}\b", text, re.IGNORECASE)]
    start = word.lower()
    seen: set[str] = set()
    for table in used or TABLES:
        for column in TABLES[table].fields:
            if column.startswith(start) and column not in seen:
                seen.add(column)
                yield column, f"column of {table}"
    for table in TABLES:
        if table.startswith(start):
            yield table, "table"
    for keyword in _KEYWORDS:
        if keyword.lower().startswith(start):
            yield keyword if word.isupper() else keyword.lower(), "keyword"
