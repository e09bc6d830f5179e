"""The web application around one bundle."""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from project.export.example import Model

PAGE = Path(__file__).with_name("page.html")
_MAX_STEPS = 100_000


@dataclass(frozen=True)
class Limits:
    """What is refused before any work is done on it.

    Args:
        megabytes: Of a whole request.
        megapixels: Of a picture, which a small file can be large in.
        characters: Of a text.
    """

    megabytes: float = 10.0
    megapixels: float = 50.0
    characters: int = 20_000


class Refused(HTTPException):
    """A request that can't be answered, and why, in words for who sent it."""


def application(folder: Path, limits: Limits) -> Starlette:
    """The server of a bundle.

    Args:
        folder: The bundle.
        limits: What is refused.
    """
    model = Model(folder)

    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    async def contract(request: Request) -> JSONResponse:
        return JSONResponse(model.contract)

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "model": model.contract["checkpoint"]["sha256"]})

    async def predict(request: Request) -> JSONResponse:
        _refuse_size(request.headers.get("content-length"), limits)
        record = _record(await _fields(request, limits), model.contract, limits)
        answer = await run_in_threadpool(model.answer, record)
        if "mask" in answer:
            answer["mask"] = _png(answer["mask"])
        return JSONResponse(answer)

    routes = [
        Route("/", page),
        Route("/contract", contract),
        Route("/health", health),
        Route("/predict", predict, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _said})


def _png(mask: np.ndarray) -> str:
    """A mask as a picture in the colours of the classes, in base64; class 0 is left clear."""
    colours = np.random.default_rng(3).integers(60, 256, (256, 4), dtype=np.uint8)
    colours[:, 3], colours[0] = 255, 0
    file = io.BytesIO()
    Image.fromarray(colours[mask], "RGBA").save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


async def _said(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


def _refuse_size(length: str | None, limits: Limits) -> None:
    if length is None:
        raise Refused(411, "The request does not say its length (Content-Length).")
    if int(length) > limits.megabytes * 1e6:
        raise Refused(
            413, f"The request has {int(length) / 1e6:.1f} MB, more than {limits.megabytes:g} MB."
        )


async def _fields(request: Request, limits: Limits) -> Mapping[str, Any]:
    """The fields of a form, or of a JSON object, with the bytes of files."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "application/json":
        try:
            fields = await request.json()
        except ValueError as error:
            raise Refused(400, f"The body is no JSON: {error}.") from None
        if not isinstance(fields, dict):
            raise Refused(400, 'The body must be a JSON object, such as {"text": "…"}.')
        return fields
    if kind not in ("multipart/form-data", "application/x-www-form-urlencoded"):
        raise Refused(415, f"The content type is {kind!r}; send a form or application/json.")
    async with request.form(max_files=4, max_fields=1000) as form:
        return {
            name: await value.read() if isinstance(value, UploadFile) else value
            for name, value in form.items()
        }


def _record(fields: Mapping[str, Any], contract: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """What the model is given, out of the fields of a request."""
    record: dict[str, Any] = {}
    for name, about in contract["inputs"].items():
        if name != "padding":
            record |= _READ[name](fields, about, limits)
    return record


def _image(fields: Mapping[str, Any], about: dict[str, Any], limits: Limits) -> dict[str, Any]:
    content = fields.get("image")
    if not isinstance(content, bytes) or not content:
        raise Refused(400, "There is no picture: send a file as the field `image` of a form.")
    try:
        with Image.open(io.BytesIO(content)) as picture:
            width, height = picture.size
            if width * height > limits.megapixels * 1e6:
                raise Refused(
                    413, f"The picture has {width} x {height} pixels, more than "
                    f"{limits.megapixels:g} million."
                )  # fmt: skip
            picture.load()
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise Refused(415, f"The file is no picture that can be read: {error}.") from None
    except (OSError, SyntaxError, ValueError) as error:
        raise Refused(400, f"The picture is damaged: {error}.") from None
    return {"image": io.BytesIO(content)}


def _text(fields: Mapping[str, Any], about: dict[str, Any], limits: Limits) -> dict[str, Any]:
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise Refused(400, "There is no text: send it as the field `text`.")
    if len(text) > limits.characters:
        raise Refused(
            413, f"The text has {len(text):,} characters, more than {limits.characters:,}."
        )
    return {"text": text}


def _sequence(fields: Mapping[str, Any], about: dict[str, Any], limits: Limits) -> dict[str, Any]:
    width = about["shape"][-1]
    try:
        steps = np.asarray(fields.get("sequence"), dtype=np.float32)
    except (TypeError, ValueError):
        steps = np.zeros(0, np.float32)
    if steps.ndim != 2 or steps.shape[-1] != width or not 0 < len(steps) <= _MAX_STEPS:
        raise Refused(
            400, f"The field `sequence` must be a list of 1 to {_MAX_STEPS:,} steps of {width} "
            "numbers each, in JSON."
        )  # fmt: skip
    if not np.isfinite(steps).all():
        raise Refused(400, "The field `sequence` holds numbers that are not finite.")
    return {"sequence": steps}


def _row(fields: Mapping[str, Any], about: dict[str, Any], limits: Limits) -> dict[str, Any]:
    names = [column["name"] for column in about["columns"]]
    if not set(names) & set(fields):
        raise Refused(400, f"None of the columns is given: {', '.join(names[:20])}.")
    for column in about["columns"]:
        cell = fields.get(column["name"])
        if cell is not None and not isinstance(cell, str | int | float):
            raise Refused(400, f"{column['name']} must be text or a number.")
    return {name: "" if fields.get(name) is None else str(fields[name]) for name in names}


_READ = {"image": _image, "tokens": _text, "sequence": _sequence, "features": _row}
