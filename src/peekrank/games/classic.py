"""Classic games as named examples, each with its rate from the literature or from a proof by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from peekrank._util.validate import check_int
from peekrank.games.exact.numbers import rational
from peekrank.games.game import Game
from peekrank.games.rates import Rate
from peekrank.spec import suggest


class Example(NamedTuple):
    """A game and its rate. ``about`` is one line; ``reference`` is empty if the docstring has the proof."""

    game: Game
    rate: Rate
    about: str
    reference: str = ""


def classic(name: str) -> Game:
    """Return the classic game with this name.

    >>> classic("apple-tasting").loss
    array([[0., 1.],
           [1., 0.]])
    >>> classic("apple-testing")
    Traceback (most recent call last):
    ValueError: unknown game 'apple-testing': did you mean 'apple-tasting'? Known: ...
    """
    if name not in CLASSIC:
        raise ValueError(f"unknown game '{name}': {suggest(name, CLASSIC)}")
    return CLASSIC[name].game


def experts(n: int) -> Game:
    """Return prediction with n experts: follow one, see the losses of all (0 or 1). Its rate is sqrt(T).

    >>> experts(2).signal_matrix(0).tolist()
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    """
    outcomes = _binary("n", n)
    return Game.of(
        [[outcome[i] for outcome in outcomes] for i in range(n)],
        [outcomes] * n,
        outcomes=[" ".join(map(str, outcome)) for outcome in outcomes],
    )


def bandit(arms: int) -> Game:
    """Return a bandit: pull an arm and see its loss (0 or 1). Its rate is sqrt(T).

    >>> bandit(2).signal_matrix(0).tolist()
    [[1, 1, 0, 0], [0, 0, 1, 1]]
    """
    outcomes = _binary("arms", arms)
    losses = [[outcome[i] for outcome in outcomes] for i in range(arms)]
    return Game.of(losses, losses, outcomes=[" ".join(map(str, outcome)) for outcome in outcomes])


def label_efficient(cost: Any = 1) -> Game:
    """Return label-efficient prediction: guess heads or tails and see nothing, or ask for the answer at a cost.

    The rate is T^(2/3) for a cost above 1/2, sqrt(T) for a cost in (0, 1/2], and 0 for a cost of 0.

    Above 1/2, asking is never best, and the guesses reveal nothing. At 1/2, asking is best on the whole border of
    the two guesses. Below 1/2, asking is best between them, and its feedback serves both of its borders. At 0,
    asking is always best.

    >>> label_efficient("1/4").loss
    array([[0.  , 1.  ],
           [1.  , 0.  ],
           [0.25, 0.25]])
    """
    if rational(cost) < 0:
        raise ValueError(f"cost = {cost!r}: must not be negative")
    return Game.of(
        [[0, 1], [1, 0], [cost, cost]],
        [["-", "-"], ["-", "-"], ["heads", "tails"]],
        actions=["heads", "tails", "ask"],
        outcomes=["heads", "tails"],
    )


def dynamic_pricing(prices: Sequence[Any], cost: Any = 2) -> Game:
    """Return dynamic pricing: offer at a price and see only whether it sells.

    The buyer's limit is one of the prices. A sale costs the amount that the buyer would have paid beyond the
    price. A refusal costs the same for every limit. The rate is T^(2/3) for three or more prices and a positive
    cost:

    - The losses of successive prices v < w differ by w - v if both sell, by -cost if only v sells, and by 0
      otherwise. Their own sales estimate this, and sums compare all prices: the game is globally observable.
    - Let u < v < w be successive. Let the limits u and w have probabilities a and s with cost a = (w - u) s, and
      all other limits tiny ones. Then u and w lose the same, v loses (w - v) s more, and all others lose more as
      well: u and w are neighbours, and no other action is optimal on their border. They differ by -cost at limit u
      and by v - u - cost at limit v, which sales at u and w do not distinguish: the game is not locally
      observable.

    Parameters
    ----------
    prices
        At least three, ascending.
    cost
        Cost of a refusal.

    >>> dynamic_pricing([1, 2, 3], cost=1).loss
    array([[0., 1., 2.],
           [1., 0., 1.],
           [1., 1., 0.]])
    """
    _ascending(prices, 3)
    if rational(cost) <= 0:
        raise ValueError(f"cost = {cost!r}: must be positive")
    losses = [[rational(limit) - rational(price) for limit in prices] for price in prices]
    return _sales(prices, [[loss if loss >= 0 else rational(cost) for loss in row] for row in losses])


def posted_price(prices: Sequence[Any]) -> Game:
    """Return posted pricing: offer at a price, see whether it sells, earn the price if so. Its rate is sqrt(T).

    The feedback is that of `dynamic_pricing`, but here it determines the loss of the round, as in a bandit.

    Parameters
    ----------
    prices
        At least two, positive and ascending.

    >>> posted_price([1, 3]).loss
    array([[-1., -1.],
           [ 0., -3.]])
    """
    _ascending(prices, 2)
    if rational(prices[0]) <= 0:
        raise ValueError(f"price {prices[0]}: must be positive")
    losses = [[-rational(price) * (rational(price) <= rational(limit)) for limit in prices] for price in prices]
    return _sales(prices, losses)


def pennies(*, seen: bool) -> Game:
    """Return matching pennies. The rate is sqrt(T) if the penny is shown afterwards and T if it is not.

    If it is not shown, the learner plays in the same way against heads and tails and loses T / 2 to one of them.

    >>> [int(pennies(seen=seen).signal_matrix(0).shape[0]) for seen in (True, False)]
    [2, 1]
    """
    row = ["heads", "tails"] if seen else ["-", "-"]
    return Game.of([[0, 1], [1, 0]], [row, row], actions=["heads", "tails"], outcomes=["heads", "tails"])


def apple_tasting() -> Game:
    """Return apple tasting: eat an apple and see whether it is rotten, or throw it away. Its rate is sqrt(T).

    >>> apple_tasting().signal_matrix(1).tolist()
    [[1, 1]]
    """
    return Game.of(
        [[0, 1], [1, 0]],
        [["good", "rotten"], ["-", "-"]],
        actions=["eat", "throw away"],
        outcomes=["good", "rotten"],
    )


def _pennies_and(loss: list[int], shown: list[str], guesses: list[list[str]], name: str) -> Game:
    """Return matching pennies with a third action."""
    return Game.of(
        [[0, 1], [1, 0], loss],
        [*guesses, shown],
        actions=["heads", "tails", name],
        outcomes=["heads", "tails"],
    )


def _sales(prices: Sequence[Any], loss: list[list[Any]]) -> Game:
    sold = [["sold" if rational(price) <= rational(limit) else "refused" for limit in prices] for price in prices]
    names = list(map(str, prices))
    return Game.of(loss, sold, actions=names, outcomes=names)


def _ascending(prices: Sequence[Any], min_prices: int) -> None:
    if len(prices) < min_prices or any(rational(v) >= rational(w) for v, w in pairwise(prices)):
        raise ValueError(f"prices = {list(prices)}: must be at least {min_prices} ascending numbers")


def _binary(name: str, n: int) -> list[tuple[int, ...]]:
    check_int(name, n, 2)
    return list(product((0, 1), repeat=n))


_SEEN, _UNSEEN = ["heads", "tails"], ["-", "-"]

CLASSIC: dict[str, Example] = {
    "experts": Example(
        experts(3),
        Rate.SQRT,
        "follow one of three experts and see the losses of all",
        "Cesa-Bianchi & Lugosi, Prediction, Learning, and Games (2006), chapter 2",
    ),
    "bandit": Example(
        bandit(3),
        Rate.SQRT,
        "pull one of three arms and see its loss",
        "Auer, Cesa-Bianchi, Freund & Schapire (2002)",
    ),
    "apple-tasting": Example(
        apple_tasting(),
        Rate.SQRT,
        "only eating an apple shows whether it is rotten",
        "Helmbold, Littlestone & Long (2000); Antos, Bartok, Pal & Szepesvari (2013)",
    ),
    "label-efficient": Example(
        label_efficient(),
        Rate.TWO_THIRDS,
        "guess and see nothing, or ask at a cost that is never worthwhile",
        "Cesa-Bianchi, Lugosi & Stoltz (2005, 2006)",
    ),
    "cheap-labels": Example(
        label_efficient("1/4"),
        Rate.SQRT,
        "asking costs so little that it is best when in doubt",
        "Lattimore & Szepesvari, Bandit Algorithms (2020), chapter 37",
    ),
    "dynamic-pricing": Example(
        dynamic_pricing([1, 2, 3, 4, 5]),
        Rate.TWO_THIRDS,
        "see only whether the buyer accepts a price, pay a fixed cost if not",
        "Bartok, Pal & Szepesvari (2011); Bartok et al. (2014)",
    ),
    "posted-price": Example(
        posted_price([1, 2, 3, 4]),
        Rate.SQRT,
        "see only whether the buyer accepts a price, earn it if so",
        "Kleinberg & Leighton (2003); Lattimore & Szepesvari, Bandit Algorithms (2020), chapter 37",
    ),
    "matching-pennies": Example(pennies(seen=True), Rate.SQRT, "guess, then see the penny"),
    "blind-pennies": Example(pennies(seen=False), Rate.LINEAR, "guess, and never see the penny"),
    # Action 0 never loses anything.
    "trivial": Example(
        Game.of([[0, 0], [0, 1]], [_UNSEEN] * 2), Rate.ZERO, "one action is always best, another sometimes"
    ),
    # Every action is optimal.
    "all-alike": Example(Game.of([[0, 1]] * 3, [_UNSEEN] * 3), Rate.ZERO, "three actions with the same losses"),
    # Never playing the action costs nothing and hides nothing: matching pennies remain.
    "dominated": Example(
        _pennies_and([1, 1], _UNSEEN, [_SEEN, _SEEN], "never"),
        Rate.SQRT,
        "matching pennies with an action that is never best",
    ),
    # Apple tasting, if the learner plays the copy instead of heads; no other action reveals anything.
    "telling-duplicate": Example(
        _pennies_and([0, 1], _SEEN, [_UNSEEN, _UNSEEN], "heads, then look"),
        Rate.SQRT,
        "only a copy of an action reveals the outcome",
    ),
    # Instead of playing heads with probability q <= 1/2, ask with probability 2 q: the expected loss is the same,
    # and the learner sees the outcome as often as a bandit pulls its rarer arm.
    "telling-degenerate": Example(
        label_efficient("1/2"),
        Rate.SQRT,
        "only an action that is best on a border reveals the outcome",
        "Lattimore & Szepesvari (2019), Theorem 1",
    ),
    # As in label-efficient prediction: if both guesses are equally good, looking costs 1/2 more.
    "telling-corner": Example(
        _pennies_and([0, 2], _SEEN, [_UNSEEN, _UNSEEN], "look"),
        Rate.TWO_THIRDS,
        "only an action that is best for one certain outcome reveals it",
        "Lattimore & Szepesvari (2019), Theorem 1",
    ),
}
