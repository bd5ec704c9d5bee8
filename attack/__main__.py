"""Attack the command line and print figures.

    python -m attack [inputs=300] [effects=15] [files=100] [kills=20] [seed=0] [first=0] [folder=DIR]

Settings come from the config's own schema; effects are good values that must change a result; files are good ones
damaged; kills fall at random moments of the tasks in `attack.kills`.
`first` is the number of the first case: with it a long attack can be made in pieces.
Most inputs run up to the first step of training, every tenth to the end. A failure is printed with the line that
repeats it, and its files stay. Exit code 1 where there is any.
"""

from __future__ import annotations

import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attack.command import GOOD, KINDS, PREPARE, RUN, Outcome, Shell
from attack.kills import Kills, content
from attack.place import Place
from attack.settings import effect, settings

NUMBERS = {"inputs": 300, "effects": 15, "files": 100, "kills": 20, "seed": 0, "first": 0}
CONFIGS = ("config.yaml", "kept_indices.json")
WHOLE = 0.1  # share of the settings that run to the end
SHOWN = 6  # last lines of a failure


class Attack:
    """An attack in a folder; `counts` says what came of it."""

    def __init__(self, folder: Path, seed: int, first: int = 0) -> None:
        self.place, self.shell, self.seed, self.first = Place(folder), Shell(folder), seed, first
        self.counts: Counter[str] = Counter()
        self.place.ready(self.shell)

    def settings(self, number: int) -> None:
        """Type bad settings."""
        for case in range(self.first, self.first + number):
            rng = random.Random(f"{self.seed} settings {case}")
            setting = settings(rng)
            words = [*self._around(setting.words), *self.place.store("attacked"), *setting.words]
            is_search = any(word.startswith("search=") for word in words)  # many runs
            script = RUN if rng.random() < WHOLE and not is_search else PREPARE
            outcome = self.shell.run(words, script)
            kind = outcome.kind
            if kind == "accepted" and setting.must_fail:
                kind = "silent"
            self._count(kind, f"settings {case}", words, setting.must_fail or "", outcome)

    def _around(self, words: Sequence[str]) -> list[str]:
        """The words that make a line work on the tiny files."""
        if "task=describe" in words:
            return self.place.data
        if "task=cluster" in words:
            return [*self.place.clustered, *self.place.small_clustering]
        return [*self.place.data, *(word for word in self.place.small if not _idle(word, words))]

    def effects(self, number: int) -> None:
        """Give one key another value, and look whether the results of the whole run are others."""
        figures: dict[tuple[str, ...], dict[str, str]] = {}
        for case in range(self.first, self.first + number):
            base, word = effect(random.Random(f"{self.seed} effects {case}"))
            if base not in figures:
                words = [*self._around(base), *self.place.store("bases"), *base]
                outcome, figures[base] = self._figures(words)
                if outcome.kind != "accepted":  # nothing to compare with: a refusal is no good end here
                    kind = "unclear" if outcome.kind == "refused" else outcome.kind
                    self._count(kind, f"base of effects {case}", words, "nothing changed", outcome)
            if not figures[base]:
                continue
            words = [*self._around(base), *self.place.store(f"effects-{case}"), *base, word]
            outcome, changed = self._figures(words)
            kind = outcome.kind
            if kind == "accepted" and changed == figures[base]:
                kind = "silent"
            self._count(kind, f"effects {case}", words, word, outcome)

    def _figures(self, words: Sequence[str]) -> tuple[Outcome, dict[str, str]]:
        """How a line ended, and the digests of its results, its config left out."""
        outcome = self.shell.run(words)
        if outcome.code != 0:
            return outcome, {}
        results = content(Path(outcome.text.splitlines()[-1]))
        return outcome, {name: digest for name, digest in results.items() if name not in CONFIGS}

    def files(self, number: int) -> None:
        """Type lines with bad files."""
        for case in range(self.first, self.first + number):
            rng = random.Random(f"{self.seed} files {case}")
            folder = self.place.folder / f"case-{case}"
            line = self.place.file_attack(rng, folder)
            outcome = self.shell.run(line.words, line.script)
            kind = "executed" if line.mark and line.mark.exists() else outcome.kind
            self._count(kind, f"files {case}", line.words, line.about, outcome)
            if kind in GOOD:
                shutil.rmtree(folder)

    def kills(self, number: int) -> None:
        """Kill tasks and type them again."""
        kills = Kills(self.place, self.shell)
        for case in range(self.first, self.first + number):
            about, words, problem = kills.kill(random.Random(f"{self.seed} kills {case}"), case)
            self.counts["kills"] += about.count(" after ")
            self.counts["lost" if problem else "survived"] += 1
            if problem:
                _show("lost", f"kills {case}", words, about, problem)

    def _count(self, kind: str, case: str, words: Sequence[str], about: str, outcome: Outcome) -> None:
        self.counts[kind] += 1
        if kind not in GOOD:
            _show(kind, case, words, about, outcome.text)

    @property
    def failures(self) -> int:
        return sum(self.counts[kind] for kind in (*KINDS, "lost") if kind not in GOOD)


def _idle(word: str, words: Sequence[str]) -> bool:
    """Whether a word of the surroundings would be refused as without effect beside the others."""
    return "encoder.train=frozen" in words and word.startswith("optimizer.lr=")


def _show(kind: str, case: str, words: Sequence[str], about: str, text: str) -> None:
    line = shlex.join(["python", "run.py", *words])
    print(f"\n{kind} ({case}; {about})\n  {line if len(line) < 3000 else line[:3000] + '…'}", flush=True)
    for shown in text.splitlines()[-SHOWN:]:
        print(f"    {shown[:300]}", flush=True)


def main(arguments: Sequence[str]) -> int:
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := options.keys() - {*NUMBERS, "folder"}:
        sys.exit(f"error: {', '.join(unknown)}: unknown; {__doc__}")
    try:
        numbers = {name: int(options.get(name, default)) for name, default in NUMBERS.items()}
    except ValueError as error:
        sys.exit(f"error: {error}; allowed: whole numbers for {', '.join(NUMBERS)}")
    started, folder = time.monotonic(), options.get("folder") or tempfile.mkdtemp(prefix="kontrast-attack-")
    attack = Attack(Path(folder).resolve(), numbers["seed"], numbers["first"])
    try:
        attack.settings(numbers["inputs"])
        attack.effects(numbers["effects"])
        attack.files(numbers["files"])
        attack.kills(numbers["kills"])
    finally:
        attack.shell.close()
    counts, tried = attack.counts, sum(numbers[name] for name in ("inputs", "effects", "files"))
    print(f"\nseed {numbers['seed']}, {time.monotonic() - started:.0f} s, in {folder}")
    print(f"inputs tried: {tried}; " + "; ".join(f"{kind}: {counts[kind]}" for kind in KINDS))
    ends = f"survived: {counts['survived']}; lost: {counts['lost']}"
    print(f"kills: {counts['kills']} in {numbers['kills']} commands; {ends}")
    if attack.failures == 0 and "folder" not in options:
        shutil.rmtree(folder)
    return int(attack.failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
