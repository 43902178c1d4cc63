"""Configurations: TOML recipes under ``--section.key`` flags, checked, merged and digested.

A configuration is a tree of `Section` classes with defaults. `load` lays recipes over the defaults
in the order they are named, and flags over them; whatever no class knows is an error that names the
file, the key and the nearest valid one. `digest` identifies what decides results: fields marked
`OPERATIONAL` (where a gym is, how much runs at once) do not count, so that a run may be continued
on another machine. JSON files are read like TOML: the ``config.json`` of a run is a recipe.

Not covered: what the keys mean; each verb's module has its own classes. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelgym.errors import UsageError
from kernelgym.tasks.nearest import did_you_mean


class _Operational:
    """Marks a field that changes how a run is done, not what comes out."""


OPERATIONAL = _Operational()
"""Use as ``concurrency: Annotated[int, OPERATIONAL] = 8``."""


class Section(BaseModel):
    """A table of a recipe. Every field has a docstring, and a default that is the vetted value."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def problem(self) -> str:
        """What is wrong between keys, for the user; empty where nothing is.

        Asked of the whole configuration by `load`. A validator of the class would see flags alone,
        before they are laid over a recipe.
        """
        return ""


C = TypeVar("C", bound=Section)


def load(kind: type[C], files: Sequence[Path] = (), flags: Section | None = None) -> C:
    """Defaults, then each file, then what was set in ``flags`` (an instance of ``kind``).

    Raises `UsageError` for a file that cannot be read, an unknown key or a bad value.
    """
    # A class may give a section other defaults than the section's own: they stay underneath.
    merged: dict[str, Any] = kind().model_dump(mode="json")
    origin: dict[tuple[str, ...], str] = {}
    for path in files:
        data = _read(path)
        _check_keys(kind, data, (), str(path))
        _lay_over(merged, data)
        origin |= dict.fromkeys(_leaves(data, ()), str(path))
    given = {} if flags is None else flags.model_dump(mode="json", exclude_unset=True)
    _lay_over(merged, given)
    origin |= dict.fromkeys(_leaves(given, ()), "")
    try:
        config = kind.model_validate_json(json.dumps(merged, default=str))
    except ValidationError as error:
        raise _bad_value(dict(error.errors()[0]), origin) from error
    if said := _problem(config):
        raise UsageError(said, hint="the same with --show-config shows what was put together")
    return config


def _problem(config: Section) -> str:
    """The first problem of a configuration or of one of its tables."""
    tables = [value for _, value in config if isinstance(value, Section)]
    return config.problem() or next((said for one in tables if (said := _problem(one))), "")


def digest(config: Section) -> str:
    """SHA-256 over everything in a configuration that decides results."""
    text = json.dumps(_deciding(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _deciding(config: Section) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if any(isinstance(mark, _Operational) for mark in field.metadata):
            continue
        if isinstance(value, Section):
            kept[name] = _deciding(value)
        else:
            kept[name] = config.model_dump(mode="json", include={name})[name]
    return kept


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            f"cannot read the recipe {path}: {error.strerror}", hint=f"ls {path.parent}"
        ) from error
    except ValueError as error:  # TOMLDecodeError, JSONDecodeError, UnicodeDecodeError
        raise UsageError(f"{path} is not a recipe: {error}", hint=f"head {path}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} is not a recipe: it must hold a table", hint=f"head {path}")
    return data


def _lay_over(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _lay_over(below[key], value)
        else:
            below[key] = dict(value) if isinstance(value, Mapping) else value


def _leaves(data: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        yield (*above, key)


def _check_keys(
    kind: type[Section], data: Mapping[str, Any], above: tuple[str, ...], where: str
) -> None:
    for key, value in data.items():
        dotted = ".".join((*above, key))
        field = kind.model_fields.get(key)
        if field is None:
            known = [".".join((*above, name)) for name in kind.model_fields]
            near = did_you_mean(dotted, known) or _elsewhere(kind, key, above)
            raise UsageError(
                f"{where}: unknown key {dotted!r}{near}", hint=f"keys: {', '.join(known)}"
            )
        inner = _section_of(field.annotation)
        if inner is not None and isinstance(value, Mapping):
            _check_keys(inner, value, (*above, key), where)


def _elsewhere(kind: type[Section], key: str, above: tuple[str, ...]) -> str:
    """A key that is known, but in another table."""
    for name, field in kind.model_fields.items():
        inner = _section_of(field.annotation)
        if inner is not None and key in inner.model_fields:
            return f"; did you mean {'.'.join((*above, name, key))}?"
    return ""


def _section_of(annotation: object) -> type[Section] | None:
    """The section that a field holds, also where it may be None."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        found = [inner for part in typing.get_args(annotation) if (inner := _section_of(part))]
        return found[0] if len(found) == 1 else None
    return None


def _bad_value(error: Mapping[str, Any], origin: Mapping[tuple[str, ...], str]) -> UsageError:
    place = tuple(str(part) for part in error["loc"])
    source = next((origin[p] for n in range(len(place), 0, -1) if (p := place[:n]) in origin), "")
    key = ".".join(place)
    named = f"{source}: {key}" if source else f"--{key}" if key else "the configuration"
    message = error["msg"].removeprefix("Value error, ")
    shown = f", not {error['input']!r:.100}" if key else ""
    return UsageError(f"{named}: {message[:1].lower()}{message[1:]}{shown}")
