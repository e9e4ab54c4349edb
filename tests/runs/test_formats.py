"""Laws of formats: samples that were kept are read by every later version, and what cannot be read is said."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from folders import reseal
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs import contents, jobs, store
from procrustes_kge.runs.checkpoints import FACTS, FORMAT as CHECKPOINT_FORMAT, KIND, FolderCheckpoints
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.jobs import read_job
from procrustes_kge.runs.store import load_run
from procrustes_kge.system.sealed import seal
from procrustes_kge.training.recipes import learn, learned
from toys import same

SAMPLES = Path(__file__).parent / "samples"
RUNS = sorted(path.name for path in SAMPLES.glob("run-*"))
STOPPED = sorted(path.name for path in SAMPLES.glob("checkpoint-*"))


def sample(name, tmp_path):
    return Path(shutil.copytree(SAMPLES / name, tmp_path / name))


def test_there_is_a_sample_of_every_trainer_in_the_formats_of_today():
    methods = {json.loads((SAMPLES / name / "settings.json").read_text())["method"] for name in RUNS}
    assert methods == contents.METHODS.keys()
    assert {int(name.split("-")[1]) for name in RUNS} == {*contents.MIGRATIONS, contents.FORMAT}
    assert {int(name.split("-")[1]) for name in STOPPED} == {CHECKPOINT_FORMAT}
    assert len(STOPPED) == 3


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_every_format_is_read(name):
    run = load_run(SAMPLES / name)
    assert examine(SAMPLES / name).sound
    assert run.graph.entities.names == ("a", "b c", "d\ne", "☃", "\\n", "f")
    assert run.graph.entities.labels == {"a": "Ünï"}
    assert (len(run.graph.train), len(run.graph.valid), len(run.graph.test)) == (8, 2, 2)
    assert (run.settings.epochs, run.settings.dim) == (4, 4)
    if "entities" not in name:
        assert evaluate(run.model, run.graph).mrr == pytest.approx(run.report["metrics"]["test"]["mrr"], abs=1e-6)


@pytest.mark.parametrize("name", STOPPED)
@pytest.mark.parametrize("version", [None, "0.0.9"])
def test_a_training_that_was_stopped_goes_on_whatever_version_wrote_it(name, version, tmp_path):
    folder = sample(name, tmp_path)
    (checkpoint,) = folder.glob("checkpoint-*")
    if version is not None:
        facts = json.loads((checkpoint / FACTS).read_text())
        (checkpoint / FACTS).write_text(json.dumps({**facts, "version": version}))
        seal(checkpoint, KIND, CHECKPOINT_FORMAT)
    job, epochs = read_job(folder), []
    found = learned(job.graph, job.settings, lambda progress: epochs.append(progress.epoch), FolderCheckpoints(folder))
    assert epochs[0] == 2  # it did not begin anew
    assert max(epochs) == 4
    assert found.model.dim == 4


def test_what_was_kept_is_what_is_trained_today(tmp_path):
    # Not to the last bit: another machine may round otherwise.
    job = read_job(sample(STOPPED[0], tmp_path))
    kept = learned(job.graph, job.settings, checkpoints=FolderCheckpoints(tmp_path / STOPPED[0])).model
    fresh = learn(job.graph, job.settings)
    for name, table in fresh.tables().items():
        torch.testing.assert_close(kept.tables()[name], table, atol=1e-2, rtol=0)


def test_migrations_are_applied_one_after_another(tmp_path, monkeypatch):
    format = contents.FORMAT
    folder = sample(f"run-{format}-accurate", tmp_path)
    before, applied = load_run(folder), []

    def migration(number):
        def migrate(found):
            applied.append(number)
            about = found[contents.SETTINGS]
            assert about.get("planted") == (number - 1 if number > format else None)
            return {**found, contents.SETTINGS: {**about, "planted": number}}

        return migrate

    for module in (store, contents):
        monkeypatch.setattr(module, "FORMAT", format + 2)
    for number in (format, format + 1):
        monkeypatch.setitem(contents.MIGRATIONS, number, migration(number))
    monkeypatch.setitem(contents.ABOUT, "planted", int)
    after = load_run(folder)
    assert applied == [format, format + 1]
    assert same(after.model, before.model)
    assert after.settings == before.settings
    reseal(folder, format=format + 2)  # it says that it is of today, and is not
    with pytest.raises(InputError, match="'planted' is missing"):
        load_run(folder)
    oldest = min(contents.MIGRATIONS)
    reseal(folder, format=oldest - 1)
    told = {"seen": f"format {oldest - 1}, this version reads formats from {oldest} on", "remedy": "train again"}
    refused(lambda: load_run(folder), setting=folder, **told)


def test_a_job_of_another_format_is_refused(tmp_path):
    folder = sample(STOPPED[0], tmp_path)
    seal(folder / jobs.JOB, jobs.TRAINING, jobs.FORMAT + 1)
    seen = f"format {jobs.FORMAT + 1}, this version reads format {jobs.FORMAT}"
    refused(lambda: read_job(folder), setting=folder, seen=seen, remedy="train again")
