"""Laws of SQL for PostgreSQL, loaded by a server that a test starts; without one, the text alone is looked at.

PROCRUSTES_POSTGRES names the folder of a server's programs, if they are not where Debian has them.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from folders import model_of
from laws import refused
from procrustes_kge.runs.export import export

NAMES = ["Zürich", "tab\there", "back\\slash", "\\N", 'it\'s "so"', "line\nbreak", "\\.", "x" * 5000]
# What SQL files are loaded with; a mistake in one is an error, and nothing of it stays.
PSQL = ("-X", "-q", "-v", "ON_ERROR_STOP=1")
COPIED = re.compile(r"FROM stdin;\n(.*)\n\\\.\n", re.DOTALL)


def programs():
    """Return the folder of a server's programs, None where there is no server."""
    named = os.environ.get("PROCRUSTES_POSTGRES")
    found = [Path(named)] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    found += [Path(on_path).parent] if on_path else []
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@pytest.fixture(scope="module")
def psql():
    """Start a server of its own in a temporary folder, reached by a socket alone; give a function that asks it."""
    folder = programs()
    if folder is None or sys.platform == "win32":
        pytest.skip("no PostgreSQL server is installed; PROCRUSTES_POSTGRES names the folder of its programs")
    # A socket's path may have a hundred bytes; a server does not run as root.
    user = "postgres" if "postgres" in {each.pw_name for each in pwd.getpwall()} else "nobody"
    as_user = {"user": user} if os.geteuid() == 0 else {}
    place = Path(tempfile.mkdtemp(prefix="pg"))
    if as_user:
        shutil.chown(place, user)
    data, settings = place / "data", "-c listen_addresses='' -c fsync=off -c shared_buffers=16MB"

    def run(program, *arguments, text=None):
        command, rest = [str(folder / program), *arguments], {"cwd": place, "env": {"PATH": str(folder), "LC_ALL": "C"}}
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False, **rest, **as_user)

    def ask(text=None, *arguments):
        connection = ("-h", str(place), "-U", "tester", "-d", "postgres")
        return run("psql", *PSQL, *connection, *arguments, text=text)

    made = run("initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
    started = run("pg_ctl", "-D", str(data), "-o", f"-k {place} {settings}", "-l", str(place / "log"), "-w", "start")
    try:
        if made.returncode or started.returncode:
            pytest.skip(f"the PostgreSQL server does not start: {made.stderr}{started.stderr}"[:300])
        yield ask
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def model():
    return model_of(NAMES, labels={"Zürich": "Zürich\t(city)"}, width=5)


def answer(psql, query):
    """Return the rows of a query, as cells of text."""
    found = psql(None, "-A", "-t", "-F", "\x1f", "-R", "\x1e", "-c", query)
    assert (found.returncode, found.stderr) == (0, "")
    return [row.split("\x1f") for row in found.stdout.removesuffix("\n").split("\x1e")]


def load(psql, model, path, kind):
    (file,) = export(model, path, kind)
    loaded = psql(file.read_text(encoding="utf-8"))
    assert (loaded.returncode, loaded.stderr) == (0, "")


@pytest.mark.slow
def test_a_plain_server_has_the_same_names_and_numbers(psql, model, tmp_path):
    load(psql, model, tmp_path / "my vectors.sql", "postgresql")
    rows = answer(psql, 'SELECT name, label FROM "my vectors" ORDER BY id')
    assert [row[0] for row in rows] == NAMES
    assert rows[0][1] == "Zürich\t(city)"
    numbers = answer(psql, 'SELECT unnest(vector) FROM "my vectors" ORDER BY id')
    assert np.array_equal(np.array(numbers, dtype="f4").reshape(model.table.shape), model.table.numpy())
    assert answer(psql, """SELECT id FROM "my vectors" WHERE name = 'back\\slash'""") == [["2"]]


def test_a_table_that_is_there_stays(psql, model, tmp_path):
    load(psql, model, tmp_path / "twice.sql", "postgresql")
    again = psql((tmp_path / "twice.sql").read_text())
    assert again.returncode != 0
    assert "already exists" in again.stderr
    assert answer(psql, 'SELECT count(*) FROM "twice"') == [[str(len(NAMES))]]


def test_pgvector_finds_what_we_find(psql, model, tmp_path):
    if answer(psql, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == [["0"]]:
        pytest.skip("the PostgreSQL server has no pgvector")
    load(psql, model, tmp_path / "vectors.sql", "pgvector")
    scores = model.table @ model.table[0]
    rows = answer(
        psql, 'SELECT id, -(vector <#> (SELECT vector FROM "vectors" WHERE id = 0)) FROM "vectors" ORDER BY 2 DESC'
    )
    assert [int(row) for row, _ in rows] == scores.argsort(descending=True).tolist()
    assert np.allclose([float(score) for _, score in rows], scores.sort(descending=True).values, rtol=1e-5)
    hint = (tmp_path / "vectors.sql").read_text().splitlines()[-1]
    indexed = psql(hint.partition(": ")[2])
    assert (indexed.returncode, indexed.stderr) == (0, "")


def test_sql_is_one_transaction_of_one_row_for_each_name(model, tmp_path):
    for kind, column in (("pgvector", "vector(10)"), ("postgresql", "real[]")):
        text = export(model, tmp_path / f"{kind}.sql", kind)[0].read_text(encoding="utf-8")
        assert text.startswith("BEGIN;\n")
        assert "COMMIT;\n" in text
        assert f"vector {column} NOT NULL" in text
        assert len(COPIED.search(text)[1].split("\n")) == len(NAMES)
    assert ("CREATE EXTENSION IF NOT EXISTS vector;" in text) is False


@pytest.mark.slow
def test_what_a_server_cannot_hold_is_refused(tmp_path):
    wide = model_of("ab", width=16_002 // 2)
    refused(lambda: export(wide, tmp_path / "v.sql"), setting="16,002 numbers", seen="16,000", remedy="postgresql")
    nul = model_of(["a\0", "b"])
    refused(lambda: export(nul, tmp_path / "v.sql"), setting="name", seen="NUL character", remedy="use npy")
    assert list(tmp_path.iterdir()) == []
