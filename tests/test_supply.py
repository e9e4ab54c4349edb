"""Laws of the lock, licences, advisories and the bill of materials, and of what the code never does."""

import ast
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


@pytest.fixture
def supply(monkeypatch):
    """Return the script."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import supply

    return supply


@pytest.fixture
def packages(supply):
    """Return the packages of the lock by name."""
    return {each.name: each for each in supply.locked(supply.LOCK.read_text(encoding="utf-8"))}


def test_every_line_of_the_lock_belongs_to_a_pinned_and_hashed_package(supply, packages):
    text = supply.LOCK.read_text(encoding="utf-8")
    rest = supply.ENTRY.sub("", text)
    assert rest == supply.HEAD + supply.CUDA
    assert len(packages) == len(supply.locked(text)) > 50  # each once
    for each in packages.values():
        assert each.hashes, each
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in each.hashes), each


def test_the_lock_names_no_index_and_no_folder(supply):
    text = supply.LOCK.read_text(encoding="utf-8")
    assert "/" not in text
    assert "--index" not in text


def test_every_direct_dependency_is_locked_as_the_project_and_the_constraints_say(supply, packages):
    project = supply.SETTINGS["project"]
    extras = [each for name in ("parquet", "rdf", "zstd", "co2") for each in project["optional-dependencies"][name]]
    assert project["optional-dependencies"]["all"] == ["procrustes-kge[parquet,rdf,zstd,co2,plots,index]"]
    for line in (*project["dependencies"], *extras, *supply.SETTINGS["build-system"]["requires"]):
        wanted = Requirement(line)
        assert wanted.specifier.contains(packages[canonicalize_name(wanted.name)].version), wanted


def test_the_lock_and_the_constraints_agree_and_only_cuda_is_not_constrained(supply, packages):
    pins = {supply.normal(name): pin for name, pin in supply.PIN.findall(supply.CONSTRAINTS.read_text("utf-8"))}
    assert {name: each.version for name, each in packages.items() if name in pins} == {
        name: pins[name] for name in packages if name in pins
    }
    assert packages.keys() - pins.keys() == supply.of_cuda(list(packages.values())) - {"torch"}


def test_what_a_locked_package_needs_is_locked_too(packages):
    looked_at = 0
    for each in packages.values():
        try:
            found = distribution(each.name)
        except PackageNotFoundError:
            continue
        if found.version.partition("+")[0] != each.version:
            continue
        looked_at += 1
        for line in found.requires or ():
            needed = Requirement(line)
            if not needed.marker or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in packages, f"{each.name} needs {line}"
    assert looked_at > 30


def test_pytorch_stands_last_so_that_it_can_be_left_out(supply, packages):
    first, cut, last = supply.LOCK.read_text(encoding="utf-8").partition("# PyTorch")
    assert cut
    assert {each.name for each in supply.locked(last)} == supply.of_cuda(list(packages.values()))
    for each in supply.locked(first):
        assert "sys_platform == 'linux'" not in each.marker
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert f"pip install torch=={packages['torch'].version}\n" in page


def test_the_licences_of_all_that_is_locked_and_pinned_are_listed_and_accepted(supply):
    assert list(supply.licence_problems()) == []


@pytest.mark.parametrize(
    ("licence", "bad"),
    [
        ("MIT", []),
        ("MIT OR GPL-3.0-only", []),
        ("(MIT OR GPL-3.0-only) AND Zlib", []),
        ("MIT AND GPL-3.0-only", ["GPL-3.0-only"]),
        ("AGPL-3.0-or-later", ["AGPL-3.0-or-later"]),
        ("LicenseRef-NVIDIA-Proprietary", ["LicenseRef-NVIDIA-Proprietary"]),
        ("unknown", ["unknown"]),
        ("", [""]),
    ],
)
def test_a_licence_is_refused_unless_each_part_has_an_accepted_alternative(supply, licence, bad):
    assert supply.refused(licence) == bad


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("| rich | 15.0.0 | MIT |\n", ""), "does not list what is locked"),
        (("| rich | 15.0.0 | MIT |", "| rich | 15.0.0 | ISC |"), "does not list what is locked"),
        (("| rich | 15.0.0 | MIT |", "| rich | 14.0.0 | MIT |"), "does not list what is locked"),
        (("| triton | 3.7.1 | MIT |\n", ""), "triton 3.7.1: unknown is not"),
        (("| triton | 3.7.1 | MIT |", "| triton | 3.7.1 | GPL-2.0-only |"), "triton 3.7.1: GPL-2.0-only is not"),
    ],
)
def test_a_page_of_licences_that_differs_is_found_and_written_again(supply, change, said, tmp_path, monkeypatch):
    page = tmp_path / "licences.md"
    whole = supply.LICENCES.read_text(encoding="utf-8")
    assert change[0] in whole
    page.write_text(whole.replace(*change), encoding="utf-8")
    monkeypatch.setattr(supply, "LICENCES", page)
    assert said in "\n".join(supply.licence_problems())
    list(supply.licence_problems(write=True))
    assert (page.read_text(encoding="utf-8") == whole) == ("rich" in change[0])


def test_an_advisory_is_named_with_the_version_that_mends_it(supply):
    hole = {"id": "GHSA-1", "fix_versions": ["2.1"], "aliases": [], "description": ""}
    printed = json.dumps({"dependencies": [{"name": "rich", "version": "2.0", "vulns": [hole]}], "fixes": []})
    (said,) = supply.advisories(printed, "", 1)
    assert said == "rich 2.0 has GHSA-1, mended in 2.1; raise it in constraints.txt"


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "nothing was audited"),
        ('{"dependencies": [{"name": "rich", "skip_reason": "not found"}], "fixes": []}', "2 of 2 packages were not"),
        ('{"dependencies": [{"name": "rich", "version": "1", "vulns": []}], "fixes": []}', "1 of 2 packages were not"),
    ],
)
def test_what_could_not_be_looked_up_is_not_called_well(supply, printed, said):
    with pytest.raises(supply.UndoneError, match=said):
        list(supply.advisories(printed, "no route to the host\n", 2))


def test_an_audit_without_advisories_ends_with_2_and_a_sentence(tmp_path):
    (tmp_path / "pip_audit.py").write_text("raise SystemExit('no route to the host')")
    command = [sys.executable, str(ROOT / "scripts" / "supply.py"), "audit"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(tmp_path)})
    assert said.returncode == 2, said
    assert said.stderr == "nothing was audited: the advisories could not be looked up; no route to the host\n"


def test_a_bill_of_materials_has_every_locked_package_once_with_licence_and_hashes(supply, packages):
    text = supply.LOCK.read_text(encoding="utf-8")
    listed = supply.licences(supply.LICENCES.read_text(encoding="utf-8"))
    bill = supply.bill_of_materials(text, listed)
    assert bill == supply.bill_of_materials(text, listed)
    parts = {each["name"]: each for each in bill["components"]}
    assert parts.keys() == packages.keys()
    assert len(parts) == len(bill["components"])
    assert parts["certifi"]["licenses"] == [{"expression": "MPL-2.0"}]
    assert len(parts["torch"]["externalReferences"][0]["hashes"]) == len(packages["torch"].hashes)
    refs = {each["bom-ref"] for each in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    tree = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert tree.keys() == refs
    assert {ref for below in tree.values() for ref in below} <= refs
    ours = tree[bill["metadata"]["component"]["bom-ref"]]
    direct = [Requirement(line).name for line in supply.SETTINGS["project"]["dependencies"]]
    assert {parts[name]["bom-ref"] for name in direct} <= set(ours)


def test_nothing_in_the_package_unpickles_or_evaluates():
    modules = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
    calls = {"eval", "exec", "torch.load", "np.load", "numpy.load"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not modules & {each.name.split(".")[0] for each in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in modules, path
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in calls, path
