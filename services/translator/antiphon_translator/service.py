"""The translator as a service: the loop that runs pipelines on engines.

Implements antiphon_core.ports.translator.Translator. Owns the models and their engines, and no state of a turn after
its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from antiphon_core import offload
from antiphon_core.clock import Clock
from antiphon_core.errors import (
    AntiphonError,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
    ModelNotFound,
    TranslatorUnavailable,
    for_log,
)
from antiphon_core.flow import Flow
from antiphon_core.ids import DerivedIds, Ids
from antiphon_core.jsons import Object, dumps, parse_object
from antiphon_core.limits import BATCH_BYTES_MAX
from antiphon_core.ports.translator import NO_ITEMS, Batch, EndedTurn, Model, Receive, Resume, Turn
from antiphon_core.process_load import bytes_for_turns
from antiphon_core.request.prompt_cache import COMPARISON
from antiphon_core.unexpected import as_antiphon_error
from antiphon_translator.diagnosis import cache_report
from antiphon_translator.engines import registry
from antiphon_translator.engines.base import DOWN_WAIT_S, Deliver, Engine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.generation import GenerationRequest, Level
from antiphon_translator.generation_watch import GenerationWatch
from antiphon_translator.media import turn_media
from antiphon_translator.media.downloads import NOTHING, Downloads
from antiphon_translator.media.sight import Sight
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models import profiles, served_model
from antiphon_translator.models.retained_shares import RetainedShares
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.models.tenant_isolation import SharedCaches
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.prewarms import Prewarms
from antiphon_translator.prompt import history_damage
from antiphon_translator.readiness import Readiness
from antiphon_translator.schemas.check_budgets import CheckBudgets
from antiphon_translator.settings import TranslatorSettings
from antiphon_translator.sliced_delivery import SlicedDelivery, through
from antiphon_translator.turn import response_rounds, turn_prompt
from antiphon_translator.turn.turn_plan import TurnPlan
from antiphon_translator.turn_bytes import TurnBytes, TurnTally

if TYPE_CHECKING:
    from antiphon_translator.media.fetching import Fetcher

log = logging.getLogger(__name__)

T = TypeVar("T")

INLINE_TURN_BYTES_MAX = 2_048
"""A turn of this size is rendered and encoded within 1 ms, on the event loop."""
SEARCHED_INLINE_BYTES_MAX = 2**20
"""A turn of this size is searched for URLs in less than 1 ms, on the event loop."""
_ID_BYTES = 4
"""To read a token id again takes as long as to encode these bytes of a prompt."""
_PATTERN = b'"pattern'
"""Marks a turn that may have a regular expression in a schema: one of 30 characters may take 10 ms to compile."""


@dataclass(frozen=True, slots=True)
class _Route:
    """A model that requests can name, and the engine that runs it."""

    model: ServedModel
    engine: Engine
    readiness: Readiness
    created_at: int
    retained: RetainedShares


class TranslatorService:
    """Runs turns. Create, use and close it inside one event loop."""

    def __init__(
        self, settings: TranslatorSettings, *, clock: Clock, ids_of: Callable[[str], Ids] = DerivedIds
    ) -> None:
        """`ids_of` maps the id of a response to the ids of its items, which are the same on every replica."""
        self._settings = settings
        self._clock = clock
        self._ids_of = ids_of
        self._fetcher: Fetcher | None = None
        self._check_budgets = CheckBudgets()
        self._shared_caches = SharedCaches()
        self._turn_bytes = TurnBytes(settings.turns_bytes_max or bytes_for_turns())
        self._prewarms = Prewarms(self._turn_bytes)
        self._is_closed = False
        self._routes: dict[str, _Route] = {}

    async def open(self) -> None:
        """Loads the models of the profiles directory. SettingsError: a profile or a model directory is wrong."""
        if self._settings.profiles is None:
            return
        channels = TritonChannels(self._settings.triton_transport)
        for profile in profiles.load_directory(self._settings.profiles):
            engine = registry.create(profile, channels, translators=self._settings.translators)
            cache_bytes = self._settings.prompt_cache_bytes
            model = await asyncio.to_thread(served_model.load, profile, prompt_cache_bytes=cache_bytes)
            self.add(model, engine)

    def add(self, model: ServedModel, engine: Engine) -> None:
        """Adds a model. The service takes over its engine, and closes it."""
        self._routes[model.name] = _Route(
            model=model,
            engine=engine,
            readiness=Readiness(engine, self._clock, ttl_s=self._settings.probe_ttl_s),
            created_at=self._clock.now_ms() // 1000,
            retained=RetainedShares(model.retained_tokens_per_tenant),
        )

    async def close(self) -> None:
        """Closes the engines; turns that still run fail."""
        self._is_closed = True
        await self._prewarms.close()
        routes, self._routes = self._routes, {}
        for route in routes.values():
            await route.engine.close()
        if self._fetcher is not None:
            await self._fetcher.close()

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        with self._turn_bytes.count_turn(turn) as held:
            if self._prewarms.tasks:
                self._prewarms.end(turn)
            route = await self._route_of(turn)
            watch = GenerationWatch(route.model.name, turn.response_id)
            if not route.model.isolates_tenants:
                self._shared_caches.note(turn.tenant, route.model.name)
            with watch.running():
                await self._generate(turn, held, route, watch, receive, flow or Flow(), resume, checkpoints)

    async def _generate(
        self,
        turn: Turn,
        held: TurnTally,
        route: _Route,
        watch: GenerationWatch,
        receive: Receive,
        flow: Flow,
        resume: Resume | None,
        checkpoints: bool,
    ) -> None:
        controls = await route.engine.controls()
        downloads = await self._downloads(turn, held, route.model.sight.with_controls(controls))

        def start() -> tuple[TurnPipeline, list[Batch], GenerationRequest]:
            seed = turn.response_id if turn.output == NO_ITEMS else response_rounds.seed_of(turn)
            ids, level = self._ids_of(seed), route.engine.level
            plan = TurnPlan.of(route.model, turn, controls=controls, ids=ids, level=level, downloads=downloads)
            plan = plan.with_hints(turn, controls, route.retained.of(turn.tenant))
            may_check = partial(self._check_budgets.take, turn.tenant)
            pipeline = TurnPipeline(plan, ids=ids, resume=resume, checkpoints=checkpoints, may_check=may_check)
            pipeline.diagnose = _diagnosis(route.model, turn, level, downloads) if COMPARISON in turn.request else None
            return pipeline, *pipeline.start()

        resumed_bytes = _ID_BYTES * len(resume.token_ids) if resume is not None else 0
        with watch.building_prompt():
            pipeline, batches, request = await _off_loop_if_long(turn, start, downloads, more_bytes=resumed_bytes)
        for batch in batches:
            receive(batch)
        if pipeline.generates_nothing:
            return
        last = await self._run(pipeline, request, route, watch, receive, flow)
        for batch in last:
            receive(batch)
            if len(batch.frames) > BATCH_BYTES_MAX:
                await asyncio.sleep(0)  # each of the last events repeats the output: 8 MB take 15 ms to write
        _note_end(watch, pipeline)
        if route.model.prewarm_tokens_per_minute:
            self._prewarms.begin(turn, pipeline.plan, last[-1].final if last else None, route.engine)

    async def count_tokens(self, turn: Turn) -> int:
        with self._turn_bytes.count_turn(turn) as held:
            route = await self._route_of(turn)
            sight = route.model.sight
            downloads = await self._downloads(turn, held, sight)
            return await _off_loop_if_long(
                turn, lambda: turn_prompt.count(route.model, turn, TurnMedia(sight, downloads)), downloads
            )

    async def check(self, turn: Turn) -> None:
        with self._turn_bytes.count_turn(turn) as held:
            await self._check(turn, held)

    async def _check(self, turn: Turn, held: TurnTally) -> None:
        route = await self._route_of(turn)
        controls = await _controls_if_up(route.engine)
        sight = route.model.sight if controls is None else route.model.sight.with_controls(controls)
        downloads = await self._downloads(turn, held, sight)

        def check() -> None:
            if controls is None:
                level = _level_if_known(route.engine)
                turn_prompt.measure_prompt(route.model, turn, TurnMedia(sight, downloads), level=level)
                return
            ids, level = self._ids_of(turn.response_id), route.engine.level
            TurnPlan.of(route.model, turn, controls=controls, ids=ids, level=level, downloads=downloads)

        await _off_loop_if_long(turn, check, downloads)

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        turn = replace(now.turn, compared=compared)  # so that its bytes count
        with self._turn_bytes.count_turn(turn) as held:
            if compared is None:
                return dumps(cache_report.facts_of(now).as_object())
            route = await self._route_of(turn)
            sight, level = route.model.sight, _level_if_known(route.engine)
            media = TurnMedia(sight, await self._downloads(turn, held, sight))
            earlier = TurnMedia(sight, await self._downloads(compared.turn, held, sight))

            def explain() -> bytes:
                compare = partial(cache_report.compare, level=level, media=media, media_before=earlier)
                return dumps(compare(route.model, now, compared).as_object())

            return await offload.run(explain, size_bytes=turn.size_bytes, inline_bytes_max=0)

    async def models(self) -> Sequence[Model]:
        routes = list(self._routes.values())
        reasons = await asyncio.gather(*(route.readiness.reason() for route in routes))
        return [
            Model(
                id=route.model.name,
                root=route.model.name,
                context_length=route.model.context_length,
                ready=not reason,
                reason=reason,
                created_at=route.created_at,
            )
            for route, reason in zip(routes, reasons, strict=True)
        ]

    async def ready(self) -> None:
        models = await self.models()
        if not any(model.ready for model in models):
            reasons = [f"{model.id}: {model.reason}" for model in models] or ["No model is configured."]
            raise TranslatorUnavailable(" ".join(reasons))

    async def _downloads(self, turn: Turn, held: TurnTally, sight: Sight) -> Downloads:
        """Fetches the URLs of a turn's images and files. Their content counts in `held`."""
        if turn.size_bytes <= SEARCHED_INLINE_BYTES_MAX and not turn_media.may_name_urls(turn):
            return NOTHING
        wanted = await _off_loop_if_long(turn, lambda: turn_media.wanted_urls(turn, sight))
        if not wanted:
            return NOTHING
        if self._fetcher is None:
            # Only turns with URLs need an HTTP client. A thread imports it: the event loop would stand still for 0.1 s.
            await asyncio.to_thread(import_module, "antiphon_translator.media.fetching")
        downloads = await self._url_fetcher().fetch(wanted, tenant=turn.tenant)
        held.add_downloads(downloads)
        return downloads

    def _url_fetcher(self) -> Fetcher:
        from antiphon_translator.media.fetching import Fetcher, FetchRules

        self._require_open()
        if self._fetcher is None:
            self._fetcher = Fetcher(FetchRules.of(self._settings))
        return self._fetcher

    def _require_open(self) -> None:
        """TranslatorUnavailable: the service was closed."""
        if self._is_closed:
            raise TranslatorUnavailable("The translator is stopping.")

    async def _route_of(self, turn: Turn) -> _Route:
        request = await offload.run(partial(parse_object, turn.request), size_bytes=len(turn.request))
        self._require_open()  # a closed service has no models
        name = request.get("model")
        route = self._routes.get(name) if isinstance(name, str) else None
        if route is None:
            raise ModelNotFound.of(str(name))
        return route

    async def _run(
        self,
        pipeline: TurnPipeline,
        request: GenerationRequest,
        route: _Route,
        watch: GenerationWatch,
        receive: Receive,
        flow: Flow,
    ) -> list[Batch]:
        """Runs a turn after its opening events. Returns its last batches, also when it fails."""
        deliver = through(pipeline, receive, watch)
        try:
            wanted = pipeline.follow_up() if pipeline.is_done else request
            while wanted is not None:
                with watch.generating():
                    await self._generate_with(route.engine, wanted, deliver, flow)
                wanted = await offload.run(pipeline.follow_up, size_bytes=pipeline.follow_up_bytes)
            return await offload.run(self._finish(pipeline), size_bytes=pipeline.end_bytes)
        except AntiphonError as error:
            log.warning("%s failed: %s", request.request_id, for_log(error))
            if not isinstance(error, InvalidRequest):
                route.readiness.invalidate()
            # A turn that has all that is wanted waited for the token counts alone.
            end = self._finish(pipeline) if pipeline.has_enough else partial(pipeline.fail, error)
        except Exception as error:  # noqa: BLE001 - every error ends the response
            fault = as_antiphon_error(error, request.request_id, "The translator failed on this response.")
            end = partial(pipeline.fail, fault)
        return await offload.run(end, size_bytes=pipeline.end_bytes)

    def _finish(self, pipeline: TurnPipeline) -> Callable[[], list[Batch]]:
        return partial(pipeline.finish, completed_at=self._clock.now_ms() // 1000)

    async def _generate_with(self, engine: Engine, wanted: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        """Runs one generation. EngineTimeout: it takes longer than the setting generation_s."""
        sliced = SlicedDelivery(deliver, flow)
        limit_s = self._settings.generation_s
        limit = asyncio.timeout(limit_s)
        try:
            async with limit, sliced.running():
                await engine.generate(wanted, sliced.take, flow)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise EngineTimeout(f"The generation did not end within {limit_s:g} s.") from error


def _note_end(watch: GenerationWatch, pipeline: TurnPipeline) -> None:
    """Counts a turn that has ended."""
    watch.note_usage(pipeline.usage)
    watch.note_prompt(pipeline.plan.prompt)
    watch.note_hints(pipeline.plan.cache.outcomes)
    watch.note_check(pipeline.mismatch, is_unchecked=pipeline.is_unchecked)


async def _controls_if_up(engine: Engine) -> frozenset[str] | None:
    """The controls of an engine; None if its server is down or does not answer: turns are also checked without it."""
    try:
        async with asyncio.timeout(DOWN_WAIT_S):
            return await engine.controls()
    except (AntiphonError, TimeoutError):
        return None


def _level_if_known(engine: Engine) -> Level:
    """The level of an engine, which only Triton models learn from their server. Those have no level CHAT."""
    try:
        return engine.level
    except EngineUnavailable:
        return Level.TOKENS


async def _off_loop_if_long(
    turn: Turn, work: Callable[[], T], downloads: Downloads = NOTHING, *, more_bytes: int = 0
) -> T:
    """Runs `work` on a turn and `more_bytes`, in another thread when it would block the event loop. DataDamaged: the
    history is none."""
    size_bytes = turn.size_bytes + more_bytes
    is_small = size_bytes <= INLINE_TURN_BYTES_MAX and not downloads
    try:
        if is_small and _PATTERN not in turn.request and _PATTERN not in turn.input:
            return work()
        return await offload.run(work, size_bytes=size_bytes, inline_bytes_max=0)
    except InvalidRequest as error:
        history_damage.raise_if_damaged(turn, error)
        raise


def _diagnosis(model: ServedModel, turn: Turn, level: Level, downloads: Downloads) -> Callable[[bytes], Object] | None:
    """Makes `prompt_cache_diagnostics` of the lineage of a turn; None if its request wants none."""
    options = parse_object(turn.request).get("prompt_cache_options") or {}
    if options.get(COMPARISON.decode()) is None:
        return None

    def diagnose(lineage: bytes) -> Object:
        if turn.compared is None:
            return cache_report.NOT_FOUND
        if turn.compared.is_unread:
            return cache_report.UNAVAILABLE
        media, now = TurnMedia(model.sight, downloads), EndedTurn(turn, lineage=lineage)
        try:
            return cache_report.compare(model, now, turn.compared, level=level, media=media).diagnostics()
        except Exception as error:  # noqa: BLE001 - the response is complete, and does not fail for its diagnostics
            compared = turn.compared.turn.response_id
            as_antiphon_error(error, f"the comparison of the prompts of {turn.response_id} and {compared}", "")
            return cache_report.UNAVAILABLE

    return diagnose
