"""Messages of the library in the words of the command: its options in place of Python's arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DRAWN = "give data with validation nodes (--split stratified draws some) or --validation-fraction"
_PHRASES = {
    "pass validation=(nodes, y) or validation_fraction": _DRAWN,
    "pass validation= or validation_fraction, or set patience=None": f"{_DRAWN}, or leave out --patience",
    "pass validation= or validation_fraction": _DRAWN,
    "pass validation=": _DRAWN,
    "split='stratified', split='random', a fold number or a NodeSplit": "--split stratified, --split random "
    "or the number of a fold",
    "a fold number or a NodeSplit": "or the number of a fold",
    "lower per_class or use stratified_split": "lower it with --data-option, or use --split stratified",
    "use stratified_split, whose sizes are fractions": "use --split stratified, whose sizes are fractions",
    "(n_test=None takes what is left)": "(--data-option)",
    "give features=": "it must have them",
    "give y=": "it must have them",
    "set_params(": "(",
}
_DATA = {"split": "--split", "seed": "--split-seed"}


def in_options(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with options for arguments; ``flags`` has them by the names of settings.

    Examples
    --------
    >>> in_options("MLP.units must be an integer >= 1; got 0.", {"learner__units": "--units"})
    '--units must be an integer >= 1; got 0.'
    """
    for phrase, words in _PHRASES.items():
        message = message.replace(phrase, words)
    message = re.sub(r"\b(\w+)\.(\w+)(?= must\b| stops\b| has class\b)", lambda m: _flag(m, flags), message)
    message = re.sub(r"\b([a-z]\w*)=([\"'])([^\"'\s]*)\2", lambda m: _setting(m, flags), message)
    return re.sub(r"(--\w+ \w+) \(\1\)", r"\1", message)  # some messages name the option beside


def _flag(found: re.Match[str], flags: Mapping[str, str]) -> str:
    """Return the option of ``Class.setting``, or what was found where there is none."""
    owner, name = found.groups()
    if owner in ("GBGNNClassifier", "GBGNNRegressor"):
        return flags.get(name, found[0])
    if owner == "FineTuner":
        return flags.get(f"fine_tune__{name}", found[0])
    from gbgnn.registry import FAMILIES

    for family, parts in FAMILIES.items():
        if any(kind.__name__ == owner for kind in parts.values()):
            return flags.get(f"{family}__{name}", flags.get(name, found[0]))
    if not owner[:1].isupper() and name in _DATA:
        return _DATA[name]
    return found[0]


def _setting(found: re.Match[str], flags: Mapping[str, str]) -> str:
    """Return ``setting="value"`` as an option with its value."""
    name, _, value = found.groups()
    flag = flags.get(name) or _DATA.get(name)
    return found[0] if flag is None else f"{flag} {value or repr(value)}"
