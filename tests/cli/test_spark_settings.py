"""What a user sets of Spark is added to what the program needs, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_own_process import SOURCE, kip848

pytestmark = pytest.mark.slow

ASK = """
import json, sys, tomllib
from kip848_spark.spark.session import local_session

spark = local_session(tomllib.load(open(sys.argv[1], "rb"))["spark"])
system = spark._jvm.java.lang.System
jars = [row[0] for row in spark.sql("LIST JARS").collect()]
names = ("users.own", "log4j2.configurationFile")
beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
collectors = sorted({bean.getName().split()[0] for bean in beans})
print(json.dumps([*(system.getProperty(name) for name in names), jars, collectors]))
"""


def test_a_users_jars_and_java_options_are_added(tmp_path: Path) -> None:
    jar = tmp_path / "users.jar"
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("users.txt", "x")
    settings = tmp_path / "kip848.toml"
    settings.write_text(
        f'[spark]\n"spark.jars" = "{jar}"\n'
        '"spark.driver.extraJavaOptions" = "-Dusers.own=yes -XX:+UseG1GC"\n'
        '"spark.sql.extensions" = "io.delta.sql.DeltaSparkSessionExtension"\n'
        '"spark.sql.session.timeZone" = "America/New_York"\n'
    )
    lake = str(tmp_path / "lake")
    of_users = ("--lake", lake, "--config", str(settings))
    kip848("ingest", "--source", SOURCE, *of_users)
    users, ours, jars, collectors = ask(settings)
    assert users == "yes"
    assert "conf/log4j2.properties" in ours
    assert any("users.jar" in one for one in jars)
    assert any("delta-spark" in one for one in jars)
    assert collectors == ["G1"]


def test_without_a_users_choice_the_jvm_collects_in_parallel(tmp_path: Path) -> None:
    settings = tmp_path / "kip848.toml"
    settings.write_text("[spark]\n")
    _, _, _, collectors = ask(settings)
    assert collectors == ["PS"]


SECRETS = """
import os
from pathlib import Path
from kip848_spark.config.storage import StorageSettings
from kip848_spark.spark.session import local_session

KEY, PASSWORD = os.environ["A_KEY"], os.environ["A_PASSWORD"]
store = StorageSettings({"aws_access_key_id": "user", "aws_secret_access_key": "${A_KEY}"})
for again in range(2):  # the second session is in the JVM of the first one
    spark = local_session({"spark.hadoop.fs.ftp.password.h": PASSWORD}, storage=store)
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    for name, secret in (("fs.s3a.secret.key", KEY), ("fs.ftp.password.h", PASSWORD)):
        found = hadoop.getPassword(name)
        assert "".join(found) == hadoop.get(name) == secret, name
    processes = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        processes += b"org.apache.spark.deploy.SparkSubmit" in line
        assert KEY.encode() not in line and PASSWORD.encode() not in line, path
    assert processes
    spark.stop()
"""


def test_no_command_line_has_a_secret() -> None:
    """Every user of a machine can read the command lines of all processes."""
    secrets = {"A_KEY": "k3y/of+a=store", "A_PASSWORD": "pa$$ 'of' \\ ftp"}
    subprocess.run([sys.executable, "-c", SECRETS], check=True, env=os.environ | secrets)


def ask(settings: Path) -> Any:
    """What `ASK` prints about a session with the settings of this file."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(settings)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])
