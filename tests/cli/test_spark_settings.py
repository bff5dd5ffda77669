"""What a user sets of Spark is added to what the program needs, in processes of their own."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from tests.cli.test_own_process import SOURCE, kip848


def test_a_users_jars_and_java_options_are_added(tmp_path: Path) -> None:
    jar = tmp_path / "users.jar"
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("users.txt", "x")
    settings = tmp_path / "kip848.toml"
    settings.write_text(
        f'[spark]\n"spark.jars" = "{jar}"\n'
        '"spark.driver.extraJavaOptions" = "-Dusers.own=yes"\n'
        '"spark.sql.extensions" = "io.delta.sql.DeltaSparkSessionExtension"\n'
        '"spark.sql.session.timeZone" = "America/New_York"\n'
    )
    lake = str(tmp_path / "lake")
    of_users = ("--lake", lake, "--config", str(settings))
    kip848("ingest", "--source", SOURCE, *of_users)
    property_of = "java_method('java.lang.System', 'getProperty', '{}')"
    query = (
        f"SELECT {property_of.format('users.own')} AS users, "
        f"{property_of.format('log4j2.configurationFile')} AS ours, count(*) AS n FROM records"
    )
    (row,) = json.loads(kip848("sql", *of_users, "--json", query))
    assert row["users"] == "yes"
    assert "conf/log4j2.properties" in row["ours"]
    assert row["n"] > 100
    jars = [row["Results"] for row in json.loads(kip848("sql", *of_users, "--json", "LIST JARS"))]
    assert any("users.jar" in one for one in jars)
    assert any("delta-spark" in one for one in jars)
