"""Speculative settings of any age to those of today, with a reason for every change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from capplan.deploy.fields import SPECULATIVE_KEYS, speculative_key_known
from capplan.deploy.versions import REMOVED_METHODS, EngineVersion

Config = dict[str, object]

_BATCHES_WITHOUT_LIMIT = 1024
"""The largest default of ``--max-num-seqs``: where a table of lengths may end."""

_DROPPED = {
    "posterior_threshold": "it tuned typical acceptance, which is gone",
    "posterior_alpha": "it tuned typical acceptance, which is gone",
    "disable_mqa_scorer": "verification is one pass of the target in any case",
    "disable_logprobs": "log-probabilities are returned with speculation too",
    "speculative_token_tree": "drafts are chains, trees are gone",
    "model_2": "one draft a target: the engine has no second tier, and never had",
    "num_speculative_tokens_2": "one draft a target: the engine has no second tier, and never had",
}
_BY_NAME = (
    ("eagle3", "eagle3"),
    ("eagle-", "eagle"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("medusa", "medusa"),
    ("mlp_speculator", "mlp_speculator"),
    ("mlp-speculator", "mlp_speculator"),
)
"""What the engine itself reads out of the path of a draft, and what it read once."""


@dataclass(frozen=True)
class Server:
    """What the rest of the command says, as far as speculation depends on it."""

    version: EngineVersion
    tensor_parallel: int | None = 1
    """None where the command leaves it to the shell."""
    max_num_seqs: int | None = None


@dataclass
class Modern:
    """The settings of today, with what was done to get there."""

    config: Config
    server: Server
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    """What stood there, what stands there now, why."""
    notes: list[str] = field(default_factory=list)

    def changed(self, old: str, new: str, reason: str) -> None:
        """Note a change."""
        self.changes.append((old, new, reason))


def modernise(given: Mapping[str, object], server: Server) -> Modern:
    """Return the speculative configuration that a version takes.

    Parameters
    ----------
    given
        Keys of any age; those of old flags go by the keys of ``old_flags``.
    server
        Version and limits of the command.
    """
    modern = Modern(dict(given), server)
    for step in _STEPS:
        step(modern)
    modern.config = _ordered(modern.config)
    return modern


def _drop(modern: Modern) -> None:
    for key, reason in _DROPPED.items():
        if key in modern.config:
            modern.changed(f"{key}={modern.config.pop(key)}", "", reason)


def _lookup_as_model(modern: Modern) -> None:
    model = modern.config.get("model")
    if model in ("[ngram]", "ngram"):
        del modern.config["model"]
        modern.config.setdefault("method", "ngram")
        modern.changed(f"model={model}", "method=ngram", "lookup is a method, not a checkpoint")


def _method(modern: Modern) -> None:
    method = modern.config.get("method")
    if method is None:
        guessed = _guessed(modern.config)
        if guessed:
            modern.config["method"] = guessed
            reason = "the engine would guess it from the path of the draft"
            modern.changed("", f"method={guessed}", reason)
    elif isinstance(method, str) and method.endswith("_mtp"):
        modern.config["method"] = "mtp"
        modern.changed(f"method={method}", "method=mtp", "one name for the MTP layers of any LLM")


def _guessed(config: Config) -> str:
    model = config.get("model")
    if not isinstance(model, str):
        lookup = {"prompt_lookup_max", "prompt_lookup_min"} & config.keys()
        return "ngram" if lookup else ""
    return next((name for part, name in _BY_NAME if part in model.lower()), "draft_model")


def _removed_method(modern: Modern) -> None:
    method = str(modern.config.get("method"))
    removed = REMOVED_METHODS.get(method)
    if removed is not None and modern.server.version.minor >= removed:
        modern.config.clear()
        modern.changed(
            f"method={method}",
            "",
            f"{modern.server.version} has no {method} any more (0.32 was the last with it), so "
            "this command does not speculate: take an EAGLE-3 head or a draft model "
            "(capplan pair TARGET lists them)",
        )


def _head_needed(modern: Modern) -> None:
    method, model = str(modern.config.get("method", "")), str(modern.config.get("model", ""))
    if method.startswith("eagle") and model and "eagle" not in model.lower():
        modern.notes.append(
            f"{method} needs a head that was trained for this very target; if {model} is an LLM "
            "of its own, the method is draft_model."
        )


def _batch_limit(modern: Modern) -> None:
    if "disable_by_batch_size" not in modern.config:
        return
    given, length = modern.config.pop("disable_by_batch_size"), _whole(modern.config)
    limit = given if isinstance(given, int) else _number(given)
    old = f"disable_by_batch_size={given}"
    if limit is None or limit < 1 or length is None:
        modern.changed(old, "", "it has no place without whole numbers for it and for the length")
        return
    end = max(modern.server.max_num_seqs or _BATCHES_WITHOUT_LIMIT, limit + 1)
    table = [[1, limit, length], [limit + 1, end, 0]]
    key = "num_speculative_tokens_per_batch_size"
    modern.config[key] = table
    modern.changed(old, f"{key}={table}", "a table of lengths by batch: none above the limit")
    modern.notes.append(
        "A table of lengths leaves the drafter loaded and costs time where it drafts nothing, and "
        "has collapsed under load (vLLM issue 49548): measure it at its edge."
    )


def _acceptance(modern: Modern) -> None:
    key = "rejection_sample_method"
    if "acceptance_method" in modern.config:
        given = modern.config.pop("acceptance_method")
        lossy = "typical" in str(given)
        modern.config[key] = "standard"
        reason = "typical acceptance changed the text and is gone" if lossy else "renamed"
        modern.changed(f"acceptance_method={given}", f"{key}=standard", reason)
    given = modern.config.get(key)
    if given == "strict":
        modern.config[key] = "standard"
        modern.changed(f"{key}=strict", f"{key}=standard", "the name is refused")
    elif given == "probabilistic":
        modern.config.update({key: "standard", "draft_sample_method": "probabilistic"})
        new = f"{key}=standard, draft_sample_method=probabilistic"
        modern.changed(f"{key}=probabilistic", new, "how drafts are drawn is a setting of its own")


def _parallelism(modern: Modern) -> None:
    if "tensor_parallel_size" in modern.config:
        given = modern.config.pop("tensor_parallel_size")
        modern.config.setdefault("draft_tensor_parallel_size", given)
        new = f"draft_tensor_parallel_size={given}"
        modern.changed(f"tensor_parallel_size={given}", new, "refused by this name")
    given = modern.config.get("draft_tensor_parallel_size")
    if given is None:
        return
    own, size = modern.server.tensor_parallel, _number(given)
    others = modern.config.get("method") != "draft_model"
    if size is not None and (size == own or (others and size == 1)):
        modern.config["draft_tensor_parallel_size"] = size
        return
    old = f"draft_tensor_parallel_size={given}"
    reason = "a draft runs over the GPUs of its target: anything else is refused or ignored"
    if own is None:
        del modern.config["draft_tensor_parallel_size"]
        modern.changed(old, "", reason)
    else:
        modern.config["draft_tensor_parallel_size"] = own
        modern.changed(old, f"draft_tensor_parallel_size={own}", reason)


def _lookup_lengths(modern: Modern) -> None:
    config = modern.config
    half_said = "prompt_lookup_max" in config and "prompt_lookup_min" not in config
    if config.get("method") == "ngram" and half_said:
        config["prompt_lookup_min"] = 1
        reason = "once the default; left out it would now be the longest one"
        modern.changed("", "prompt_lookup_min=1", reason)


def _whole_numbers(modern: Modern) -> None:
    """Turn the texts that flags gave into the numbers that the configuration wants."""
    keys = ("num_speculative_tokens", "max_model_len", "prompt_lookup_min", "prompt_lookup_max")
    for key in keys:
        number = _number(modern.config.get(key))
        if number is not None:
            modern.config[key] = number


def _check(modern: Modern) -> None:
    for key in modern.config:
        if not speculative_key_known(key, modern.server.version):
            modern.notes.append(
                f'{modern.server.version} refuses the key "{key}" of --speculative-config; it is '
                "kept because capplan does not know what it was for."
            )
    unsaid = bool(modern.config) and "num_speculative_tokens" not in modern.config
    if unsaid and modern.config.get("method") not in _KNOW_THEIR_LENGTH:
        modern.notes.append("num_speculative_tokens is missing, and the engine wants it.")


_KNOW_THEIR_LENGTH = ("mtp", "suffix", "dspark")

_STEPS: tuple[Callable[[Modern], None], ...] = (
    _drop,
    _whole_numbers,
    _lookup_as_model,
    _method,
    _removed_method,
    _head_needed,
    _batch_limit,
    _acceptance,
    _parallelism,
    _lookup_lengths,
    _check,
)


def _number(given: object) -> int | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return given
    text = given.strip() if isinstance(given, str) else ""
    return int(text) if text.isdecimal() else None


def _whole(config: Config) -> int | None:
    return _number(config.get("num_speculative_tokens"))


def _ordered(config: Config) -> Config:
    known = [key for key in SPECULATIVE_KEYS if key in config]
    return {key: config[key] for key in (*known, *(k for k in config if k not in known))}
