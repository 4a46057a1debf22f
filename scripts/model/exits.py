"""When an action that leads a conversation ends: its exits."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from scripts.model.base import Expression, Node, Template

ROUNDS_MAX = 10
Rounds: TypeAlias = Annotated[int, Meta(ge=0, le=ROUNDS_MAX)]
Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100)]


class Exit(Node, frozen=True, kw_only=True):
    """Criteria of which all must be met for an action to end.

    `said` is for the model to judge; `understanding` and `no_questions` are about what the model says of the user.
    """

    said: Template | None = None
    when: Expression | None = None
    understanding: Percent | None = None
    no_questions: bool | None = None
    min_rounds: Rounds = 0

    @property
    def has_criteria(self) -> bool:
        """Whether it can be met; a minimum of rounds alone ends nothing."""
        return self.said is not None or self.when is not None or self.is_judged

    @property
    def is_judged(self) -> bool:
        """Whether the model must say how much the user understands."""
        return self.understanding is not None or self.no_questions is not None

    @property
    def has_only_words(self) -> bool:
        """Whether nothing but the model's judgement of `said` counts."""
        return self.said is not None and self.when is None and not self.is_judged and not self.min_rounds

    @property
    def has_only_condition(self) -> bool:
        """Whether nothing but `when` counts."""
        return self.when is not None and self.said is None and not self.is_judged and not self.min_rounds
