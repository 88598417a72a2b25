"""Search: from problems and a budget to a confirmed point, by a portfolio of stages over lanes."""

from falsifier.search.result import SearchResult, StageRecord
from falsifier.search.search import search
from falsifier.search.source import ProblemSource

__all__ = ["ProblemSource", "SearchResult", "StageRecord", "search"]
