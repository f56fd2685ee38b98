"""Makes pipelines of turns like the translator's service."""

from __future__ import annotations

from collections.abc import Callable

from antiphon_core.ids import Ids
from antiphon_core.ports.translator import Resume, Turn
from antiphon_translator.generation import Level
from antiphon_translator.media.downloads import NOTHING, Downloads
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.turn.turn_plan import TurnPlan


def pipeline_of(
    model: ServedModel,
    turn: Turn,
    *,
    controls: frozenset[str],
    ids: Ids,
    level: Level = Level.TOKENS,
    downloads: Downloads = NOTHING,
    resume: Resume | None = None,
    checkpoints: bool = False,
    may_check: Callable[[int], bool] = lambda _: True,
) -> TurnPipeline:
    """Returns the pipeline of one turn with a plan for it."""
    plan = TurnPlan.of(model, turn, controls=controls, ids=ids, level=level, downloads=downloads)
    return TurnPipeline(plan, ids=ids, resume=resume, checkpoints=checkpoints, may_check=may_check)
