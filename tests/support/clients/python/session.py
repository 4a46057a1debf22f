"""A session over the generated client: begin, send messages, list the messages, be refused."""

import json
import sys

from generated.api.sessions import create_session, list_messages, send_message
from generated.client import AuthenticatedClient
from generated.models import ErrorAnswer, MessageList, NewMessage, NewSession, SessionStart, TurnAnswer, WaitView


def wait_of(answer: SessionStart | TurnAnswer) -> str | None:
    """Return what kind of answer the session waits for."""
    return answer.wait.kind if isinstance(answer.wait, WaitView) else None


def main(url: str, key: str) -> None:
    """Print what the session came to, as JSON."""
    with AuthenticatedClient(base_url=url, token=key) as client:
        begun = create_session.sync(client=client, body=NewSession(user_id="ana", script_id="visit"))
        if not isinstance(begun, SessionStart):
            raise TypeError(begun)
        turns: list[SessionStart | TurnAnswer] = [begun]
        for content in ("Ana", "30"):
            answer = send_message.sync(begun.session_id, client=client, body=NewMessage(content=content))
            if not isinstance(answer, TurnAnswer):
                raise TypeError(answer)
            turns.append(answer)
        listed = list_messages.sync(begun.session_id, client=client)
        if not isinstance(listed, MessageList):
            raise TypeError(listed)
        refused = create_session.sync(client=client, body=NewSession(user_id="", script_id="visit"))
        if not isinstance(refused, ErrorAnswer):
            raise TypeError(refused)
    shown = {
        "turns": [turn.turn for turn in turns],
        "waits": [wait_of(turn) for turn in turns],
        "roles": [message.role for message in listed.data],
        "contents": [message.content for message in listed.data],
        "refused": refused.error.code,
    }
    print(json.dumps(shown))


main(*sys.argv[1:])
