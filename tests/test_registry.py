"""Classes of one's own by name: registered, imported from a file or a module, or installed with entry points."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from helpers.own import MEASURE
from peekrank import registry
from peekrank.learners import RTop1F, Uniform
from peekrank.measures import DCG, LinearMeasureMixin, Relevance, measure
from peekrank.registry import KINDS, LEARNERS, MEASURES, STREAMS, SURROGATES, load, origins, register
from peekrank.streams import CT15
from peekrank.surrogates import Squared
from peekrank.types import Floats

pytestmark = pytest.mark.usefixtures("own_registry")


@dataclass(frozen=True)
class Half(LinearMeasureMixin):
    """Half the relevance of all."""

    name: ClassVar[str] = "half"
    higher_is_better: ClassVar[bool] = True

    def discount(self, m: int) -> Floats:
        return np.full(m, 0.5)

    def gain(self, relevance: Relevance) -> Floats:
        return relevance.astype(np.float64)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_built_in_names_are_those_of_their_classes(kind: registry.Registry) -> None:
    for name, address in kind.built_in.items():
        cls = kind[name]
        assert cls.name == name
        assert f"{cls.__module__}:{cls.__qualname__}" == address
        assert kind.missing(cls) == []
        assert registry._nearest_kind(cls) is kind
        assert kind.built_in_class(cls.__name__) is cls


def test_names_are_looked_up_without_importing_learners() -> None:
    import subprocess

    code = "from peekrank.registry import LEARNERS, MEASURES; import sys\n"
    code += "assert 'rtop1f' in LEARNERS and 'nothing' not in MEASURES and len(list(LEARNERS)) > 8\n"
    code += "print([name for name in sys.modules if 'numba' in name or name.startswith('peekrank.learners')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_class_is_registered_as_what_it_is() -> None:
    assert register(Half) is Half
    assert MEASURES["half"] is Half
    assert measure("half") == Half()
    assert all("half" not in kind for kind in (LEARNERS, SURROGATES, STREAMS))
    register(Half)  # again


def test_a_taken_name_is_rejected_with_both_origins() -> None:
    @dataclass(frozen=True)
    class Other(DCG):
        name: ClassVar[str] = "dcg"

    with pytest.raises(ValueError, match=r"measure 'dcg' is both DCG of peekrank\.measures\S* and .*Other of"):
        register(Other)
    assert measure("dcg") == DCG()


def test_a_class_that_is_defined_again_replaces_the_old_one() -> None:
    def defined() -> type[Any]:
        @dataclass(frozen=True)
        class Again(DCG):
            name: ClassVar[str] = "again"

        return register(Again)

    first, second = defined(), defined()
    assert first is not second
    assert MEASURES["again"] is second


def test_what_is_missing_is_named() -> None:
    @dataclass(frozen=True)
    class Judge:
        name: ClassVar[str] = "judge"
        higher_is_better: ClassVar[bool] = True

    with pytest.raises(ValueError, match=r"Judge of .* is not a measure: it has no values"):
        register(Judge)
    with pytest.raises(ValueError, match=r"'a b': must be letters"):
        register(dataclass(frozen=True)(type("Spaced", (DCG,), {"name": "a b"})))
    with pytest.raises(ValueError, match="must be a frozen dataclass"):
        MEASURES.add(type("Plain", (), {"name": "plain", "higher_is_better": True, "values": None}))


def test_a_file_registers_what_it_defines(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MEASURE + "\nclass _Hidden(Mine):\n    name = 'hidden'\n")
    (cls,) = load(file)
    assert measure("mine") == cls()
    assert "hidden" not in MEASURES
    assert measure("dcg") == DCG()  # which the file imports, and does not define
    assert load(str(file)) == [cls]


def test_files_of_one_name_are_two_files(tmp_path: Path) -> None:
    for folder, name in (("a", "mine"), ("b", "yours"), ("c", "mine")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(MEASURE.replace('"mine"', f'"{name}"'))
    load(tmp_path / "a" / "own.py")
    load(tmp_path / "b" / "own.py")
    with pytest.raises(ValueError, match=r"measure 'mine' is both Mine of .*a.own\.py and Mine of .*c.own\.py"):
        load(tmp_path / "c" / "own.py")
    assert type(measure("mine")) is not type(measure("yours"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", r"own\.py defines no learner, measure, surrogate or stream$"),
        (MEASURE.replace("higher", "lower"), r"stream; Mine would be a measure if it had higher_is_better"),
        ("x = 1\ny = 1 / 0\n", r"own\.py, line 2 cannot be imported: ZeroDivisionError: division by zero"),
        ("x = (\n", r"own\.py cannot be imported: SyntaxError: .*line 1"),
        ("import nothing_of_the_kind\n", r"line 1 cannot be imported: ModuleNotFoundError: No module"),
        ("raise SystemExit('no')\n", r"cannot be imported: SystemExit: no"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_value_error(tmp_path: Path, text: str, said: str) -> None:
    file, before = tmp_path / "own.py", set(sys.modules)
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        load(file)
    file.write_text(MEASURE)  # and is read again once it is mended
    if "defines no" not in said and "would be" not in said:
        assert {name for name in set(sys.modules) - before if name.startswith("own")} == set()
        assert load(file)


def test_a_module_or_package_is_imported_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("from own_package.judges import Mine\n")
    (tmp_path / "own_package" / "judges.py").write_text(MEASURE)
    assert [cls.__name__ for cls in load("own_package")] == ["Mine"]
    assert str(measure("mine")) == "mine"
    for wrong in ("own_package.nothing", "no_such_package", "missing.py", "", "a b"):
        with pytest.raises(ValueError, match="import"):
            load(wrong)


def _install(folder: Path, group: str, points: dict[str, str], package: str = "own-package") -> None:
    """Lay a folder out as an installer does."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")


