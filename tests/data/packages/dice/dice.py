"""A package with an action of its own: dice that the user may throw again."""

from cuebook import ActionTurn, Expression, OwnAction, Template, Variable, action


class Throw(OwnAction, frozen=True, kw_only=True):
    """Throws dice, and throws them again as long as the user says "again"."""

    throw: Expression  # how many dice
    into: Variable
    say: Template | None = None
    again: bool = False


@action
def throw(turn: ActionTurn, dice: Throw) -> object:
    """Throw the dice and, if `again` is set, wait for the user."""
    if turn.reply is not None and turn.reply.strip().lower() != "again":
        return None
    count = turn.value(dice.throw)
    if not isinstance(count, int) or not 1 <= count <= 100:
        turn.warn("one to a hundred dice can be thrown")
        return turn.end("no dice")
    turn.assign(dice.into, sum(1 + turn.draw(6) for _ in range(count)))
    turn.emit("thrown", {"dice": count})
    turn.say(turn.text(dice.say))
    return turn.wait() if dice.again else None
