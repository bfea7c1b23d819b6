"""netdyno: a dynamometer for deep-learning frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netdyno_worker.evaluate import EvaluationError, evaluate_framework

__all__ = ["EvaluationError", "__version__", "evaluate_framework"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # On demand: `import netdyno` must need nothing, and this needs NumPy.
    if name in ("EvaluationError", "evaluate_framework"):
        from netdyno_worker import evaluate

        return getattr(evaluate, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
