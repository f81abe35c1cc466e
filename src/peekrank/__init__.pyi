from peekrank._jit import kernel as kernel
from peekrank.advice import advise as advise
from peekrank.advice import advise_surrogate as advise_surrogate
from peekrank.checks import CheckError as CheckError
from peekrank.checks import CheckWarning as CheckWarning
from peekrank.checks import check_learner as check_learner
from peekrank.checks import check_measure as check_measure
from peekrank.checks import check_stream as check_stream
from peekrank.checks import check_surrogate as check_surrogate
from peekrank.engine import Agent as Agent
from peekrank.engine import AtMost as AtMost
from peekrank.engine import Rules as Rules
from peekrank.engine import play as play
from peekrank.engine import replay as replay
from peekrank.engine import simulate as simulate
from peekrank.evaluation.comparison.comparison import Comparison as Comparison
from peekrank.experiments.experiment import Experiment as Experiment
from peekrank.experiments.runs import run as run
from peekrank.experiments.sweep import Sweep as Sweep
from peekrank.experiments.sweep_runs import run_sweep as run_sweep
from peekrank.games.analysis import analyse as analyse
from peekrank.games.best_factor import best_factor as best_factor
from peekrank.games.ceilings import factor_ceiling as factor_ceiling
from peekrank.games.certificate import certificate as certificate
from peekrank.games.game import Game as Game
from peekrank.games.lower_bounds import lower_bound as lower_bound
from peekrank.games.minimax import rate_of as rate_of
from peekrank.games.ranking import ranking_game as ranking_game
from peekrank.learners import learner as learner
from peekrank.learners.auto import Auto as Auto
from peekrank.learners.blockftrl import BlockFTRL as BlockFTRL
from peekrank.learners.champion import Champion as Champion
from peekrank.learners.defaults import LearnerDefaults as LearnerDefaults
from peekrank.learners.doubtsort import DoubtSort as DoubtSort
from peekrank.learners.feedexp3.learner import FeedExp3 as FeedExp3
from peekrank.learners.ftpl import FTPL as FTPL
from peekrank.learners.greedy import Greedy as Greedy
from peekrank.learners.marginftrl.learner import MarginFTRL as MarginFTRL
from peekrank.learners.mixed.learner import Mixed as Mixed
from peekrank.learners.nw2.learner import NW2 as NW2
from peekrank.learners.permftrl import PermFTRL as PermFTRL
from peekrank.learners.ridge.learner import Ridge as Ridge
from peekrank.learners.rtop1f import RTop1F as RTop1F
from peekrank.learners.rtopkf.learner import RTopKF as RTopKF
from peekrank.learners.setftrl import SetFTRL as SetFTRL
from peekrank.learners.thompson import Thompson as Thompson
from peekrank.learners.ucb import UCB as UCB
from peekrank.learners.uniform import Uniform as Uniform
from peekrank.measures import evaluate as evaluate
from peekrank.measures import measure as measure
from peekrank.measures.cascade import ERR as ERR
from peekrank.measures.cascade import RBP as RBP
from peekrank.measures.cascade import ReciprocalRank as ReciprocalRank
from peekrank.measures.dcg import DCG as DCG
from peekrank.measures.dcg import NDCG as NDCG
from peekrank.measures.pairs import AUCLoss as AUCLoss
from peekrank.measures.pairs import PairwiseLoss as PairwiseLoss
from peekrank.measures.pairs import SumLoss as SumLoss
from peekrank.measures.precision import AveragePrecision as AveragePrecision
from peekrank.measures.precision import Hit as Hit
from peekrank.measures.precision import Precision as Precision
from peekrank.measures.precision import Recall as Recall
from peekrank.registry import register as register
from peekrank.regret import best_values as best_values
from peekrank.reports.compare import LearnerComparison as LearnerComparison
from peekrank.reports.compare import compare as compare
from peekrank.streams import available_items as available_items
from peekrank.streams import fixed_items as fixed_items
from peekrank.streams import stream as stream
from peekrank.streams.adversary import Adversary as Adversary
from peekrank.streams.available import Available as Available
from peekrank.streams.click_stream import Clicks as Clicks
from peekrank.streams.preferences import Orders as Orders
from peekrank.streams.preferences import Ratings as Ratings
from peekrank.streams.synthetic import CT15 as CT15
from peekrank.streams.synthetic import Bernoulli as Bernoulli
from peekrank.streams.synthetic import Binomial as Binomial
from peekrank.streams.synthetic import Drifting as Drifting
from peekrank.streams.synthetic import Joint as Joint
from peekrank.streams.synthetic import Switching as Switching
from peekrank.surrogates import surrogate as surrogate
from peekrank.surrogates.kl import KL as KL
from peekrank.surrogates.listnet import ListNet as ListNet
from peekrank.surrogates.ndcgsquared import NDCGSquared as NDCGSquared
from peekrank.surrogates.ranksvm import RankSVM as RankSVM
from peekrank.surrogates.smoothdcg import SmoothDCG as SmoothDCG
from peekrank.surrogates.squared import Squared as Squared
from peekrank.types import Decision as Decision
from peekrank.types import Rounds as Rounds
from peekrank.types import Shape as Shape
from peekrank.types import Trace as Trace

__version__: str

__all__ = [
    "CT15",
    "DCG",
    "ERR",
    "FTPL",
    "KL",
    "NDCG",
    "NW2",
    "RBP",
    "UCB",
    "AUCLoss",
    "Adversary",
    "Agent",
    "AtMost",
    "Auto",
    "Available",
    "AveragePrecision",
    "Bernoulli",
    "Binomial",
    "BlockFTRL",
    "Champion",
    "CheckError",
    "CheckWarning",
    "Clicks",
    "Comparison",
    "Decision",
    "DoubtSort",
    "Drifting",
    "Experiment",
    "FeedExp3",
    "Game",
    "Greedy",
    "Hit",
    "Joint",
    "LearnerComparison",
    "LearnerDefaults",
    "ListNet",
    "MarginFTRL",
    "Mixed",
    "NDCGSquared",
    "Orders",
    "PairwiseLoss",
    "PermFTRL",
    "Precision",
    "RTop1F",
    "RTopKF",
    "RankSVM",
    "Ratings",
    "Recall",
    "ReciprocalRank",
    "Ridge",
    "Rounds",
    "Rules",
    "SetFTRL",
    "Shape",
    "SmoothDCG",
    "Squared",
    "SumLoss",
    "Sweep",
    "Switching",
    "Thompson",
    "Trace",
    "Uniform",
    "__version__",
    "advise",
    "advise_surrogate",
    "analyse",
    "available_items",
    "best_factor",
    "best_values",
    "certificate",
    "check_learner",
    "check_measure",
    "check_stream",
    "check_surrogate",
    "compare",
    "evaluate",
    "factor_ceiling",
    "fixed_items",
    "kernel",
    "learner",
    "lower_bound",
    "measure",
    "play",
    "ranking_game",
    "rate_of",
    "register",
    "replay",
    "run",
    "run_sweep",
    "simulate",
    "stream",
    "surrogate",
]
