"""Whether two cells may be compared, and what stands between them; see docs/comparability.md."""

from netdyno.comparability.difference import Difference, Kind
from netdyno.comparability.fingerprint import Fingerprint, fingerprint_of
from netdyno.comparability.judgement import Verdict, inconsistencies, verdict
from netdyno.comparability.table import differences_summary, grouping

__all__ = [
    "Difference",
    "Fingerprint",
    "Kind",
    "Verdict",
    "differences_summary",
    "fingerprint_of",
    "grouping",
    "inconsistencies",
    "verdict",
]
