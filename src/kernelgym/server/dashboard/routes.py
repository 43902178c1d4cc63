"""Routes of the status page. A browser logs in with any name and the token as the password."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from kernelgym.broker.protocol import TaskView
from kernelgym.schema import EvalResult, Submission
from kernelgym.server.auth import Principal
from kernelgym.server.dashboard import pages
from kernelgym.server.evaluations import Id
from kernelgym.server.observe import queue_state, worker_states
from kernelgym.server.problems import not_found
from kernelgym.server.service import Service, ServiceDep, service_of, unpack, visible

router = APIRouter(prefix="/ui", include_in_schema=False)
_RECENT = 50
_REFRESH_S = 5
_templates = Environment(
    loader=PackageLoader("kernelgym.server.dashboard", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {"chip": pages.chip, "when": pages.when, "took": pages.took}


async def _viewer(request: Request) -> Principal:
    """Who looks; where nobody needs a token, everybody on this machine sees everything."""
    guard = service_of(request).guard
    who = guard.require(request, "client", basic=True)
    return Principal(who.name, "admin") if guard.anonymous else who


Viewer = Annotated[Principal, Depends(_viewer)]


def _page(template: str, **values: object) -> Response:
    return HTMLResponse(_templates.get_template(template).render(**values))


@router.get("")
async def index(service: ServiceDep, who: Viewer) -> Response:
    """Queue, workers, recent results."""
    recent = [task for task in await service.broker.recent(_RECENT) if visible(task, who)]
    return _page(
        "index.html",
        queue=await queue_state(service),
        workers=await worker_states(service),
        recent=recent,
        refresh_s=_REFRESH_S,
    )


@router.get("/evaluations/{evaluation_id}")
async def evaluation(service: ServiceDep, who: Viewer, evaluation_id: Id) -> Response:
    """One evaluation: verdict, evidence, times, source, how to repeat it."""
    task, submission, result = await _load(service, who, evaluation_id)
    return _page(
        "evaluation.html",
        task=task,
        submission=submission,
        result=result,
        lines=pages.source_lines(submission.source, result),
        histograms=pages.histograms(result.timings if result else ()),
        command=pages.repeat_command(submission, task.device_class),
        refresh_s=0 if task.state.final else _REFRESH_S,
    )


@router.get("/evaluations/{evaluation_id}/{name}.py")
async def source(service: ServiceDep, who: Viewer, evaluation_id: Id, name: str) -> Response:
    """The candidate's or the reference's source, as a file."""
    _, submission, _ = await _load(service, who, evaluation_id)
    sources = {"candidate": submission.source, "reference": submission.task.reference}
    if name not in sources:
        raise not_found("file")
    headers = {"Content-Disposition": f'attachment; filename="{name}.py"'}
    return PlainTextResponse(sources[name], headers=headers)


async def _load(
    service: Service, who: Principal, evaluation_id: str
) -> tuple[TaskView, Submission, EvalResult | None]:
    [task] = await service.broker.view([evaluation_id], body=True)
    if task is None or not visible(task, who):
        raise not_found("evaluation")
    submission = Submission.model_validate_json(unpack(task.body))
    stored = unpack(task.result)
    return task, submission, EvalResult.model_validate_json(stored) if stored else None


@router.get("/style.css")
async def style() -> Response:
    """The style sheet."""
    text = _templates.get_template("style.css").render()
    return Response(text, media_type="text/css")
