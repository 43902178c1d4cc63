"""What a model is asked, what is found in its answer, and what it is told about it.

    from drkernel.prompts import extract, feedback, first_turn, refinement

* `first_turn` and `refinement` write messages from the jinja files in ``templates/``;
* `extract` finds the candidate's source in an answer;
* `feedback` puts a verdict into words, deterministic and within a budget of tokens;
* `drkernel.prompts.chat` lays a model family's chat template over messages.

Imports no torch and no transformers.
"""

from drkernel.prompts.budget import estimate_tokens
from drkernel.prompts.extraction import extract
from drkernel.prompts.feedback import feedback
from drkernel.prompts.writing import BACKENDS, VARIANTS, Variant, first_turn, refinement

__all__ = [
    "BACKENDS",
    "VARIANTS",
    "Variant",
    "estimate_tokens",
    "extract",
    "feedback",
    "first_turn",
    "refinement",
]
