"""Where the time of a forward and backward pass goes in PyTorch: kernels by class, and gaps.

    python benchmarks/where_time_goes.py [--network vgg_a] [--batch-size 64] [--precision bf16]
        [--layout nhwc] [--mode compile] [--device cuda:0] [--iterations 10] [--json]

netdyno's own adapter runs under PyTorch's profiler; a kernel's class is told by its name. Above the
table stand FLOP/s of convolutions and matrix products, as docs/limits.md counts them, beside the
fastest large matrix product in the same precision: --peak in TFLOP/s, or measured in the same
process. On a CPU, the "kernels" are PyTorch's operators.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.report.limits import work_of
from netdyno.settings import load_settings
from workbench import add_options, chosen_cells, in_environment

PHASE = "forward_backward"
TRACE = Path(__file__).resolve().with_name("where_time_goes_trace.py")
PRODUCTS, OTHER = "product", "other"
# The first whose pattern is found in a kernel's name, in small letters. Fused kernels of Triton
# are named after all that they compute, and after the convolutions before them: they come first.
CLASSES = (
    ("memset", r"^memset"),
    ("layout", r"nchwtonhwc|nhwctonchw|transpose"),
    ("cast or copy", r"^memcpy|copy_kernel|converttensor|aten::(copy_|_to_copy)$"),
    ("cast or copy", r"triton_poi_fused_(_to_copy|convert_element_type|clone)(_t|_clone)?_\d+$"),
    ("pooling", r"pool"),
    ("reduction", r"triton_(red|per)_"),
    ("elementwise, fused", r"triton_(poi|for)_"),
    (f"{PRODUCTS}, forward", r"fprop"),
    (f"{PRODUCTS}, gradient of weights", r"wgrad"),
    (f"{PRODUCTS}, gradient of input", r"dgrad"),
    (f"{PRODUCTS}, backward", r"convolution_backward|linear_backward"),
    (PRODUCTS, r"gemm|gemv|splitk|nvjet|cutlass|xmma|conv|cudnn|winograd|sm90|triton_(tem|mm)"),
    (PRODUCTS, r"aten::(add|b)?mm$|linear"),
    ("reduction", r"reduce|softmax|nll_loss|aten::sum"),
    ("elementwise", r"elementwise|foreach|multi_tensor|threshold|fill|relu|aten::mul"),
)
LONGEST = 3
# Of a kernel's name in the table; cuDNN's and CUTLASS' go on for hundreds of letters.
LETTERS = 70


def class_of(kernel: str) -> str:
    return next((name for name, found in CLASSES if re.search(found, kernel.lower())), OTHER)


def breakdown(told: dict[str, Any], flop: int, peak: float | None) -> dict[str, Any]:
    """Everything that is printed: seconds and launches of an iteration, FLOP/s, shares of 1.

    Args:
        told: by where_time_goes_trace.py.
        flop: of convolutions and products in one iteration.
        peak: FLOP/s of the fastest product; None if nobody knows.
    """
    count = told["iterations"]
    seconds: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    for kernel, spent in told["kernels"]:
        seconds[kernel] += spent / count
        launches[class_of(kernel)] += 1
    wall = told["span"] / count
    classes = []
    for name in launches:
        own = {k: spent for k, spent in seconds.most_common() if class_of(k) == name}
        total = sum(own.values())
        part = {"class": name, "seconds": total, "share": total / wall}
        longest = dict(list(own.items())[:LONGEST])
        classes.append({**part, "launches": launches[name] / count, "longest": longest})
    gaps = wall - told["busy"] / count
    products = sum(part["seconds"] for part in classes if part["class"].startswith(PRODUCTS))
    rates = {"iteration": flop / told["seconds"], "products": flop / products if products else 0.0}
    return {
        "seconds": told["seconds"],
        "profiled_seconds": wall,
        "flop": flop,
        "peak_flop_per_second": peak,
        "flop_per_second": rates,
        "share_of_peak": {name: rate / peak for name, rate in rates.items()} if peak else {},
        "classes": sorted(classes, key=lambda part: -part["seconds"]),
        "gaps": {"seconds": gaps, "share": gaps / wall},
    }


def print_breakdown(cell: Cell, found: dict[str, Any], console: Console) -> None:
    ms, profiled = found["seconds"] * 1e3, found["profiled_seconds"] * 1e3
    peak = found["peak_flop_per_second"]
    console.print(f"{cell.key}: {ms:.4g} ms an iteration, {profiled:.4g} under the profiler")
    console.print(f"{found['flop'] / 1e12:.4g} TFLOP in convolutions and matrix products")
    if peak:
        console.print(f"fastest large product: {peak / 1e12:.4g} TFLOP/s")
    for name, rate in found["flop_per_second"].items():
        share = f", {found['share_of_peak'][name]:.1%} of that" if peak else ""
        console.print(f"{name}: {rate / 1e12:.4g} TFLOP/s{share}")
    table = Table()
    table.add_column("class", no_wrap=True)
    for column in ("ms", "share", "launches"):
        table.add_column(column, justify="right")
    table.add_column("longest kernels, ms", no_wrap=True)
    nothing = {"class": "nothing ran", **found["gaps"], "longest": {}}
    for part in (*found["classes"], nothing):
        table.add_row(
            part["class"],
            f"{part['seconds'] * 1e3:.3f}",
            f"{part['share']:.1%}",
            f"{part['launches']:.4g}" if "launches" in part else "",
            "\n".join(f"{s * 1e3:.3f} {_shortened(name)}" for name, s in part["longest"].items()),
        )
    console.print(table)


def _shortened(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", default="compile")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--peak", type=float, metavar="TFLOP/s", help="default: measured")
    parser.add_argument("--json", action="store_true")
    axes = {"network": "vgg_a", "batch_size": 64, "precision": "bf16", "layout": "nhwc"}
    add_options(parser, device="cuda:0", **axes)
    options = parser.parse_args()
    try:
        (cell,) = chosen_cells([f"pytorch/{options.mode}"], options)
        settings = load_settings(options.python)
        data = job(cell, seed=1, phases=[PHASE])
        data["sampling"] = {**data["sampling"], "min_samples": options.iterations}
        data["limits"] = [] if options.peak else [cell.precision]
        told = in_environment(TRACE, cell, data, settings)
    except NetdynoError as error:
        print(f"where_time_goes: {error}", file=sys.stderr)
        return 2
    flop = work_of(cell.network, cell.batch_size, cell.precision).flop(PHASE)
    peak = options.peak * 1e12 if options.peak else told["flop_per_second"]
    found = breakdown(told, flop, peak)
    if options.json:
        print(json.dumps({"cell": cell.to_json(), **found}, indent=2))
    else:
        print_breakdown(cell, found, Console(width=140, markup=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
