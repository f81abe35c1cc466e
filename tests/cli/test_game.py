"""``peekrank game`` as a user meets it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import peekrank, refused, rows
from peekrank.cli import game as game_command
from peekrank.games import certificate as witness
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import pair_count
from peekrank.games.classic import CLASSIC
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate, Verdict

APPLES = ", good, rotten\neat, 0, 1\nbin, 1, 0\n\nsweet, sour\n-, -\n"


def read(path: str) -> Any:
    return json.loads(Path(path).read_text())


pytestmark = pytest.mark.usefixtures("empty_folder")


# --- one measure


def test_a_small_game_is_reported_by_theorem_and_definitions() -> None:
    said = rows(peekrank("game", "ndcg", "--m", "4", "--k", "2", "--json", "cell.json"))
    assert said["rate"].startswith("T, hopeless: no learner has sublinear regret")
    assert "Theorem 5" in said["why"]
    assert said["outcomes"] == "16"
    assert said["rankings"] == "24: 24 Pareto-optimal"
    assert said["neighbours"] == "36 pairs"
    assert said["observable"] == "globally no, locally no"
    assert "are neighbours, but no feedback says which is better" in said["obstacle"]
    assert said["basis"] == "theorem and definitions, which agree"
    data = read("cell.json")
    assert (data["measure"], data["rate"], data["how"]) == ("ndcg", "T", "both")
    assert data["definitions"]["pareto"] == data["definitions"]["classes"] == 24
    assert data["definitions"]["class"] == "hopeless"


def test_grades_and_duplicates() -> None:
    said = rows(peekrank("game", "p@1+sum", "--m", "3", "--k", "1", "--grades", "3"))
    assert said["rankings"] == "6: 3 Pareto-optimal, 3 duplicates"
    assert said["outcomes"] == "27"
    assert said["neighbours"] == "3 pairs"


def test_a_hard_game_names_its_obstacle() -> None:
    said = rows(peekrank("game", "dcg", "--m", "3", "--k", "1"))
    assert said["observable"] == "globally yes, locally no"
    assert said["obstacle"].startswith("only worse rankings reveal whether '")


def test_large_games_are_reported_by_theorem_alone() -> None:
    said = rows(peekrank("game", "ndcg@10", "--m", "1000000", "--k", "10", "--json", "cell.json"))
    assert said["rate"].startswith("T, hopeless")
    assert said["basis"].startswith("theorem only")
    assert "rankings" not in said
    assert read("cell.json")["definitions"] is None


def test_definitions_alone_give_no_theorem() -> None:
    said = rows(peekrank("game", "ap", "--m", "3", "--k", "3", "--from", "definitions"))
    assert said["rate"].startswith("sqrt(T), easy")
    assert "why" not in said
    assert "basis" not in said


@pytest.mark.parametrize(("name", "m"), [("p@2+sum", 4), ("ap", 4), ("dcg@1", 3), ("p@3+sum", 3)])
def test_neighbouring_pairs_are_counted_up_to_symmetry(name: str, m: int) -> None:
    found = analyse(ranking_game(name, m, 1))
    assert found.cells
    assert pair_count(found.game, found.cells) == len(witness.all_borders(found.game, found.cells))


def test_a_disagreement_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game_command, "feedback_theorem", lambda *_: Verdict(Rate.LINEAR, "theorem", "a slip"))
    done = peekrank("game", "dcg", "--m", "2", "--k", "1")
    assert done.exit_code == 2
    assert "the theorem gives T, the definitions give sqrt(T)" in done.output


# --- games with matrices of their own


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_games(name: str) -> None:
    said = rows(peekrank("game", name, "--json", "game.json"))
    assert said["rate"].startswith(f"{CLASSIC[name].rate}, ")
    assert [action["action"] for action in read("game.json")["actions"]] == list(CLASSIC[name].game.actions)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files(kind: str) -> None:
    Path("game.csv").write_text(APPLES)
    game = {"loss": [[0, 1], [1, 0]], "feedback": [["sweet", "sour"], ["-", "-"]], "actions": ["eat", "bin"]}
    Path("game.json").write_text(json.dumps(game))
    said = rows(peekrank("game", f"game.{kind}"))
    assert said["eat"].split() == ["Pareto-optimal", "1", "of", "1", "bin"]
    assert said["observable"] == "globally yes, locally yes"
    assert "without separate exploration" in said["rate"]


def test_every_kind_of_action_is_named() -> None:
    loss = [[0, 1], [1, 0], [0, 1], ["1/2", "1/2"], [2, 2]]
    names = ["[left]", "right", "copy", "between", "never"]
    Path("game.json").write_text(json.dumps({"loss": loss, "feedback": [["-", "-"]] * 5, "actions": names}))
    done = peekrank("game", "game.json", "--json", "out.json")
    said = rows(done)
    assert said["copy"].split() == ["Pareto-optimal", "[left]", "1", "of", "1", "right"]
    assert said["between"].split() == ["degenerate", "0", "of", "1", "-"]
    assert said["never"].split() == ["dominated", "empty", "-"]
    assert said["actions"] == "5: 2 Pareto-optimal, 1 degenerate, 1 dominated, 1 duplicate"
    assert "no learner has sublinear regret" in said["rate"]
    assert read("out.json")["actions"][2]["duplicate_of"] == "[left]"


@pytest.mark.slow
def test_many_actions_are_cut_short_but_not_in_json() -> None:
    loss = [[i, -i] for i in range(42)]
    Path("game.json").write_text(json.dumps({"loss": loss, "feedback": [["a", "b"]] * 42}))
    done = peekrank("game", "game.json", "--json", "out.json")
    assert "... and 2 more actions" in done.stdout
    assert len(read("out.json")["actions"]) == 42


def test_what_is_undecided_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(game: Game, **_: Any) -> Analysis:
        return Analysis(game, None, None, undecided="whether actions 0 and 1 are neighbours")

    monkeypatch.setattr(game_command, "analyse", undecided)
    done = peekrank("game", "bandit", "--certificate", "proof.json")
    assert "rate       undecided" in done.stdout
    assert "whether actions 0 and 1 are neighbours: neither exact" in done.stdout
    assert done.exit_code == 2
    assert "the rate is undecided, so it has no certificate" in done.output
    assert not Path("proof.json").exists()


# --- the table


def test_the_table_shows_all_measures_and_what_rates_mean() -> None:
    done = peekrank("game", "--m", "3", "--json", "table.json")
    assert done.exit_code == 0
    assert "k=1" in done.stdout
    said = rows(done)
    assert said["ndcg"].split() == ["T", "T^(2/3)", "sqrt(T)"]
    assert said["T"].startswith("hopeless")
    assert "Computed from the definitions; the theorems of" in done.stdout
    data = read("table.json")
    assert data["from"] == "both"
    assert len(data["cells"]) == 42


def test_the_table_of_many_items_joins_columns() -> None:
    done = peekrank("game", "--m", "1000", "--grades", "3")
    assert "k=1,000" in done.stdout
    assert rows(done)["ndcg"].split()[-2:] == ["T", "sqrt(T)"]
    assert "By the theorems" in done.stdout


def test_undecided_cells_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from peekrank.games import rate_table as table

    monkeypatch.setattr(table, "analyse", lambda game, *_: Analysis(game, None, None, undecided="a sign"))
    said = rows(peekrank("game", "--m", "2", "--from", "definitions"))
    assert said["dcg"].split() == ["?", "?"]
    assert said["?"].startswith("undecided")


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("png", b"\x89PNG"),
        pytest.param("svg", b"<?xml", marks=pytest.mark.slow),
        pytest.param("PDF", b"%PDF", marks=pytest.mark.slow),
    ],
)
def test_pictures(kind: str, start: bytes) -> None:
    for name in ("a", "folder/b"):
        assert peekrank("game", "--m", "30", "--picture", f"{name}.{kind}").exit_code == 0
    content = Path(f"a.{kind}").read_bytes()
    assert content.startswith(start)
    assert content == Path(f"folder/b.{kind}").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--m", "7"], ["ndcg", "--m", "3", "--k", "1"], ["telling-duplicate"]])
@pytest.mark.parametrize("columns", [80, 120])
def test_narrow_terminals_lose_no_letter(arguments: list[str], columns: int) -> None:
    wide, narrow = peekrank("game", *arguments).stdout, peekrank("game", *arguments, columns=columns).stdout
    assert Counter(c for c in narrow if c.isalnum()) == Counter(c for c in wide if c.isalnum())
    assert max(map(len, narrow.splitlines())) <= columns


# --- certificates


@pytest.mark.slow
def test_the_certificate_of_a_hopeless_game_comes_with_commands_that_run() -> None:
    done = peekrank("game", "ndcg", "--m", "3", "--k", "1", "--certificate", "my proof.json", columns=80)
    assert done.exit_code == 0
    proof = read("my proof.json")
    assert f"at least {proof['adversaries']['gap']:.3g} per round" in " ".join(done.stdout.split())
    commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("peekrank ")]
    assert [command[-1] for command in commands] == ["adversary-p", "adversary-q"]
    for _, *arguments in commands:
        assert peekrank(*arguments, "--horizon", "100", "--runs", "1").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["dcg", "--m", "3", "--k", "1"], "unobservable_pair"),
        (["dcg", "--m", "3", "--k", "2"], "neighbours"),
        (["p@2+sum", "--m", "2", "--k", "1"], "kinds"),
        (["blind-pennies"], "adversaries"),
        (["apples.csv"], "observers"),
    ],
)
def test_certificates_of_all_rates(arguments: list[str], key: str) -> None:
    Path("apples.csv").write_text(APPLES)
    done = peekrank("game", *arguments, "--certificate", "proof.json")
    assert done.exit_code == 0
    assert "docs/theory/games.md" in done.stdout
    assert "peekrank simulate" not in done.stdout
    assert key in read("proof.json")


# --- what can go wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nddcg", "--m", "4", "--k", "2"], "unknown measure or game 'nddcg': did you mean 'ndcg'?"),
        (["apple-testing"], "did you mean 'apple-tasting'?"),
        (["[red]"], "unknown measure or game '[red]'"),
        (["p", "--m", "3", "--k", "1"], "measure 'p' needs a cut-off"),
        (["ndcg", "--m", "4", "--k", "5"], "k = 5: must be a whole number, from 1 to 4"),
        (["ndcg", "--m", "4"], "a measure needs --k, as in: peekrank game ndcg --m 5 --k 2"),
        (["ndcg"], "a measure needs --m and --k"),
        ([], "the table of all measures needs --m"),
        (["--m", "0"], "m = 0: must be a whole number, at least 1"),
        (["--m", "3", "--grades", "0"], "grades = 0"),
        (["--m", "3", "--k", "2"], "--k does not apply to the table of all measures"),
        (["--m", "3", "--from", "guess"], "--from = 'guess': must be 'theorem' or 'definitions' or 'both'"),
        (["--m", "3", "--certificate", "c.json"], "--certificate does not apply to the table"),
        (["bandit", "--grades", "2"], "--grades does not apply to a single game"),
        (["dcg", "--m", "3", "--k", "2", "--picture", "a.png"], "--picture does not apply to a measure"),
        (
            ["dcg", "--m", "3", "--k", "2", "--certificate", "c", "--from", "theorem"],
            "--certificate needs --from definitions or both",
        ),
        (["ndcg", "--m", "14", "--k", "2", "--from", "both"], "m = 14: matrices for 2 grades need"),
        (["nowhere.csv"], "nowhere.csv"),
        (["broken.csv"], "broken.csv: the feedback is missing"),
        (["readme.txt"], "the name of a game file must end in .json or .csv"),
        (["--m", "3", "--picture", "a.gif"], "a.gif: --picture must end in .png, .svg or .pdf"),
        (["--m", "3", "--json", "folder"], "folder is not a regular file"),
        (["--m", "3", "--json", "broken.csv/a.json"], "broken.csv/a.json cannot be written"),
        (["bandit", "--json", "a", "--certificate", "a"], "each output needs its own file"),
    ],
)
def test_bad_input_is_a_line_and_code_2(arguments: list[str], message: str) -> None:
    Path("broken.csv").write_text("0,1\n1,0\n")
    Path("readme.txt").write_text("hello")
    Path("folder").mkdir()
    before = sorted(Path().iterdir())
    done = peekrank("game", *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.startswith("error: ")
    assert done.output.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_a_failed_write_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("peekrank.cli._outputs.write_whole", full)
    done = peekrank("game", "bandit", "--json", "a.json")
    assert done.exit_code == 2
    assert "error: a.json: no space left on device" in done.output


@pytest.mark.parametrize("position", ["analyse", "certificate_of"])
def test_ctrl_c_leaves_files_as_they_were(position: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(game_command, position, stop)
    Path("proof.json").write_text("mine")
    done = peekrank("game", "bandit", "--certificate", "proof.json")
    assert done.exit_code == 130
    assert "stopped" in done.output
    assert [path.name for path in Path().iterdir()] == ["proof.json"]
    assert Path("proof.json").read_text() == "mine"


def test_one_item_is_no_items() -> None:
    assert "m = 1 item, feedback on the first k" in peekrank("game", "--m", "1").stdout
    assert "m = 1 item, k = 1 revealed" in peekrank("game", "dcg", "--m", "1", "--k", "1").stdout


def test_what_is_written_replaces_no_game_and_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text("0,1\n1,0\n\na,b\na,b\n")
    done = peekrank("game", "own.csv", "--json", "./own.csv")
    assert (done.exit_code, "needs its own file" in done.output) == (2, True)
    Path("target.json").write_text("old")
    Path("link.json").symlink_to("target.json")
    assert "link.json is a symbolic link" in refused("game", "own.csv", "--json", "link.json")
    assert Path("link.json").is_symlink()
    assert Path("target.json").read_text() == "old"
