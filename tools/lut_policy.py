"""
A conversion policy as a person writes it: a few words, or a TOML file.

    v4k16                                   every layer, V = 4 and K = 16
    v2k16,bits=6,fit=kmeans,exclude=head    fields of inr.lut.Policy
    v4k16,attention=v2k16,head=dense        layers whose names match, otherwise
    auto:error=0.05                         a choice a layer, the least cost for the error
    auto:cost=v4k16,choices=v2k16/v4k64     the least error at what v4k16 everywhere costs

The same as TOML, where patterns may hold commas:

    setting = "v4k16"        or   [auto]
    exclude = ["head"]            error = 0.05
    [layers]                      choices = ["v2k16", "v4k64,bits=6"]
    attention = "v2k16"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CompileError

if TYPE_CHECKING:
    from ..analysis.lut_codebooks import LutSettings
    from ..analysis.lut_cost import Choice
    from ..lut import Auto, Policy

EMPTY = "--policy is empty; write v4k16, auto:error=0.05, or a TOML file's name"

_SETTING = re.compile(r"v(\d{1,4})k(\d{1,4})")
Cost = Callable[[int, int, int, Any], float]
_SETTINGS: dict[str, Callable[[str], Any]]


def parse_policy(text: str, *, rows: int, layer_cost: Cost | None = None) -> Policy | Auto:
    """
    The policy that `text` spells or the file `text` holds; `rows` and `layer_cost` are `Auto`'s.

    Raises CompileError for what cannot be read, and as `Policy` and `Auto` do.
    """
    if not text.strip():
        raise CompileError(EMPTY)
    costs = {"rows": rows, "layer_cost": layer_cost}
    if text.endswith(".toml"):
        return _from_file(Path(text), costs)
    if text == "auto" or text.startswith("auto:"):
        return _auto(_pairs(text.removeprefix("auto").removeprefix(":"), text), text, costs)
    setting, _, rest = text.partition(",")
    return _policy(setting, _pairs(rest, text), text)


def spell(settings: Choice) -> str:
    """`v4k16`, with what differs from the defaults behind it; `int8`; `dense` for None."""
    if settings is None:
        return "dense"
    if settings == "int8":
        return "int8"
    parts = [f"v{settings.vec}k{settings.centroids}"]
    if settings.bits != 8:
        parts.append(f"bits={settings.bits}")
    if settings.fit != "refit":
        parts.append(f"fit={settings.fit}")
    if settings.weighted:
        parts.append("weighted=yes")
    if settings.residual:
        parts.append(f"residual={settings.residual}")
    return ",".join(parts)


def _truth(text: str) -> bool:
    if text not in ("yes", "no", "true", "false"):
        raise ValueError
    return text in ("yes", "true")


# What a field's text must be; a pattern's value is a setting or `dense`.
_SETTINGS = {
    "vec": int,
    "centroids": int,
    "bits": int,
    "fit": str,
    "weighted": _truth,
    "residual": int,
    "seed": int,
    "holdout": float,
}
_POLICY = {**_SETTINGS, "include": str, "exclude": str}
_AUTO: dict[str, Callable[[str], Any]] = {
    "error": float,
    "include": str,
    "exclude": str,
    "sensitivity": str,
    "holdout": float,
    "seed": int,
}


def _pairs(text: str, whole: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise CompileError(f"policy '{whole}': '{part}' is no name=value")
        if key in found:
            raise CompileError(f"policy '{whole}': {key} is there twice")
        found[key] = value
    return found


def _value(key: str, value: Any, kinds: Mapping[str, Callable[[str], Any]], whole: str) -> Any:
    """The value of a field: read from text, or of a TOML type that the field takes."""
    kind = kinds[key]
    if isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            pass
    elif kind is str:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
    elif isinstance(value, bool):
        if kind is _truth:
            return value
    elif kind is int and isinstance(value, int):
        return value
    elif kind is float and isinstance(value, int | float):
        return float(value)
    wanted = {int: "a whole number", float: "a number", str: "text"}.get(kind, "yes or no")
    raise CompileError(f"policy '{whole}': {key} = {value}; it takes {wanted}")


def _shape(setting: str, whole: str) -> dict[str, int]:
    if (match := _SETTING.fullmatch(setting.strip().lower())) is None:
        raise CompileError(
            f"policy '{whole}': '{setting}' is no setting; write v4k16 for codebooks of 4 channels "
            "with 16 centroids"
        )
    return {"vec": int(match[1]), "centroids": int(match[2])}


def _changes(setting: Any, whole: str) -> dict[str, Any] | None:
    """What an override says: `dense`, a setting with its fields, or a table of fields."""
    if isinstance(setting, Mapping):
        return {k: _known(k, v, _SETTINGS, whole) for k, v in setting.items()}
    if not isinstance(setting, str):
        raise CompileError(f"policy '{whole}': {setting!r} is neither a setting nor 'dense'")
    if setting.strip().lower() == "dense":
        return None
    shape, _, rest = setting.partition(",")
    fields = {k: _known(k, v, _SETTINGS, whole) for k, v in _pairs(rest, whole).items()}
    return {**_shape(shape, whole), **fields}


def _known(key: str, value: Any, kinds: Mapping[str, Callable[[str], Any]], whole: str) -> Any:
    if key not in kinds:
        raise CompileError(
            f"policy '{whole}': there is no {key}; there are {', '.join(sorted(kinds))}"
        )
    return _value(key, value, kinds, whole)


def _policy(
    setting: str | None,
    given: Mapping[str, Any],
    whole: str,
    layers: Mapping[str, Any] | None = None,
) -> Policy:
    from ..lut import Policy

    fields: dict[str, Any] = {} if setting is None else dict(_shape(setting, whole))
    overrides: dict[str, Mapping[str, Any] | None] = {}
    for key, value in given.items():
        if key in _POLICY:
            fields[key] = _value(key, value, _POLICY, whole)
        elif layers is None and (value.lower() == "dense" or _SETTING.fullmatch(value.lower())):
            # Only in text: in TOML such names stand in [layers].
            overrides[key] = _changes(value, whole)
        else:
            raise CompileError(
                f"policy '{whole}': {key} = {value}; a field ({', '.join(sorted(_POLICY))}), or a "
                "pattern of layer names with a setting (v2k16) or 'dense'"
            )
    for pattern, value in (layers or {}).items():
        overrides[pattern] = _changes(value, whole)
    return _built(lambda: Policy(**fields, overrides=overrides), whole)


def _auto(given: Mapping[str, Any], whole: str, costs: Mapping[str, Any]) -> Auto:
    from ..lut import Auto

    fields: dict[str, Any] = dict(costs)
    for key, value in given.items():
        if key == "choices":
            listed = value.split("/") if isinstance(value, str) else value
            if not isinstance(listed, list) or not all(isinstance(c, str) for c in listed):
                raise CompileError(f"policy '{whole}': choices = {value}; a list of settings")
            fields["choices"] = tuple(_settings(choice, whole) for choice in listed)
        elif key == "cost":
            fields["cost"] = _cost(value, whole)
        else:
            fields[key] = _known(key, value, {**_AUTO, "cost": str, "choices": str}, whole)
    if "error" not in fields and "cost" not in fields:
        raise CompileError(
            f"policy '{whole}' has no budget; write auto:error=0.05 for the model's relative "
            "error, or auto:cost=v4k16 for what that setting everywhere costs"
        )
    return _built(lambda: Auto(**fields), whole)


def _cost(value: Any, whole: str) -> float | LutSettings:
    if isinstance(value, str):
        if _SETTING.match(value.lower()):
            return _settings(value, whole)
        try:
            value = float(value)
        except ValueError:
            raise CompileError(
                f"policy '{whole}': cost={value}; seconds, or a setting such as v4k16"
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CompileError(f"policy '{whole}': cost = {value}; seconds, or a setting")
    return float(value)


def _settings(choice: str, whole: str) -> LutSettings:
    from ..analysis.lut_codebooks import LutSettings

    changes = _changes(choice, whole)
    if changes is None:
        raise CompileError(f"policy '{whole}': 'dense' is among the choices anyway")
    return _built(lambda: LutSettings(**changes), whole)


def _built(make: Callable[[], Any], whole: str) -> Any:
    try:
        return make()
    except CompileError as error:
        raise CompileError(f"policy '{whole}': {error}") from error


def _from_file(path: Path, costs: Mapping[str, Any]) -> Policy | Auto:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CompileError(f"--policy {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CompileError(f"--policy {path}: not TOML: {error}") from error
    whole = str(path)
    if not given:
        raise CompileError(f'--policy {path} is empty; write setting = "v4k16" or a table [auto]')
    auto, layers = given.pop("auto", None), given.pop("layers", {})
    if not isinstance(layers, dict) or not isinstance(auto, dict | None):
        raise CompileError(f"--policy {path}: [auto] and [layers] are tables")
    if auto is not None:
        if given or layers:
            raise CompileError(f"--policy {path}: [auto] stands alone; it chooses for each layer")
        return _auto(auto, whole, costs)
    setting = given.pop("setting", None)
    if setting is not None and not isinstance(setting, str):
        raise CompileError(f"--policy {path}: setting is text, such as v4k16")
    return _policy(setting, given, whole, layers)
