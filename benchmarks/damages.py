"""Damage run folders and trainings that were stopped, in random ways, and see whether anything damaged is believed.

    python benchmarks/damages.py                    1,000 damages and 4,000 absurd settings

After a damage, opening the folder must say so in a sentence, or give exactly what was saved, and `procrustes check`
must not call sound what cannot be opened. Absurd settings are sealed again, so that they are reached: each must be
refused in a sentence. Writes benchmarks/results/damages.json.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import result_files
from absurdities import make_absurd
from masters import looked_at, made
from watched import DONE, MEGABYTES, SECONDS, Outcome, is_sentence, watched

DETECTED, HARMLESS, BELIEVED = "detected", "harmless", "believed"
WORST = 12  # findings that are kept, of each campaign
Damage = Callable[[random.Random, Path, list[Path]], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--settings", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a process that is forked has no other threads
    with tempfile.TemporaryDirectory() as place:
        masters = made(Path(place) / "masters")
        rows = [
            campaign("damages", damaged, masters, arguments.damages, arguments.seed, Path(place)),
            campaign("absurd settings", make_absurd, masters, arguments.settings, arguments.seed, Path(place)),
        ]
    limits = {"seconds": SECONDS, "megabytes": MEGABYTES}
    about = {"commit": result_files.commit(), "seed": arguments.seed, "limits": limits}
    result_files.write("damages", about | {"rows": rows}, arguments.folder)
    sys.exit(any(row["findings"] for row in rows))


def campaign(
    name: str, change: Callable[..., str], masters: list[Path], count: int, seed: int, place: Path
) -> dict[str, Any]:
    """Change so many copies of folders, open each, and count how that ended."""
    whole = {master: sums_of(master, place) for master in masters}
    ends, findings, kinds = Counter[str](), list[dict[str, Any]](), Counter[str]()
    seconds = megabytes = 0.0
    for trial in range(count):
        chance = random.Random(f"{name} {seed} {trial}")
        master = chance.choice(masters)
        copy = copied(master, place)
        what = change(chance, copy, masters)
        outcome = watched(looked_at, str(copy))
        ended, said = judged(outcome, whole[master], must_refuse=change is make_absurd)
        ends[ended] += 1
        kinds[what.split(":")[0]] += 1
        seconds, megabytes = max(seconds, outcome.seconds), max(megabytes, outcome.megabytes)
        if ended not in (DETECTED, HARMLESS):
            findings.append({"trial": trial, "folder": master.name, "change": what, "ended": ended, "said": said})
            print(findings[-1], flush=True)
        shutil.rmtree(copy.parent)
    row = {"campaign": name, "trials": count, "ends": dict(ends), "changes": dict(sorted(kinds.items()))}
    row |= {"most_seconds": seconds, "most_megabytes": megabytes, "findings": findings[:WORST]}
    print("   ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def sums_of(master: Path, place: Path) -> tuple[str, ...]:
    """Return the sum of what a folder holds; of a training, also of its earlier moments."""
    sums, copy = [looked_at(str(master))["sum"]], copied(master, place)
    for newest in sorted(copy.glob("checkpoint-*"), reverse=True):
        shutil.rmtree(newest)
        sums.append(looked_at(str(copy))["sum"])
    shutil.rmtree(copy.parent)
    return tuple(sums)


def copied(master: Path, place: Path) -> Path:
    """Return a copy of a folder, alone in its parent."""
    return Path(shutil.copytree(master, place / "copy" / master.name))


def judged(outcome: Outcome, whole: tuple[str, ...], must_refuse: bool) -> tuple[str, str]:
    """Return how opening a damaged folder has ended, and what was said."""
    if outcome.kind != DONE:
        return outcome.kind, str(outcome.result)
    found = outcome.result
    for text in (found.get("refused", "."), found["verdict"] or "."):
        if not is_sentence(text):
            return "not a sentence", text
    if "refused" in found:
        return (DETECTED if not found["sound"] else "checked as sound"), found["refused"]
    if found.get("told") and found["sum"] in whole[1:] and not found["sound"]:
        return DETECTED, "an earlier moment is used"
    if found["sum"] == whole[0] and not must_refuse:
        return HARMLESS, ""
    return BELIEVED, found["sum"]


def damaged(chance: random.Random, folder: Path, masters: list[Path]) -> str:
    """Damage a folder in one random way; return its name."""
    name = chance.choice([*DAMAGES])
    file = chance.choice(files_in(folder))
    strangers = [file for master in masters for file in files_in(master) if master.name != folder.name]
    same = [each for each in strangers if each.name == file.name] or strangers
    DAMAGES[name](chance, file, same if "run" in name else files_in(folder))
    return f"{name}: {file.relative_to(folder)}"


def files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def edited(change: Callable[[random.Random, bytearray], bytes | bytearray]) -> Damage:
    """Return a damage of what a file holds."""

    def edit(chance: random.Random, file: Path, others: list[Path]) -> None:
        file.write_bytes(change(chance, bytearray(file.read_bytes())))

    return edit


def flip(chance: random.Random, content: bytearray) -> bytearray:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content


def blank(chance: random.Random, content: bytearray) -> bytearray:
    start = chance.randrange(len(content))
    length = min(len(content) - start, chance.randint(1, 4096))
    content[start : start + length] = bytes(length)
    return content


def repeat(chance: random.Random, content: bytearray) -> bytes:
    lines = bytes(content).splitlines(keepends=True)
    return b"".join([*lines, chance.choice(lines)])


def exchange(chance: random.Random, content: bytearray) -> bytes:
    lines = bytes(content).splitlines(keepends=True)
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def swap(chance: random.Random, file: Path, others: list[Path]) -> None:
    other = chance.choice([each for each in others if each.parent == file.parent])
    held = other.read_bytes()
    other.write_bytes(file.read_bytes())
    file.write_bytes(held)


def another(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.write_bytes(chance.choice(others).read_bytes())


def renamed(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.rename(file.with_name(chance.choice(["x", "x.json", file.name.upper()])))


def too_many(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.with_name("notes").write_text("mine")


def link(target: str) -> Damage:
    """Return a damage: a link instead of a file."""

    def put(chance: random.Random, file: Path, others: list[Path]) -> None:
        file.unlink()
        file.symlink_to(target)

    return put


def pipe(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.unlink()
    os.mkfifo(file)


def folder_instead(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.unlink()
    file.mkdir()


def elsewhere(chance: random.Random, file: Path, others: list[Path]) -> None:
    whole = file.rename(file.parent.parent / "elsewhere")
    file.symlink_to(whole)


DAMAGES: dict[str, Damage] = {
    "a bit": edited(flip),
    "several bits": edited(lambda chance, content: [flip(chance, content) for _ in range(9)][-1]),
    "cut short": edited(lambda chance, content: content[: chance.randrange(len(content))]),
    "emptied": edited(lambda chance, content: b""),
    "bytes added": edited(lambda chance, content: content + chance.randbytes(chance.randint(1, 99))),
    "bytes before": edited(lambda chance, content: chance.randbytes(chance.randint(1, 99)) + content),
    "blanked": edited(blank),
    "a line twice": edited(repeat),
    "lines exchanged": edited(exchange),
    "noise": edited(lambda chance, content: chance.randbytes(len(content))),
    "brackets": edited(lambda chance, content: b"[" * 200_000),
    "files exchanged": swap,
    "another file's": another,
    "another run's": another,
    "missing": lambda chance, file, others: file.unlink(),
    "renamed": renamed,
    "a huge hole": lambda chance, file, others: os.truncate(file, 10**11),
    "a pipe": pipe,
    "a folder": folder_instead,
    "a link to a device": link("/dev/zero"),
    "a link to nowhere": link("nowhere"),
    "a link to itself": elsewhere,
    "a file too many": too_many,
}


if __name__ == "__main__":
    main()
