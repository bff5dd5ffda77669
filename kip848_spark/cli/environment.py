"""`jars`, `doctor` and `config show`: what is installed and configured, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from kip848_spark.cli.display import out, print_json, printable, say, show_steps
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    KafkaOption,
    LakeOption,
    SourceOption,
    TopicOption,
)
from kip848_spark.cli.verbs import Verbs
from kip848_spark.config.settings import meanings
from kip848_spark.errors import Kip848Error
from kip848_spark.runtime import jars as jvm
from kip848_spark.runtime.java import find_java

config_app = Verbs(help="Show the settings.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command()(jars)
    app.command()(doctor)
    app.add_typer(config_app, name="config")


def jars(
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker", help="Print the jars of this Kafka broker instead.", metavar="VERSION"
        ),
    ] = None,
    s3: Annotated[
        bool, typer.Option("--s3", help="Include the jars for s3a:// paths (690 MB).")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Download the JVM dependencies if necessary, and print their paths for spark-submit --jars."""
    with show_steps() as display:
        display("finding the jars")
        if broker:
            paths = jvm.broker_jars(broker, display.detail)
        else:
            paths = jvm.spark_jars(display.detail) + (jvm.s3_jars(display.detail) if s3 else [])
    if json:
        print_json([str(path) for path in paths])
    else:
        out.print(",".join(str(path) for path in paths), soft_wrap=True)


@config_app.command()
def show(
    source: SourceOption = None,
    lake: LakeOption = None,
    topic: TopicOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print every setting with its meaning and its current value. Secrets are masked."""
    meaning = meanings()
    shown = Invocation.of(
        config, kafka_option, source=source, lake=lake, topic=topic
    ).settings.shown()
    if json:
        print_json(shown)
        return
    for name, value in shown.items():
        section = value if isinstance(value, dict) else None
        title = name if section is None else f"[{name}]"
        out.print(f"[dim]# {printable(meaning[name])}[/]", soft_wrap=True)
        if section is None:
            out.print(printable(f"{title} = {_set(value)}"), soft_wrap=True)
        else:
            out.print(f"[bold]{printable(title)}[/]")
        for key, item in (section or {}).items():
            if about := meaning.get(f"{name}.{key}"):
                out.print(f"[dim]# {printable(about)}[/]", soft_wrap=True)
            out.print(printable(f"{key} = {_set(item)}"), soft_wrap=True)
        out.print()


def _set(value: object) -> str:
    return "(not set)" if value is None else str(value)


def doctor(
    source: SourceOption = None,
    lake: LakeOption = None,
    topic: TopicOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Check Java, the jars, Spark, the source and the lake, and say how to fix what is wrong."""
    invocation = Invocation.of(config, kafka_option, source=source, lake=lake, topic=topic)
    found: list[dict[str, str | bool | None]] = []
    worst = 0
    for name, check in _checks(invocation):
        try:
            answer, error = check(), None
        except Kip848Error as fault:
            answer, error = fault.message, fault
        found.append(
            {
                "check": name,
                "ok": error is None,
                "says": answer,
                "hint": error.hint if error else None,
            }
        )
        if error is not None:
            worst = worst or error.exit_code
        if not json:
            mark = "[green]✓[/]" if error is None else "[bold red]✗[/]"
            out.print(f"{mark} {name}: {printable(answer)}")
            if error is not None and error.hint:
                out.print(f"    {printable(error.hint)}")
    if json:
        print_json(found)
    elif not worst:
        say("Everything works.", style="green", wrap=True)
        settings = invocation.settings
        both = {"--source": settings.source, "--lake": settings.lake}
        if missing := [option for option, value in both.items() if value is None]:
            say(f"To check more, add {' and '.join(missing)}.", wrap=True)
    raise typer.Exit(worst)


def _checks(invocation: Invocation) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "Java", lambda: str(find_java())
    yield "jars", lambda: f"{len(jvm.spark_jars())} for Spark {jvm.spark_release()}"
    yield "Spark and its Python worker", lambda: _worker(invocation)
    if invocation.settings.source:
        yield "source", lambda: _source(invocation)
    if invocation.settings.lake:
        yield "lake", lambda: _lake(invocation)


def _worker(invocation: Invocation) -> str:
    with invocation.spark() as (session, _):
        frame = session.range(8).mapInArrow(lambda batches: batches, "id long")
        count = frame.count()
        return f"Spark {session.version} with {count} rows through Python"


def _source(invocation: Invocation) -> str:
    from kip848_spark.spark.doctor import check_source

    with invocation.spark() as (session, _):
        return check_source(invocation.source(), session)


def _lake(invocation: Invocation) -> str:
    from kip848_spark.spark.doctor import check_lake

    with invocation.spark() as (session, _):
        return check_lake(invocation.lake(session))
