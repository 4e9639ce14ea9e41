"""How a study is written: a YAML table of arms, environments and seeds, at one or several scales.

An arm is a set of changes to a run's configuration. Those of a run are made one over the other: the `config` that all
arms begin with, `run` of the study and of the scale, and the arm's own, of the study and of the scale.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from adaqn.agents.registry import algorithm
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import Json, path_safe
from adaqn.base.plugins import PresetFolder
from adaqn.runs.config import RunConfig, read_config, require_mapping, settings_of, with_algorithm, with_overrides
from adaqn.runs.display.labels import member_labels
from adaqn.studies.study import (
    ENVIRONMENT_ENTRIES,
    STUDY_VERSION,
    Study,
    arm_values,
    require_label,
    seeds_from,
)

STUDIES = PresetFolder("study", ("presets", "studies"))
EACH = "each"  # `member: each` makes an arm of every member
BEST_TRIAL = "best_trial_of"  # names the search whose best trial an arm trains

_SCALED = ("environments", "seeds", "tuning_seeds", "choices", "run")
_ENTRIES = ("version", "name", "about", "config", "arms", "scales", *_SCALED)
_SCALE_ENTRIES = (*_SCALED, "arms", "without")
_NOT_SHARED = ("algo", "base", "member", "seed")  # what makes an arm, so that all cannot have it of `run`


def read_study(name_or_path: str | Path, scale: str | None = None) -> Study:
    """The study of a YAML file, or of the preset with this name, at one of its scales."""
    values = STUDIES.read_given(name_or_path)
    if isinstance(values, Mapping) and "arms" not in values and "algo" in values:
        raise UserError(
            f"{name_or_path} is the configuration of one run, not a study, which has arms: adaqn train --config"
        )
    if isinstance(values, Mapping) and "retrained" in values:
        where = Path(name_or_path).parent
        raise UserError(
            f"{name_or_path} is what adaqn keeps of a study in its directory: adaqn study {where} goes on with it"
        )
    return expand(require_mapping(str(name_or_path), values), Path(name_or_path).stem, scale)


def expand(values: Mapping[str, Any], name: str, scale: str | None = None) -> Study:
    """The study that these plain values describe, at one of its scales; `name` is for one that has none."""
    source = f"the study {values.get('name', name)}"
    _require_known(source, values, _ENTRIES)
    if values.get("version", STUDY_VERSION) != STUDY_VERSION:
        raise UserError(f"{source} has version {values['version']!r}, but this adaqn reads version {STUDY_VERSION}")
    given_scales = require_mapping(f"scales of {source}", values.get("scales") or {})
    at_scale = [require_mapping(f"the scale {label} of {source}", one) for label, one in given_scales.items()]
    for entry in ("arms", "seeds"):
        if entry not in values and not all(entry in one for one in at_scale or [{}]):
            raise UserError(f"{source} does not say {entry}, which every study needs")
    chosen = _scale(source, values, scale)
    arms = _arms(source, values, chosen)
    retrained = _retrained(source, values, chosen, arms)
    groups = {label: list(members) for label, members in arms.items()}
    configs = {label: config for members in arms.values() for label, config in members.items()}
    if not configs:
        raise UserError(f"{source} needs at least one arm, but its scale {scale} leaves all of them out")
    environments = _environments(source, chosen.get("environments", values.get("environments")), configs)
    first, *others = environments.values()
    complete = {
        label: arm_values(RunConfig.as_given({**config, **first}, f"the arm {label}"))
        for label, config in configs.items()
    }
    for entry in others:  # their entries are checked as well, before anything runs
        RunConfig.as_given({**next(iter(configs.values())), **entry}, source)
    choices = require_mapping(f"choices of {source}", chosen.get("choices", values.get("choices")) or {})
    return Study(
        name=str(values.get("name", name)),
        scale=scale,
        about=" ".join(str(values.get("about", "")).split()),
        arms=complete,
        environments=environments,
        seeds=seeds_from("seeds", chosen.get("seeds", values.get("seeds"))),
        tuning_seeds=seeds_from("tuning_seeds", chosen.get("tuning_seeds", values.get("tuning_seeds", []))),
        choices={
            str(choice): tuple(matching_arms(_names(f"the choice {choice}", given), complete, groups))
            for choice, given in choices.items()
        },
        retrained={label: search for label, search in retrained.items() if label in complete},
    )


def scales(values: Mapping[str, Any]) -> list[str]:
    """The names of a study's scales."""
    return [str(name) for name in values.get("scales") or {}]