def test_entry_points_are_known_and_broken_ones_give_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_judge.py").write_text(
        MEASURE + "\n@dataclass(frozen=True)\nclass Taken(DCG):\n    name: ClassVar[str] = 'dcg'\n"
    )
    points = {
        "mine": "own_judge:Mine",
        "gone": "own_judge:Gone",
        "lost": "no_such_module:Lost",
        "dcg": "own_judge:Taken",
    }
    _install(tmp_path, "peekrank.measures", points)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert str(measure("mine")) == "mine"
        assert measure("dcg") == DCG()
        assert set(MEASURES) == {*MEASURES.built_in, "mine"}
    told = sorted(str(warning.message) for warning in caught)
    assert [text.split("(")[0] for text in told] == [
        f"entry point '{name} = {points[name]}' " for name in ("dcg", "gone", "lost")
    ]
    assert all("peekrank.measures, of own-package) is skipped: " in text for text in told)
    assert "is both DCG of" in told[0]
    assert "AttributeError" in told[1]
    assert "No module named 'no_such_module'" in told[2]


def test_two_packages_with_one_name_keep_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own_a", "own_b"):
        (tmp_path / f"{name}.py").write_text(MEASURE)
        _install(tmp_path, "peekrank.measures", {"mine": f"{name}:Mine"}, name)
    with pytest.warns(UserWarning, match=r"own_b:Mine.*'mine' is both Mine of own_a and Mine of own_b"):
        assert type(measure("mine")).__module__ == "own_a"


def test_origins_are_digests_of_code_not_of_positions(tmp_path: Path) -> None:
    assert origins(Uniform(), DCG(), CT15(), Squared(), RTop1F(DCG(), 100)) == {}
    digests = []
    for folder, text in (
        ("a", MEASURE),
        ("b", "# a comment\n" + MEASURE),
        ("c", MEASURE.replace("1.0, m", "2.0, m")),
    ):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "own.py"
        file.write_text(text)
        MEASURES._known.pop("mine", None)
        (cls,) = load(file)
        found = origins(RTop1F(cls(), 100))  # a measure within a learner
        assert list(found) == ["Mine of own.py"]
        digests.append(found["Mine of own.py"])
    assert digests[0] == digests[1] != digests[2]


def test_of_a_package_what_a_module_imports_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "own_pair"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "judges.py").write_text("from own_pair import numbers\n" + MEASURE)
    (package / "other.py").write_text("y = 1\n")
    found = []
    for text, other in (("x = 1\n", "y = 1\n"), ("x = 1\n", "y = 2\n"), ("x = 2\n", "y = 2\n")):
        (package / "numbers.py").write_text(text)
        (package / "other.py").write_text(other)
        registry._digest.cache_clear()
        (cls,) = load("own_pair.judges")
        found.append(origins(cls()))
    assert list(found[0]) == ["Mine of own_pair.judges"]
    assert found[0] == found[1] != found[2]


def test_summaries_are_the_first_lines_of_docstrings_without_an_import() -> None:
    code = (
        "import sys; from peekrank.registry import KINDS\n"
        "found = [[k.summary(n) for n in k.built_in] for k in KINDS]\n"
        "assert 'numpy' not in sys.modules\n"
        "assert found == [[k[n].__doc__.partition('\\n')[0] for n in k.built_in] for k in KINDS]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