def matching_arms(
    patterns: Iterable[str], labels: Iterable[str], groups: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """The arms that some pattern matches, such as `dqn-*`, or that came of the group of that name, in their order."""
    labels = list(labels)
    found: set[str] = set()
    for pattern in patterns:
        matches = {*(groups or {}).get(pattern, []), *fnmatch.filter(labels, pattern)}
        if not matches:
            raise unknown_name("arm", pattern, labels)
        found |= matches
    return [label for label in labels if label in found]


def _scale(source: str, values: Mapping[str, Any], scale: str | None) -> Json:
    names = scales(values)
    if scale is None and not names:
        return {}
    if scale is None:
        raise UserError(f"{source} comes in several scales: say --scale {' or --scale '.join(names)}")
    if scale not in names:
        raise unknown_name(f"scale of {source}:", scale, names or ["none: leave --scale out"])
    chosen = require_mapping(f"the scale {scale}", values["scales"][scale])
    _require_known(f"the scale {scale} of {source}", chosen, _SCALE_ENTRIES)
    return chosen


def _arms(source: str, values: Mapping[str, Any], scale: Mapping[str, Any]) -> dict[str, dict[str, Json]]:
    """The values of all arms, in groups: most have one, those of `member: each` one for each member."""
    own = _merged_arms(source, values.get("arms"), scale.get("arms"))
    if not own:
        raise UserError(f"{source} needs at least one arm")
    shared = [require_mapping(f"run in {source}", one.get("run") or {}) for one in (values, scale)]
    for one in shared:
        require_mapping(f"settings in run of {source}", one.get("settings") or {})
        for name in one:
            if name in (*_NOT_SHARED, *ENVIRONMENT_ENTRIES):
                raise UserError(f"run of {source} is for all arms, so it cannot say {name}: {_place(name)}")
    used: set[str] = set()
    groups: dict[str, dict[str, Json]] = {}
    for label, layers in own.items():
        search = next((layer[BEST_TRIAL] for layer in layers if BEST_TRIAL in layer), None)
        if search is None:
            config = _over(values.get("config"), shared, layers, used)
        else:
            config = _of_search(source, label, own.get(str(search)), values.get("config"), shared, used)
            config = _over(config, [], [{k: v for k, v in layer.items() if k != BEST_TRIAL} for layer in layers], used)
        groups[label] = _members(label, config)
    for name in {name for one in shared for name in one.get("settings") or {}} - used:
        known = sorted({each for group in groups.values() for config in group.values() for each in settings_of(config)})
        raise unknown_name(f"setting in run of {source}: no arm has", name, known)
    labels = [label for group in groups.values() for label in group]
    if len(set(labels)) != len(labels):
        raise UserError(f"{source} has two arms of the same label: {', '.join(sorted(labels))}")
    without = matching_arms(
        _names("without", scale.get("without") or []), labels, {k: list(v) for k, v in groups.items()}
    )
    return {
        name: {label: config for label, config in group.items() if label not in without}
        for name, group in groups.items()
    }


def _of_search(
    source: str, label: str, search: Sequence[Json] | None, config: object, shared: Sequence[Json], used: set[str]
) -> Json:
    """The values of a search's trials, for an arm that trains the best of them."""
    values = None if search is None else _over(config, shared, search, used)
    base = None if values is None else algorithm(values["algo"], values.get("base")).base
    if values is None or base is None:
        raise UserError(
            f"{BEST_TRIAL} of the arm {label} in {source} must be an arm that searches (random-search, dehb)"
        )
    values = with_algorithm(values, base, None)
    values.pop("space", None)
    return values


def _retrained(
    source: str, values: Mapping[str, Any], scale: Mapping[str, Any], arms: Mapping[str, Mapping[str, Json]]
) -> dict[str, str]:
    """The arms that train the best trial of a search, which must be there as well."""
    found: dict[str, str] = {}
    for label, layers in _merged_arms(source, values.get("arms"), scale.get("arms")).items():
        search = next((layer[BEST_TRIAL] for layer in layers if BEST_TRIAL in layer), None)
        if search is not None and arms[label]:
            if not arms.get(search):
                raise UserError(f"the arm {label} of {source} needs the arm {search}, which is left out")
            found[label] = search
    return found


def _merged_arms(source: str, arms: object, scaled: object) -> dict[str, list[Json]]:
    """The changes of every arm, those of the scale last; the scale may add arms of its own."""
    merged: dict[str, list[Json]] = {}
    for where in (arms, scaled):
        for label, changes in require_mapping(f"arms in {source}", where or {}).items():
            entry = require_mapping(f"the arm {label} in {source}", changes or {})
            for name in (*ENVIRONMENT_ENTRIES, "seed"):
                if name in entry:
                    raise UserError(f"the arm {label} cannot say {name}: {_place(name)} of {source}")
            merged.setdefault(require_label("arms", label), []).append(entry)
    return merged


def _over(config: object, shared: Sequence[Json], own: Sequence[Json], used: set[str]) -> Json:
    """The values of one arm: the configuration, what all arms share and fits this one, and what it says itself."""
    for layer in own:
        config = layer.get("config", config)
    values: Json = {} if config is None else dict(read_config(config) if isinstance(config, str) else _mapping(config))
    values.setdefault("algo", "adadqn")
    own = [{name: value for name, value in layer.items() if name != "config"} for layer in own]
    for layer in own:  # which algorithm it is decides what of the shared settings is of use
        values = with_overrides(values, {name: layer[name] for name in ("algo", "base") if name in layer})
    for layer in shared:
        settings = {n: v for n, v in (layer.get("settings") or {}).items() if n in settings_of(values)}
        used |= set(settings)
        values = with_overrides(values, {**layer, "settings": settings})
    for layer in own:
        values = with_overrides(values, layer)
    return values


def _members(label: str, values: Json) -> dict[str, Json]:
    """The arm itself, or one for each of its members, named after what tells them apart."""
    if values.get("member") != EACH:
        return {label: values}
    several = {name: value for name, value in values.items() if name != "member"}
    members = RunConfig.as_given({"env": None, "steps": 10**9, **several}, f"the arm {label}").members
    if not members:
        raise UserError(f"the arm {label} has `member: each`, but no members that it could take one by one")
    return {
        f"{label}-{path_safe(name)}": {**values, "member": index} for index, name in enumerate(member_labels(members))
    }


def _environments(source: str, given: object, configs: Mapping[str, Json]) -> dict[str, Json]:
    """Environments by label: ids, whose label follows from the id, or labelled entries of a configuration."""
    own = {
        arm: {name: config[name] for name in ENVIRONMENT_ENTRIES if config.get(name)} for arm, config in configs.items()
    }
    if given is None:
        entry, *others = own.values()
        if "env" not in entry or any(other != entry for other in others):
            raise UserError(f"{source} does not say environments, and its arms do not agree on one")
        return {path_safe(str(entry["env"])): entry}
    for arm, entry in own.items():  # what belongs to the environment of its `config`, which is not the one that runs
        for name in ENVIRONMENT_ENTRIES[1:]:
            if name in entry:
                raise UserError(
                    f"the configuration of the arm {arm} says {name}, which {source} would leave out, because it has "
                    f"`environments`: label these, and say {name} there"
                )
    if isinstance(given, str):
        given = [given]
    if isinstance(given, list) and given and all(isinstance(one, str) for one in given):
        labelled = {path_safe(one): {"env": one} for one in given}
        if len(labelled) != len(given):
            raise UserError(f"environments of {source} must be different from each other, but got {given!r}")
        return labelled
    if not isinstance(given, Mapping) or not given:
        raise UserError(f"environments of {source} must be a list of ids, or labelled entries, but got {given!r}")
    for label, entry in given.items():
        _require_known(
            f"the environment {label}", require_mapping(f"the environment {label}", entry), ENVIRONMENT_ENTRIES
        )
        if "env" not in entry:
            raise UserError(f"the environment {label} of {source} does not say env, its id")
    return {require_label("environments", label): dict(entry) for label, entry in given.items()}


def _place(name: str) -> str:
    """Where a study says something that makes one of its runs."""
    where = "environments" if name in ENVIRONMENT_ENTRIES else "seeds" if name == "seed" else "arms"
    return f"that is for `{where}`"


def _names(what: str, given: object) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise UserError(f"{what} must be a list of arms, but got {given!r}")
    return given


def _mapping(config: object) -> Json:
    return require_mapping("config of a study (a preset, a file, or a mapping)", config)


def _require_known(source: str, values: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in values:
        if name not in names:
            raise unknown_name(f"entry in {source}:", name, names)
